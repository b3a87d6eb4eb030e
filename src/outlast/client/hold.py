"""Holds the connections of one client, and lets go of each once its requests have their answers.

Rules:
1. A connection that is let go serves the requests that are under way over it, for some seconds; nothing else begins.
2. It makes room at once for another that is let go, or that is made beside the link: no more than two are there (R1).
3. Letting go never fails, and takes no longer than it may.
"""

import asyncio
import logging
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from outlast.client.transport import Connection

LINGER: Final = 10.0
"""Seconds for the requests over a link that was replaced: nearly every answer comes in time, and a dead one ends."""
CLOSE_WITHIN: Final = 6.0
"""Seconds for letting go of a connection: an application of this process has five to hear of it."""

log = logging.getLogger("outlast.client")


@dataclass(slots=True, eq=False)
class _Held:
    """A connection, how many requests are under way over it, and what ends the wait for these."""

    connection: Connection
    requests: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Hold:
    """Connections by their numbers."""

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}
        self._leaving: _Held | None = None

    def take(self, number: int, connection: Connection) -> None:
        """Hold a connection from now on."""
        self._held[number] = _Held(connection)

    def get(self, number: int) -> Connection | None:
        """Return a connection; None where it is held no more."""
        held = self._held.get(number)
        return None if held is None else held.connection

    @contextmanager
    def using(self, number: int) -> Generator[None, None, None]:
        """Have a request under way, which is waited for when its connection is let go meanwhile."""
        held = self._held.get(number)
        if held is None:
            yield
            return
        held.requests += 1
        try:
            yield
        finally:
            held.requests -= 1
            if not held.requests:
                held.over.set()

    def leave(self, number: int) -> Coroutine[None, None, None] | None:
        """Hold a connection no more, and return what lets go of it; None where it was not held."""
        held = self._held.pop(number, None)
        if held is None:
            return None
        self.hurry()
        self._leaving = held
        if held.requests:
            held.over.clear()
        return self._part(held)

    def hurry(self) -> None:
        """Wait no more for the requests over what is being let go."""
        if self._leaving is not None:
            self._leaving.over.set()

    async def close(self) -> None:
        """Let go of everything at once."""
        while self._held:
            _, held = self._held.popitem()
            await let_go(held.connection)

    async def _part(self, held: _Held) -> None:
        if held.requests:
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER):
                    await held.over.wait()
        if self._leaving is held:
            self._leaving = None
        await let_go(held.connection)


async def let_go(connection: Connection) -> None:
    """Close a connection, whatever becomes of that: it is of no use any more."""
    try:
        async with asyncio.timeout(CLOSE_WITHIN):
            await connection.close()
    except Exception as error:  # noqa: BLE001 - a host's own client may raise anything
        log.warning("a connection could not be closed (%s)", type(error).__name__)
