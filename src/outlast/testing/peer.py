"""A server that is not ours: answers over real sockets by script, and remembers what it was asked.

    gate = Gate()
    async with ScriptedPeer([Answer(body=[frame, gate, Close(reset=True)]), Answer(status=503)]) as peer:
        ...                                     # a client uses peer.url
        await gate.entered.wait()               # it has said the frame, and waits
        gate.open()

Rules:
1. A request takes the next answer of the script, whatever connection it comes on; the last answer is given again and
   again. A script may be a function of what was asked.
2. A body is sent step by step. Without a `content-length` of its own it is chunked, each step a chunk, and comes to a
   clean end after the last step; a `Close` ends the connection in the middle of it.
3. A connection is kept for the next request, as HTTP/1.1 has it.
4. A client that leaves ends its answer, wherever that stands.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, NoReturn, Self, TypeAlias, assert_never

from outlast.testing.faults import Gate
from outlast.testing.line import LINGER, Bell

BACKLOG: Final = 1024
"""Connections that may wait to be accepted: as many clients as a test lets come at once."""
EVENT_STREAM: Final[Mapping[str, str]] = {"content-type": "text/event-stream"}
"""What the head of a stream says where a script says nothing else."""
BODILESS: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
"""Statuses that have no body, and so no chunks."""


@dataclass(frozen=True, slots=True)
class Close:
    """End the connection in the middle of the body, by a FIN or a reset."""

    reset: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """Say nothing more, and keep the connection open until the client leaves."""


Step: TypeAlias = bytes | Gate | Close | Hold
"""What a body does next: say bytes, wait at a gate until it is opened, or end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer: its status, the headers it adds to those of a stream, and its body step by step."""

    status: int = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Sequence[Step] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """What is said in place of an answer, from its very first byte: maybe no HTTP at all."""

    steps: Sequence[Step] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request; `path` with its query, `headers` by their names in small letters."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Script: TypeAlias = Callable[[Asked], Answer | Raw]
"""What says the answer to a request."""


class ScriptedPeer:
    """Answer at `url`; `asked` is every request so far, `open` how many connections there are, `most` at once."""

    def __init__(self, script: Sequence[Answer | Raw] | Script) -> None:
        self.asked: list[Asked] = []
        self.most = 0
        self.port = 0
        self._script = script if callable(script) else _in_turn(script)
        self._bell = Bell()
        self._open = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def open(self) -> int:
        """How many connections there are now."""
        return self._open

    async def until(self, so: Callable[["ScriptedPeer"], bool]) -> None:
        """Wait until something is so of what was asked and who is there; without a deadline, the test's own."""
        await self._bell.until(lambda: so(self))

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, "127.0.0.1", 0, backlog=BACKLOG)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._server is not None, "entered first"
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()
        for task in self._failed:
            task.result()  # a script that fails is seen

    def _protocol(self) -> asyncio.Protocol:
        ear = _Ear()
        return asyncio.StreamReaderProtocol(ear, lambda _, writer: self._arrive(ear, writer))

    def _arrive(self, ear: "_Ear", writer: asyncio.StreamWriter) -> None:
        self._open += 1
        self.most = max(self.most, self.open)
        task = asyncio.create_task(self._serve(ear, writer), name="scripted answer")
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._ended(task, writer))
        self._bell.ring()

    def _ended(self, task: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()  # whatever was to be said before has been
        self._open -= 1
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failed.append(task)
        self._bell.ring()

    async def _serve(self, ear: "_Ear", writer: asyncio.StreamWriter) -> None:
        voice = _Voice(ear, writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError, _Over):  # it has ended, on whichever side
            while True:
                asked = await ear.request()
                self.asked.append(asked)
                self._bell.ring()
                await voice.answer(self._script(asked))


class _Over(Exception):
    """Nothing more is to be said on a connection."""


class _Ear(asyncio.StreamReader):
    """Hears requests, and while an answer is being said that the client leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.left = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.left.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.left.set()

    async def request(self) -> Asked:
        """Return the next request. Raises IncompleteReadError when none comes any more."""
        head = (await self.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        fields = (line.partition(":") for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in fields}
        if headers.get("transfer-encoding") == "chunked":
            body = b"".join([chunk async for chunk in self._chunks()])
        else:
            body = await self.readexactly(int(headers.get("content-length", 0)))
        return Asked(method=method, path=path, headers=headers, body=body)

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self.readuntil(b"\r\n"), 16):
            yield await self.readexactly(size)
            await self.readexactly(2)
        await self.readuntil(b"\r\n")


class _Voice:
    """Says answers on one connection, step by step."""

    def __init__(self, ear: _Ear, writer: asyncio.StreamWriter) -> None:
        self._ear = ear
        self._writer = writer

    async def answer(self, answer: Answer | Raw) -> None:
        """Say one answer to its end. Raises `_Over` when the connection is not to be used again."""
        if isinstance(answer, Raw):
            await self._steps(answer.steps, is_chunked=False)
            await self._end(reset=False)
        headers = {**EVENT_STREAM, **{name.lower(): value for name, value in answer.headers.items()}}
        is_chunked = "content-length" not in headers and answer.status not in BODILESS
        if is_chunked:
            headers["transfer-encoding"] = "chunked"
        lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self._write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        await self._steps(answer.body, is_chunked=is_chunked)
        if is_chunked:
            await self._write(b"0\r\n\r\n")
        if headers.get("connection") == "close":
            await self._end(reset=False)

    async def _steps(self, steps: Sequence[Step], *, is_chunked: bool) -> None:
        for step in steps:
            match step:
                case bytes():
                    await self._write(b"%x\r\n%b\r\n" % (len(step), step) if is_chunked and step else step)
                case Gate():
                    await self._unless_left(step.wait())
                case Close(reset=reset):
                    await self._end(reset=reset)
                case Hold():
                    await self._ear.left.wait()  # for as long as the client likes
                    raise _Over
                case _:
                    assert_never(step)

    async def _write(self, said: bytes) -> None:
        self._writer.write(said)
        await self._writer.drain()

    async def _unless_left(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Wait, unless the client leaves before."""
        tasks = [asyncio.ensure_future(each) for each in (waiting, self._ear.left.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not tasks[0].done():
                raise _Over
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _end(self, *, reset: bool) -> NoReturn:
        """Close the connection when all of it has been handed to the kernel, or reset it."""
        if reset:
            peer = self._writer.get_extra_info("socket")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
            self._writer.transport.abort()
        else:
            self._writer.close()
            await self._writer.wait_closed()
        raise _Over


def _in_turn(answers: Sequence[Answer | Raw]) -> Script:
    """Return the script that gives one answer after the other, the last one again and again."""
    left = list(answers)

    def script(_asked: Asked) -> Answer | Raw:
        return left.pop(0) if len(left) > 1 else left[0]

    return script
