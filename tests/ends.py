"""Both ends of connections that go through a fault proxy, in the hands of one test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from outlast.testing.proxy import FaultProxy


@dataclass(frozen=True, slots=True)
class End:
    """One end of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def heard(self) -> bytes:
        """Return what has arrived once nothing more happens: only a clock that is virtual knows when."""
        await asyncio.sleep(0.001)
        return bytes(self.reader._buffer)  # type: ignore[attr-defined]

    async def ended(self) -> bytes | str:
        """Return all that comes until a clean end, or say that it ended with a reset."""
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return "reset"

    async def close(self) -> None:
        """Close it, and see it closed."""
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()

    async def abort(self) -> None:
        """Close it without waiting for what a fault holds back."""
        self.writer.transport.abort()
        await self.close()


class Target:
    """A server that hands over the ends of its connections."""

    def __init__(self) -> None:
        self.arrived: asyncio.Queue[End] = asyncio.Queue()
        self.all: list[End] = []
        self.port = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.all.append(End(reader, writer))
        self.arrived.put_nowait(self.all[-1])


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[Target]:
    """Listen; what is still open in the end is closed."""
    target = Target()
    server = await asyncio.start_server(target, "127.0.0.1", 0, **options)
    target.port = server.sockets[0].getsockname()[1]
    try:
        yield target
    finally:
        server.close()
        await server.wait_closed()
        for end in target.all:
            await end.abort()


@asynccontextmanager
async def proxied(**options: Any) -> AsyncIterator[tuple[FaultProxy, Target]]:
    """Put a proxy before a target."""
    async with served() as target, FaultProxy("127.0.0.1", target.port, **options) as proxy:
        yield proxy, target


async def connect(port: int) -> End:
    """Connect as a client."""
    return End(*await asyncio.open_connection("127.0.0.1", port))


@asynccontextmanager
async def joined(proxy: FaultProxy, target: Target) -> AsyncIterator[tuple[End, End]]:
    """Connect through the proxy, and hand over both ends; what is still open in the end is closed."""
    client = await connect(proxy.port)
    server = await target.arrived.get()
    try:
        yield client, server
    finally:
        await client.abort()
        await server.abort()
