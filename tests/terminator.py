"""Ends TLS in front of a server of tests, and ends its clients' connections as no server of ours would."""

import asyncio
import os
import socket
import ssl
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from outlast.testing.line import LINGER

CERTIFICATE: Final = Path(__file__).parent / "certificate.pem"
"""Key and certificate of servers on this machine; how it was made stands there."""
PIECE: Final = 16 * 1024
"""Bytes taken at once."""
NONSENSE: Final = b"\x17\x03\x03\x00\x20" + bytes(32)
"""A record that nobody encrypted for this connection."""


class Closing(Enum):
    """How the end of a server's connection is told to its client."""

    IN_ORDER = auto()
    """By TLS, and then a FIN."""
    CUT_SHORT = auto()
    """By a FIN alone: TLS says nothing, as when somebody on the way ends what it cannot read."""
    RESET = auto()
    """By a reset."""
    FORGED = auto()
    """Behind a record that cannot be read, by a FIN."""


def context() -> ssl.SSLContext:
    """Return what a server of tests speaks TLS by."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(CERTIFICATE)
    return made


class Terminator:
    """Lead what comes by TLS to a port of this machine, and tell its end by `closing`."""

    def __init__(self, port: int, closing: Closing) -> None:
        self.url = ""
        self._port = port
        self._closing = closing
        self._server: asyncio.Server | None = None
        self._carried: dict[asyncio.Task[None], tuple[asyncio.StreamWriter, ...]] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0, ssl=context(), backlog=1024)
        self.url = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._server is not None, "entered first"
        self._server.close()
        carried = dict(self._carried)
        for ends in carried.values():
            for each in ends:
                each.transport.abort()
        if carried:
            await asyncio.wait(carried)
        await self._server.wait_closed()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is a task"
        above, below = await asyncio.open_connection("127.0.0.1", self._port)
        self._carried[task] = (below, writer)
        try:
            async with asyncio.TaskGroup() as ways:
                up = ways.create_task(_copy(reader, below))
                await _copy(above, writer)
                up.cancel()
            await self._end(writer)
        finally:
            for each in self._carried.pop(task):
                each.transport.abort()

    async def _end(self, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("socket")
        if peer is None:
            return  # the client has left
        match self._closing:
            case Closing.IN_ORDER:
                writer.close()
                with suppress(OSError):  # a client that leaves at the same time
                    await writer.wait_closed()
            case Closing.RESET:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
            case Closing.FORGED:
                with suppress(OSError):
                    os.write(peer.fileno(), NONSENSE)
            case Closing.CUT_SHORT:
                pass


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy until the source ends, or the sink cannot be written to any more; tell that where it can be told."""
    with suppress(OSError):
        while piece := await source.read(PIECE):
            sink.write(piece)
            await sink.drain()
        if sink.can_write_eof():  # TLS has no end of one way alone
            sink.write_eof()
