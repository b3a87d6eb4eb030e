"""Delivers what was decided together with a settle: tells workers that a run is over, until they acknowledge.

Rules:
1. Any node with the worker delivers. A row being delivered is hidden from the others for `HOLD`, so that one abort
   reaches the worker once unless its node dies in the middle (B9).
2. A worker that raises or does not answer is told again, later and later, `TRIES` times; then the row is given up,
   because the settled epoch already refuses everything the worker could still say.
"""

import asyncio
from collections.abc import Collection, Mapping

from outlast.backoff import delay
from outlast.errors import StoreError, code_of
from outlast.facts import AbortDelivered, AbortFailed, StoreTroubled
from outlast.server.conditions import Conditions
from outlast.stores.base import Abort, RunStore
from outlast.workers.base import Worker

LOOK_EVERY = 2.0
"""Seconds between two looks when nothing rings: retries and dead nodes' rows are found this late at most."""
AT_ONCE = 16
"""Aborts delivered side by side: a worker that hangs holds up fifteen others, not all."""
ANSWER_WITHIN = 10.0
"""Seconds a worker may take to acknowledge."""
HOLD = 30.0
"""Seconds a row is hidden while it is delivered: longer than the answer may take."""
TRIES = 20
"""Deliveries before giving up: with the backoff below, about a quarter of an hour."""
BASE = 1.0
"""Seconds before the second delivery."""
CAP = 60.0
"""Seconds between deliveries at most."""


class Outbox:
    """One node's share in delivering aborts; `run` is its one task."""

    def __init__(self, runs: RunStore, workers: Mapping[str, Worker], conditions: Conditions) -> None:
        self._runs = runs
        self._workers = workers
        self._conditions = conditions

    async def run(self) -> None:
        """Deliver until cancelled."""
        bell = self._runs.subscribe()
        try:
            while True:
                try:
                    await self.deliver()
                except Exception as error:  # noqa: BLE001 - a loop that reports and goes on
                    self._conditions.report(StoreTroubled(during="outbox", error=code_of(error)))
                await bell.wait(LOOK_EVERY)
        finally:
            bell.close()

    async def deliver(self) -> None:
        """Deliver what is due now, and return when each was acknowledged or put off."""
        names: Collection[str] = self._workers.keys()
        while aborts := await self._runs.take_aborts(names, hold=HOLD, limit=AT_ONCE):
            async with asyncio.TaskGroup() as tasks:
                for abort in aborts:
                    tasks.create_task(self._deliver(abort), name=f"abort {abort.run.log}")

    async def _deliver(self, abort: Abort) -> None:
        try:
            await self._tell(abort)
        except StoreError as error:  # the row comes back when its time hidden is over
            self._conditions.report(StoreTroubled(during="outbox", error=error.code))

    async def _tell(self, abort: Abort) -> None:
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                await self._workers[abort.run.worker].abort(abort.run)
        except Exception as error:  # noqa: BLE001 - the application's own function: whatever it raises, it did not acknowledge
            await self._put_off(abort, error)
        else:
            await self._runs.finish_abort(abort)
            self._conditions.report(AbortDelivered(run=abort.run.log, epoch=abort.run.epoch))

    async def _put_off(self, abort: Abort, error: Exception) -> None:
        given_up = abort.tries + 1 >= TRIES
        if given_up:
            await self._runs.finish_abort(abort)
        else:
            pause = delay(abort.tries + 1, base=BASE, cap=CAP, jitter=self._conditions.jitter())
            await self._runs.delay_abort(abort, retry_in=pause)
        self._conditions.report(
            AbortFailed(run=abort.run.log, epoch=abort.run.epoch, error=type(error).__name__, given_up=given_up)
        )
