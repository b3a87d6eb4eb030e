"""Rows and the values they are: everything comes back as it was, and what cannot be read is never guessed lower."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from outlast.errors import RunNotFound, StoreCorrupt
from outlast.recovery import RecoveryPolicy, is_fresh
from outlast.run import (
    Cancelled,
    Cause,
    Completed,
    Failed,
    FailureCode,
    Limit,
    Outcome,
    RecoveryBudget,
    Run,
)
from outlast.stores.base import NewClaim
from outlast.stores.sqlite import SQLiteStore
from outlast.stores.sqlite.rows import causes_column, outcome_columns
from outlast.testing.contract.scene import A, B, drive, join, load, start
from tests.disk import HandClock, behind, opened

pytestmark = pytest.mark.anyio

SPENT = RecoveryBudget(
    takeovers=3, last_takeover_at=5.5, life=4, handoffs=2, calls=7, waits=1, causes=(Cause.CRASH, Cause.MEMORY)
)


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


async def claim(store: SQLiteStore, budget: RecoveryBudget) -> Run:
    return await store.runs.claim(await start(store), NewClaim(claim="c", node=A, budget=budget, not_before=0.0))


def damage(path: Path, change: str, *values: Any) -> None:
    """Write what no constraint would let through, as a failing disk does."""
    with behind(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for trigger in ("run_counters_rise", "runs_move_by_the_table", "settled_runs_stay"):
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute(f"UPDATE runs SET {change}", values)


# ---- there and back ----


@pytest.mark.parametrize(
    "outcome",
    [
        Completed(),
        Completed(result=b'{"answer":42}'),
        Cancelled(),
        Cancelled(reason=""),
        Cancelled(reason='it\'s "enough"\0\n\u2028 \N{SMILING FACE WITH SUNGLASSES}'),
        Failed(code=FailureCode.LOG_FULL, message="m"),
        Failed(code=FailureCode.RECOVERY_EXHAUSTED, message="", limit=Limit.LIFE, causes=tuple(Cause)),
    ],
    ids=repr,
)
async def test_an_outcome_comes_back_as_it_was(store: SQLiteStore, outcome: Outcome) -> None:
    run = await drive(store)
    assert (await store.runs.settle(run, run.token, outcome)).outcome == outcome
    assert (await load(store, run)).outcome == outcome


async def test_a_reason_that_is_half_a_character_survives_in_an_outcome(store: SQLiteStore) -> None:
    run = await drive(store)
    settled = await store.runs.settle(run, run.token, Cancelled(reason="\ud83d"))
    assert settled.outcome == Cancelled(reason="\ud83d")


async def test_a_budget_comes_back_as_it_was(store: SQLiteStore) -> None:
    run = await claim(store, SPENT)
    assert run.budget == SPENT
    assert (await load(store, run)).budget == SPENT


def test_what_is_written_needs_nothing_but_ascii() -> None:
    assert causes_column((Cause.CRASH, Cause.HANDOFF)) == '["crash", "handoff"]'
    assert outcome_columns(Cancelled(reason="ü\ud83d")) == ('{"reason": "\\u00fc\\ud83d"}', None)


# ---- what cannot be read ----


@pytest.mark.behaviour("B12")
@pytest.mark.parametrize(
    "change",
    [
        "takeovers = NULL",
        "takeovers = 'three'",
        "takeovers = -3",
        "takeovers = 2.5",
        "last_takeover_at = NULL",
        "last_takeover_at = 'yesterday'",
        "causes = NULL",
        "causes = '[\"crash\"'",
        "causes = '[\"witchcraft\"]'",
        "causes = '7'",
        "causes = x'00'",
    ],
)
async def test_a_window_that_cannot_be_read_is_a_fresh_one(store: SQLiteStore, path: Path, change: str) -> None:
    run = await claim(store, SPENT)
    damage(path, change)
    loaded = await load(store, run)
    found = loaded.budget
    assert (found.takeovers, found.last_takeover_at) == (0, None)
    assert is_fresh(loaded, RecoveryPolicy(), now=6.0)
    assert (found.life, found.handoffs, found.calls, found.waits) == (4, 2, 7, 1)
    assert found.causes in {SPENT.causes, ()}


@pytest.mark.behaviour("B12")
@pytest.mark.parametrize("counter", ["life", "handoffs", "calls", "waits", "epoch"])
@pytest.mark.parametrize("value", [-1, "four", 4.5, b"\x04"])
async def test_a_count_for_life_that_cannot_be_read_is_not_guessed(
    store: SQLiteStore, path: Path, counter: str, value: object
) -> None:
    run = await claim(store, SPENT)
    damage(path, f"{counter} = ?", value)
    with pytest.raises(StoreCorrupt, match=counter):
        await load(store, run)


@pytest.mark.parametrize(
    "change",
    [
        "status = 'dreaming'",
        "cause = 'witchcraft'",
        'status = \'failed\', settled_at = 1.0, outcome = \'{"code": "bad_luck", "message": ""}\'',
        "status = 'failed', settled_at = 1.0, outcome = '{}'",
        "status = 'failed', settled_at = 1.0, outcome = 'not JSON'",
        "status = 'cancelled', settled_at = 1.0, outcome = '[]'",
    ],
)
async def test_any_other_row_that_cannot_be_read_is_reported(store: SQLiteStore, path: Path, change: str) -> None:
    run = await claim(store, SPENT)
    damage(path, change)
    with pytest.raises(StoreCorrupt):
        await load(store, run)


# ---- why the last controller let go ----


async def test_a_run_left_by_a_stalled_node_was_left_for_that_cause(store: SQLiteStore, clock: HandClock) -> None:
    run = await drive(store)
    renewer = store.renewer(A, ttl=15, workers=[])
    renewer.renew(stalled=True)
    assert (await load(store, run)).cause is Cause.STALL
    (due,) = (await store.runs.due(["chat"], limit=9)).runs
    assert due.cause is Cause.STALL
    renewer.renew(stalled=False)  # it moves again, and holds it still
    assert (await load(store, run)).cause is None
    renewer.close()


async def test_a_cause_that_was_told_wins_over_one_that_is_guessed(store: SQLiteStore, path: Path) -> None:
    run = await drive(store)
    renewer = store.renewer(A, ttl=15, workers=[])
    renewer.renew(stalled=True)
    renewer.close()
    with behind(path) as connection:
        connection.execute("UPDATE runs SET cause = 'memory'")
    assert (await load(store, run)).cause is Cause.MEMORY


async def test_a_node_whose_lease_is_live_has_not_let_go(store: SQLiteStore, path: Path) -> None:
    run = await drive(store)
    with behind(path) as connection:
        connection.execute("UPDATE nodes SET stalled = 1")
    assert (await load(store, run)).cause is None


async def test_a_claim_clears_the_cause_whatever_became_of_the_node(store: SQLiteStore) -> None:
    run = await drive(store)
    renewer = store.renewer(A, ttl=15, workers=[])
    renewer.renew(stalled=True)
    renewer.close()
    await join(store, B)
    found = await load(store, run)
    claimed = await store.runs.claim(found, NewClaim(claim="d", node=B, budget=found.budget, not_before=0.0))
    assert claimed.cause is None


async def test_a_run_that_is_not_there_is_not_found(store: SQLiteStore) -> None:
    with pytest.raises(RunNotFound):
        await store.runs.load("ann", "nothing")
