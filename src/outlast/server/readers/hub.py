"""All readers of one node: one feed per run that is read, the readers that do not get on, the word that it closes.

Rules:
1. Feeds belong to the hub, never to the request that was the first to need one.
2. Nothing here starts, claims or changes a run: reading is reading (A4).
3. A drain tells every reader to go elsewhere, and those who still come get what is stored and are told so too. Seeing
   them off takes a bounded time (F15).
"""

import asyncio
import contextlib
import random
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Final

from outlast.errors import Draining, NotStarted
from outlast.facts import Report
from outlast.log.event import JSON
from outlast.recovery import RecoveryPolicy
from outlast.run import Run
from outlast.server.readers.alarm import Alarm
from outlast.server.readers.feed import HEARTBEAT, Feed, Surroundings, rouse
from outlast.server.readers.place import Place
from outlast.server.readers.poll import Poll
from outlast.server.readers.reader import Reader
from outlast.server.readers.room import SEND_WITHIN, Room
from outlast.server.readers.round import Rounds
from outlast.server.readers.tap import Tap
from outlast.server.readers.view import WHOLE, View
from outlast.stores.base import Head, Store
from outlast.wire import native

LOOK_EVERY: Final = 5.0
"""Seconds between two looks for clients that take nothing: the minute they have is a minute, give or take."""
FAREWELL_WITHIN: Final = 5.0
"""Seconds the readers of a node that drains have to take their last frame."""
PARTING: Final = 1.0
"""Seconds for those who came late: they were told at once."""


class Hub:
    """Serves readers while `run` runs. `lag` tells the loop's in seconds, `heartbeat` is in seconds.

    `beacon` tells the port of this process's beacon, None where there is none.
    `report` is told what becomes of them, also by those who read a log without staying.
    """

    def __init__(
        self,
        store: Store,
        *,
        policy: RecoveryPolicy,
        boot_id: str,
        lag: Callable[[], float],
        report: Report,
        heartbeat: float = HEARTBEAT,
        beacon: Callable[[], int | None] = lambda: None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.report = report
        self._around = Surroundings(store=store, policy=policy, lag=lag, report=report, heartbeat=heartbeat)
        self._boot_id = boot_id
        self._beacon = beacon
        self._room = Room(logs=store.logs, report=report, jitter=jitter)
        self._feeds: dict[str, Feed] = {}
        self._pumps: dict[str, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._draining = asyncio.Event()
        self._closing = asyncio.Event()
        self._told_at = 0.0

    @property
    def readers(self) -> int:
        """How many readers are being served."""
        return len(self._room.readers)

    @property
    def feeds(self) -> int:
        """How many logs are being watched."""
        return len(self._feeds)

    async def run(self) -> None:
        """Serve until `drain`, send every reader away until `close`, then see off who is left."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                looking = [
                    tasks.create_task(Rounds(self._feeds, self._around).run(), name="rounds"),
                    tasks.create_task(Alarm(self._feeds, self._around).run(), name="alarm"),
                ]
                await self._drop_stalled(SEND_WITHIN, until=self._draining)
                self._tasks = None
                for task in (*looking, *self._pumps.values()):
                    task.cancel()
                await rouse(self._room.readers)
                await self._drop_stalled(FAREWELL_WITHIN, until=self._closing)
                await self.see_off()
        finally:
            self._tasks = None
            self._room.draining = True
            for reader in tuple(self._room.readers):
                reader.wake()

    def greeting(self) -> dict[str, JSON]:
        """Tell a client who speaks here, and what may be expected."""
        around, beacon = self._around, self._beacon()
        return native.greeting(boot_id=self._boot_id, heartbeat=around.heartbeat, store=around.store.id, beacon=beacon)

    def drain(self) -> None:
        """Tell every reader to go elsewhere, also those who still come. Harmless twice."""
        if not self._room.draining:
            self._room.draining = True
            self._told_at = asyncio.get_running_loop().time()
        self._draining.set()

    async def see_off(self) -> None:
        """Drain, and wait until every reader has left; those that do not hear it are dropped."""
        self.drain()
        by = max(self._told_at + FAREWELL_WITHIN, asyncio.get_running_loop().time() + PARTING)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(by):
                await self._room.emptied()
        for reader in tuple(self._room.readers):
            reader.drop()

    def close(self) -> None:
        """Drain, see the readers off and end `run`. Harmless twice."""
        self.drain()
        self._closing.set()

    def reader(
        self,
        run: Run,
        place: Place,
        *,
        view: View = WHOLE,
        status: int = 200,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> Reader:
        """Return the response that streams what `view` shows of `run` from `place`.

        Raises `NotStarted` while the hub's `run` does not run.
        """
        around, beacon = self._around, self._beacon()
        opening = native.hello(
            boot_id=self._boot_id,
            heartbeat=around.heartbeat,
            head=place.head.cursor,
            store=around.store.id,
            beacon=beacon,
        )
        if place.gap is not None:
            opening += native.gap_frame(place.gap, place.bridge)
        self._check_started()
        feed = partial(self._feed, run, place.head)
        return Reader(run, place, feed, self._room, view=view, opening=opening, status=status, headers=headers)

    def poll(self, run: Run, place: Place, *, view: View = WHOLE) -> Poll:
        """Return what waits for the next events of `run` behind `place`.

        Raises `NotStarted` as `reader` does, and `Draining` when nobody may wait here any more.
        """
        if self._room.draining:
            raise Draining("This node is closing: wait on another, or come again in a moment.")
        return Poll(place, self._feed(run, place.head), self._room, view=view)

    def tap(self, run: Run, place: Place, *, view: View = WHOLE) -> Tap:
        """Return what this process's own code takes events of `run` from. Raises `NotStarted` as `reader` does."""
        return Tap(run, place, self._feed(run, place.head), self._room, view=view)

    def _check_started(self) -> None:
        if self._tasks is None and not self._room.draining:
            raise NotStarted("Nothing reads logs in this application yet: its lifespan has not run.")

    def _feed(self, run: Run, head: Head) -> Feed:
        self._check_started()
        feed = None if head.sealed else self._feeds.get(run.log)
        if feed is not None:
            return feed
        feed = Feed(run, head, self._around)
        if self._tasks is not None and not self._room.draining and not head.sealed:
            self._feeds[run.log] = feed
            # An empty context: the feed outlives the request that needed it first.
            pump = self._pump(run.log, feed)
            self._pumps[run.log] = self._tasks.create_task(pump, name=f"feed {run.log}", context=Context())
        return feed

    async def _pump(self, log: str, feed: Feed) -> None:
        try:
            await feed.pump()
        finally:
            del self._feeds[log], self._pumps[log]

    async def _drop_stalled(self, within: float, *, until: asyncio.Event) -> None:
        """Drop clients that take nothing for `within` seconds, until something is so."""
        clock = asyncio.get_running_loop().time
        while not until.is_set():
            for reader in tuple(self._room.readers):
                if reader.sending_since is not None and clock() - reader.sending_since >= within:
                    reader.drop()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(until.wait(), LOOK_EVERY)
