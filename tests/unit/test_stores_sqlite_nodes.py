"""Burials: by lock, by boot, and never of the living; what ran out long ago is cleared away."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outlast.errors import StoreBusy
from outlast.run import Cause
from outlast.stores.sqlite import SQLiteStore
from outlast.stores.sqlite.nodes import LONG_AGO, UNREADABLE_FOR
from outlast.testing.contract.scene import CHAT, TTL, A, B, drive, join, load
from tests.disk import HandClock, behind, ground, heard, opened, program

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.db"


@pytest.fixture
async def store(path: Path, clock: HandClock) -> AsyncIterator[SQLiteStore]:
    async with opened(path, clock=clock) as store:
        await join(store, A)
        yield store


def locks(path: Path) -> set[str]:
    return {lock.stem for lock in path.with_name("x.db.nodes").iterdir()}


# ---- proof by lock ----

NODE = """
async def main():
    store = SQLiteStore(sys.argv[1])
    await store.open()
    await store.runs.join("theirs", ttl=1000.0, workers=[])
    say("joined")
    sys.stdin.readline()
    await store.runs.leave("theirs")
    await store.close()
    say("left")
asyncio.run(main())
"""


@pytest.mark.behaviour("O3")
async def test_a_node_that_was_killed_is_buried_at_once(path: Path) -> None:
    async with opened(path, clock=None) as store:  # this machine's clock, as the other process has it
        await join(store, A)
        with program(NODE, path) as process:
            assert heard(process) == "joined"
            assert list(await store.runs.bury(A)) == []
            process.kill()
            process.wait()
            assert list(await store.runs.bury(A)) == ["theirs"]
            assert list(await store.runs.bury(A)) == []
        assert locks(path) == {A}


async def test_a_burial_frees_the_runs_of_the_dead_and_wakes_who_may_take_them(
    store: SQLiteStore, path: Path, clock: HandClock
) -> None:
    async with opened(path, clock=clock) as other:
        await join(other, B)
        run = await drive(other, "r1", B)
    bell = store.runs.subscribe()
    assert not (await store.runs.due([CHAT], limit=9)).runs
    assert list(await store.runs.bury(A)) == [B]
    async with asyncio.timeout(30):
        await bell.wait(30)
    bell.close()
    (due,) = (await store.runs.due([CHAT], limit=9)).runs
    assert due.id == run.id
    assert due.lease_until == await store.runs.now()


async def test_two_that_bury_at_once_report_the_dead_once(store: SQLiteStore, path: Path, clock: HandClock) -> None:
    async with opened(path, clock=clock) as other:
        await join(other, B)
    async with opened(path, clock=clock) as third:
        await join(third, "third")
        reports = await asyncio.gather(store.runs.bury(A), third.runs.bury("third"))
        assert sorted(map(list, reports)) == [[], [B]]


async def test_a_node_that_leaves_is_not_dead_but_gone(store: SQLiteStore, path: Path, clock: HandClock) -> None:
    async with opened(path, clock=clock) as other:
        await join(other, B)
        await other.runs.leave(B)
        assert locks(path) == {A}
        assert list(await store.runs.bury(A)) == []


async def test_a_burial_that_cannot_be_written_is_tried_again(
    store: SQLiteStore, path: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(path, clock=clock) as other:
        await join(other, B)
    monkeypatch.setattr("outlast.stores.sqlite.engine.BUSY_LIMIT", 0.0)
    with behind(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            await store.runs.bury(A)
    assert locks(path) == {A, B}
    assert list(await store.runs.bury(A)) == [B]


async def test_a_node_joins_twice_and_two_processes_are_not_one_node(
    store: SQLiteStore, path: Path, clock: HandClock
) -> None:
    await join(store, A)
    async with opened(path, clock=clock) as other:
        with pytest.raises(StoreBusy):
            await join(other, A)
        with pytest.raises(StoreBusy):
            await other.runs.join(A, ttl=TTL, workers=[])


# ---- proof by boot ----


@pytest.mark.behaviour("O3")
async def test_nodes_of_another_boot_are_dead_whatever_their_locks_say(path: Path) -> None:
    async with opened(path, clock=HandClock(boot="before")) as store:
        await store.runs.join("old", ttl=10_000.0, workers=[])
        await drive(store, "r1", "old")
    (path.with_name("x.db.nodes") / "old.lock").unlink()
    async with opened(path, clock=HandClock(boot="after")) as store:
        await join(store, A)
        assert list(await store.runs.bury(A)) == ["old"]
        assert [run.id for run in (await store.runs.due([CHAT], limit=9)).runs] == ["r1"]


async def test_two_that_bury_a_node_of_another_boot_report_it_once(path: Path) -> None:
    async with opened(path, clock=HandClock(boot="before")) as store:
        await store.runs.join("old", ttl=10_000.0, workers=[])
    async with opened(path, clock=HandClock(boot="after")) as one, opened(path, clock=HandClock(boot="after")) as two:
        reports = await asyncio.gather(one.runs.bury(A), two.runs.bury(B))
        assert sorted(map(list, reports)) == [[], ["old"]]


# ---- what ran out long ago ----


async def test_a_lease_that_ran_out_tells_its_cause_until_it_is_cleared_away(
    store: SQLiteStore, path: Path, clock: HandClock
) -> None:
    async with opened(path, clock=clock) as other:
        await join(other, B)
        run = await drive(other, "r1", B)
        renewer = other.renewer(B, ttl=TTL, workers=[])
        renewer.renew(stalled=True)
        renewer.close()
    clock.since += LONG_AGO - 1
    assert list(await store.runs.bury(A)) == []
    assert (await load(store, run)).cause is Cause.STALL
    clock.since += 1
    assert list(await store.runs.bury(A)) == []
    assert [node.id for node in await store.runs.nodes()] == [A]
    assert (await load(store, run)).cause is None
    assert locks(path) == {A}


async def test_a_burial_with_nobody_to_bury_writes_nothing(store: SQLiteStore) -> None:
    changes = ground(store).connection.total_changes
    assert list(await store.runs.bury(A)) == []
    assert list(await store.runs.bury("nobody")) == []
    assert ground(store).connection.total_changes == changes


async def test_in_memory_nothing_is_proved(clock: HandClock) -> None:
    async with opened(None, clock=clock) as store:
        await join(store, A, B)
        assert list(await store.runs.bury(A)) == []
        clock.since += LONG_AGO + TTL
        assert list(await store.runs.bury(A)) == []
        assert [node.id for node in await store.runs.nodes()] == [A]


@pytest.mark.behaviour("L13")
async def test_a_lease_that_cannot_be_read_stops_nobody_and_lapses(
    store: SQLiteStore, path: Path, clock: HandClock
) -> None:
    with behind(path) as connection:
        connection.execute("INSERT INTO nodes (id, boot_id, until, renewed_at) VALUES ('odd', 'x', 'soon', 1)")
    assert list(await store.runs.bury(A)) == []
    await drive(store)
    assert {node.id: node.until for node in await store.runs.nodes()}["odd"] == await store.runs.now() + UNREADABLE_FOR


@pytest.mark.parametrize("workers", ["not json", "7", b"\x00", None])
async def test_workers_that_cannot_be_read_are_not_known(store: SQLiteStore, path: Path, workers: object) -> None:
    with behind(path) as connection:
        connection.execute("UPDATE nodes SET workers = ?", (workers,))
    assert [node.workers for node in await store.runs.nodes()] == [None]
