"""Lineages as rows: an old file gets the table, what cannot be read is told, and nobody changes an entry."""

import sqlite3
from pathlib import Path

import pytest

from outlast.errors import StoreCorrupt
from outlast.lineage import Kind
from outlast.run import Completed
from outlast.stores.sqlite import SQLiteStore
from outlast.stores.sqlite.migration import MIGRATIONS
from outlast.testing.contract.scene import ANN, A, drive, join, start
from tests.disk import behind, opened

pytestmark = pytest.mark.anyio


async def test_a_run_from_before_lineages_were_kept_has_the_entries_of_what_came_since(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with behind(path) as connection:
        for migration in MIGRATIONS[:1]:
            connection.executescript(migration.sql)
            connection.execute(f"PRAGMA application_id = {int.from_bytes(b'Outl')}")
            connection.execute(f"PRAGMA user_version = {migration.number}")
    store = SQLiteStore(path)
    await store.open()
    try:
        await join(store, A)
        await start(store, "r1")
        with behind(path) as connection:
            connection.execute("UPDATE runs SET epoch = 7, claim = 'before', status = 'active'")
        await drive(store, "r1")
        assert [(entry.epoch, entry.kind) for entry in await store.runs.lineage(ANN, "r1")] == [(8, Kind.CLAIM)]
    finally:
        await store.close()


async def test_an_entry_never_changes_and_an_unreadable_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    async with opened(path) as store:
        await join(store, A)
        await drive(store, "r1")
        with behind(path) as connection:
            with pytest.raises(sqlite3.IntegrityError, match="stays"):
                connection.execute("UPDATE lineage SET node = 'another'")
            connection.execute("INSERT INTO lineage VALUES (1, 2, 'c', NULL, 0.0, 'takeover', 'magic', 0)")
        with pytest.raises(StoreCorrupt):
            await store.runs.lineage(ANN, "r1")


async def test_a_lineage_goes_with_its_run(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    async with opened(path) as store:
        await join(store, A)
        gone = await drive(store, "r1")
        await drive(store, "r2")
        await store.runs.settle(gone, gone.token, Completed())
        await store.runs.erase(ANN, "r1")
        with behind(path) as connection:
            left = connection.execute("SELECT run FROM lineage").fetchall()
            kept = connection.execute("SELECT number FROM runs").fetchall()
        assert [row[0] for row in left] == [row[0] for row in kept]
