"""What sends the same bytes to a crowd without a log: a bare ASGI application, or no server at all.

`python -m bench.plain KIND [EVENTS]`. Readers of all kinds share one list of what was said and have a place in it.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import ClassVar

from starlette.types import Message, Receive, Scope, Send

from bench.process import greet
from bench.stage import Stage, frames, server, stored
from outlast.log.event import StoredEvent
from outlast.wire import native

STARTED: Message = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")],
}


class Audience:
    """What was said so far, and who waits for more."""

    def __init__(self) -> None:
        self.said: list[tuple[bytes, list[StoredEvent]]] = []
        self._waiting: list[asyncio.Future[None]] = []

    async def say(self, first: int, events: int) -> None:
        """Say texts to everybody."""
        self.said.append((frames(first, events), list(stored(first, events))))
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.set_result(None)

    async def following(self) -> AsyncIterator[tuple[bytes, list[StoredEvent]]]:
        """Yield what is said from now on."""
        place = len(self.said)
        while True:
            while place == len(self.said):
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.append(future)
                await future
            yield self.said[place]
            place += 1


class Raw:
    """A bare ASGI application: each request waits for the next bytes and sends them."""

    def __init__(self, audience: Audience) -> None:
        self._audience = audience

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Stream."""
        await send(STARTED)
        await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})
        async for chunk, _ in self._audience.following():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})


class Joined:
    """A bare ASGI application that joins known events anew for every reader, sends them, and has no more."""

    def __init__(self, events: int) -> None:
        self._frames = [native.event_frame(each) for each in stored(0, events)]

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send all of them."""
        await send(STARTED)
        await send({"type": "http.response.body", "body": b"".join(self._frames)})


class Writes(asyncio.Protocol):
    """No server at all: whoever connects is a transport, and what is said is written to all of them."""

    crowd: ClassVar[list[asyncio.WriteTransport]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Greet a reader, or say what is asked for."""
        if data.startswith(b"GET /events"):
            self._transport.write(b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            self.crowd.append(self._transport)
            return
        query = dict(pair.split(b"=") for pair in data.split(b" ", 2)[1].partition(b"?")[2].split(b"&"))
        chunk = frames(int(query[b"first"]), int(query[b"events"]))
        for each in self.crowd:
            each.write(chunk)
        self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")


async def write() -> None:
    """Serve bare transports until killed."""
    listener = await asyncio.get_running_loop().create_server(Writes, "127.0.0.1", 0, backlog=2048)
    greet(listener.sockets[0])
    await listener.serve_forever()


async def main(kind: str, events: str = "0") -> None:
    """Serve until killed."""
    if kind == "write":
        await write()
        return
    if kind == "joined":
        await server(Joined(int(events))).serve()
        return
    audience = Audience()
    await server(Stage(Raw(audience), audience.say)).serve()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
