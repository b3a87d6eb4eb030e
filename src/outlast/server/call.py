"""One call of a worker, seen from inside: its way to the log, and what it can come back to.

Rules:
1. It belongs to the loop that makes the call. Nothing here may be used from another: half of it would seem to work.
2. Once shut it takes nothing, also from whoever has been waiting for room: what a worker leaves running after its call
   is over says nothing, not even into the next call (X13).
3. What was said is read page by page, as fast as it is taken; a page is all that is held.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Final

from outlast.errors import CallMisused, TooLarge
from outlast.log.cursor import Cursor
from outlast.log.event import OWN_PREFIX, Event, StoredEvent
from outlast.log.fold import Rewinds
from outlast.log.limits import MIB
from outlast.run import Run
from outlast.server.appender import Appender
from outlast.server.conditions import Conditions
from outlast.server.patience import insist
from outlast.stores.base import Store
from outlast.workers.base import EarlierRun

PAGE_EVENTS: Final = 500
"""Events read at a time: a few milliseconds of the store's."""
PAGE_BYTES: Final = MIB
"""Payload read at a time."""


class Call:
    """The `Outlet` and the `Past` of one call; it goes on from the appender's newest checkpoint.

    `leaves` is asked at each checkpoint, as soon as its row is written, whether the run is to go on elsewhere.
    """

    def __init__(
        self,
        run: Run,
        appender: Appender,
        store: Store,
        conditions: Conditions,
        *,
        leaves: Callable[[], bool] = lambda: False,
    ) -> None:
        self._run = run
        self._appender = appender
        self._store = store
        self._conditions = conditions
        self._leaves = leaves
        self._loop = asyncio.get_running_loop()
        self._checkpoint = appender.checkpoint
        self._kept = appender.kept
        self._is_shut = False

    def shut(self) -> None:
        """Take nothing more: the call is over."""
        self._is_shut = True
        self._appender.wake()

    # ---- saying -----------------------------------------------------------------------------

    async def put(self, event: Event) -> int:
        """Queue an event. Raises `Fenced`, `LogRefused`, `CallMisused`."""
        self._check_loop()
        return await self._appender.put(event, wanted=self._is_wanted)

    async def durable(self, number: int) -> Cursor:
        """Return the cursor of the log once the event with this number is durable."""
        return await self._appender.durable(number)

    async def keep(self, state: bytes) -> None:
        """Make a checkpoint. Raises `TooLarge`, and like `put`."""
        self._check_loop()
        most = self._conditions.limits.checkpoint_bytes
        if len(state) > most:
            raise TooLarge(f"The state of a checkpoint may have at most {most} bytes: keep what is large elsewhere.")
        await self._appender.keep(state, wanted=self._is_wanted)
        if self._leaves():
            await self._loop.create_future()  # no deadline: this call is about to be cancelled, and says nothing more

    # ---- coming back ------------------------------------------------------------------------

    @property
    def state(self) -> bytes | None:
        """The state that this call goes on from."""
        return None if self._checkpoint is None else self._checkpoint.state

    def events(self) -> AsyncIterator[Event]:
        """Read what was kept when this call began."""
        return self._said(self._run.log, upto=self._kept)

    async def history(self, limit: int) -> AsyncIterator[EarlierRun]:
        """Read the thread's earlier runs, the oldest first."""
        self._check_loop()
        for run in reversed(await self._earlier(limit)):
            if run.outcome is not None:
                read = partial(self._said, run.log, upto=None)
                yield EarlierRun(id=run.id, input=json.loads(run.input), outcome=run.outcome, read=read)

    async def _earlier(self, limit: int) -> Sequence[Run]:
        run, runs = self._run, self._store.runs
        if run.thread is None:
            return ()
        found = await insist(
            lambda: runs.list(run.owner, status=None, before=run.id, limit=limit, thread=run.thread),
            during="history",
            conditions=self._conditions,
        )
        return [each.run for each in found]

    async def _said(self, log: str, *, upto: int | None) -> AsyncIterator[Event]:
        """Read what workers said up to a seq and no restart took back; once for the restarts, once for the rest."""
        self._check_loop()
        rewinds = Rewinds()
        async for page in self._pages(log, upto=upto):
            for stored in page:
                rewinds.note(stored)
        async for page in self._pages(log, upto=upto):
            for stored in page:
                if rewinds.keeps(stored) and not stored.event.type.startswith(OWN_PREFIX):
                    yield stored.event

    async def _pages(self, log: str, *, upto: int | None) -> AsyncIterator[Sequence[StoredEvent]]:
        logs, place = self._store.logs, 0

        async def read() -> Sequence[StoredEvent]:
            limit = PAGE_EVENTS if upto is None else min(PAGE_EVENTS, upto - place)
            return await logs.read(log, after=place, limit=limit, max_bytes=PAGE_BYTES)

        while upto is None or place < upto:
            page = await insist(read, during="history", conditions=self._conditions)
            if not page:
                return
            yield page
            place = page[-1].seq
            await asyncio.sleep(0)  # a store that answers at once must not have the loop to itself

    # ---- inside -----------------------------------------------------------------------------

    def _is_wanted(self) -> bool:
        return not self._is_shut

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise CallMisused(
                "A run belongs to the event loop that calls its worker: from a thread, yield what is to be said, or "
                "use `asyncio.run_coroutine_threadsafe` with that loop."
            )
