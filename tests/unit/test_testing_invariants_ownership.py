"""The promises about ownership, each with histories that break it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from outlast import facts
from outlast.run import Token
from outlast.testing.history import History
from outlast.testing.invariants import ownership
from outlast.testing.observation import Appended, Claimed, FactReported, FenceRaised, RowSeen
from tests.chronicle import FAILED, TAKEN_OVER, edit, log_of, place, repeat, sentences


def old_append(history: History) -> None:
    log = log_of(history, TAKEN_OVER)
    old = Token(epoch=1, claim="old")
    repeat(history, Appended, lambda each: replace(each, token=old), where=lambda each: each.log == log, which=-1)


def stolen_append(history: History) -> None:
    repeat(history, Appended, lambda each: replace(each, token=replace(each.token, claim="another's")))


def lowered_fence(history: History) -> None:
    repeat(history, FenceRaised, lambda each: replace(each, token=replace(each.token, epoch=0)))


def append_behind_the_outcome(history: History) -> None:
    log = log_of(history, FAILED)
    last = history.observations[place(history, Appended, where=lambda each: each.log == log, which=-1)]
    assert isinstance(last, Appended)
    history.note(replace(last, token=replace(last.token, epoch=0)))


@pytest.mark.invariant("single-authority")
@pytest.mark.parametrize("breaks", [old_append, stolen_append, lowered_fence, append_behind_the_outcome])
def test_a_write_from_behind_the_fence_is_found(breaks: Callable[[History], None]) -> None:
    (sentence,) = sentences(ownership.single_authority, breaks)
    assert "behind its fence" in sentence


# ---- epochs -------------------------------------------------------------------------------------


def skipped(history: History) -> None:
    edit(history, Claimed, lambda each: replace(each, after=replace(each.after, epoch=each.after.epoch + 1)))


def shared(history: History) -> None:
    repeat(history, Claimed, lambda each: replace(each, after=replace(each.after, claim="another")))


def fallen(history: History) -> None:
    def is_second(each: RowSeen) -> bool:
        return each.row.id == TAKEN_OVER and each.row.epoch == 2

    edit(history, RowSeen, lambda each: replace(each, row=replace(each.row, epoch=0)), where=is_second)


@pytest.mark.invariant("epochs-rise")
@pytest.mark.parametrize(
    ("breaks", "said"), [(skipped, "took run"), (shared, "two claims share epoch 1"), (fallen, "fell from 1 to 0")]
)
def test_epochs_that_do_not_rise_one_by_one_are_found(breaks: Callable[[History], None], said: str) -> None:
    assert any(said in sentence for sentence in sentences(ownership.epochs_rise, breaks))


def test_a_claim_answered_twice_is_one_claim() -> None:
    assert not sentences(ownership.epochs_rise, lambda history: repeat(history, Claimed))


# ---- giving way ---------------------------------------------------------------------------------


def stood_down(history: History, *, epoch: int, where: str) -> None:
    fact = facts.ControllerStoodDown(run=log_of(history, TAKEN_OVER), epoch=epoch)
    reported = FactReported(at=0.0, node="a", fact=fact)
    at = place(history, Claimed, where=lambda each: each.after.id == TAKEN_OVER and each.after.epoch == 2)
    history.observations.insert(at if where == "before" else at + 1, reported)


@pytest.mark.invariant("hand-over-by-proof", "unknown-is-not-superseded")
def test_a_controller_that_gives_way_without_proof_is_found() -> None:
    def before(history: History) -> None:
        stood_down(history, epoch=1, where="before")

    (sentence,) = sentences(ownership.hand_over_by_proof, before)
    assert "epoch 1 stood down" in sentence


def test_giving_way_to_a_newer_claim_or_an_outcome_is_proof() -> None:
    def after(history: History) -> None:
        stood_down(history, epoch=1, where="after")

    def settled(history: History) -> None:
        fact = facts.ControllerStoodDown(run=log_of(history, FAILED), epoch=1)
        history.note(FactReported(at=0.0, node="a", fact=fact))

    assert not sentences(ownership.hand_over_by_proof, after)
    assert not sentences(ownership.hand_over_by_proof, settled)
