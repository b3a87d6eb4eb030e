"""The readers of one node that are being served, and what they share.

Whoever is served is in the room: it is told when the node closes, and dropped when it takes nothing.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from starlette.types import Receive

from outlast.errors import StoreCorrupt
from outlast.facts import Report
from outlast.log.event import StoredEvent
from outlast.server.readers.feed import Listener
from outlast.server.readers.ring import CHUNK
from outlast.server.readers.shelf import Shelf
from outlast.stores.base import LogStore

PAGE: Final = 256
"""Events read at once: as many small ones as fill a chunk."""
SEND_WITHIN: Final = 60.0
"""Seconds a client may take nothing: a laptop that wakes up has read by then, a dead one never will."""


class Guest(Listener, Protocol):
    """Who is being served; `sending_since` is when the send began that has not returned yet."""

    sending_since: float | None

    def drop(self) -> None:
        """End where it stands, whatever it waits for. Harmless twice."""
        ...


async def until_left(receive: Receive) -> None:
    """Return when the client has left; whoever waits for it ends the waiting."""
    while (await receive())["type"] != "http.disconnect":
        pass


@dataclass(slots=True, kw_only=True, eq=False)
class Room:
    """The readers of one node that are being served, and whether the node is sending them away."""

    logs: LogStore
    report: Report
    jitter: Callable[[], float]
    readers: dict[Guest, None] = field(default_factory=dict[Guest, None])
    draining: bool = False
    left: asyncio.Event = field(default_factory=asyncio.Event)
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    pages: Shelf = field(default_factory=Shelf)

    def leave(self, reader: Guest) -> None:
        """Note that a reader is no longer served."""
        self.readers.pop(reader, None)
        self.left.set()

    async def read(self, log: str, *, after: int) -> Sequence[StoredEvent]:
        """Return the next page of a log that goes on behind `after`; `reading` is held meanwhile. Raises `StoreError`.

        One page is read in a turn of the loop, however many want one.
        """
        await asyncio.sleep(0)
        events = await self.logs.read(log, after=after, limit=PAGE, max_bytes=CHUNK)
        if not events:
            raise StoreCorrupt("The log ends before its head.")
        return events

    async def emptied(self) -> None:
        """Wait until nobody is served; whoever waits has a deadline of its own."""
        while self.readers:
            self.left.clear()
            await self.left.wait()  # without a deadline here: see above
