"""What is due costs what there is to do, and a claim changes hands whole or not at all."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.errors import ClaimLost, Fenced
from outlast.recovery import WINDOW, Claim, Leave, RecoveryPolicy
from outlast.recovery import plan as plan_for
from outlast.run import Cause, Completed, RecoveryBudget, Run, Status
from outlast.stores.base import Charge, NewClaim
from outlast.stores.sqlite import SQLiteStore
from outlast.stores.sqlite.claims import FIND_DUE, FIND_NEXT_DUE
from outlast.stores.sqlite.statement import load as load_statement
from outlast.testing.contract.scene import ANN, CHAT, TTL, A, B, drive, join, load, new_claim, start, take, unchanged
from tests.disk import HandClock, ground, migrated, opened

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(clock: HandClock) -> AsyncIterator[SQLiteStore]:
    async with opened(None, clock=clock) as store:
        await join(store, A)
        yield store


# ---- the cost of looking ----


def plan(connection: sqlite3.Connection, statement: str, *values: object) -> list[str]:
    asked = {"workers": '["chat"]', "now": 1.0, "limit": 9, "owner": ANN, "status": "active"}
    asked |= {"created_at": 1.0, "number": 1, "held_back": "[]", "within": 300.0}
    rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values or asked)
    return [row["detail"] for row in rows]


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (FIND_DUE, "runs_unsettled"),
        (FIND_NEXT_DUE, "runs_unsettled"),
        (load_statement("list_runs"), "runs_of_owner"),
        (load_statement("list_runs_of_status"), "runs_of_status"),
        (load_statement("find_abort"), "outbox_due"),
    ],
)
def test_looking_goes_by_an_index_and_through_no_table(statement: str, index: str) -> None:
    with migrated() as connection:
        steps = plan(connection, statement)
    assert any(index in step for step in steps)
    assert not [step for step in steps if step.startswith("SCAN") and not step.endswith(("holders", "due", "INDEX 1:"))]


def test_the_first_due_run_is_found_without_sorting_those_behind_it() -> None:
    with migrated() as connection:
        steps = plan(connection, FIND_DUE)
    first, second = steps.index("LEFT"), steps.index("RIGHT")
    assert not [step for step in steps[first:second] if "TEMP B-TREE" in step]


async def steps(store: SQLiteStore, work: Callable[[], Awaitable[object]]) -> int:
    """Count the steps SQLite's machine takes for something."""
    taken = 0

    def step() -> int:
        nonlocal taken
        taken += 1
        return 0

    connection = ground(store).connection
    connection.set_progress_handler(step, 1)
    try:
        await work()
    finally:
        connection.set_progress_handler(None, 0)
    return taken


async def finish(store: SQLiteStore, runs: range) -> None:
    for number in runs:
        run = await drive(store, f"finished {number}")
        await store.runs.settle(run, run.token, Completed())


LOOKS: dict[str, Callable[[SQLiteStore], Awaitable[object]]] = {
    "due": lambda store: store.runs.due([CHAT], limit=9),
    "stops": lambda store: store.runs.stops(A),
    "list": lambda store: store.runs.list(ANN, status=Status.ACTIVE, before=None, limit=3),
    "aborts": lambda store: store.runs.take_aborts([CHAT], hold=1, limit=9),
    "nodes": lambda store: store.runs.nodes(),
    "bury": lambda store: store.runs.bury(A),
}


@pytest.mark.parametrize("look", LOOKS)
async def test_looking_costs_the_same_however_many_runs_are_finished(store: SQLiteStore, look: str) -> None:
    await finish(store, range(3))
    await start(store)
    await drive(store, "held")
    await store.runs.stop(ANN, "held", reason=None)
    before = await steps(store, lambda: LOOKS[look](store))
    await finish(store, range(3, 150))
    assert await steps(store, lambda: LOOKS[look](store)) == before


async def test_looking_for_what_is_due_does_not_look_at_runs_that_are_held(store: SQLiteStore) -> None:
    await drive(store, "held")
    before = await steps(store, lambda: store.runs.due([CHAT], limit=9))
    for number in range(100):
        await drive(store, f"held {number}")
    assert await steps(store, lambda: store.runs.due([CHAT], limit=9)) == before


