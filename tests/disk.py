"""SQLite files for tests: stores that are closed in the end, a hand behind their backs, programs that share a file."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self

from outlast.stores.sqlite import SQLiteStore
from outlast.stores.sqlite.engine import Ground
from outlast.stores.sqlite.migration import STORE, Schema, migrate


class HandClock:
    """A machine whose clocks are set by hand: seconds since its start, and what its wall clock believes."""

    def __init__(self, *, boot: str = "a boot", since: float = 1000.0, wall: float = 1_700_000_000.0) -> None:
        self.boot = boot
        self.since = since
        self.at_the_wall = wall

    def boot_id(self) -> str:
        return self.boot

    def elapsed(self) -> float:
        return self.since

    def wall(self) -> float:
        return self.at_the_wall


PROLOGUE = """
import asyncio, os, sys
from outlast.log.cursor import origin
from outlast.log.event import Event
from outlast.run import Token
from outlast.stores.base import NewRun
from outlast.stores.sqlite import SQLiteStore

def say(word):
    print(word, flush=True)
"""


@asynccontextmanager
async def opened(path: Path | None, **options: Any) -> AsyncIterator[SQLiteStore]:
    """Open a store, on a clock that stands unless another is given, and close it."""
    store = SQLiteStore(path, **{"clock": HandClock(), **options})
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@contextmanager
def behind(path: Path | str) -> Iterator[sqlite3.Connection]:
    """Open the file behind every store's back, as a person with a SQL prompt does."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    connection.row_factory = sqlite3.Row
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def migrated(schema: Schema = STORE) -> Iterator[sqlite3.Connection]:
    """Open an empty file of this kind in memory, without anything that guards it but its own triggers."""
    with behind(":memory:") as connection:
        migrate(connection, schema)
        yield connection


class Turnstile:
    """Looks at connections whenever the loop turns, and holds that none of them has a transaction open then.

    Nothing can be waited for inside a transaction without a turn of the loop: neither a worker nor a network.
    """

    def __init__(self) -> None:
        self.transactions = 0
        self.turns = 0
        self.caught = 0
        self._watched: list[sqlite3.Connection] = []

    def watch(self, connection: sqlite3.Connection) -> None:
        """Look at this connection from now on; it may be closed at any time."""
        connection.set_trace_callback(self._hear)
        self._watched.append(connection)

    @contextmanager
    def held(self) -> Iterator[Self]:
        """Look at every turn of the running loop until the end of the block, which fails when one was caught."""
        selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
        select = selector.select

        def turn(timeout: float | None = None) -> Any:
            self.turns += 1
            self.caught += sum(map(_is_open, self._watched))
            return select(timeout)

        selector.select = turn
        try:
            yield self
        finally:
            del selector.select
        assert self.caught == 0, "the loop turned while a transaction was open"

    def _hear(self, sql: str) -> None:
        self.transactions += sql.startswith("BEGIN IMMEDIATE")


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        return connection.in_transaction
    except sqlite3.ProgrammingError:  # it is closed
        return False


def names(folder: Path) -> list[str]:
    """List what lies in a folder."""
    return sorted(each.name for each in folder.iterdir())


def damage(path: Path) -> None:
    """Write nonsense over everything in a file but its first page."""
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))


def ground(store: SQLiteStore) -> Ground:
    """Return what an open store stands on."""
    assert store._ground is not None
    return store._ground


@contextmanager
def program(source: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run Python in a process of its own, with a pipe either way; it is dead in the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROLOGUE + source, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def heard(process: "subprocess.Popen[str]") -> str:
    """Return the next word of a program; nothing when it has ended."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def rest(process: "subprocess.Popen[str]") -> str:
    """Return what a program says until it ends.

    Through the buffer that `heard` reads from: `communicate` goes past it, and would begin in the middle of a line.
    """
    assert process.stdout is not None
    return process.stdout.read()


def tell(process: "subprocess.Popen[str]", word: str) -> None:
    """Say a word to a program."""
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()
