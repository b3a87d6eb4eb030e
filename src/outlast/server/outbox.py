"""Delivers what was decided together with a settle: tells workers that a run is over, until they acknowledge.

Rules:
1. Any node with the worker delivers. A row being delivered is hidden from the others for `HOLD`, so that one abort
   reaches the worker once unless its node dies in the middle (B9).
2. A worker that raises or does not answer is told again, later and later, `TRIES` times; then the row is given up,
   because the settled epoch already refuses everything the worker could still say.
3. One that neither answers nor hears that it should stop is left behind: it holds up no other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from outlast.backoff import delay
from outlast.errors import code_of
from outlast.facts import AbortDelivered, AbortFailed, StoreTroubled
from outlast.server.conditions import Conditions
from outlast.server.patience import insist
from outlast.server.trouble import Trouble
from outlast.stores.base import Abort, RunStore
from outlast.workers.base import Worker

LOOK_EVERY: Final = 3.0
"""Seconds between two looks when nothing rings: retries and dead nodes' rows are found this late at most."""
AT_ONCE: Final = 16
"""Aborts delivered side by side: fifteen that hang leave room for one that does not."""
ANSWER_WITHIN: Final = 10.0
"""Seconds a worker may take to acknowledge."""
HOLD: Final = 30.0
"""Seconds a row is hidden while it is delivered: longer than the answer may take."""
TRIES: Final = 20
"""Deliveries before giving up: with the backoff below, about a quarter of an hour."""
BASE: Final = 1.0
"""Seconds before the second delivery."""
CAP: Final = 60.0
"""Seconds between deliveries at most."""


class Outbox:
    """One node's share in delivering aborts; `run` is its one task."""

    def __init__(self, runs: RunStore, workers: Mapping[str, Worker], conditions: Conditions) -> None:
        self._runs = runs
        self._workers = workers
        self._conditions = conditions
        self._under_way: set[asyncio.Task[None]] = set()
        self._left_behind: set[asyncio.Task[None]] = set()
        self._trouble = Trouble("outbox", conditions.report)

    async def run(self) -> None:
        """Deliver until cancelled."""
        bell = self._runs.subscribe()
        try:
            while True:
                await self._look()
                if len(self._under_way) < AT_ONCE:
                    await bell.wait(LOOK_EVERY)
                else:
                    await asyncio.wait(self._under_way, timeout=ANSWER_WITHIN, return_when=asyncio.FIRST_COMPLETED)
        finally:
            bell.close()
            for delivery in self._under_way:
                delivery.cancel()  # its row shows up again after `HOLD`

    async def _look(self) -> None:
        names: Collection[str] = self._workers.keys()
        try:
            aborts = await self._runs.take_aborts(names, hold=HOLD, limit=AT_ONCE - len(self._under_way))
        except Exception as error:  # noqa: BLE001 - a loop that reports and goes on
            self._trouble.met(error)
            return
        self._trouble.over()
        for abort in aborts:
            delivery = asyncio.create_task(self._deliver(abort), name=f"abort {abort.run.log}")
            self._under_way.add(delivery)
            delivery.add_done_callback(self._under_way.discard)

    # ---- one delivery -----------------------------------------------------------------------

    async def _deliver(self, abort: Abort) -> None:
        error = await self._tell(abort)
        try:
            if error is None:
                await self._insist(lambda: self._runs.finish_abort(abort))
                self._conditions.report(AbortDelivered(run=abort.run.log, epoch=abort.run.epoch))
            else:
                await self._put_off(abort, error)
        except Exception as trouble:  # noqa: BLE001 - the row shows up again after `HOLD`
            self._conditions.report(StoreTroubled(during="outbox", error=code_of(trouble)))

    async def _tell(self, abort: Abort) -> BaseException | None:
        """Tell the worker, and return why it did not acknowledge; None when it did."""
        telling = asyncio.create_task(self._workers[abort.run.worker].abort(abort.run), name=f"tell {abort.run.log}")
        try:
            await asyncio.wait({telling}, timeout=ANSWER_WITHIN)
        finally:
            if not telling.done():
                telling.cancel()
                self._left_behind.add(telling)
                telling.add_done_callback(self._let_go)
        if not telling.done():
            return TimeoutError()
        return asyncio.CancelledError() if telling.cancelled() else telling.exception()

    def _let_go(self, telling: "asyncio.Task[None]") -> None:
        self._left_behind.discard(telling)
        if not telling.cancelled():
            telling.exception()  # too late to matter, and its text is not for our logs

    async def _put_off(self, abort: Abort, error: BaseException) -> None:
        given_up = abort.tries + 1 >= TRIES
        if given_up:
            await self._insist(lambda: self._runs.finish_abort(abort))
        else:
            pause = delay(abort.tries + 1, base=BASE, cap=CAP, jitter=self._conditions.jitter())
            await self._insist(lambda: self._runs.delay_abort(abort, retry_in=pause))
        self._conditions.report(
            AbortFailed(run=abort.run.log, epoch=abort.run.epoch, error=type(error).__name__, given_up=given_up)
        )

    async def _insist(self, operation: Callable[[], Awaitable[None]]) -> None:
        await insist(operation, during="outbox", conditions=self._conditions)
