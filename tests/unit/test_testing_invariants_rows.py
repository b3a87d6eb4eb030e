"""The promises about what becomes of a run, each with histories that break it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from outlast import facts
from outlast.run import Cancelled, Completed, Failed, FailureCode, Status
from outlast.stores.base import StopAnswer
from outlast.testing.history import History
from outlast.testing.invariants import rows
from outlast.testing.observation import (
    AbortTold,
    Charged,
    Claimed,
    FactReported,
    FaultMet,
    PrerequisiteRefused,
    RowSeen,
    Settled,
    StopAnswered,
)
from tests.chronicle import FAILED, STOPPED, TAKEN_OVER, edit, log_of, place, repeat, sentences


def of(id: str) -> Callable[[Any], bool]:
    """Mean the observations of one run's rows."""
    return lambda each: (each.row if isinstance(each, RowSeen) else each.after).id == id


def is_settled(each: RowSeen) -> bool:
    return each.row.status.is_terminal


# ---- refusals -----------------------------------------------------------------------------------


@pytest.mark.invariant("refusal-leaves-the-row")
def test_a_refusal_that_changes_the_row_is_found() -> None:
    def touched(history: History) -> None:
        edit(history, PrerequisiteRefused, lambda each: replace(each, after=replace(each.after, updated_at=0.0)))

    (sentence,) = sentences(rows.refusal_leaves_the_row, touched)
    assert "a refusal changed the row" in sentence


def test_a_lease_that_ran_out_meanwhile_or_a_claim_of_the_same_moment_is_no_change_by_the_refusal() -> None:
    def ran_out(history: History) -> None:
        edit(history, PrerequisiteRefused, lambda each: replace(each, after=replace(each.after, lease_until=1.0)))

    def claimed_meanwhile(history: History) -> None:
        at = place(history, PrerequisiteRefused)
        refused = history.observations[at]
        assert isinstance(refused, PrerequisiteRefused)
        row = replace(refused.after, epoch=refused.after.epoch + 1)
        history.observations[at] = replace(refused, after=row)
        history.observations.insert(at, RowSeen(at=refused.at, now=0.0, row=row))

    assert not sentences(rows.refusal_leaves_the_row, ran_out)
    assert not sentences(rows.refusal_leaves_the_row, claimed_meanwhile)


# ---- moves --------------------------------------------------------------------------------------


def back_to_the_queue(history: History) -> None:
    def is_called(each: RowSeen) -> bool:
        return each.row.budget.calls == 1

    edit(history, RowSeen, lambda each: replace(each, row=replace(each.row, status=Status.QUEUED)), where=is_called)


def changed_after_the_outcome(history: History) -> None:
    repeat(history, RowSeen, lambda each: replace(each, row=replace(each.row, epoch=9)), where=is_settled)


@pytest.mark.invariant("legal-transitions")
@pytest.mark.parametrize(
    ("breaks", "said"),
    [(back_to_the_queue, "went from active to queued"), (changed_after_the_outcome, "changed after its outcome")],
)
def test_a_move_that_the_table_does_not_have_is_found(breaks: Callable[[History], None], said: str) -> None:
    assert any(said in sentence for sentence in sentences(rows.legal_transitions, breaks))


def charged_after(history: History) -> None:
    history.note(next(each for each in history.of(Charged) if each.run == FAILED))


def claimed_after(history: History) -> None:
    history.note(next(each for each in history.of(Claimed) if each.after.id == FAILED))


@pytest.mark.behaviour("W12")
@pytest.mark.parametrize(
    ("breaks", "said"), [(charged_after, "charged for a call after"), (claimed_after, "claimed after")]
)
def test_work_after_the_outcome_is_found(breaks: Callable[[History], None], said: str) -> None:
    (sentence,) = sentences(rows.nobody_is_called_after_the_outcome, breaks)
    assert said in sentence


def test_an_outcome_is_known_by_its_row_alone() -> None:
    def unsettled_but_seen(history: History) -> None:
        del history.observations[place(history, Settled, where=of(FAILED))]
        charged_after(history)

    assert len(sentences(rows.nobody_is_called_after_the_outcome, unsettled_but_seen)) == 1


# ---- nobody forgotten ---------------------------------------------------------------------------


def never_due(history: History) -> None:
    edit(history, RowSeen, lambda each: replace(each, row=replace(each.row, not_before=each.now + 72.1)))


def parked_for_ever(history: History) -> None:
    edit(history, RowSeen, lambda each: replace(each, row=replace(each.row, status=Status.PARKED)))


@pytest.mark.invariant("nobody-forgotten")
@pytest.mark.behaviour("O1")
@pytest.mark.parametrize(
    ("breaks", "said"), [(never_due, "is not due for 72.1 s"), (parked_for_ever, "is parked without a time")]
)
def test_a_run_that_nobody_would_ever_take_up_is_found(breaks: Callable[[History], None], said: str) -> None:
    (sentence,) = sentences(rows.nobody_forgotten, breaks)
    assert said in sentence


