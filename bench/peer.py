"""A server as people write it without Outlast: aiosqlite keeps the events, sse-starlette sends them.

It promises what it can: an event is committed before anybody sees it, and a reader that comes again can go on.
"""

import asyncio
import json
import socket
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiosqlite
import uvicorn
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from bench.process import greet
from bench.record import PACE, say

SCHEMA = """
PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
CREATE TABLE events (place INTEGER PRIMARY KEY, run INTEGER, seq INTEGER, type TEXT, data TEXT, UNIQUE (run, seq));
"""
INSERT = "INSERT INTO events (run, seq, type, data) VALUES (?, ?, 'text', ?)"
READ = "SELECT seq, type, data FROM events WHERE run = ? AND seq > ? AND seq <= ? ORDER BY seq"


@dataclass(eq=False)
class Log:
    """One run's place in the table, and who waits for more."""

    run: int
    head: int = 0
    ended: bool = False
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)


class Peer:
    """The application; `path` is its database."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._runs = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._connection: aiosqlite.Connection | None = None

    async def start(self, request: Request) -> EventSourceResponse:
        """Start a run and stream it at once."""
        asked = await request.json()
        self._connection = self._connection or await self._connect()
        self._runs += 1
        log = Log(self._runs)
        task = asyncio.create_task(self._work(self._connection, log, asked))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return EventSourceResponse(self._tail(self._connection, log))

    async def _connect(self) -> aiosqlite.Connection:
        connection = await aiosqlite.connect(self._path)
        await connection.executescript(SCHEMA)
        return connection

    async def _work(self, connection: aiosqlite.Connection, log: Log, asked: dict[str, Any]) -> None:
        for number in range(asked["input"]["events"]):
            if asked["worker"] == "paced":
                await asyncio.sleep(PACE)
                said: Any = {"number": number, "at": time.monotonic_ns(), "text": say(number)}
            else:
                said = say(number)
            await connection.execute(INSERT, (log.run, number + 1, json.dumps(said)))
            await connection.commit()
            async with log.changed:
                log.head = number + 1
                log.changed.notify_all()
        async with log.changed:
            log.ended = True
            log.changed.notify_all()

    async def _tail(self, connection: aiosqlite.Connection, log: Log) -> AsyncIterator[ServerSentEvent]:
        sent = 0
        while True:
            async with log.changed:
                await log.changed.wait_for(lambda: log.head > sent or log.ended)  # noqa: B023 - asked before it changes
            if log.head == sent:
                return
            head = log.head
            for seq, type, data in await connection.execute_fetchall(READ, (log.run, sent, head)):
                yield ServerSentEvent(data, event=type, id=str(seq))
            sent = head


class Server(uvicorn.Server):
    """uvicorn, telling where it answers."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and greet."""
        await super().startup(sockets)
        greet(self.servers[0].sockets[0])


if __name__ == "__main__":
    application = Starlette(routes=[Route("/runs", Peer(sys.argv[1]).start, methods=["POST"])])
    Server(uvicorn.Config(application, port=0, log_level="warning", access_log=False, ws="none", lifespan="off")).run()
