import pytest

from outlast.errors import EventTooLarge, Fenced, HeadConflict, LogFull, Retry, StoreUnavailable, WorkerRaised
from outlast.log.limits import LogLimits
from outlast.run import Cancelled, Cause, Completed, Failed, FailureCode, Limit
from outlast.server.conditions import Conditions
from outlast.server.ending import CallsSpent, Ending, Finished, HandedOff, Raised, StopAsked, resolve
from tests.stage import row

LIMITS = LogLimits(event_bytes=16)


def resolved(ending: Ending) -> object:
    return resolve(ending, row(), Conditions(report=lambda _: None, mint=str, jitter=lambda: 0.5, limits=LIMITS))


@pytest.mark.parametrize(
    ("ending", "becomes"),
    [
        (Finished(result=None), Completed(result=None)),
        (Finished(result=b"x" * 16), Completed(result=b"x" * 16)),
        (StopAsked(reason="enough"), Cancelled(reason="enough")),
        (HandedOff(), Cause.HANDOFF),
        (Raised(error=Fenced("x")), None),
        (Raised(error=HeadConflict("x")), Cause.STORE),
        (Raised(error=StoreUnavailable("x")), Cause.STORE),
        (Raised(error=MemoryError()), Cause.MEMORY),
        (Raised(error=RuntimeError("x")), Cause.WORKER),
    ],
)
def test_an_ending_is_an_outcome_a_release_or_nothing_of_ours(ending: Ending, becomes: object) -> None:
    assert resolved(ending) == becomes


@pytest.mark.behaviour("H13")
@pytest.mark.parametrize(
    ("ending", "code", "limit"),
    [
        (Finished(result=b"x" * 17), FailureCode.EVENT_TOO_LARGE, None),
        (CallsSpent(), FailureCode.RECOVERY_EXHAUSTED, Limit.CALLS),
        (Raised(error=LogFull("x")), FailureCode.LOG_FULL, None),
        (Raised(error=EventTooLarge("x")), FailureCode.EVENT_TOO_LARGE, None),
        (Raised(error=Retry("x")), FailureCode.WORKER_FAILED, None),
        (Raised(error=WorkerRaised("x")), FailureCode.WORKER_ERROR, None),
    ],
)
def test_a_refusal_is_a_verdict_and_never_a_release(ending: Ending, code: FailureCode, limit: Limit | None) -> None:
    outcome = resolved(ending)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.limit) == (code, limit)
