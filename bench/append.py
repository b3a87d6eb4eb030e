"""Rows *append*: events made durable in SQLite by many runs at once, against the bare statements in the same thread.

Every side writes the same rows: the events, and the head of each log they belong to. Events and rows are made
beforehand, so a side is charged for nothing but its way into the file: ours compares, chains and fences on it.
"""

import asyncio
import gc
import json
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Literal, TypeAlias

import aiosqlite

from bench.measure import Goal, Kind, Quantity, Row, Sample, Side
from bench.record import check_file, say
from outlast.log.cursor import origin
from outlast.log.event import JSON_TYPE, Event
from outlast.run import RecoveryBudget, Run, Token
from outlast.stores.base import NewClaim, NewRun
from outlast.stores.sqlite import SQLiteStore

SCHEMA = """
PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
CREATE TABLE logs (number INTEGER PRIMARY KEY, seq INTEGER, chain BLOB, bytes INTEGER, head_at REAL);
CREATE TABLE events (place INTEGER PRIMARY KEY, chain BLOB, type TEXT, content_type TEXT, epoch INTEGER, time REAL,
    data BLOB);
"""
INSERT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)"
MOVE = "UPDATE logs SET seq = ?, chain = ?, bytes = bytes + ?, head_at = ? WHERE number = ?"
CHAIN = bytes(8)
"""What stands where ours has a hash: the bare side writes as many bytes and computes none."""

CPU = "CPU per event"
RATE = "events a second"
QUANTITIES = {CPU: Quantity(unit="µs", kind=Kind.COST), RATE: Quantity(unit="/s", kind=Kind.RATE)}

Written: TypeAlias = tuple[list[tuple[Any, ...]], tuple[Any, ...]]
"""What one tick of one run writes: the rows of its events, and the new head of its log."""
Tick: TypeAlias = Callable[[], Awaitable[object]]
"""Makes the next events of every run durable."""


# ---- the sides ----------------------------------------------------------------------------------


@asynccontextmanager
async def stored(
    path: Path, runs: int, *, durability: Literal["process", "power"] = "process"
) -> AsyncIterator[tuple[SQLiteStore, list[Run]]]:
    """Open a store with `runs` claimed runs."""
    store = SQLiteStore(path, durability=durability)
    await store.open()
    await store.runs.join("node", ttl=3600.0, workers=[])
    claimed: list[Run] = []
    for number in range(runs):
        new = NewRun(owner="", id=f"r{number}", log=f"l{number}", worker="w", input=b"{}", digest=b"")
        run = (await store.runs.start(new)).run
        claim = NewClaim(claim="c", node="node", budget=RecoveryBudget(), not_before=0.0)
        claimed.append(await store.runs.claim(run, claim))
        await store.logs.fence(run.log, claimed[-1].token)
    try:
        yield store, claimed
    finally:
        await store.close()


def appending(store: SQLiteStore, runs: list[Run], each: int, ticks: int) -> Tick:
    """Return ours: every run is a task of its own, as controllers are."""
    events = [Event("text", say(number)) for number in range(each * ticks)]
    heads = {run.log: origin(run.log) for run in runs}
    tokens = [(run.log, run.token) for run in runs]

    async def append(log: str, token: Token) -> None:
        head = heads[log]
        heads[log] = await store.logs.append(log, token, head, events[head.seq : head.seq + each])

    async def tick() -> None:
        await asyncio.gather(*(append(log, token) for log, token in tokens))

    return (lambda: append(*tokens[0])) if len(tokens) == 1 else tick


def rows(number: int, each: int, ticks: int) -> list[Written]:
    """Return what each tick of run `number` writes."""
    payloads = [json.dumps(say(seq)).encode() for seq in range(each * ticks)]
    made: list[Written] = []
    for first in range(0, each * ticks, each):
        part = payloads[first : first + each]
        written = [
            ((number << 32) + first + place, CHAIN, "text", JSON_TYPE, 1, time.time(), payload)
            for place, payload in enumerate(part, 1)
        ]
        made.append((written, (first + each, CHAIN, sum(map(len, part)), time.time(), number)))
    return made


async def ours(path: Path, runs: int, each: int, ticks: int, *, busy: bool = False) -> Sample:
    """Append through the log store."""
    async with stored(path, runs) as (store, claimed):
        sample = await timed(appending(store, claimed, each, ticks), runs * each, ticks, busy=busy)
    check_file(path, [each * ticks] * runs)
    return sample


