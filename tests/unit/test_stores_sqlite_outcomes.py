"""An outcome is one transaction: row, terminal event, seal and abort together, or none of them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outlast.errors import ClaimLost, Fenced, InputInvalid, StoreCorrupt
from outlast.run import Cancelled, Cause, Completed, Failed, FailureCode, Outcome, Status, StopIntent, Token
from outlast.stores.base import StopAnswer
from outlast.stores.sqlite import SQLiteStore
from outlast.testing.contract.scene import ANN, CHAT, TTL, A, B, drive, join, load, said, say, start, take, unchanged
from tests.disk import HandClock, behind, ground, opened

pytestmark = pytest.mark.anyio

FAILED = Failed(code=FailureCode.WORKER_ERROR, message="m")


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


async def aborts(store: SQLiteStore) -> list[str]:
    return [abort.run.id for abort in await store.runs.take_aborts([CHAT], hold=1, limit=9)]


# ---- all or nothing ----


@pytest.mark.behaviour("L3", "B22")
@pytest.mark.parametrize("obstacle", ["events", "logs", "outbox", "refusals"])
async def test_an_outcome_that_cannot_be_written_whole_is_not_written(
    store: SQLiteStore, path: Path, obstacle: str
) -> None:
    run = await drive(store)
    await say(store, run, "a")
    await store.runs.refuse(run, retry_in=1)
    with behind(path) as connection:
        what = "UPDATE" if obstacle == "logs" else "DELETE" if obstacle == "refusals" else "INSERT"
        connection.execute(
            f"CREATE TRIGGER obstacle BEFORE {what} ON {obstacle} BEGIN SELECT raise(ABORT, 'in the way'); END"
        )
    async with unchanged(store):
        with pytest.raises(StoreCorrupt):
            await store.runs.settle(run, run.token, FAILED)
    with behind(path) as connection:
        connection.execute("DROP TRIGGER obstacle")
    await store.runs.settle(run, run.token, FAILED)
    assert await said(store, run) == ["a", "run.failed"]
    assert await aborts(store) == ["r1"]


async def test_an_outcome_that_makes_no_event_is_refused_whole(store: SQLiteStore) -> None:
    run = await drive(store)
    async with unchanged(store):
        with pytest.raises(InputInvalid):
            await store.runs.settle(run, run.token, Completed(result=b"not JSON"))


async def test_a_move_that_the_table_does_not_have_is_refused_whole(store: SQLiteStore) -> None:
    run = await start(store)
    async with unchanged(store):
        with pytest.raises(ValueError, match="queued run cannot complete"):
            await store.runs.settle_unheld(run, Completed(), claim="c")


@pytest.mark.behaviour("H15", "H22")
async def test_a_log_that_was_told_of_another_claim_keeps_the_row_from_settling(store: SQLiteStore) -> None:
    run = await drive(store)
    await store.logs.fence(run.log, Token(epoch=run.epoch + 1, claim="another"))
    async with unchanged(store):
        with pytest.raises(Fenced):
            await store.runs.settle(run, run.token, Completed())


async def test_without_a_controller_the_seal_keeps_a_fence_that_is_higher(store: SQLiteStore) -> None:
    run = await start(store)
    await store.logs.fence(run.log, Token(epoch=9, claim="from the future"))
    settled = await store.runs.settle_unheld(run, FAILED, claim="c")
    assert settled.epoch == 1
    assert (await store.logs.head(run.log)).sealed


# ---- stops ----


@pytest.mark.behaviour("S5")
@pytest.mark.parametrize("outcome", [FAILED, Cancelled(reason=None), Cancelled(reason="another")])
async def test_a_stop_s_reason_is_the_outcome_s(store: SQLiteStore, outcome: Outcome) -> None:
    run = await drive(store)
    await store.runs.stop(ANN, "r1", reason="enough")
    settled = await store.runs.settle(run, run.token, outcome)
    assert settled.outcome == Cancelled(reason="enough")
    assert await said(store, run) == ["run.cancelled"]


@pytest.mark.behaviour("H14")
async def test_a_completed_run_beats_a_late_stop_and_keeps_it_on_the_row(store: SQLiteStore) -> None:
    run = await drive(store)
    await store.runs.stop(ANN, "r1", reason="enough")
    settled = await store.runs.settle(run, run.token, Completed())
    assert settled.status is Status.COMPLETED
    assert settled.stop is not None
    assert await aborts(store) == []


@pytest.mark.behaviour("S6")
async def test_a_run_that_nobody_drives_any_more_ends_with_the_stop_it_was_given_before(
    store: SQLiteStore, clock: HandClock
) -> None:
    await drive(store)
    await store.runs.stop(ANN, "r1", reason="the first")
    clock.since += TTL
    stopped = await store.runs.stop(ANN, "r1", reason="the second")
    assert stopped.answer is StopAnswer.SETTLED
    assert stopped.run is not None
    assert stopped.run.outcome == Cancelled(reason="the first")
    assert await aborts(store) == ["r1"]


async def test_a_stop_that_settles_is_a_fact_on_the_row_too(store: SQLiteStore) -> None:
    await start(store)
    stopped = await store.runs.stop(ANN, "r1", reason="enough")
    assert stopped.run is not None
    assert stopped.run.stop == StopIntent(at=await store.runs.now(), reason="enough")


async def test_no_two_stops_settle_with_one_claim_id(store: SQLiteStore) -> None:
    claims = set()
    for id in ("r1", "r2"):
        await start(store, id)
        stopped = await store.runs.stop(ANN, id, reason=None)
        assert stopped.run is not None
        claims.add(stopped.run.claim)
    assert len(claims) == 2


# ---- races with a takeover ----


async def test_a_run_that_is_held_again_is_not_settled_as_it_was_read(store: SQLiteStore, clock: HandClock) -> None:
    run = await drive(store)
    await store.runs.release(run, run.token, Cause.STORE)
    seen = await load(store, run)
    await join(store, B)
    await take(store, seen, B)
    async with unchanged(store):
        with pytest.raises(ClaimLost):
            await store.runs.settle_unheld(seen, FAILED, claim="c")


async def test_settling_wakes_nobody_when_it_changes_nothing(store: SQLiteStore) -> None:
    run = await drive(store)
    await store.runs.settle(run, run.token, Completed())
    changes = ground(store).connection.total_changes
    await store.runs.settle(run, run.token, Completed())
    with pytest.raises(ClaimLost):
        await store.runs.settle_unheld(run, FAILED, claim="c")
    await store.runs.stop(ANN, "r1", reason=None)
    assert ground(store).connection.total_changes == changes
