"""A server by script on the virtual clock: each request about a run is answered by the next script, to the byte."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

import httpx2
from starlette.types import Receive, Scope, Send

from outlast.client.asgi import StreamingTransport
from outlast.client.client import Client
from outlast.client.connect import connect, follow
from outlast.client.received import Received, ReceivedEvent
from outlast.log.cursor import chain, origin
from outlast.log.event import Event
from outlast.supervision.profile import STANDARD
from outlast.wire import sse

Script: TypeAlias = Callable[[Receive, Send], Awaitable[None]]

URL = "http://peer/agents"
SAID = [Event("run.started", {}), *(Event("text", f"word {number}") for number in range(8)), Event("run.completed", {})]
PLACES = chain(origin("log"), SAID)


def frame(seq: int) -> bytes:
    data, content_type = sse.payload(SAID[seq - 1].payload, SAID[seq - 1].content_type)
    return sse.encode(data=data, event=SAID[seq - 1].type, id=str(PLACES[seq - 1]), content_type=content_type)


def frames(first: int, last: int = len(SAID)) -> list[bytes]:
    return [frame(seq) for seq in range(first, last + 1)]


def control(name: str, **said: Any) -> bytes:
    return sse.encode(event=f"outlast.{name}", data=json.dumps(said).encode())


BEAT = STANDARD.heartbeat
HELLO = sse.HELLO_COMMENT + control("hello", heartbeat=BEAT)
BEATING = control("heartbeat", status="active")


def answer(status: int, body: bytes = b"", **headers: str) -> Script:
    async def script(receive: Receive, send: Send) -> None:
        named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": named})
        await send({"type": "http.response.body", "body": body})

    return script


def problem(status: int, code: str) -> Script:
    return answer(status, json.dumps({"code": code, "detail": f"Said by {code}."}).encode())


def stream(*chunks: bytes | float, then: str = "end") -> Script:
    """Send chunks, a number being seconds of silence, and then `end` cleanly, `break` off or `hang`."""

    async def script(receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for chunk in chunks:
            if isinstance(chunk, bytes):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            else:
                await asyncio.sleep(chunk)
        if then == "break":
            raise ConnectionResetError("as scripted")
        while then == "hang" and (await receive())["type"] != "http.disconnect":
            pass
        await send({"type": "http.response.body", "body": b""})

    return script


async def refuse(receive: Receive, send: Send) -> None:
    raise httpx2.ConnectError("as scripted")


GREETING = answer(200, json.dumps({"boot_id": "b00t", "protocol": 1, "heartbeat": BEAT}).encode())


class Peer:
    """Answers each request about the run by the next script, the last one again and again, and remembers them.

    Who asks who is there is answered by `session`, each time by the next script of it.
    """

    def __init__(self, *scripts: Script, session: tuple[Script, ...] = (GREETING,)) -> None:
        self.scripts = scripts
        self.session = session
        self.greeted: list[float] = []
        self.times: list[float] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[bytes] = []
        self.queries: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].endswith("/session"):
            script = self.session[min(len(self.greeted), len(self.session) - 1)]
            self.greeted.append(asyncio.get_running_loop().time())
            await script(receive, send)
            return
        script = self.scripts[min(len(self.times), len(self.scripts) - 1)]
        self.times.append(asyncio.get_running_loop().time())
        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        self.paths.append(scope["raw_path"])
        self.queries.append(scope["query_string"])
        await script(receive, send)

    @property
    def cursors(self) -> list[str | None]:
        return [headers.get("last-event-id") for headers in self.headers]

    @property
    def gaps(self) -> list[float]:
        return [round(later - earlier, 3) for earlier, later in zip(self.times, self.times[1:], strict=False)]

    def connect(self) -> AbstractAsyncContextManager[Client]:
        return connect(
            URL, transports=["sse"], jitter=lambda: 0.5, client=httpx2.AsyncClient(transport=StreamingTransport(self))
        )

    def follow(self, **options: Any) -> AsyncGenerator[Received, None]:
        client = httpx2.AsyncClient(transport=StreamingTransport(self))
        options = {"jitter": lambda: 0.5, "client": client, "transports": ["sse"], **options}
        return follow(URL, "r", **options)


async def collect(received: AsyncIterator[Received]) -> list[Received]:
    return [each async for each in received]


async def take_into(taken: list[int], received: AsyncIterator[Received]) -> None:
    """Take what comes; what was taken before an error stays known."""
    async for each in received:
        taken.append(each.cursor.seq)  # noqa: PERF401 - an extend would lose it


async def seqs(received: AsyncIterator[Received]) -> list[int]:
    return [each.seq for each in await collect(received) if isinstance(each, ReceivedEvent)]


ALL = list(range(1, len(SAID) + 1))
