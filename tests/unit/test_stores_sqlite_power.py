"""`durability="power"`: no answer and no sight of anything before a sync that began after it is over."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from outlast.errors import StoreUnavailable
from outlast.log.cursor import Cursor
from outlast.stores.sqlite import SQLiteStore
from outlast.stores.sqlite.power import PowerSync, mark
from outlast.testing.contract.scene import A, drive, events, join, say, start
from tests.disk import HandClock, behind, ground, opened

pytestmark = pytest.mark.anyio

WITHIN = 30.0  # real seconds for something that happens at once


class Disk:
    """A disk that takes as long for a sync as it is told to: a sync ends when it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.trouble: OSError | None = None
        self.gate = threading.Semaphore(0)
        self.free = True

    def sync(self, descriptor: int) -> None:
        self.begun += 1
        if not self.free:
            assert self.gate.acquire(timeout=WITHIN)
        if self.trouble is not None:
            raise self.trouble
        os.fsync(descriptor)

    def hold(self) -> None:
        self.free = False

    def let_go(self) -> None:
        self.gate.release()


async def until(true: Callable[[], bool]) -> None:
    """Let the loop and other threads go on until something is true."""
    async with asyncio.timeout(WITHIN):
        while not true():
            await asyncio.to_thread(lambda: None)


