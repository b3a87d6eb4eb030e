"""The readers of one node that are being served, and what they share.

Whoever is served is in the room: it is told when the node closes, and dropped when it takes nothing.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from starlette.types import Receive

from outlast.facts import Report
from outlast.server.readers.feed import Listener
from outlast.server.readers.shelf import Shelf
from outlast.stores.base import LogStore

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

    async def emptied(self) -> None:
        """Wait until nobody is served; whoever waits has a deadline of its own."""
        while self.readers:
            self.left.clear()
            await self.left.wait()
