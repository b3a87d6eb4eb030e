"""The store's clock: a step of the wall clock changes nothing, a reboot goes on, processes of one boot agree."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.run import RecoveryBudget
from outlast.stores.base import NewClaim
from outlast.stores.sqlite import SQLiteStore
from outlast.stores.sqlite.clock import BootClock, StoreClock, WallClock, anchor, system_clock
from outlast.testing.contract.scene import CHAT, TTL, A, B, drive, join, load, say, start
from tests.disk import HandClock, behind, migrated, opened

pytestmark = pytest.mark.anyio

HOUR = 3600.0
WALL = 1_700_000_000.0
STEPS = [HOUR, -HOUR, -300.0]


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with migrated() as connection:
        yield connection


# ---- one boot ----


def test_a_new_file_begins_at_the_wall_clock(connection: sqlite3.Connection) -> None:
    clock = HandClock(since=50.0, wall=WALL)
    store_clock = anchor(connection, clock)
    assert store_clock.now() == WALL
    clock.since += 7
    assert store_clock.now() == WALL + 7


@pytest.mark.fault("X8")
@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_the_wall_clock_changes_nothing(connection: sqlite3.Connection, step: float) -> None:
    clock = HandClock(since=50.0, wall=WALL)
    store_clock = anchor(connection, clock)
    clock.at_the_wall += step
    clock.since += 1
    assert store_clock.now() == WALL + 1
    assert anchor(connection, clock).now() == WALL + 1  # nor for a process that starts after the step


@pytest.mark.behaviour("H19")
@pytest.mark.parametrize("skew", [HOUR, -HOUR])
def test_processes_of_one_boot_agree_whatever_their_wall_clocks_say(
    connection: sqlite3.Connection, skew: float
) -> None:
    first = anchor(connection, HandClock(wall=WALL))
    second = anchor(connection, HandClock(wall=WALL + skew))
    assert first.now() == second.now()


def test_the_one_anchor_is_written_once(connection: sqlite3.Connection) -> None:
    anchor(connection, HandClock())
    before = connection.total_changes
    anchor(connection, HandClock())
    assert connection.total_changes == before


# ---- another boot ----


@pytest.mark.behaviour("H19")
async def test_after_a_reboot_time_goes_on_from_the_wall_clock(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db", clock=HandClock(since=9000.0, wall=WALL)) as store:
        await start(store)
    async with opened(tmp_path / "x.db", clock=HandClock(boot="next", since=5.0, wall=WALL + 60)) as store:
        assert await store.runs.now() == WALL + 60


@pytest.mark.parametrize("what", ["start", "claim", "append", "renewal", "refusal", "stop"])
async def test_after_a_reboot_with_a_wrong_wall_clock_time_goes_on_from_the_newest_in_the_file(
    tmp_path: Path, what: str
) -> None:
    clock = HandClock(since=9000.0, wall=WALL)
    async with opened(tmp_path / "x.db", clock=clock) as store:
        newest = await happen(store, clock, what)
    async with opened(tmp_path / "x.db", clock=HandClock(boot="next", since=5.0, wall=WALL - HOUR)) as store:
        assert await store.runs.now() == newest


async def happen(store: SQLiteStore, clock: HandClock, what: str) -> float:
    """Let one thing happen last, ten seconds after everything it needs."""
    run = await start(store)
    await join(store, A)
    held = await drive(store, "r2")
    clock.since += 10
    match what:
        case "start":
            await start(store, "r3")
        case "claim":
            now = await store.runs.now()
            await store.runs.claim(run, NewClaim(claim="c", node=A, budget=RecoveryBudget(), not_before=now))
        case "append":
            await say(store, held, "last words")
        case "renewal":
            renewer = store.renewer(A, ttl=TTL, workers=[])
            renewer.renew(stalled=False)
            renewer.close()
        case "refusal":
            await store.runs.refuse(run, retry_in=30)
        case _:
            await store.runs.stop("ann", "unknown", reason=None)
    return await store.runs.now()


@pytest.mark.behaviour("H19")
@pytest.mark.fault("X8")
@pytest.mark.parametrize("step", STEPS)
async def test_leases_and_waits_are_as_long_as_ever_when_the_wall_clock_steps_in_between(
    tmp_path: Path, step: float
) -> None:
    clock = HandClock()
    async with opened(tmp_path / "x.db", clock=clock) as store, opened(tmp_path / "x.db", clock=clock) as other:
        await join(store, A)
        run = await drive(store)
        clock.since += TTL - 1
        clock.at_the_wall += step
        await join(other, B)
        assert not (await other.runs.due([CHAT], limit=9)).runs
        clock.since += 1
        assert [due.id for due in (await other.runs.due([CHAT], limit=9)).runs] == ["r1"]
        now = await other.runs.now()
        claim = NewClaim(claim="c", node=B, budget=RecoveryBudget(life=1, takeovers=1), not_before=now + 5)
        taken = await other.runs.claim(await load(other, run), claim)
        assert taken.not_before - now == 5


# ---- the machine's clocks ----


def test_this_machines_clock_is_the_best_it_has() -> None:
    clock = system_clock()
    assert isinstance(clock, BootClock if Path("/proc/sys/kernel/random/boot_id").exists() else WallClock)
    assert clock.boot_id() == system_clock().boot_id()
    before = clock.elapsed()
    assert before <= clock.elapsed() <= system_clock().elapsed()
    assert clock.wall() > WALL


def test_without_a_boot_clock_time_never_goes_back_within_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    walls = iter([WALL, WALL + 1, WALL - HOUR, WALL + 2])
    clock = WallClock()
    store_clock = StoreClock(clock, boot_id=clock.boot_id(), offset=0.0)
    monkeypatch.setattr("time.time", lambda: next(walls))
    assert [store_clock.now() for _ in range(4)] == [WALL, WALL + 1, WALL + 1, WALL + 2]


def test_a_wall_clock_is_its_own_anchor(connection: sqlite3.Connection) -> None:
    assert abs(anchor(connection, WallClock()).now() - WallClock().wall()) < HOUR
    assert abs(connection.execute("SELECT clock_offset FROM store").fetchone()[0]) < HOUR


def test_an_anchor_that_cannot_be_written_leaves_no_transaction_open(tmp_path: Path) -> None:
    with behind(tmp_path / "x.db") as connection, pytest.raises(sqlite3.OperationalError):
        anchor(connection, HandClock())
    with migrated() as connection:
        connection.execute("PRAGMA query_only = ON")
        with pytest.raises(sqlite3.OperationalError):
            anchor(connection, HandClock())
        assert not connection.in_transaction
