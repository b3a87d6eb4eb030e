"""One page of a log: what is there behind a place, or what comes there within a while.

Rules:
1. A page that has events, or comes from a log that has ended, is answered at once.
2. Who waits is woken by the feed that wakes every reader, and answered from its ring: the store does not notice.
3. A node that closes answers early, with nothing; the client's leaving ends the waiting.
4. A view may leave all of a page out. Its `next` lies behind what was left out, so the next page goes on from there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from starlette.types import ASGIApp, Receive

from outlast.errors import StoreUnavailable
from outlast.log.cursor import Cursor
from outlast.server.readers.feed import Feed
from outlast.server.readers.place import Place
from outlast.server.readers.room import Room, until_left
from outlast.server.readers.view import View
from outlast.stores.base import LogStore
from outlast.wire import native

BYTES: Final = 1024 * 1024
"""Bytes of payload after which a page ends: what a client can hold twice without thinking."""
READ: Final = 1000
"""Events read at once where a view leaves some of them out."""
READS: Final = 8
"""Reads for one page at most: a view that shows nothing of a long log gets it in several answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Events as JSON, and where the next page begins; `ended`: nothing will ever follow."""

    lines: Sequence[bytes]
    next: Cursor
    up_to_date: bool
    ended: bool

    @property
    def is_news(self) -> bool:
        """Whether there is anything to tell, or nothing to wait for."""
        return bool(self.lines) or self.ended or not self.up_to_date


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An answer that waits first, for up to `seconds`; `answer` gives it and is told for how long it may."""

    seconds: float
    answer: Callable[[float], Awaitable[ASGIApp]]


async def read(logs: LogStore, log: str, place: Place, view: View, *, limit: int) -> Page:
    """Read the page of at most `limit` events that begins at `place`. Raises `StoreError`."""
    head = place.head.cursor
    next = head if place.bridge is None or place.bridge.cursor.seq < head.seq else place.bridge.cursor
    lines: list[bytes] = []
    size, seq = 0, place.after
    for _ in range(1 if view.types is None else READS):
        events = await logs.read(log, after=seq, limit=limit if view.types is None else READ, max_bytes=BYTES - size)
        for stored in events:
            seq, next = stored.seq, stored.cursor
            if view.shows(stored.event.type):
                lines.append(native.event_json(stored))
                size += len(stored.event.payload)
            if len(lines) == limit:
                break
        if len(lines) == limit or seq >= head.seq or size >= BYTES:
            break
        await asyncio.sleep(0)
    up_to_date = next.seq >= head.seq
    return Page(lines=lines, next=next, up_to_date=up_to_date, ended=up_to_date and place.head.sealed)


class Poll:
    """Waits, as one of the readers of a log, until there is something behind `place`."""

    def __init__(self, place: Place, feed: Feed, room: Room, *, view: View) -> None:
        self.sending_since: float | None = None
        self._feed = feed
        self._room = room
        self._view = view
        self._seq = place.after
        self._gone = False
        self._woken = asyncio.Event()

    async def wait(self, receive: Receive, seconds: float) -> None:
        """Return when the log may have news, the client has left, the node closes, or `seconds` are over.

        Raises `StoreUnavailable` when the log could not be watched.
        """
        async with asyncio.TaskGroup() as tasks:
            watch = tasks.create_task(self._watch(receive), name="watch a poll")
            self._room.readers[self] = None
            self._feed.join(self)
            try:
                await self._look_out(seconds)
            finally:
                self._feed.leave(self)
                self._room.leave(self)
                watch.cancel()
        if self._feed.broken:
            raise StoreUnavailable("The log could not be watched any longer.")

    def page(self, known: Page, *, limit: int) -> Page | None:
        """Return what came behind the page that is `known`, from memory; None when only the log can tell."""
        ring = self._feed.ring
        if self._seq < ring.base:
            return None
        lines: list[bytes] = []
        size, seq = 0, self._seq
        for entry in ring.entries(seq):
            seq += 1
            if self._view.shows(entry.type):
                lines.append(native.line_in(entry.envelope))
                size += len(entry.frame)
            if len(lines) == limit or size >= BYTES:
                break
        if seq == known.next.seq:
            return known
        if seq == ring.base:
            return None  # what we passed over last has left the ring, and its cursor with it
        next = ring.cursor(seq)
        up_to_date = seq >= self._feed.head.seq
        return replace(known, lines=lines, next=next, up_to_date=up_to_date, ended=up_to_date and self._feed.ended)

    def wake(self) -> None:
        """Look again."""
        self._woken.set()

    def drop(self) -> None:
        """Wait no longer. Harmless twice."""
        self._gone = True
        self._woken.set()

    async def _look_out(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not (self._gone or self._room.draining or self._feed.broken or self._has_news()):
                    self._woken.clear()
                    await self._woken.wait()
        except TimeoutError:
            pass

    def _has_news(self) -> bool:
        """Say whether there is something to tell, and move behind what the view leaves out."""
        ring = self._feed.ring
        if self._feed.ended or self._seq < ring.base:
            return True
        for entry in ring.entries(self._seq):
            if self._view.shows(entry.type):
                return True
            self._seq += 1
        return False

    async def _watch(self, receive: Receive) -> None:
        await until_left(receive)  # without a deadline: it ends with the waiting
        self.drop()
