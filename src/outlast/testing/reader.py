"""A reader that loses its connection whenever a test likes, comes back with its cursor, and writes down what it took.

Rules:
1. It takes what it is given, in the order it is given: whether that was right is for the history to judge.
2. Its place is the cursor of the last event it took, and survives every connection.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.types import ASGIApp, Scope

from outlast.log.cursor import Cursor, Gap, GapReason
from outlast.log.event import StoredEvent
from outlast.run import Run
from outlast.server.readers.place import locate
from outlast.stores.base import LogStore
from outlast.testing.observation import EventTaken, GapTold, Observation, ReadingEnded
from outlast.testing.process import Process
from outlast.wire import native
from outlast.wire.sse import Message, Parser

POLL: Final = 1.0
"""Seconds between two looks at a log when nothing rings."""
PATIENCE: Final = 30.0
"""Seconds without a byte after which a connection is given up: three heartbeats."""
START: Final = Cursor(0, None)


class ModelReader:
    """One reader of one run. `truth` is asked, at the moment an event is taken, what the store holds at its place."""

    def __init__(self, name: str, run: Run, truth: LogStore, *, note: Callable[[Observation], None]) -> None:
        self.name = name
        self.run = run
        self.cursor = START
        self.taken: list[StoredEvent] = []
        self.ended = False
        self._truth = truth
        self._note = note
        self._clock = asyncio.get_running_loop().time

    # ---- straight from the log --------------------------------------------------------------

    async def follow_log(self, logs: LogStore) -> None:
        """Follow the log itself until it is sealed; cancel it to cut the connection."""
        bell = logs.subscribe(self.run.log)
        try:
            while not self.ended:
                place = await locate(logs, self.run.log, self.cursor)
                if place.gap is not None:
                    self._tell_gap(place.gap)
                for stored in await logs.read(self.run.log, after=self.cursor.seq, limit=100, max_bytes=1 << 20):
                    await self._take(stored)
                if place.head.sealed and self.cursor.seq >= place.head.cursor.seq:
                    self._end()
                else:
                    await bell.wait(POLL)
        finally:
            bell.close()

    # ---- through a server -------------------------------------------------------------------

    async def follow_stream(self, server: Process, application: ASGIApp) -> None:
        """Read one response of a server, until it ends, is silent for too long, or its process is gone."""
        parser = Parser()
        arrived: asyncio.Queue[bytes | None] = asyncio.Queue()  # unbounded: a model client takes everything at once
        left = asyncio.Event()

        async def receive() -> Any:  # noqa: ANN401 - ASGI's own
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:  # noqa: ANN401 - as above
            arrived.put_nowait(message.get("body", b""))

        response = server.start(_respond(application, receive, send), name=f"response {self.name}")

        def cut(done: "asyncio.Task[None]") -> None:
            arrived.put_nowait(None)
            if not done.cancelled():
                done.exception()  # a response that fails is a connection that ends

        response.add_done_callback(cut)
        try:
            while (chunk := await asyncio.wait_for(arrived.get(), PATIENCE)) is not None:
                for message in parser.feed(chunk):
                    await self._hear(message)
        except TimeoutError:
            pass  # nobody can tell a dead server from a silent one
        finally:
            left.set()

    async def _hear(self, message: Message) -> None:
        stored = native.stored_from_frame(message)
        if stored is not None:
            await self._take(stored)
            return
        control = native.control_from_frame(message)
        if control is not None and control.name == "gap":
            said = control.said
            requested = Cursor.parse(str(said["requested"]))
            self._tell_gap(
                Gap(reason=GapReason(str(said["reason"])), requested=requested, first=int(str(said["first"])))
            )
        if control is not None and control.name == "end":
            self._end()

    # ---- what it writes down ----------------------------------------------------------------

    async def _take(self, stored: StoredEvent) -> None:
        durable = await self._truth.chain_at(self.run.log, stored.seq) == stored.cursor.chain
        self.taken.append(stored)
        self.cursor = stored.cursor
        self._note(EventTaken(at=self._clock(), reader=self.name, log=self.run.log, stored=stored, durable=durable))

    def _tell_gap(self, gap: Gap) -> None:
        self.cursor = Cursor(gap.first - 1, None)
        self._note(GapTold(at=self._clock(), reader=self.name, log=self.run.log, gap=gap))

    def _end(self) -> None:
        self.ended = True
        self._note(ReadingEnded(at=self._clock(), reader=self.name, log=self.run.log))


async def _respond(
    application: ASGIApp, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    scope: Scope = {"type": "http", "asgi": {"version": "3.0"}, "method": "GET", "path": "/", "headers": []}
    await application(scope, receive, send)