async def turns() -> None:
    """Give everything that is ready on the loop its turn, several times over."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr("outlast.stores.sqlite.power.sync_data", disk.sync)
    return disk


@pytest.fixture
async def store(disk: Disk, tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    async with opened(tmp_path / "x.db", clock=HandClock(), durability="power") as store:
        yield store
        disk.free = True
        for _ in range(9):
            disk.let_go()


@pytest.fixture
async def other(store: SQLiteStore, tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    """Another process, which answers without waiting for the disk."""
    async with opened(tmp_path / "x.db", clock=HandClock()) as other:
        yield other


# ---- answers ----


async def test_an_append_is_answered_when_the_disk_has_it(store: SQLiteStore, disk: Disk) -> None:
    await join(store, A)
    run = await drive(store)
    disk.hold()
    before = disk.begun
    append = asyncio.create_task(say(store, run, "a"))
    await until(lambda: disk.begun == before + 1)
    await turns()
    assert not append.done()
    disk.let_go()
    assert (await append).seq == 1


async def test_what_comes_while_a_sync_is_in_flight_shares_the_next(store: SQLiteStore, disk: Disk) -> None:
    await join(store, A)
    runs = [await drive(store, f"r{number}") for number in range(20)]
    heads = [await store.logs.head(run.log) for run in runs]
    disk.hold()
    before = disk.begun

    async def append(number: int) -> Cursor:
        run = runs[number]
        return await store.logs.append(run.log, run.token, heads[number].cursor, [])

    appends = [asyncio.create_task(append(0))]
    await until(lambda: disk.begun == before + 1)  # the sync began before there was more to cover
    for number in range(1, 20):
        appends.append(asyncio.create_task(append(number)))
        await turns()  # each a commit of its own
    disk.let_go()
    await appends[0]
    await until(lambda: disk.begun == before + 2)
    assert sum(append.done() for append in appends) == 1
    disk.let_go()
    await asyncio.gather(*appends)
    assert disk.begun == before + 2


async def test_an_answer_that_wrote_nothing_waits_for_what_it_tells(store: SQLiteStore, disk: Disk) -> None:
    disk.hold()
    first = asyncio.create_task(start(store))
    await until(lambda: disk.begun > 0)
    again = asyncio.create_task(start(store))  # it is there already, but not yet for ever
    await turns()
    assert not again.done()
    disk.let_go()
    assert (await first, (await again).id) == (await again, "r1")
    assert disk.begun == 1  # the sync in flight has all that the second answer tells


async def test_a_wake_up_comes_when_there_is_something_to_see(store: SQLiteStore, disk: Disk) -> None:
    await join(store, A)
    run = await drive(store)
    subscription = store.logs.subscribe(run.log)
    disk.hold()
    before = disk.begun
    append = asyncio.create_task(say(store, run, "a"))
    await until(lambda: disk.begun > before)
    waiting = asyncio.create_task(subscription.wait(WITHIN))
    await turns()
    assert not waiting.done()
    disk.let_go()
    await asyncio.gather(waiting, append)
    subscription.close()


# ---- sights ----


@pytest.mark.behaviour("F2")
@pytest.mark.invariant("durable-before-visible")
async def test_nobody_reads_an_event_before_the_disk_has_it(store: SQLiteStore, disk: Disk) -> None:
    await join(store, A)
    run = await drive(store)
    disk.hold()
    before = disk.begun
    append = asyncio.create_task(say(store, run, "a"))
    await until(lambda: disk.begun == before + 1)
    reading = asyncio.create_task(events(store, run))
    await turns()
    assert not reading.done()
    disk.let_go()
    await append
    assert len(await reading) == 1


@pytest.mark.behaviour("F2")
async def test_an_event_of_another_process_is_read_after_a_sync_of_our_own(
    store: SQLiteStore, other: SQLiteStore, disk: Disk
) -> None:
    await join(other, A)
    run = await drive(other)
    await say(other, run, "a")
    assert len(await events(store, run)) == 1
    await say(other, run, "b")  # answered by the other process, which promises less
    disk.hold()
    before = disk.begun
    reading = asyncio.create_task(events(store, run))
    await until(lambda: disk.begun == before + 1)
    await turns()
    assert not reading.done()
    disk.let_go()
    assert len(await reading) == 2


async def test_what_a_sync_has_covered_is_read_without_another(store: SQLiteStore, disk: Disk) -> None:
    await join(store, A)
    run = await drive(store)
    await say(store, run, "a")
    before = disk.begun
    for _ in range(5):
        await events(store, run)
        await store.runs.load(run.owner, run.id)
    assert disk.begun == before


async def test_a_sync_that_began_before_a_commit_does_not_cover_it(tmp_path: Path, disk: Disk) -> None:
    async with opened(tmp_path / "x.db") as store:
        sync = PowerSync(tmp_path / "x.db", partial(mark, ground(store).connection), sync=disk.sync)
        disk.hold()
        first = sync.cover()
        await until(lambda: disk.begun == 1)
        await start(store)
        second = sync.cover()
        disk.let_go()
        await first
        await until(lambda: disk.begun == 2)
        await turns()
        assert not second.done()
        disk.let_go()
        await second
        await sync.cover()
        assert disk.begun == 2
        await sync.close()


async def test_what_was_committed_during_a_sync_is_not_covered_when_it_ends(tmp_path: Path, disk: Disk) -> None:
    async with opened(tmp_path / "x.db") as store:
        sync = PowerSync(tmp_path / "x.db", partial(mark, ground(store).connection), sync=disk.sync)
        disk.hold()
        first = sync.cover()
        await until(lambda: disk.begun == 1)
        await start(store)
        disk.let_go()
        await first
        disk.free = True
        await sync.cover()
        assert disk.begun == 2
        await sync.close()


async def test_a_checkpoint_in_between_changes_nothing(store: SQLiteStore, tmp_path: Path) -> None:
    await join(store, A)
    run = await drive(store)
    for word in ("a", "b", "c"):
        await say(store, run, word)
        with behind(tmp_path / "x.db") as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert len(await events(store, run)) == 3


# ---- trouble ----


async def test_after_a_failed_sync_nothing_is_promised_any_more(store: SQLiteStore, disk: Disk) -> None:
    run = await start(store)
    disk.trouble = OSError("the disk is gone")
    with pytest.raises(StoreUnavailable, match="open the store again"):
        await start(store, "r2")
    disk.trouble = None  # the system has dropped what it could not write: the next sync would succeed
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await store.runs.load(run.owner, run.id)
        with pytest.raises(StoreUnavailable):
            await start(store, "r3")


async def test_everyone_who_waited_for_a_failed_sync_is_told(store: SQLiteStore, disk: Disk) -> None:
    disk.hold()
    starts = [asyncio.create_task(start(store, f"r{number}")) for number in range(3)]
    await until(lambda: disk.begun > 0)
    later = asyncio.create_task(start(store, "late"))
    await turns()
    disk.trouble = OSError("the disk is gone")
    disk.let_go()
    results = await asyncio.gather(*starts, later, return_exceptions=True)
    assert {type(result) for result in results} == {StoreUnavailable}


async def test_a_caller_that_goes_away_takes_nobody_with_it(store: SQLiteStore, disk: Disk) -> None:
    disk.hold()
    gone, stays = asyncio.create_task(start(store)), asyncio.create_task(start(store, "r2"))
    await until(lambda: disk.begun > 0)
    reading = asyncio.create_task(store.runs.load("ann", "r1"))
    await turns()
    gone.cancel()
    reading.cancel()
    await turns()
    disk.free = True
    disk.let_go()
    assert (await stays).id == "r2"
    assert (await store.runs.load("ann", "r1")).run.id == "r1"  # cancelled was unknown, and it had happened


async def test_closing_waits_for_the_sync_in_flight(tmp_path: Path, disk: Disk) -> None:
    async with opened(tmp_path / "x.db", durability="power") as store:
        disk.hold()
        started = asyncio.create_task(start(store))
        await until(lambda: disk.begun > 0)
        closing = asyncio.create_task(store.close())
        await turns()
        assert not closing.done()
        disk.let_go()
        await closing
        assert started.done()
        assert (await started).id == "r1"


async def test_a_wal_that_cannot_be_opened_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("outlast.stores.sqlite.store.PowerSync", refuse)
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        async with opened(tmp_path / "x.db", durability="power"):
            pass
