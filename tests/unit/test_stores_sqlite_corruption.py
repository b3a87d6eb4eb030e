"""What a damaged file may hold in a run's row: every kind of it is told, passed over, and can be settled."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outlast.errors import ClaimLost, RunNotFound, StoreCorrupt
from outlast.run import Cancelled, Status
from outlast.stores.sqlite import SQLiteStore
from outlast.stores.sqlite.corruption import REMEMBERED, Unreadable
from outlast.testing.contract.scene import ANN, CHAT, events, listed, load, start
from tests.disk import behind, opened

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    async with opened(path) as store:
        yield store


DAMAGE = [
    "UPDATE runs SET cause = 'weather'",
    "UPDATE runs SET cause = x'00'",
    "UPDATE runs SET not_before = 'soon'",
    "UPDATE runs SET not_before = x'00'",
    "UPDATE runs SET stop_at = x'00'",
    "UPDATE runs SET stop_at = 1.0, stop_reason = x'00'",
    "UPDATE runs SET digest = 'text'",
    "UPDATE runs SET thread = x'00'",
    "UPDATE runs SET created_at = 'long ago'",
    "UPDATE inputs SET input = 'text'",
    "UPDATE inputs SET metadata = 7",
    "DELETE FROM inputs",
]


@pytest.mark.behaviour("L13")
@pytest.mark.parametrize("damage", DAMAGE)
async def test_every_kind_of_damage_is_told_and_settled(store: SQLiteStore, path: Path, damage: str) -> None:
    run = await start(store)
    with behind(path) as connection:
        connection.execute(damage)
    await start(store, "r2")
    with pytest.raises(StoreCorrupt):
        await load(store, run)
    assert [run.id for run in await listed(store, ANN)] == ["r2"]
    assert [run.id for run in (await store.runs.due([CHAT], limit=9)).runs] == ["r2"]
    assert list(await store.runs.corrupt()) == [run.log]
    await store.runs.settle_corrupt(run.log, Cancelled(reason="lost"), claim="sweep")
    assert (await load(store, run)).status is Status.CANCELLED
    assert (await events(store, run))[-1].event.type == "run.cancelled"
    assert list(await store.runs.corrupt()) == []


@pytest.mark.behaviour("L13")
@pytest.mark.parametrize(
    "damage", ["UPDATE logs SET chain = 'text'", "UPDATE logs SET opened_at = 'now'", "UPDATE logs SET bytes = x'00'"]
)
async def test_the_row_of_a_log_that_cannot_be_read_is_told(store: SQLiteStore, path: Path, damage: str) -> None:
    run = await start(store)
    with behind(path) as connection:
        connection.execute(damage)
    with pytest.raises(StoreCorrupt):
        await store.logs.head(run.log)
    with pytest.raises(StoreCorrupt):
        await events(store, run)


@pytest.mark.behaviour("L13")
@pytest.mark.parametrize("damage", ["'soon'", "x'00'"])
async def test_a_time_that_cannot_be_read_is_met_by_who_looks_for_due_runs(
    store: SQLiteStore, path: Path, damage: str
) -> None:
    run = await start(store)
    with behind(path) as connection:
        connection.execute(f"UPDATE runs SET not_before = {damage}")
    due = await store.runs.due([CHAT], limit=9)
    assert (due.runs, due.next_at) == ([], None)
    assert list(await store.runs.corrupt()) == [run.log]


@pytest.mark.behaviour("L13")
@pytest.mark.parametrize("erased", [False, True])
async def test_one_that_another_process_has_settled_is_forgotten(
    store: SQLiteStore, path: Path, *, erased: bool
) -> None:
    run = await start(store)
    with behind(path) as connection:
        connection.execute("UPDATE runs SET cause = 'weather'")
    async with opened(path) as other:
        for each in (store, other):
            await each.runs.due([CHAT], limit=9)
            assert list(await each.runs.corrupt()) == [run.log]
        await other.runs.settle_corrupt(run.log, Cancelled(reason="lost"), claim="sweep")
        if erased:
            await other.runs.erase(ANN, run.id)
    with pytest.raises((ClaimLost, RunNotFound)):
        await store.runs.settle_corrupt(run.log, Cancelled(reason="lost"), claim="another")
    assert list(await store.runs.corrupt()) == []


def test_what_is_remembered_is_bounded() -> None:
    unreadable = Unreadable()
    for number in range(2 * REMEMBERED):
        unreadable.meet(f"log-{number % (REMEMBERED + 9)}")
    assert len(unreadable.logs) == REMEMBERED
    unreadable.forget("log-0")
    unreadable.forget("never met")
    assert len(unreadable.logs) == REMEMBERED - 1
