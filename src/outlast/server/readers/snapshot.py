"""Snapshots: the fold of a log up to its head, for who cannot, or does not want to, read all of it.

Rules:
1. A snapshot costs no turn of the loop more than a page of the log does, however long the log is.
2. A small one is kept, shared by all who ask while the log stands there, and extended when it has grown: any number of
   wrong cursors costs one fold per head.
3. A large one is folded while it is sent, and never held: the log is gone through twice, for what was taken back and
   for what is left.
4. The snapshot of a log that has ended, where it bridges a gap, stops right before the terminal event: a reader that
   comes to the end takes that event itself, with its place, and an EventSource is not told the gap again.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from outlast.errors import StoreCorrupt
from outlast.log.cursor import Cursor, advance, origin
from outlast.log.event import StoredEvent
from outlast.log.fold import Merger, Rewinds
from outlast.server.readers.place import Place
from outlast.server.readers.view import View
from outlast.stores.base import Head, LogStore
from outlast.wire import native
from outlast.wire.native import Bridge

INLINE_BYTES: Final = 256 * 1024
"""Bytes of payload up to which a log's snapshot stands in the very answer that tells the gap."""
INLINE_EVENTS: Final = 2000
"""Events up to which it does: they are folded while somebody waits, in about 10 ms."""
KEPT: Final = 8
"""Small snapshots kept, the newest, for the logs that readers come to with wrong cursors just now: of two thousand tiny
events each takes some 1.6 MiB, with what it was folded from."""
PAGE: Final = 256
"""Events read, and folded, in one turn of the loop."""
PAGE_BYTES: Final = 256 * 1024
"""Bytes of payload read in one turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A small log as it stood at `cursor`, and its fold as types and JSON; `events` is what was folded."""

    cursor: Cursor
    events: Sequence[StoredEvent]
    folded: Sequence[tuple[str, bytes]]

    def shown(self, view: View) -> bytes:
        """Return the snapshot's document, with what `view` shows of it."""
        return native.snapshot((line for type, line in self.folded if view.shows(type)), cursor=self.cursor)


class Snapshots:
    """Makes the snapshots of one node."""

    def __init__(self, logs: LogStore) -> None:
        self._logs = logs
        self._kept: dict[str, Snapshot] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def bridge(self, log: str, place: Place, view: View, *, url: str) -> Place:
        """Return `place`, where it is behind a gap, with a snapshot to go on from. Raises `StoreError`."""
        if place.gap is None:
            return place
        head = place.head
        if not is_small(head):
            # At its word where it is not the head's: one number less, and nothing more to be read.
            cursor = Cursor(head.cursor.seq - 1, None) if head.sealed else head.cursor
            return place.bridged(Bridge(cursor=cursor, url=url))
        snapshot = await self._small(log, head)
        return place.bridged(Bridge(cursor=snapshot.cursor, snapshot=snapshot.shown(view)))

    async def folded(self, log: str, head: Head) -> AsyncGenerator[Sequence[StoredEvent], None]:
        """Yield the fold of a log up to `head`, part by part. Raises `StoreError`.

        The first part is empty: when it comes, the first of the two passes is over.
        """
        rewinds, merger = Rewinds(), Merger()
        async for events in self._pages(log, after=head.first - 1, upto=head.cursor.seq):
            for stored in events:
                rewinds.note(stored)
        yield []
        async for events in self._pages(log, after=head.first - 1, upto=head.cursor.seq):
            yield [whole for stored in events if rewinds.keeps(stored) for whole in merger.add(stored)]
        yield list(merger.flush())

    async def _small(self, log: str, head: Head) -> Snapshot:
        turn = self._turns.setdefault(log, asyncio.Lock())
        async with turn:  # without a deadline: who is inside reads a bounded number of events
            known = self._kept.pop(log, None)
            upto = head.cursor.seq - head.sealed
            if known is None or known.cursor.seq < upto or (known.cursor.seq == upto and not _is_at(known, head)):
                known = await self._extend(log, head, known, upto=upto)
            self._kept[log] = known  # the newest last
            while len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
            return known

    async def _extend(self, log: str, head: Head, known: Snapshot | None, *, upto: int) -> Snapshot:
        events: list[StoredEvent] = [] if known is None else list(known.events)
        after = known.cursor.seq if known is not None and known.cursor.seq < upto else head.first - 1
        if after < head.first:
            events.clear()
        async for page in self._pages(log, after=after, upto=upto):
            if events and after == events[-1].seq and page[0].cursor != advance(events[-1].cursor, page[0].event):
                return await self._extend(log, head, None, upto=upto)  # another past than the one we know
            events += page
        rewinds, merger = Rewinds(), Merger()
        for stored in events:
            rewinds.note(stored)
        folded: list[StoredEvent] = []
        for at in range(0, len(events), PAGE):
            kept = filter(rewinds.keeps, events[at : at + PAGE])
            folded += [whole for stored in kept for whole in merger.add(stored)]
            await asyncio.sleep(0)
        folded += merger.flush()
        return Snapshot(
            cursor=events[-1].cursor if events else origin(log),
            events=events,
            folded=[(stored.event.type, native.event_json(stored)) for stored in folded],
        )

    async def _pages(self, log: str, *, after: int, upto: int) -> AsyncIterator[Sequence[StoredEvent]]:
        while after < upto:
            events = await self._logs.read(log, after=after, limit=min(PAGE, upto - after), max_bytes=PAGE_BYTES)
            if not events:
                raise StoreCorrupt("The log ends before its head.")
            yield events
            after = events[-1].seq
            await asyncio.sleep(0)


def is_small(head: Head) -> bool:
    """Say whether a log's snapshot stands in the answer that tells a gap: the head alone decides, nothing is read."""
    return head.usage.bytes <= INLINE_BYTES and head.cursor.seq - head.first < INLINE_EVENTS


def _is_at(known: Snapshot, head: Head) -> bool:
    return known.cursor == head.cursor or head.sealed  # what lies before a terminal is settled
