"""The promises about what a run may cost, each with histories that break it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from outlast.recovery import RecoveryPolicy
from outlast.run import RecoveryBudget, Run, Status
from outlast.stores.base import Charge
from outlast.testing.history import History
from outlast.testing.invariants import budget
from outlast.testing.observation import CallBegan, CallEnded, Charged, Claimed, RowSeen
from tests.chronicle import STOPPED, TAKEN_OVER, edit, log_of, place, repeat, sentences


def spent(row: Run, **spending: Any) -> Run:
    return replace(row, budget=replace(row.budget, **spending))


# ---- calls --------------------------------------------------------------------------------------


def unpaid(history: History) -> None:
    del history.observations[place(history, Charged)]


def paid_by_another(history: History) -> None:
    repeat(history, Charged, lambda each: replace(each, token=replace(each.token, epoch=9)))


def called_twice(history: History) -> None:
    repeat(history, CallBegan)


def refused(history: History) -> None:
    edit(history, Charged, lambda each: replace(each, charge=Charge.SPENT))


@pytest.mark.invariant("charge-before-work")
@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        (unpaid, "had not paid for"),
        (refused, "had not paid for"),
        (called_twice, "had not paid for"),
        (paid_by_another, "charged by two claims"),
    ],
)
def test_a_call_that_was_not_paid_for_is_found(breaks: Callable[[History], None], said: str) -> None:
    (sentence,) = sentences(budget.charge_before_work, breaks)
    assert said in sentence


def test_a_charge_that_was_repeated_pays_for_one_call() -> None:
    assert not sentences(budget.charge_before_work, lambda history: repeat(history, Charged))

    def called_twice_for_it(history: History) -> None:
        repeat(history, Charged)
        repeat(history, CallBegan)

    assert len(sentences(budget.charge_before_work, called_twice_for_it)) == 1


def more_than_counted(history: History) -> None:
    log = log_of(history, STOPPED)
    history.rows[log] = spent(history.rows[log], calls=0)


def more_than_allowed(history: History) -> None:
    history.policy = RecoveryPolicy(takeovers=1, calls=2)


def too_many_in_a_window(history: History) -> None:
    edit(history, RowSeen, lambda each: replace(each, row=spent(each.row, takeovers=6)))


def too_many_in_a_life(history: History) -> None:
    edit(history, RowSeen, lambda each: replace(each, row=spent(each.row, life=21)))


@pytest.mark.invariant("bounded-calls")
@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        (more_than_counted, "times and counted 0"),
        (more_than_allowed, "has used 3 calls of 2"),
        (too_many_in_a_window, "6 times in a window"),
        (too_many_in_a_life, "21 in its life"),
    ],
)
def test_more_than_a_run_may_cost_is_found(breaks: Callable[[History], None], said: str) -> None:
    assert any(said in sentence for sentence in sentences(budget.bounded_calls, breaks))


def outlived(history: History) -> None:
    def is_stopped(each: CallEnded) -> bool:
        return each.run == STOPPED

    edit(history, CallEnded, lambda each: replace(each, at=each.at + 5.1), where=is_stopped, which=-1)


def never_ended(history: History) -> None:
    del history.observations[place(history, CallEnded, where=lambda each: each.run == STOPPED, which=-1)]
    history.note(replace(history.observations[0], at=10_000.0))


@pytest.mark.parametrize("breaks", [outlived, never_ended])
def test_a_call_that_outlives_its_run_is_found_unless_it_is_deaf(breaks: Callable[[History], None]) -> None:
    (sentence,) = sentences(budget.calls_end_with_their_run, breaks)
    assert f"of run {STOPPED} was alive" in sentence


def test_a_deaf_call_may_outlive_its_run() -> None:
    def deaf(history: History) -> None:
        edit(history, CallEnded, lambda each: replace(each, at=each.at + 100, deaf=True))

    assert not sentences(budget.calls_end_with_their_run, deaf)


# ---- takeovers ----------------------------------------------------------------------------------


def is_takeover(each: Claimed) -> bool:
    return each.before.status is Status.ACTIVE


def free_takeover(history: History) -> None:
    edit(history, Claimed, lambda each: replace(each, after=spent(each.after, life=0)), where=is_takeover)


def charged_first_claim(history: History) -> None:
    edit(history, Claimed, lambda each: replace(each, after=spent(each.after, handoffs=1)))


def charged_without_a_claim(history: History) -> None:
    def is_called(each: RowSeen) -> bool:
        return each.row.budget.calls == 1

    edit(history, RowSeen, lambda each: replace(each, row=spent(each.row, takeovers=1)), where=is_called)


def forgotten_cause(history: History) -> None:
    def is_taken_over(each: RowSeen) -> bool:
        return each.row.budget.life == 1

    edit(history, RowSeen, lambda each: replace(each, row=spent(each.row, causes=())), where=is_taken_over)


@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        (free_takeover, "a claim of the active run"),
        (charged_first_claim, "a claim of the queued run"),
        (charged_without_a_claim, "changed within epoch 1"),
        (forgotten_cause, "not one cause for each takeover"),
    ],
)
def test_a_budget_that_does_not_move_with_its_claims_is_found(breaks: Callable[[History], None], said: str) -> None:
    assert any(said in sentence for sentence in sentences(budget.budget_with_epoch, breaks))


def early(history: History) -> None:
    edit(
        history,
        Claimed,
        lambda each: replace(each, before=replace(each.before, not_before=each.after.updated_at + 0.001)),
        where=is_takeover,
    )


def parked(wake_at: float | None) -> Callable[[History], None]:
    def breaks(history: History) -> None:
        row = {"status": Status.PARKED, "wake_at": wake_at}
        edit(history, Claimed, lambda each: replace(each, before=replace(each.before, **row)))

    return breaks


@pytest.mark.invariant("not-before")
@pytest.mark.parametrize("breaks", [early, parked(None), parked(1e12)])
def test_a_claim_before_its_time_is_found(breaks: Callable[[History], None]) -> None:
    (sentence,) = sentences(budget.not_before, breaks)
    assert "was claimed at" in sentence


def test_a_claim_that_lets_the_next_come_too_soon_is_found() -> None:
    def hasty(history: History) -> None:
        edit(
            history,
            Claimed,
            lambda each: replace(
                each, after=replace(each.after, not_before=each.after.budget.last_takeover_at + 2 * 0.8 - 0.001)
            ),
            where=lambda each: each.after.budget.takeovers == 2,
        )

    (sentence,) = sentences(budget.later_takeovers_wait, hasty)
    assert f"run {TAKEN_OVER} may be taken over again 1.599 s after takeover 2" in sentence


def test_what_reads_as_a_fresh_window_bounds_nothing() -> None:
    def unreadable(history: History) -> None:
        fresh = RecoveryBudget(takeovers=1, last_takeover_at=None, life=1)
        edit(history, Claimed, lambda each: replace(each, after=replace(each.after, budget=fresh)), where=is_takeover)

    assert not sentences(budget.later_takeovers_wait, unreadable)
