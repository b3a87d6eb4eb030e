"""What every server of a crowd answers beside its stream: `POST /say`, and `GET /lag`, how late its loop was.

The texts are the known ones, framed as ours are, so that every server sends the same bytes.
"""

import json
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias
from urllib.parse import parse_qs

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from bench.lateness import Lateness
from bench.process import greet
from bench.record import say
from outlast.log.cursor import Cursor
from outlast.log.event import Event, StoredEvent
from outlast.wire import native

Saying: TypeAlias = Callable[[int, int], Awaitable[None]]
"""Says so many texts to the crowd, from that number on."""
Taking: TypeAlias = Callable[[str], Awaitable[None]]
"""Says one posted text to the crowd; returns when it is kept."""
Telling: TypeAlias = Callable[[], Mapping[str, float]]
"""Tells what was measured in this process."""
CHAIN = bytes(8)
"""What stands where ours has a hash."""


def stored(first: int, events: int) -> Sequence[StoredEvent]:
    """Return known events as a log has them."""
    return [
        StoredEvent(
            cursor=Cursor(seq=number + 1, chain=CHAIN), event=Event("text", say(number)), epoch=1, time=1_700_000_000.0
        )
        for number in range(first, first + events)
    ]


def frames(first: int, events: int) -> bytes:
    """Return the bytes that a reader gets of them."""
    return b"".join(native.event_frame(each) for each in stored(first, events))


class Stage:
    """An application with these doors, and those of `telling`, in front of `inner`, which has the crowd's."""

    def __init__(
        self,
        inner: ASGIApp,
        saying: Saying,
        *,
        taking: Taking | None = None,
        telling: Mapping[str, Telling] | None = None,
    ) -> None:
        self._inner = inner
        self._saying = saying
        self._taking = taking
        self._telling: Mapping[str, Telling] = {"/lag": self._lag, **(telling or {})}
        self._late: Lateness | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        if scope["type"] == "http" and scope["path"] == "/say":
            asked = parse_qs(scope["query_string"])
            await self._saying(int(asked[b"first"][0]), int(asked[b"events"][0]))
            await respond(send, b"")
        elif scope["type"] == "http" and scope["path"] == "/append" and self._taking is not None:
            await self._taking(json.loads(await body(receive)))
            await respond(send, b"")
        elif scope["type"] == "http" and scope["path"] in self._telling:
            await respond(send, json.dumps(self._telling[scope["path"]]()).encode())
        else:
            await self._inner(scope, receive, send)

    def _lag(self) -> Mapping[str, float]:
        """Return the lateness since this was last asked."""
        told: dict[str, float] = {}
        if self._late is not None:
            self._late.__exit__()
            told = dict(self._late.told())
        self._late = Lateness().__enter__()
        return told


async def body(receive: Receive) -> bytes:
    """Return the body of a request."""
    parts = b""
    while True:
        message = await receive()
        parts += message.get("body", b"")
        if not message.get("more_body", False):
            return parts


async def respond(send: Send, body: bytes) -> None:
    """Answer a request of the bench's own."""
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Server(uvicorn.Server):
    """uvicorn, telling where it answers."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and greet."""
        await super().startup(sockets)
        greet(self.servers[0].sockets[0])


def server(application: ASGIApp) -> Server:
    """Return a server of an application; `serve` or `run` it."""
    return Server(
        uvicorn.Config(
            application,
            port=0,
            log_level="warning",
            access_log=False,
            ws="none",
            lifespan="off",
            server_header=False,
            proxy_headers=False,
        )
    )
