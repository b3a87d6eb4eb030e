"""The status document: what the row alone says of a run, where its log stands, and what changes only with time.

Source: F17, the native wire. Times for people are RFC 3339, by the store's clock; durations are seconds.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final, Protocol, assert_never

from outlast import lease
from outlast.log.cursor import Cursor
from outlast.log.event import JSON, encode_json
from outlast.recovery import RecoveryPolicy, is_fresh
from outlast.run import Cancelled, Cause, Completed, Failed, Limit, Outcome, Run, Status, describe
from outlast.standstill import Standstill, explain

_PASSING: Final = frozenset({"window_left", "next_try_in", "lease_left", "message"})
"""The members that change because time passes."""


def beat_document(run: Run, *, policy: RecoveryPolicy, now: float) -> dict[str, JSON]:
    """Return what of a run a heartbeat repeats; `now` is the store's clock."""
    live = lease.is_live(run.lease_until, now=now)
    return {
        "status": run.status.value,
        "budget": _budget(run, policy, now=now),
        "recovering": None if live else _recovering(run, policy, now=now),
        "lease_left": _seconds(run.lease_until - now) if live and run.lease_until is not None else None,
    }


def run_document(
    run: Run,
    *,
    policy: RecoveryPolicy,
    now: float,
    workers: Collection[str] | None = None,
    refused_until: float | None = None,
) -> dict[str, JSON]:
    """Return what the row alone says of a run; `now` is the store's clock. The owner is not told. Source: F17.

    `workers` are those of the node that tells, where they are known: a run whose worker it lacks says so. So does one
    that a refusal holds back, where `refused_until` is known.
    """
    return {
        "id": run.id,
        "thread": run.thread,
        "worker": run.worker,
        "epoch": run.epoch,
        **beat_document(run, policy=policy, now=now),
        "standstill": _standstill(explain(run, policy, now=now, workers=workers, refused_until=refused_until)),
        "waits": [],
        "stop_requested": run.stop is not None,
        "degraded": False,
        "outcome": None if run.outcome is None else outcome_document(run.outcome),
        "created_at": moment(run.created_at),
        "updated_at": moment(run.updated_at),
        "settled_at": None if run.settled_at is None else moment(run.settled_at),
    }


class Extent(Protocol):
    """Where a log begins and ends: a store's `Head` is one."""

    @property
    def cursor(self) -> Cursor:
        """The place of the last event."""
        ...

    @property
    def first(self) -> int:
        """The oldest seq still readable."""
        ...


def status_document(
    run: Run,
    log: Extent,
    *,
    policy: RecoveryPolicy,
    now: float,
    workers: Collection[str] | None = None,
    refused_until: float | None = None,
) -> dict[str, JSON]:
    """Return the status document: the row, and where its log stands. Source: F17, the native wire."""
    # A snapshot reaches as far as the log does: nothing is folded ahead of time.
    place: dict[str, JSON] = {"head": str(log.cursor), "first": log.first, "snapshot": str(log.cursor)}
    return run_document(run, policy=policy, now=now, workers=workers, refused_until=refused_until) | place


def outcome_document(outcome: Outcome) -> dict[str, JSON]:
    """Return what became of a run; a result is told by the terminal event alone."""
    match outcome:
        case Completed():
            return {"code": Status.COMPLETED.value}
        case Cancelled(reason=reason):
            return {"code": Status.CANCELLED.value, "reason": reason}
        case Failed():
            return describe(outcome)
        case _:
            assert_never(outcome)


def etag(document: Mapping[str, JSON]) -> str:
    """Return a weak tag that changes when a status document says something new, and not because time passes."""
    return f'W/"{blake2b(encode_json(_lasting(document)), digest_size=12).hexdigest()}"'


def moment(seconds: float) -> str:
    """Return a time of the store's clock as RFC 3339, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _budget(run: Run, policy: RecoveryPolicy, *, now: float) -> dict[str, JSON]:
    budget = run.budget
    settled = run.status.is_terminal
    used = _used(run, policy, now=now if run.settled_at is None else run.settled_at)
    open_until = None if settled or not used else (budget.last_takeover_at or now) + policy.window
    return {
        "takeovers": {
            "used": used,
            "limit": policy.takeovers,
            "window_left": None if open_until is None else _seconds(open_until - now),
        },
        "life": {"used": budget.life, "limit": policy.life},
        "handoffs": {"used": budget.handoffs, "limit": policy.handoffs},
        "calls": {"used": budget.calls, "limit": policy.call_limit(budget)},
    }


def _recovering(run: Run, policy: RecoveryPolicy, *, now: float) -> dict[str, JSON] | None:
    """Say how a run that no live lease holds will go on; None when it needs no recovery."""
    if run.status is not Status.ACTIVE:
        return None
    cause = run.cause or Cause.CRASH
    used = _used(run, policy, now=now)
    # A hand-off is no takeover, and after the last one there is no next: "6 of 5" would say nothing to anybody.
    takeover = used if cause is Cause.HANDOFF else min(used + 1, policy.takeovers)
    return {"takeover": takeover, "next_try_in": _seconds(run.not_before - now), "cause": cause.value}


def _standstill(standstill: Standstill | None) -> dict[str, JSON] | None:
    return None if standstill is None else {"code": standstill.reason.value, "message": standstill.message}


def _used(run: Run, policy: RecoveryPolicy, *, now: float) -> int:
    if isinstance(run.outcome, Failed) and run.outcome.limit is Limit.WINDOW:
        return run.budget.takeovers  # however long it waited for a node to say so
    return 0 if is_fresh(run, policy, now=now) else run.budget.takeovers


def _lasting(value: JSON) -> JSON:
    if isinstance(value, Mapping):
        return {name: _lasting(inner) for name, inner in value.items() if name not in _PASSING}
    return value


def _seconds(left: float) -> float:
    return max(0.0, round(left, 3))
