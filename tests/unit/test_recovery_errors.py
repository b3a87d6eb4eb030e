"""What a controller does about an error, and what an error is booked as."""

import asyncio

import pytest

from outlast import errors
from outlast.errors import EventTooLarge, HeadConflict, LogFull, OutlastError, Retry, StoreUnavailable, WorkerRaised
from outlast.recovery import Reaction, cause_of, classify, verdict
from outlast.run import Cause, FailureCode

REACTIONS: dict[type[BaseException], Reaction] = {
    errors.OwnershipError: Reaction.STAND_DOWN,
    errors.Fenced: Reaction.STAND_DOWN,
    errors.ClaimLost: Reaction.STAND_DOWN,
    errors.HeadConflict: Reaction.RELEASE,
    errors.StoreUnavailable: Reaction.PAUSE,
    errors.StoreBusy: Reaction.PAUSE,
    errors.StoreFull: Reaction.PAUSE,
    errors.StoreReadOnly: Reaction.PAUSE,
    errors.LogRefused: Reaction.FAIL,
    errors.LogFull: Reaction.FAIL,
    errors.EventTooLarge: Reaction.FAIL,
    errors.WorkerRaised: Reaction.FAIL,
    errors.Retry: Reaction.AGAIN,
}
"""The errors somebody named; anything else is a release."""

EVERY = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, OutlastError)]


def made(error: type[BaseException]) -> BaseException:
    return errors.ThreadBusy("m", live="r1") if error is errors.ThreadBusy else error("m")


@pytest.mark.parametrize("error", [*EVERY, Exception, MemoryError, TimeoutError, OSError, asyncio.CancelledError])
def test_an_error_that_nobody_named_is_a_release_and_the_named_ones_have_their_reaction(
    error: type[BaseException],
) -> None:
    assert classify(made(error)) is REACTIONS.get(error, Reaction.RELEASE)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (LogFull("A run may write at most 9 events."), FailureCode.LOG_FULL, "A run may write at most 9 events."),
        (EventTooLarge("At most 9 bytes."), FailureCode.EVENT_TOO_LARGE, "At most 9 bytes."),
        (Retry("secret"), FailureCode.WORKER_FAILED, "The worker kept asking to be called again."),
        (KeyError("secret"), FailureCode.WORKER_ERROR, "The worker raised KeyError."),
        (WorkerRaised("secret"), FailureCode.WORKER_ERROR, "The worker raised WorkerRaised."),
    ],
)
def test_a_verdict_has_a_code_and_a_sentence_without_the_worker_s_words(
    error: BaseException, code: FailureCode, message: str
) -> None:
    failed = verdict(error)
    assert (failed.code, failed.message, failed.limit, failed.causes) == (code, message, None, ())


def test_a_verdict_names_the_exception_that_the_worker_raised() -> None:
    raised = WorkerRaised("secret")
    raised.__cause__ = ZeroDivisionError("secret")
    assert verdict(raised).message == "The worker raised ZeroDivisionError."


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (MemoryError(), Cause.MEMORY),
        (errors.StoreError(), Cause.STORE),
        (errors.StoreCorrupt(), Cause.STORE),
        (StoreUnavailable(), Cause.STORE),
        (HeadConflict(), Cause.STORE),
        (errors.Fenced(), Cause.WORKER),
        (RuntimeError(), Cause.WORKER),
        (Retry(), Cause.WORKER),
    ],
)
def test_a_release_is_booked_under_its_cause(error: BaseException, cause: Cause) -> None:
    assert cause_of(error) is cause
