"""The client's end of a session: of an ASGI application in the same loop, or of a server behind a real socket."""

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from outlast.wire.session import (
    SUBPROTOCOL,
    Allowance,
    Answer,
    Ask,
    Broken,
    End,
    FromClient,
    FromServer,
    Grant,
    Leave,
    Piece,
    encode,
    from_server,
)
from outlast.wire.sse import Message, Parser

STREAM = {"accept": "text/event-stream"}
LOCAL = [(b"host", b"localhost:8400")]


@dataclass
class Answered:
    """An answer that has come to its end; `is_whole` where it said so."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_whole: bool = False

    @property
    def said(self) -> Any:
        return json.loads(self.body)


class Client:
    """What a client says and hears in a session; `closed` is how it ended."""

    def __init__(self) -> None:
        self.closed: tuple[int, str] | None = None
        self.heard: list[FromServer] = []
        self.keeps = True
        self._waiting: dict[int, deque[FromServer]] = defaultdict(deque)
        self._news = asyncio.Event()
        self._last = 0

    def say(self, frame: FromClient) -> None:
        raise NotImplementedError

    def take(self, frame: FromServer) -> None:
        """Take a frame that came."""
        assert self.closed is None, "a frame after the close"
        if self.keeps:
            self.heard.append(frame)
        self._waiting[frame.exchange].append(frame)
        self.told()

    def told(self) -> None:
        """Let those look who wait for something."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    @property
    def news(self) -> asyncio.Event:
        """What is set when something has come from now on."""
        return self._news

    def open(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> int:
        """Ask, and return the number of the exchange."""
        self._last += 1
        more: dict[str, Any] = {}
        if body is not None:
            headers = {"content_type": "application/json", **headers}
            more = {"body": body if isinstance(body, str) else json.dumps(body)}
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        self.say(Ask(exchange=self._last, method=method, path=path, headers=said, **more))
        return self._last

    async def hear(self, exchange: int) -> FromServer:
        """Return the next frame of an exchange."""
        while not self._waiting[exchange]:
            assert self.closed is None, f"closed: {self.closed}"
            await self._news.wait()
        return self._waiting[exchange].popleft()

    async def end(self) -> tuple[int, str]:
        """Wait until the server has closed, and return how."""
        while self.closed is None:
            await self._news.wait()
        return self.closed

    async def rest(self, exchange: int) -> Answered:
        """Return all that is left of an exchange, granting what comes."""
        found, allowance = Answered(), Allowance()
        while True:
            match await self.hear(exchange):
                case Answer(status=status, headers=headers):
                    found.status, found.headers = status, headers
                case Piece(data=data):
                    allowance.came(len(data))
                    found.body += data
                    if granted := allowance.took(len(data)):
                        self.say(Grant(exchange=exchange, size=granted))
                case End():
                    found.is_whole = True
                    return found
                case Broken():
                    return found

    async def ask(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> Answered:
        return await self.rest(self.open(path, method, body, **headers))

    def stream(self, path: str, **headers: str) -> "Stream":
        return Stream(self, self.open(path, **STREAM, **headers))


class Line(Client):
    """The client of an application in the same loop; `room` is cleared to take nothing any more."""

    def __init__(self) -> None:
        super().__init__()
        self.room = asyncio.Event()
        self.room.set()
        self.refused: Answered | None = None
        self.subprotocol: str | None = None
        self._to_app: asyncio.Queue[Any] = asyncio.Queue(maxsize=100_000)
        self._to_app.put_nowait({"type": "websocket.connect"})

    async def receive(self) -> Any:
        return await self._to_app.get()

    async def send(self, message: Any) -> None:
        await self.room.wait()
        match message["type"]:
            case "websocket.accept":
                self.subprotocol = message["subprotocol"]
            case "websocket.close":
                self.closed = (message.get("code", 1000), message.get("reason", ""))
            case "websocket.http.response.start":
                headers = {name.decode(): value.decode() for name, value in message["headers"]}
                self.refused = Answered(status=message["status"], headers=headers)
            case "websocket.http.response.body":
                assert self.refused is not None
                self.refused.body += message["body"]
            case _:
                self.take(from_server(message["text"] if "text" in message else message["bytes"]))
        self.told()

    def say(self, frame: FromClient) -> None:
        self.say_raw(text=encode(frame))

    def say_raw(self, **message: Any) -> None:
        """Send a message of any kind: `text=` or `bytes=`."""
        self._to_app.put_nowait({"type": "websocket.receive", **message})

    def hang_up(self) -> None:
        self._to_app.put_nowait({"type": "websocket.disconnect", "code": 1006})


class Dialled(Client):
    """The client of a server behind a real socket, whose frames are taken as they come unless `room` is cleared."""

    def __init__(self, socket: ClientConnection) -> None:
        super().__init__()
        self.socket = socket
        self.room = asyncio.Event()
        self.room.set()
        self._out: asyncio.Queue[str | bytes] = asyncio.Queue(maxsize=100_000)

    def say(self, frame: FromClient) -> None:
        self._out.put_nowait(encode(frame))

    def say_raw(self, message: str | bytes) -> None:
        """Send a message of any kind."""
        self._out.put_nowait(message)

    async def read(self) -> None:
        try:
            while True:
                await self.room.wait()
                self.take(from_server(await self.socket.recv()))
        except ConnectionClosed as error:
            self.closed = (1006, "") if error.rcvd is None else (error.rcvd.code, error.rcvd.reason)
            self.told()

    async def write(self) -> None:
        with suppress(ConnectionClosed):
            while True:
                await self.socket.send(await self._out.get())


class Stream:
    """An event stream in a session, taken frame by frame; it grants what it has taken."""

    def __init__(self, line: Client, exchange: int) -> None:
        self.exchange = exchange
        self.status = 0
        self.raw = b""
        self.is_whole = False
        self._line = line
        self._allowance = Allowance()
        self._parser = Parser()
        self._pending: deque[Message] = deque()

    async def next(self) -> Message | None:
        """Return the next frame, None at the end of the body."""
        while not self._pending:
            match await self._line.hear(self.exchange):
                case Answer(status=status):
                    self.status = status
                case Piece(data=data):
                    self._allowance.came(len(data))
                    self.raw += data
                    self._pending += self._parser.feed(data)
                    if granted := self._allowance.took(len(data)):
                        self._line.say(Grant(exchange=self.exchange, size=granted))
                case End():
                    self.is_whole = True
                    return None
                case Broken():
                    return None
        return self._pending.popleft()

    async def until(self, name: str) -> list[Message]:
        """Return the frames up to the first one of this name, that one included."""
        found: list[Message] = []
        while not found or found[-1].event != name:
            message = await self.next()
            assert message is not None, f"the stream ended before {name}: {[each.event for each in found]}"
            found.append(message)
        return found

    async def rest(self) -> list[Message]:
        """Return all frames up to the end."""
        found: list[Message] = []
        while (message := await self.next()) is not None:
            found.append(message)
        return found

    def leave(self) -> None:
        self._line.say(Leave(exchange=self.exchange))


def scope_of(
    *,
    headers: list[tuple[bytes, bytes]] | None = None,
    client: tuple[str, int] = ("127.0.0.1", 50000),
    subprotocols: tuple[str, ...] = (SUBPROTOCOL,),
    path: str = "/session",
    root_path: str = "",
    extensions: Any = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the scope of a handshake."""
    return {
        "type": "websocket",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "scheme": "ws",
        "path": root_path + path,
        "raw_path": (root_path + path).encode(),
        "query_string": b"",
        "root_path": root_path,
        "headers": [*LOCAL, *(headers or [])],
        "client": client,
        "server": ("localhost", 8400),
        "subprotocols": list(subprotocols),
        "state": {},
        "extensions": {"websocket.http.response": {}} if extensions is None else extensions,
        **more,
    }


@asynccontextmanager
async def connected(app: Any, **handshake: Any) -> AsyncIterator[Line]:
    """Open a session of `app`, accepted or refused, and hang up at the end of the block."""
    line = Line()
    serving = asyncio.create_task(app(scope_of(**handshake), line.receive, line.send), name="a WebSocket")
    try:
        while line.subprotocol is None and line.refused is None and line.closed is None:
            answered = asyncio.create_task(line.news.wait())
            await asyncio.wait({answered, serving}, return_when=asyncio.FIRST_COMPLETED)
            answered.cancel()
            if serving.done():
                serving.result()
        yield line
    finally:
        line.room.set()
        line.hang_up()
        await asyncio.wait({serving})
        if not serving.cancelled():
            serving.result()


@asynccontextmanager
async def dialled(url: str, **options: Any) -> AsyncIterator[Dialled]:
    """Open a session of a real server at this url, `ws://…/session`, and close it at the end of the block."""
    offered = [Subprotocol(SUBPROTOCOL)]
    async with connect(
        url, subprotocols=offered, proxy=None, compression=None, ping_interval=None, **options
    ) as socket:
        client = Dialled(socket)
        tasks = [asyncio.create_task(client.read(), name="read"), asyncio.create_task(client.write(), name="write")]
        try:
            yield client
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
