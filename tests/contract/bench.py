"""SQLite on a workbench: its clock moves by ageing, its rows can be damaged behind its back."""

import sqlite3
import time
from pathlib import Path
from typing import Any, Literal

from outlast.run import Run
from outlast.stores.sqlite import SQLiteStore

PLACE = "(SELECT number FROM logs WHERE id = ?) << 32 | ?"
"""Where the event of a log and a seq stands."""


class StandingClock:
    """A machine on which no time passes but by ageing."""

    def __init__(self) -> None:
        self.aged = 0.0

    def boot_id(self) -> str:
        return "a boot"

    def elapsed(self) -> float:
        return self.aged

    def wall(self) -> float:
        return 1_700_000_000.0 + self.elapsed()


class RunningClock(StandingClock):
    """A machine on which time passes as everywhere, and by ageing too."""

    def elapsed(self) -> float:
        return time.monotonic() + self.aged


class SQLiteBench:
    """A workbench for SQLite."""

    def __init__(
        self, path: Path | None, *, clock: StandingClock, durability: Literal["process", "power"] = "process"
    ) -> None:
        self._path = path
        self._clock = clock
        self._durability: Literal["process", "power"] = durability
        self._opened: list[SQLiteStore] = []

    @property
    def store(self) -> SQLiteStore:
        return self._opened[0]

    async def open(self) -> SQLiteStore:
        store = SQLiteStore(self._path, durability=self._durability, clock=self._clock)
        self._opened.append(store)
        await store.open()
        return store

    async def close(self) -> None:
        for store in self._opened:
            await store.close()

    async def again(self) -> SQLiteStore:
        return self.store if self._path is None else await self.open()

    async def age(self, seconds: float) -> None:
        self._clock.aged += seconds

    async def park(self, run: Run, *, wake_at: float | None) -> None:
        self._execute(
            "UPDATE runs SET status = 'parked', holder = NULL, wake_at = ? WHERE owner = ? AND id = ?",
            wake_at,
            run.owner,
            run.id,
        )

    async def lose(self, log: str, seq: int) -> None:
        self._execute(f"DELETE FROM events WHERE place = {PLACE}", log, seq)

    async def spoil(self, log: str, seq: int) -> None:
        self._execute("DROP TRIGGER events_stay")
        spoilt = "CAST(data || x'00' AS BLOB)"
        self._execute(f"UPDATE events SET data = {spoilt} WHERE place = {PLACE}", log, seq)

    async def retype(self, log: str, seq: int) -> None:
        self._execute("DROP TRIGGER events_stay")
        self._execute(f"UPDATE events SET data = 'text' WHERE place = {PLACE}", log, seq)

    async def garble(self, run: Run) -> None:
        self._execute("DROP TRIGGER IF EXISTS settled_runs_stay")
        self._execute("UPDATE runs SET cause = 'weather' WHERE owner = ? AND id = ?", run.owner, run.id)

    async def lose_log(self, log: str) -> None:
        self._execute("DELETE FROM logs WHERE id = ?", log)

    def _execute(self, statement: str, *values: Any) -> None:
        if self._path is None:
            assert self.store._ground is not None
            assert self.store._ground.connection.execute(statement, values).rowcount in {1, -1}
            return
        connection = sqlite3.connect(self._path, isolation_level=None)
        try:
            assert connection.execute(statement, values).rowcount in {1, -1}
        finally:
            connection.close()