async def test_the_first_page_of_a_long_queue_costs_what_a_page_costs(store: SQLiteStore) -> None:
    for number in range(20):
        await start(store, f"r{number}")
    before = await steps(store, lambda: store.runs.due([CHAT], limit=9))
    for number in range(20, 200):
        await start(store, f"r{number}")
    assert await steps(store, lambda: store.runs.due([CHAT], limit=9)) == before


# ---- when to look again ----


async def test_a_full_page_is_followed_by_the_next_at_once(store: SQLiteStore) -> None:
    for number in range(3):
        await start(store, f"r{number}")
    due = await store.runs.due([CHAT], limit=2)
    assert ([run.id for run in due.runs], due.next_at) == (["r0", "r1"], due.now)


async def test_the_next_time_is_a_run_s_own_but_not_before_its_holder_s_lease_ends(
    store: SQLiteStore, clock: HandClock
) -> None:
    now = await store.runs.now()
    await take(store, await start(store, "later"), A, not_before=now + TTL + 7)
    assert (await store.runs.due([CHAT], limit=9)).next_at == now + TTL + 7
    await take(store, await start(store, "sooner"), A, not_before=now + 1)
    assert (await store.runs.due([CHAT], limit=9)).next_at == now + TTL
    clock.since += TTL
    due = await store.runs.due([CHAT], limit=9)
    assert ([run.id for run in due.runs], due.next_at) == (["sooner"], now + TTL + 7)
    assert (await store.runs.due(["another worker"], limit=9)).next_at is None


async def test_of_several_lost_nodes_all_runs_are_due_in_their_order(store: SQLiteStore, clock: HandClock) -> None:
    now = await store.runs.now()
    nodes = ["n1", "n2", "n3"]
    await join(store, *nodes)
    for number, at in enumerate((3.0, 1.0, 2.0)):
        await take(store, await start(store, f"after {at:g}"), nodes[number], not_before=now + at)
    clock.since += TTL
    await start(store, "new")
    due = (await store.runs.due([CHAT], limit=9)).runs
    assert [run.id for run in due] == ["after 1", "after 2", "after 3", "new"]
    assert [run.id for run in (await store.runs.due([CHAT], limit=2)).runs] == ["after 1", "after 2"]


@pytest.mark.behaviour("B24")
@settings(max_examples=25)
@given(
    driven=st.sampled_from([1.0, WINDOW - 1, WINDOW, WINDOW + 1]),
    waited=st.sampled_from([0.0, 1.0, WINDOW - 1, WINDOW, WINDOW + 1]),
)
async def test_what_is_held_back_is_what_the_plan_takes_for_a_later_takeover(driven: float, waited: float) -> None:
    clock = HandClock()
    cases = [*product(["let go", "lapsed", "left", "held"], [True, False], [Cause.STORE, Cause.HANDOFF], [True, False])]
    async with opened(None, clock=clock) as store:
        runs: list[Run] = []
        for number, (loss, charged, cause, _) in enumerate(cases):
            await store.runs.join(f"n{number}", ttl=driven if loss == "lapsed" else 10 * WINDOW, workers=[CHAT])
            run = await start(store, f"r{number}")
            taken = RecoveryBudget(takeovers=1, life=1, last_takeover_at=await store.runs.now(), causes=(cause,))
            claim = new_claim(run, f"n{number}", budget=taken if charged else None)
            runs.append(await store.runs.claim(run, claim))
        clock.since += driven / 2
        for run, (*_, stopped) in zip(runs, cases, strict=True):
            if stopped:
                await store.runs.stop(run.owner, run.id, reason=None)
        clock.since += driven / 2
        for number, (loss, _, cause, _) in enumerate(cases):
            if loss == "let go":
                await store.runs.release(runs[number], runs[number].token, cause)
            elif loss == "left":
                await store.runs.leave(f"n{number}")
        clock.since += waited
        found = await store.runs.due([CHAT], limit=99, held_back=[CHAT], within=WINDOW)
        due = {run.id for run in found.runs}
        for run, case in zip(runs, cases, strict=True):
            loaded = await store.runs.load(run.owner, run.id)
            decision = plan_for(loaded.run, RecoveryPolicy(), now=loaded.now, jitter=0.5)
            match decision:
                case Claim(cause=cause, budget=budget) if cause is not Cause.HANDOFF:
                    assert (run.id in due) is (budget.takeovers == 1), case
                case _:
                    assert (run.id in due) is not isinstance(decision, Leave), case


