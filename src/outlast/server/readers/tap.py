"""A log for this process's own code: replay, then live, event by event, at the pace of whoever asks.

Rules:
1. It is a reader like any other: a seq, the ring where that reaches back far enough, the log otherwise. It asks the
   store for nothing that is not behind it, and never by the clock.
2. Between two calls it holds its place and nothing else: code that takes its time holds up nobody.
3. It ends with the log. A node that drains, and a store that fails, are told as errors, never as an end.
4. A gap is told with the fold of all that lies before the place where the log goes on. The terminal event always comes
   by itself.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from outlast.errors import Draining, StoreUnavailable
from outlast.log.cursor import Cursor, Gap, origin
from outlast.log.event import StoredEvent
from outlast.run import Run
from outlast.server.readers.feed import Feed
from outlast.server.readers.place import Place
from outlast.server.readers.room import PAGE, Room
from outlast.server.readers.snapshot import Snapshots
from outlast.server.readers.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridged:
    """A gap, and what to go on from: the fold of the log up to `cursor`."""

    gap: Gap
    cursor: Cursor
    events: Sequence[StoredEvent]


class Tap:
    """What is behind `place` in the log of `run`, for one asker."""

    def __init__(self, run: Run, place: Place, feed: Feed, room: Room, *, view: View) -> None:
        self.sending_since: float | None = None
        self._log = run.log
        self._place = place
        self._seq = place.after
        self._feed = feed
        self._room = room
        self._view = view
        self._woken = asyncio.Event()

    async def flow(self, snapshots: Snapshots) -> AsyncGenerator[Bridged | StoredEvent, None]:
        """Yield a gap, if there is one, and every event that the view shows, to the log's end.

        Raises `Draining` when the node closes, `StoreError`.
        """
        self._feed.join(self)  # for as long as it flows: a feed that nobody has joined ends
        try:
            if self._place.gap is not None:
                bridged = await self._bridge(self._place.gap, snapshots)
                self._seq = bridged.cursor.seq
                yield bridged
            while events := await self._next():
                for stored in self._shown(events):
                    yield stored
        finally:
            self._feed.leave(self)

    def wake(self) -> None:
        """Look again."""
        self._woken.set()

    def drop(self) -> None:
        """Wait no longer: who is dropped belongs to a node that closes, and finds that out."""
        self.wake()

    async def _next(self) -> Sequence[StoredEvent]:
        """Return what is next, moving behind it; nothing at the end of the log."""
        while True:
            if self._room.draining:
                raise Draining("This node is closing: go on from another, behind the event that came last.")
            if self._seq < self._feed.ring.base:
                return await self._from_log()
            if self._seq < self._feed.ring.tail:
                return self._from_ring()
            if self._feed.broken:
                raise StoreUnavailable(
                    "The log could not be watched any longer: go on behind the event that came last."
                )
            if self._feed.ended:
                return []
            await self._wait()

    async def _from_log(self) -> Sequence[StoredEvent]:
        async with self._room.reading:  # without a deadline: those before this one read one page each
            events = await self._room.read(self._log, after=self._seq)
        self._seq = events[-1].seq
        return events

    def _from_ring(self) -> Sequence[StoredEvent]:
        entries = self._feed.ring.entries(self._seq)
        events = [entry.stored for entry, _ in zip(entries, range(PAGE), strict=False)]
        self._seq += len(events)
        return events

    async def _wait(self) -> None:
        self._woken.clear()
        self._room.readers[self] = None  # who waits is told that the node closes; others find it when they ask
        try:
            await self._woken.wait()  # without a deadline: the feed wakes its readers at every heartbeat
        finally:
            self._room.leave(self)

    async def _bridge(self, gap: Gap, snapshots: Snapshots) -> Bridged:
        head, logs = self._place.head, self._room.logs
        cursor = head.cursor
        if head.sealed:
            chain = await logs.chain_at(self._log, cursor.seq - 1)
            cursor = origin(self._log) if cursor.seq == 1 else Cursor(cursor.seq - 1, chain)
        events = list[StoredEvent]()  # as much as the log's limits and the view let it be
        async for part in snapshots.folded(self._log, head):
            events += self._shown([stored for stored in part if stored.seq <= cursor.seq])
        return Bridged(gap=gap, cursor=cursor, events=events)

    def _shown(self, events: Sequence[StoredEvent]) -> Sequence[StoredEvent]:
        return [stored for stored in events if self._view.shows(stored.event.type)]
