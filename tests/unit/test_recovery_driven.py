"""Recovery driven to its end on the plan alone: any row has a plan, and every run its bound."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.recovery import HANDOFF_SPACING, Cancel, Claim, Exhaust, Leave, RecoveryPolicy, Wait, exhausted, plan
from outlast.run import Cause, Limit, RecoveryBudget, Run, Status, StopIntent

POLICY = RecoveryPolicy()
NOW = 1000.0
TICK = 0.001
ROUNDING = 1e-9
QUEUED = Run(owner="ann", id="r1", log="log1", worker="chat", input=b"{}", digest=b"d")

# ---- any row at all -------------------------------------------------------------------------

counts = st.integers(0, 300)
times = st.floats(0, 2000) | st.sampled_from([NOW - 300, NOW - TICK, NOW, NOW + TICK])
budgets = st.builds(
    RecoveryBudget,
    takeovers=counts,
    last_takeover_at=st.none() | times,
    life=counts,
    handoffs=counts,
    calls=counts,
    waits=counts,
    causes=st.lists(st.sampled_from(Cause), max_size=3).map(tuple),
)
runs = st.builds(
    Run,
    owner=st.text(max_size=3),
    id=st.text(max_size=3),
    log=st.just("log1"),
    worker=st.text(max_size=3),
    input=st.binary(max_size=3),
    digest=st.binary(max_size=3),
    status=st.sampled_from(Status),
    epoch=counts,
    claim=st.none() | st.just("c"),
    holder=st.none() | st.just("n"),
    lease_until=st.none() | times,
    cause=st.none() | st.sampled_from(Cause),
    budget=budgets,
    not_before=times,
    wake_at=st.none() | times,
    stop=st.none() | st.builds(StopIntent, at=times, reason=st.none() | st.text(max_size=3)),
)
jitters = st.floats(0, 1, exclude_max=True)


@given(runs, jitters)
def test_every_row_has_a_plan_that_only_ever_charges(run: Run, jitter: float) -> None:
    before = replace(run)
    match plan(run, POLICY, now=NOW, jitter=jitter):
        case Wait(until=until):
            assert until > NOW
        case Claim(budget=budget, not_before=not_before, cause=cause):
            assert not_before >= NOW
            assert (budget.calls, budget.waits) == (run.budget.calls, run.budget.waits)
            charged = budget.life + budget.handoffs - run.budget.life - run.budget.handoffs
            assert charged == (run.status is Status.ACTIVE)
            assert (cause is None) is (run.status is not Status.ACTIVE)
            assert budget.life <= max(POLICY.life, run.budget.life)
        case Exhaust():
            assert run.status is Status.ACTIVE
        case found:
            assert found == Leave() or (run.stop is not None and found == Cancel(reason=run.stop.reason))
    assert run == before


# ---- driven to its end ----------------------------------------------------------------------


@dataclass(frozen=True)
class Death:
    """What becomes of one controller: how long it lives after its call, and what it says of its end."""

    after: float
    cause: Cause | None = None


def drive(deaths: Iterator[Death], *, policy: RecoveryPolicy = POLICY, jitter: float = 0.0) -> tuple[Run, list[float]]:
    """Claim, call and die until the run is given up or nobody is left to die; return it and when it was called."""
    run, now, called = QUEUED, NOW, list[float]()
    while True:
        match plan(run, policy, now=now, jitter=jitter):
            case Wait(until=until):
                now = until
            case Claim(budget=budget, not_before=not_before):
                charged = replace(budget, calls=budget.calls + 1)
                run = replace(run, status=Status.ACTIVE, epoch=run.epoch + 1, budget=charged, not_before=not_before)
                called.append(now)
                death = next(deaths, None)
                if death is None:
                    return run, called
                now += death.after
                run = replace(run, cause=death.cause, updated_at=now)
            case Exhaust() as exhaust:
                return replace(run, status=Status.FAILED, outcome=exhausted(exhaust, run, policy)), called
            case found:
                raise AssertionError(found)


def limit_of(run: Run) -> Limit | None:
    return getattr(run.outcome, "limit", None)


@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
def test_a_run_that_dies_at_once_is_called_once_and_five_times_more_at_growing_gaps(jitter: float) -> None:
    run, called = drive(repeat(Death(after=0.0)), jitter=jitter)
    assert (len(called), limit_of(run)) == (1 + 5, Limit.WINDOW)
    gaps = [later - earlier for earlier, later in pairwise(called)]
    assert gaps[0] == 0.0
    assert all(gap >= 0.8 * 2.0**n - ROUNDING for n, gap in enumerate(gaps[1:]))


def test_a_controller_that_dies_after_every_window_is_bounded_by_the_life_of_its_run() -> None:
    run, called = drive(repeat(Death(after=POLICY.window + 1)))
    assert (len(called), limit_of(run)) == (1 + 20, Limit.LIFE)


def test_hand_offs_are_free_fifty_times_and_then_charged_until_the_run_is_given_up() -> None:
    run, called = drive(repeat(Death(after=0.0, cause=Cause.HANDOFF)))
    assert (len(called), limit_of(run)) == (1 + 50 + 5, Limit.WINDOW)
    gaps = [later - earlier for earlier, later in pairwise(called)]
    assert gaps[0] == 0.0
    assert min(gaps[1:51]) >= HANDOFF_SPACING - ROUNDING
    assert min(gaps[51:]) >= 0.8 - ROUNDING


deaths = st.builds(Death, after=st.floats(0, 700), cause=st.none() | st.sampled_from(Cause))


@given(st.lists(deaths, max_size=100), jitters)
def test_whatever_its_controllers_die_of_a_run_stays_within_its_printed_bounds(
    fates: Sequence[Death], jitter: float
) -> None:
    run, called = drive(chain(fates, repeat(Death(after=0.0))), jitter=jitter)
    assert len(called) <= POLICY.calls
    assert run.budget.life <= POLICY.life
    assert run.budget.handoffs <= POLICY.handoffs
    assert len(run.budget.causes) == run.budget.life
    assert limit_of(run) is not None