def test_a_run_that_is_parked_until_a_time_is_not_forgotten() -> None:
    def parked(history: History) -> None:
        until = {"status": Status.PARKED, "wake_at": 1e10, "not_before": 1e10}
        edit(history, RowSeen, lambda each: replace(each, row=replace(each.row, **until)))

    assert not sentences(rows.nobody_forgotten, parked)


def test_a_run_without_its_outcome_at_the_end_is_found() -> None:
    def undecided(history: History) -> None:
        log = log_of(history, FAILED)
        history.rows[log] = replace(history.rows[log], status=Status.ACTIVE)

    (sentence,) = sentences(rows.every_run_has_its_outcome, undecided)
    assert "is active still" in sentence


# ---- stops --------------------------------------------------------------------------------------


def stop_ended_as(status: Status) -> Callable[[History], None]:
    def breaks(history: History) -> None:
        log = log_of(history, STOPPED)
        history.rows[log] = replace(history.rows[log], status=status)

    return breaks


def settled_by_the_stop_and_completed(history: History) -> None:
    edit(history, StopAnswered, lambda each: replace(each, answer=StopAnswer.SETTLED))
    stop_ended_as(Status.COMPLETED)(history)


def two_outcomes(history: History) -> None:
    repeat(history, Settled, lambda each: replace(each, after=replace(each.after, outcome=Cancelled(reason="x"))))


@pytest.mark.invariant("stop-wins-once")
@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        (stop_ended_as(Status.FAILED), "was stopped (accepted) and is failed"),
        (settled_by_the_stop_and_completed, "was stopped (settled) and is completed"),
        (two_outcomes, "has two outcomes"),
    ],
)
def test_a_stop_that_lost_to_a_failure_and_a_second_outcome_are_found(
    breaks: Callable[[History], None], said: str
) -> None:
    (sentence,) = sentences(rows.stop_wins_once, breaks)
    assert said in sentence


def test_a_stop_may_lose_to_a_worker_that_completed_and_comes_too_late_for_what_is_settled() -> None:
    def too_late(history: History) -> None:
        history.note(StopAnswered(at=0.0, run=FAILED, known=True, answer=StopAnswer.ALREADY))
        history.note(StopAnswered(at=0.0, run=FAILED, known=False, answer=StopAnswer.ACCEPTED))

    assert not sentences(rows.stop_wins_once, stop_ended_as(Status.COMPLETED))
    assert not sentences(rows.stop_wins_once, too_late)


# ---- aborts -------------------------------------------------------------------------------------


def told_too_early(history: History) -> None:
    history.observations.insert(0, next(history.of(AbortTold)))


def told_of_a_success(history: History) -> None:
    history.note(AbortTold(at=0.0, run=TAKEN_OVER, epoch=history.rows[log_of(history, TAKEN_OVER)].epoch))


def told_with_an_old_epoch(history: History) -> None:
    edit(history, AbortTold, lambda each: replace(each, epoch=each.epoch - 1))


def never_told(history: History) -> None:
    del history.observations[place(history, AbortTold)]


@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        (told_too_early, "was told at epoch"),
        (told_of_a_success, "was told at epoch"),
        (told_with_an_old_epoch, "was told at epoch"),
        (never_told, "was never told"),
    ],
)
def test_an_abort_that_does_not_follow_its_outcome_is_found(breaks: Callable[[History], None], said: str) -> None:
    (sentence,) = sentences(rows.aborts_follow_the_outcome, breaks)
    assert said in sentence


def test_an_abort_told_twice_is_found_by_who_asks_for_it() -> None:
    (sentence,) = sentences(rows.told_once, lambda history: repeat(history, AbortTold))
    assert "was told 2 times" in sentence


# ---- quiet --------------------------------------------------------------------------------------


def test_trouble_without_a_fault_is_found() -> None:
    trouble = facts.StoreTroubled(during="look", error="store_busy")

    def troubled(history: History) -> None:
        history.note(FactReported(at=0.0, node="a", fact=trouble))

    def troubled_by_a_fault(history: History) -> None:
        troubled(history)
        history.note(FaultMet(at=0.0, node="a", kind="Slow", operation="append"))

    (sentence,) = sentences(rows.quiet, troubled)
    assert "store_busy" in sentence
    assert not sentences(rows.quiet, troubled_by_a_fault)


def test_the_history_to_be_broken_has_every_kind_of_outcome() -> None:
    def look(history: History) -> None:
        outcomes = {row.id: row.outcome for row in history.rows.values()}
        assert outcomes[TAKEN_OVER] == Completed(result=b'"done"')
        assert outcomes[STOPPED] == Cancelled(reason="enough")
        failed = outcomes[FAILED]
        assert isinstance(failed, Failed)
        assert failed.code is FailureCode.WORKER_ERROR
        assert len(list(history.of(PrerequisiteRefused))) == 1

    sentences(rows.quiet, look)
