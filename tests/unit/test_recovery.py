"""Which runs are taken over, when, how often, and which policies are refused."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.errors import SettingsError
from outlast.recovery import (
    HANDOFF_SPACING,
    TRY_BASE,
    Cancel,
    Claim,
    Exhaust,
    Leave,
    Plan,
    RecoveryPolicy,
    Wait,
    exhausted,
    is_fresh,
    plan,
)
from outlast.run import Cause, FailureCode, Limit, RecoveryBudget, Run, Status, StopIntent

POLICY = RecoveryPolicy()
NOW = 1000.0
TICK = 0.001
QUEUED = Run(owner="ann", id="r1", log="log1", worker="chat", input=b"{}", digest=b"d")
ACTIVE = replace(QUEUED, status=Status.ACTIVE, epoch=1, claim="c1", holder="n", lease_until=NOW)
PARKED = replace(ACTIVE, status=Status.PARKED)
STOP = StopIntent(at=900.0, reason="enough")
SPENT = RecoveryBudget(takeovers=5, last_takeover_at=NOW - 1, life=5, causes=(Cause.CRASH,) * 5)


def ask(run: Run, *, policy: RecoveryPolicy = POLICY, now: float = NOW, jitter: float = 0.5) -> Plan:
    return plan(run, policy, now=now, jitter=jitter)


# ---- the policy -----------------------------------------------------------------------------

SIGNS = (
    "RecoveryPolicy: takeovers, handoffs and tries must be at least 0, calls at least 1, base and cap above 0 seconds."
)

REFUSED = [
    ({"takeovers": -1}, SIGNS),
    ({"handoffs": -1}, SIGNS),
    ({"tries": -1}, SIGNS),
    ({"calls": 0}, SIGNS),
    ({"base": 0.0}, SIGNS),
    ({"cap": 0.0}, SIGNS),
    (
        {"life": 4},
        (
            "RecoveryPolicy: life (4) is below takeovers (5), so the window's cap is never reached: "
            "raise life or lower takeovers."
        ),
    ),
    (
        {"calls": 5},
        "RecoveryPolicy: calls (5) must be above takeovers (5), or the calls run out before the takeovers do.",
    ),
    (
        {"window": 9.6},
        (
            "RecoveryPolicy: window (9.6 s) is not longer than the longest wait between takeovers (9.6 s), so every "
            "takeover opens a fresh window and the cap is never reached: raise window or lower cap."
        ),
    ),
    (
        {"window": 1.2, "takeovers": 2},
        (
            "RecoveryPolicy: window (1.2 s) is not longer than the longest wait between takeovers (1.2 s), so every "
            "takeover opens a fresh window and the cap is never reached: raise window or lower cap."
        ),
    ),
    (
        {"window": 0.0, "takeovers": 1},
        (
            "RecoveryPolicy: window (0 s) is not longer than the longest wait between takeovers (0 s), so every "
            "takeover opens a fresh window and the cap is never reached: raise window or lower cap."
        ),
    ),
]


@pytest.mark.behaviour("B23")
@pytest.mark.parametrize(("changes", "sentence"), REFUSED)
def test_a_policy_that_cannot_work_is_refused_with_what_to_change(changes: dict[str, int], sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        RecoveryPolicy(**changes)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    "changes",
    [
        {"takeovers": 0, "handoffs": 0, "tries": 0, "calls": 1, "life": 0},
        {"life": 5},
        {"calls": 6},
        {"window": 9.601},
        {"window": 0.001, "takeovers": 1},
        {"base": 0.001, "cap": 0.001},
    ],
)
def test_a_policy_on_the_edge_of_what_works_is_taken(changes: dict[str, int]) -> None:
    policy = RecoveryPolicy(**changes)
    assert all(getattr(policy, name) == value for name, value in changes.items())


def test_the_numbers_are_the_printed_ones() -> None:
    printed = RecoveryPolicy(takeovers=5, window=300.0, base=1.0, cap=60.0, life=20, handoffs=50, calls=64, tries=3)
    assert printed == POLICY
    assert (HANDOFF_SPACING, TRY_BASE) == (1.0, 1.0)


@pytest.mark.parametrize(("waits", "calls"), [(0, 64), (1, 65), (256, 320), (257, 320)])
def test_each_of_the_first_256_resolved_waits_allows_one_more_call(waits: int, calls: int) -> None:
    assert POLICY.call_limit(RecoveryBudget(waits=waits)) == calls


# ---- rule 1: left alone ---------------------------------------------------------------------


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED, Status.CANCELLED])
@pytest.mark.parametrize("stop", [None, STOP])
def test_a_terminal_run_is_left_alone(status: Status, stop: StopIntent | None) -> None:
    assert ask(replace(ACTIVE, status=status, stop=stop, budget=SPENT)) == Leave()


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.PARKED, Status.QUEUED])
@pytest.mark.parametrize("stop", [None, STOP])
def test_a_run_under_a_live_lease_is_left_alone(status: Status, stop: StopIntent | None) -> None:
    held = replace(ACTIVE, status=status, stop=stop, budget=SPENT, wake_at=0.0, lease_until=NOW + TICK)
    assert ask(held) == Leave()


@pytest.mark.parametrize("lease_until", [NOW, NOW - TICK, None])
def test_a_run_whose_lease_has_ended_or_is_gone_is_taken_over(lease_until: float | None) -> None:
    assert isinstance(ask(replace(ACTIVE, holder="n1", lease_until=lease_until)), Claim)


# ---- rule 2: a stop -------------------------------------------------------------------------


@pytest.mark.parametrize("run", [QUEUED, ACTIVE, PARKED], ids=lambda run: run.status)
def test_a_stop_cancels_a_run_that_nobody_holds_whatever_its_budget_and_times(run: Run) -> None:
    stopped = replace(run, stop=STOP, budget=replace(SPENT, calls=64), not_before=NOW + 60, wake_at=NOW + 60)
    assert ask(stopped) == Cancel(reason="enough")


# ---- the first claim, and waking ------------------------------------------------------------


def test_a_queued_run_is_claimed_free_of_charge() -> None:
    assert ask(QUEUED) == Claim(budget=RecoveryBudget(), not_before=NOW, cause=None)


@pytest.mark.parametrize(("not_before", "waits"), [(NOW - TICK, False), (NOW, False), (NOW + TICK, True)])
@pytest.mark.parametrize(
    "run", [QUEUED, ACTIVE, replace(ACTIVE, cause=Cause.HANDOFF)], ids=["queued", "takeover", "hand-off"]
)
def test_no_claim_comes_before_its_time(run: Run, not_before: float, waits: bool) -> None:
    found = ask(replace(run, not_before=not_before))
    assert found == Wait(until=not_before) if waits else isinstance(found, Claim)


@pytest.mark.parametrize(
    ("wake_at", "planned"),
    [
        (None, Leave()),
        (NOW + TICK, Wait(until=NOW + TICK)),
        (NOW, Claim(budget=SPENT, not_before=NOW)),
        (NOW - TICK, Claim(budget=SPENT, not_before=NOW)),
    ],
)
def test_waking_a_parked_run_at_its_time_is_free(wake_at: float | None, planned: Plan) -> None:
    assert ask(replace(PARKED, wake_at=wake_at, budget=SPENT, not_before=NOW + 60)) == planned


# ---- rules 3 and 4: takeovers ---------------------------------------------------------------


def test_the_first_takeover_is_immediate_and_charged() -> None:
    charged = RecoveryBudget(takeovers=1, last_takeover_at=NOW, life=1, causes=(Cause.STALL,), calls=1)
    found = ask(replace(ACTIVE, cause=Cause.STALL, budget=RecoveryBudget(calls=1)))
    assert found == Claim(budget=charged, not_before=NOW + 1.0, cause=Cause.STALL)


def test_a_controller_that_never_said_why_it_let_go_crashed() -> None:
    found = ask(ACTIVE)
    assert isinstance(found, Claim)
    assert (found.cause, found.budget.causes) == (Cause.CRASH, (Cause.CRASH,))


@pytest.mark.parametrize(
    ("used", "jitter", "pause"),
    [(0, 0.5, 1.0), (1, 0.5, 2.0), (2, 0.5, 4.0), (3, 0.5, 8.0), (4, 0.5, 16.0), (4, 0.0, 12.8), (4, 0.75, 17.6)],
)
def test_the_takeover_after_this_one_waits_twice_as_long(used: int, jitter: float, pause: float) -> None:
    budget = RecoveryBudget(takeovers=used, last_takeover_at=NOW - 1, life=used)
    found = ask(replace(ACTIVE, budget=budget), jitter=jitter)
    assert isinstance(found, Claim)
    assert found.not_before == pytest.approx(NOW + pause)
    assert (found.budget.takeovers, found.budget.life) == (used + 1, used + 1)


def test_a_pause_is_capped() -> None:
    policy = RecoveryPolicy(takeovers=9, cap=30.0)
    budget = RecoveryBudget(takeovers=8, last_takeover_at=NOW - 1, life=8)
    found = ask(replace(ACTIVE, budget=budget), policy=policy)
    assert isinstance(found, Claim)
    assert found.not_before == NOW + 30.0


@pytest.mark.behaviour("B11")
@pytest.mark.parametrize(("since", "fresh"), [(300.0 - TICK, False), (300.0, True), (300.0 + TICK, True)])
def test_a_takeover_a_window_after_the_last_opens_a_fresh_window(since: float, fresh: bool) -> None:
    budget = replace(SPENT, last_takeover_at=NOW - since)
    assert is_fresh(replace(ACTIVE, budget=budget), POLICY, now=NOW) is fresh
    found = ask(replace(ACTIVE, budget=budget, not_before=NOW - since + 19.2))
    if not fresh:
        assert found == Exhaust(limit=Limit.WINDOW, cause=Cause.CRASH)
        return
    assert isinstance(found, Claim)
    assert (found.budget.takeovers, found.budget.last_takeover_at, found.budget.life) == (1, NOW, 6)
    assert found.budget.causes == (Cause.CRASH,) * 6
    assert found.not_before == NOW + 1.0


@pytest.mark.behaviour("B11")
@pytest.mark.parametrize(
    ("left", "fresh"),
    [
        ({"lease_until": NOW - 800}, False),
        ({"lease_until": NOW - 701}, False),
        ({"lease_until": NOW - 700}, True),
        ({"lease_until": None}, True),
        ({"holder": None, "lease_until": None, "cause": Cause.WORKER, "updated_at": NOW - 701}, False),
        ({"holder": None, "lease_until": None, "cause": Cause.WORKER, "updated_at": NOW - 700}, True),
    ],
    ids=["lease", "lease just before", "lease just then", "unknown", "let go just before", "let go just then"],
)
def test_the_time_for_which_nobody_drove_a_run_opens_no_window(left: dict[str, Any], fresh: bool) -> None:
    run = replace(ACTIVE, budget=replace(SPENT, takeovers=2, last_takeover_at=NOW - 1000), **left)
    found = ask(run)
    assert isinstance(found, Claim)
    assert found.budget.takeovers == (1 if fresh else 3)


def test_a_budget_that_lost_its_time_reads_as_a_fresh_window_and_keeps_its_life() -> None:
    found = ask(replace(ACTIVE, budget=replace(SPENT, last_takeover_at=None)))
    assert isinstance(found, Claim)
    assert (found.budget.takeovers, found.budget.life) == (1, 6)


def test_a_policy_of_no_takeovers_never_takes_over() -> None:
    policy = RecoveryPolicy(takeovers=0, handoffs=0)
    assert ask(ACTIVE, policy=policy) == Exhaust(limit=Limit.WINDOW, cause=Cause.CRASH)
    assert isinstance(ask(QUEUED, policy=policy), Claim)


# ---- rule 5: for ever -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "limit"),
    [
        (RecoveryBudget(takeovers=4, last_takeover_at=NOW, life=4, calls=63), None),
        (RecoveryBudget(takeovers=5, last_takeover_at=NOW, life=5), Limit.WINDOW),
        (RecoveryBudget(takeovers=6, last_takeover_at=NOW, life=6), Limit.WINDOW),
        (RecoveryBudget(takeovers=1, last_takeover_at=0.0, life=19), None),
        (RecoveryBudget(takeovers=1, last_takeover_at=0.0, life=20), Limit.LIFE),
        (RecoveryBudget(takeovers=1, last_takeover_at=0.0, life=21), Limit.LIFE),
        (RecoveryBudget(calls=64), Limit.CALLS),
        (RecoveryBudget(calls=65), Limit.CALLS),
        (RecoveryBudget(calls=64, waits=1), None),
        (RecoveryBudget(calls=65, waits=1), Limit.CALLS),
        (RecoveryBudget(takeovers=5, last_takeover_at=NOW, life=20), Limit.LIFE),
        (RecoveryBudget(takeovers=5, last_takeover_at=NOW, life=20, calls=64), Limit.CALLS),
    ],
)
def test_a_spent_budget_exhausts_the_run_at_once(budget: RecoveryBudget, limit: Limit | None) -> None:
    found = ask(replace(ACTIVE, budget=budget, cause=Cause.WORKER, not_before=NOW + 60))
    assert found == (Wait(until=NOW + 60) if limit is None else Exhaust(limit=limit, cause=Cause.WORKER))


# ---- rule 6: hand-offs ----------------------------------------------------------------------


def test_a_hand_off_is_free_and_spaced() -> None:
    found = ask(replace(ACTIVE, cause=Cause.HANDOFF, budget=replace(SPENT, handoffs=49)))
    assert found == Claim(budget=replace(SPENT, handoffs=50), not_before=NOW + 1.0, cause=Cause.HANDOFF)


@pytest.mark.parametrize("handoffs", [50, 51])
def test_the_hand_off_after_the_last_free_one_is_charged_like_a_takeover(handoffs: int) -> None:
    found = ask(replace(ACTIVE, cause=Cause.HANDOFF, budget=RecoveryBudget(handoffs=handoffs)))
    assert isinstance(found, Claim)
    assert (found.budget.handoffs, found.budget.takeovers, found.budget.life) == (handoffs, 1, 1)
    assert found.budget.causes == (Cause.HANDOFF,)
    spent = ask(replace(ACTIVE, cause=Cause.HANDOFF, budget=replace(SPENT, handoffs=handoffs)))
    assert spent == Exhaust(limit=Limit.WINDOW, cause=Cause.HANDOFF)


def test_a_hand_off_does_not_open_a_fresh_window() -> None:
    found = ask(replace(ACTIVE, cause=Cause.HANDOFF, budget=SPENT))
    assert isinstance(found, Claim)
    assert found.budget.last_takeover_at == SPENT.last_takeover_at


def test_a_hand_off_is_bounded_by_the_calls_of_a_life() -> None:
    found = ask(replace(ACTIVE, cause=Cause.HANDOFF, budget=RecoveryBudget(calls=64)))
    assert found == Exhaust(limit=Limit.CALLS, cause=Cause.HANDOFF)


# ---- given up -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "spent"),
    [
        (Limit.WINDOW, "5 takeovers within 300 seconds"),
        (Limit.LIFE, "7 takeovers in its life"),
        (Limit.CALLS, "9 worker calls in its life"),
    ],
)
def test_an_exhausted_run_says_to_people_what_was_spent_and_why(limit: Limit, spent: str) -> None:
    budget = RecoveryBudget(takeovers=5, life=7, calls=9, causes=(Cause.STORE,))
    failed = exhausted(Exhaust(limit=limit, cause=Cause.WORKER), replace(ACTIVE, budget=budget), POLICY)
    assert failed.code is FailureCode.RECOVERY_EXHAUSTED
    assert failed.message == f"The run was given up after {spent}; everything it said so far is kept."
    assert (failed.limit, failed.causes) == (limit, (Cause.STORE, Cause.WORKER))
