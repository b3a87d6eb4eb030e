"""SQLite under the contract of a store: in memory and on a file, with both durabilities."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outlast.testing.contract import StoreContract, Workbench
from tests.contract.bench import RunningClock, SQLiteBench, StandingClock
from tests.disk import Turnstile, ground


class TestSQLite(StoreContract):
    @pytest.fixture(params=["memory", "file", "file, power"])
    async def bench(self, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Workbench]:
        bench = {
            "memory": SQLiteBench(None, clock=StandingClock()),
            "file": SQLiteBench(tmp_path / "outlast.db", clock=StandingClock()),
            "file, power": SQLiteBench(tmp_path / "outlast.db", clock=RunningClock(), durability="power"),
        }[request.param]
        try:
            store = await bench.open()
            if request.param == "memory":  # a renewal in its thread has the same connection
                yield bench
                return
            turnstile = Turnstile()
            turnstile.watch(ground(store).connection)
            with turnstile.held():  # every promise of the contract is kept without a wait inside a transaction
                yield bench
        finally:
            await bench.close()