# ---- claiming and charging ----


@pytest.mark.behaviour("B20")
async def test_a_claim_keeps_calls_that_were_charged_since_the_run_was_read(
    store: SQLiteStore, clock: HandClock
) -> None:
    zombie = await drive(store)
    clock.since += TTL
    await join(store, B)
    seen = await load(store, zombie)
    assert await store.runs.charge(zombie, zombie.token, number=1, limit=9) is Charge.GRANTED  # it is not fenced yet
    budget = replace(seen.budget, takeovers=1, life=1, last_takeover_at=await store.runs.now())
    claimed = await store.runs.claim(seen, new_claim(seen, B, budget=budget))
    assert claimed.budget == replace(budget, calls=1)
    with pytest.raises(Fenced):
        await store.runs.charge(zombie, zombie.token, number=2, limit=9)


async def test_a_call_out_of_its_turn_is_an_error_and_charges_nothing(store: SQLiteStore) -> None:
    run = await drive(store)
    await store.runs.charge(run, run.token, number=1, limit=9)
    await store.runs.charge(run, run.token, number=2, limit=9)
    async with unchanged(store):
        for number in (0, 1, 4):
            with pytest.raises(ValueError, match="cannot follow"):
                await store.runs.charge(run, run.token, number=number, limit=9)


async def test_a_settled_run_grants_no_call(store: SQLiteStore) -> None:
    run = await drive(store)
    await store.runs.settle(run, run.token, Completed())
    with pytest.raises(Fenced):
        await store.runs.charge(run, run.token, number=1, limit=9)


async def test_letting_go_after_the_outcome_changes_nothing(store: SQLiteStore) -> None:
    run = await drive(store)
    await store.runs.settle(run, run.token, Completed())
    async with unchanged(store):
        await store.runs.release(run, run.token, Cause.WORKER)


async def test_letting_go_twice_changes_nothing(store: SQLiteStore, clock: HandClock) -> None:
    run = await drive(store)
    await store.runs.release(run, run.token, Cause.WORKER)
    clock.since += 1
    async with unchanged(store):
        await store.runs.release(run, run.token, Cause.WORKER)


@pytest.mark.behaviour("H1", "B13")
async def test_a_lost_claim_writes_nothing_at_all(store: SQLiteStore) -> None:
    run = await drive(store)
    await join(store, B)
    changes = ground(store).connection.total_changes
    budget = RecoveryBudget(takeovers=1, life=1, last_takeover_at=0.0)
    with pytest.raises(ClaimLost):
        await store.runs.claim(run, NewClaim(claim="c", node=B, budget=budget, not_before=0.0))
    assert ground(store).connection.total_changes == changes


# ---- refusals ----


async def test_a_refusal_that_comes_after_the_claim_is_about_the_past(store: SQLiteStore) -> None:
    seen = await start(store)
    run = await take(store, seen, A)
    await store.runs.refuse(seen, retry_in=60)
    await store.runs.release(run, run.token, Cause.STORE)
    assert [due.id for due in (await store.runs.due([CHAT], limit=9)).runs] == ["r1"]


async def test_refusals_keep_their_first_time_and_are_forgotten_with_the_claim(
    store: SQLiteStore, clock: HandClock
) -> None:
    def refusals() -> list[tuple[float, ...]]:
        rows = ground(store).connection.execute("SELECT first, last, until FROM refusals").fetchall()
        return [tuple(row) for row in rows]

    run = await start(store)
    now = await store.runs.now()
    await store.runs.refuse(run, retry_in=30)
    clock.since += 30
    await store.runs.refuse(run, retry_in=30)
    assert refusals() == [(now, now + 30, now + 60)]
    clock.since += 30
    await join(store, A)
    claimed = await take(store, run, A)
    assert refusals() == []
    await store.runs.refuse(claimed, retry_in=30)
    await store.runs.settle(claimed, claimed.token, Completed())
    await store.runs.refuse(await load(store, run), retry_in=30)
    assert refusals() == []


async def test_a_refusal_of_no_run_is_told(store: SQLiteStore) -> None:
    with pytest.raises(Fenced):
        await store.runs.refuse(replace(await start(store), id="another"), retry_in=1)
