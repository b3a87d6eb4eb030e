"""How a controller's driving of a run came to its end, and what that makes of the run.

The first ending decides (H14). A refusal is a verdict and never a release; a store that gave no answer is never one
(H13, H18).
"""

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from outlast.errors import EventTooLarge
from outlast.recovery import Exhaust, Reaction, cause_of, classify, exhausted, verdict
from outlast.run import Cancelled, Cause, Completed, Limit, Outcome, Run
from outlast.server.conditions import Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The worker came to its end; `result` is what it returned, as JSON bytes."""

    result: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """Something raised `error`: the worker, the appender, or the store."""

    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAsked:
    """A person stopped the run."""

    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsSpent:
    """The run may not call its worker once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOff:
    """The node is closing: another is to go on."""


Ending: TypeAlias = Finished | Raised | StopAsked | CallsSpent | HandedOff


def resolve(ending: Ending, run: Run, conditions: Conditions) -> Outcome | Cause | None:
    """Decide what the ending makes of `run`: an outcome, a release for a cause, or nothing of ours any more."""
    match ending:
        case Finished(result=result) if result is not None and len(result) > conditions.limits.event_bytes:
            # It becomes an event. Neither a store nor a client has to take what no event may be (L3).
            most = conditions.limits.event_bytes
            return verdict(EventTooLarge(f"A result, like an event, may have at most {most} bytes."))
        case Finished(result=result):
            return Completed(result=result)
        case StopAsked(reason=reason):
            return Cancelled(reason=reason)
        case CallsSpent():
            spent = Exhaust(limit=Limit.CALLS, cause=Cause.WORKER)
            return exhausted(spent, run, conditions.recovery)
        case HandedOff():
            return Cause.HANDOFF
        case Raised(error=error):
            return _reaction(error)
        case _:
            assert_never(ending)


def _reaction(error: BaseException) -> Outcome | Cause | None:
    reaction = classify(error)
    match reaction:
        case Reaction.STAND_DOWN:
            return None
        case Reaction.FAIL | Reaction.AGAIN:
            return verdict(error)
        case Reaction.RELEASE | Reaction.PAUSE:  # a silent store is the controller's to insist on
            return cause_of(error)
        case _:
            assert_never(reaction)