async def bare(path: Path, runs: int, each: int, ticks: int) -> Sample:
    """Write one transaction for all runs, with sqlite3 alone and on the loop."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(SCHEMA)
        connection.executemany("INSERT INTO logs VALUES (?, 0, ?, 0, 0)", [(number, CHAIN) for number in range(runs)])
        made = [iter(rows(number, each, ticks)) for number in range(runs)]

        async def tick() -> None:
            connection.execute("BEGIN IMMEDIATE")
            for run in made:
                events, head = next(run)
                connection.executemany(INSERT, events)
                connection.execute(MOVE, head)
            connection.execute("COMMIT")
            await asyncio.sleep(0)  # a program on a loop lets it turn, or nobody else is served

        sample = await timed(tick, runs * each, ticks)
    check_file(path, [each * ticks] * runs)
    return sample


async def threaded(path: Path, runs: int, each: int, ticks: int, *, busy: bool = False) -> Sample:
    """Write a transaction per run through aiosqlite: runs that know nothing of each other cannot share one."""
    async with aiosqlite.connect(path, isolation_level=None) as connection:
        await connection.executescript(SCHEMA)
        made = [iter(rows(number, each, ticks)) for number in range(runs)]
        await connection.executemany("INSERT INTO logs VALUES (?, 0, ?, 0, 0)", [(n, CHAIN) for n in range(runs)])
        turn = asyncio.Lock()  # a connection has one transaction at a time

        async def append(run: Iterator[Written]) -> None:
            events, head = next(run)
            async with turn:
                await connection.execute("BEGIN IMMEDIATE")
                await connection.executemany(INSERT, events)
                await connection.execute(MOVE, head)
                await connection.execute("COMMIT")

        async def tick() -> None:
            await asyncio.gather(*(append(run) for run in made))

        sample = await timed(tick, runs * each, ticks, busy=busy)
    check_file(path, [each * ticks] * runs)
    return sample


# ---- the clock ----------------------------------------------------------------------------------


async def timed(tick: Tick, events: int, ticks: int, *, busy: bool = False) -> Sample:
    """Tick so many times and tell what one of `events` cost: the CPU of every thread, less what only kept busy."""
    warm = ticks // 10
    for _ in range(warm):
        await tick()
    gc.collect()
    burner = Burner() if busy else None
    burning = asyncio.create_task(burner.run()) if burner else None
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(ticks - warm):
        await tick()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    if burner and burning:
        cpu -= burner.spent
        burning.cancel()
        await asyncio.wait({burning})
    counted = events * (ticks - warm)
    return {CPU: cpu / counted * 1e6, RATE: counted / wall}


class Burner:
    """Keeps the loop busy with Python, about a millisecond in every turn, and tells what CPU it spent."""

    def __init__(self) -> None:
        self.spent = 0.0

    async def run(self) -> None:
        """Burn until cancelled."""
        while True:
            began = time.thread_time()
            for _ in range(20_000):
                pass
            self.spent += time.thread_time() - began
            await asyncio.sleep(0)


def side(write: Callable[[Path], Awaitable[Sample]]) -> Side:
    """Return a side that writes to a file of its own."""

    async def run() -> Sample:
        with tempfile.TemporaryDirectory() as folder:
            return await write(Path(folder) / "runs.db")

    return lambda: asyncio.run(run())


# ---- the rows -----------------------------------------------------------------------------------

SQLITE = "bare sqlite3"
THREAD = "aiosqlite"
IDLE = "idle loop"


def one(share: float) -> Row:
    """Ask about one run that waits for every single event."""
    ticks = max(4, int(4000 * share))
    return Row(
        question="One run makes one event durable at a time.",
        quantities=QUANTITIES,
        ours=side(lambda path: ours(path, 1, 1, ticks)),
        references={
            SQLITE: side(lambda path: bare(path, 1, 1, ticks)),
            THREAD: side(lambda path: threaded(path, 1, 1, ticks // 2)),
        },
        goals=[
            Goal(quantity=CPU, reference=SQLITE, bound=0.5),
            Goal(quantity=CPU, reference=THREAD, bound=3.0),
            Goal(quantity=RATE, reference=THREAD, bound=3.0),
        ],
    )


def many(share: float) -> Row:
    """Ask about fifty runs at once."""
    ticks = max(2, int(100 * share))
    return Row(
        question="50 runs make ten events each durable at the same time.",
        quantities=QUANTITIES,
        ours=side(lambda path: ours(path, 50, 10, ticks)),
        references={
            SQLITE: side(lambda path: bare(path, 50, 10, ticks)),
            THREAD: side(lambda path: threaded(path, 50, 10, ticks)),
        },
        goals=[
            Goal(quantity=CPU, reference=SQLITE, bound=0.5),
            Goal(quantity=CPU, reference=THREAD, bound=3.0),
            Goal(quantity=RATE, reference=THREAD, bound=3.0),
        ],
    )


def busy(share: float) -> Row:
    """Ask about fifty runs on a loop that has Python to do in every turn."""
    ticks = max(2, int(100 * share))
    return Row(
        question="50 runs × 10, while other code keeps the event loop busy for a millisecond in every turn.",
        quantities=QUANTITIES,
        ours=side(lambda path: ours(path, 50, 10, ticks, busy=True)),
        references={
            IDLE: side(lambda path: ours(path, 50, 10, ticks)),
            THREAD: side(lambda path: threaded(path, 50, 10, max(2, ticks // 20), busy=True)),
        },
        goals=[
            Goal(quantity=CPU, reference=IDLE, bound=0.7),
            Goal(quantity=RATE, reference=THREAD, bound=3.0),
        ],
    )
