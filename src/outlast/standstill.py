"""Why a run is not moving, in one sentence: what `plan` would decide about it, told to a person.

Rules:
1. `recovery.plan` is the only judge of when a run may be claimed; this file only says what it decided, in words.
2. A run that a live node drives moves, even when it says nothing; so does one that has just become due, and one that
   has its outcome: no sentence.
3. Of several reasons the one that a person can do something about is told: a worker that nobody has, a stop.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from outlast import lease
from outlast.recovery import Cancel, Claim, Exhaust, Leave, RecoveryPolicy, Wait, is_fresh, plan
from outlast.run import Cause, Run, Status

ON_ITS_WAY: Final = 1.0
"""Seconds for which a run that is due is no standstill: a node that has room claims it in a fraction of that."""


class Reason(StrEnum):
    """Why a run is not moving."""

    NO_WORKER = "no_worker"
    """The node that was asked has no worker of this name."""
    REFUSED = "refused"
    """Its admission was refused, and is asked for again when the cool-down is over."""
    WAITING = "waiting"
    """It is due: a node claims it as soon as it has room."""
    LEASE_ENDED = "lease_ended"
    """The lease of the node that drove it ran out, or that node is gone."""
    BACKOFF = "backoff"
    """Its next takeover has its time."""
    PARKED = "parked"
    """It waits for an answer or a time."""
    STOPPING = "stopping"
    """A stop was asked for, and its worker has not ended yet."""
    SETTLING = "settling"
    """Its outcome is certain, and the next node that looks writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """Why a run is not moving; `message` is one sentence for people and holds nothing a worker said."""

    reason: Reason
    message: str


def explain(
    run: Run,
    policy: RecoveryPolicy,
    *,
    now: float,
    workers: Collection[str] | None = None,
    refused_until: float | None = None,
) -> Standstill | None:
    """Say why `run` is not moving, None when it is, or has its outcome.

    `now` is the store's clock; `workers` are those of the node that is asked, None where that is not known. Until
    `refused_until` the refusal of a prerequisite holds the run back, None where there is none or it is not known.
    """
    if run.status.is_terminal:
        return None
    if lease.is_live(run.lease_until, now=now):
        return _stopping(run, now=now)
    decided = plan(run, policy, now=now, jitter=0.0)
    if workers is not None and run.worker not in workers and not isinstance(decided, Cancel):
        return Standstill(
            reason=Reason.NO_WORKER,
            message="The node that was asked has no worker of this name: start one that has it, or stop the run.",
        )
    match decided:
        case Leave():
            return Standstill(reason=Reason.PARKED, message="The run is parked, and waits for its answer.")
        case Wait(until=until):
            return _wait(run, policy, until - now, now=now)
        case Claim() if refused_until is not None and refused_until > now:
            message = f"Its admission was refused: it is asked for again in {refused_until - now:.0f} s."
            return Standstill(reason=Reason.REFUSED, message=message)
        case Claim(cause=cause):
            return _due(run, cause, now=now)
        case Exhaust(limit=limit):
            message = f"Its recovery budget is spent ({limit.value}): the next node that looks settles it as failed."
            return Standstill(reason=Reason.SETTLING, message=message)
        case Cancel():
            message = "A stop was asked for and nobody drives the run: the next node that looks settles it."
            return Standstill(reason=Reason.SETTLING, message=message)
        case _:
            assert_never(decided)


def _stopping(run: Run, *, now: float) -> Standstill | None:
    if run.stop is None:
        return None
    message = f"A stop was asked for {_ago(now - run.stop.at)}, and the worker has not ended yet."
    return Standstill(reason=Reason.STOPPING, message=message)


def _wait(run: Run, policy: RecoveryPolicy, left: float, *, now: float) -> Standstill:
    if run.status is Status.PARKED:
        return Standstill(reason=Reason.PARKED, message=f"The run is parked, and wakes in {left:.1f} s.")
    cause = run.cause or Cause.CRASH
    if cause is Cause.HANDOFF or run.status is Status.QUEUED:
        return Standstill(reason=Reason.BACKOFF, message=f"The next claim comes in {left:.1f} s, not before.")
    used = 0 if is_fresh(run, policy, now=now) else run.budget.takeovers
    message = (
        f"Its controller let go ({cause.value}): takeover {used + 1} of {policy.takeovers} comes in {left:.1f} s, "
        f"not before."
    )
    return Standstill(reason=Reason.BACKOFF, message=message)


def _due(run: Run, cause: Cause | None, *, now: float) -> Standstill | None:
    if cause is not None and run.holder is not None:
        when = "is gone" if run.lease_until is None else f"ended {_ago(now - run.lease_until)}"
        message = f"The lease of the node that drove it {when}: the next node that looks takes it over."
        return Standstill(reason=Reason.LEASE_ENDED, message=message)
    due_at = run.wake_at if run.status is Status.PARKED else run.not_before
    since = now - max(due_at or 0.0, run.created_at)
    if since < ON_ITS_WAY:
        return None
    message = f"It has been due for {_seconds(since)}: a node claims it as soon as it has room and admits it."
    return Standstill(reason=Reason.WAITING, message=message)


def _ago(seconds: float) -> str:
    return f"{_seconds(seconds)} ago"


def _seconds(seconds: float) -> str:
    return f"{max(0.0, seconds):.0f} s"
