"""What to do about a run that nobody may be driving, and what to do about an error while driving it.

`plan` is asked by every node about every run that is due; it decides, the store's transaction compares and
writes. With no progress at all a run is called 1 + `takeovers` times, whatever the number of nodes, readers,
clocks and restarts.

Rules of `plan`:
1. A terminal run, and one whose holder's lease is live, is left alone.
2. A stop settles the run, whatever its budget and `not_before`.
3. The first takeover is immediate; takeover n+1 waits `min(base · 2^(n-1), cap)` ± 20 % from claim n on.
4. A run that was driven on until at least `window` after its last takeover opens a fresh window. Nothing else resets
   it: not events, not readers, not restarts, and not the time for which nobody drove it.
5. `life` and `calls` bound the run for ever. A spent budget exhausts the run at once, without waiting.
6. A planned hand-off is free, `handoff_spacing` apart, `handoffs` times; the next is charged like a takeover.
7. Waking a parked run is free.
8. The charge lies in the claim: whoever reads the plan's budget back has paid before the work starts.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, TypeAlias, assert_never

from outlast import lease
from outlast.backoff import delay
from outlast.errors import (
    EventTooLarge,
    HeadConflict,
    LogFull,
    LogRefused,
    OwnershipError,
    Retry,
    SettingsError,
    StoreError,
    StoreUnavailable,
    WorkerRaised,
)
from outlast.number import check
from outlast.run import Cause, Failed, FailureCode, Limit, RecoveryBudget, Run, Status

TAKEOVERS: Final = 5
"""In one window: enough for a node that flaps through a bad deploy, too few to be a storm."""
WINDOW: Final = 300.0
"""Seconds: longer than the five backoffs together, so a run that fails at once spends its budget inside it."""
BASE: Final = 1.0
"""Seconds before the second takeover."""
CAP: Final = 60.0
"""Seconds at most before any takeover."""
LIFE: Final = 20
"""Takeovers for the life of a run: a controller that dies just after every window is bounded too."""
HANDOFFS: Final = 50
"""Free hand-offs: ten deploys a day for a working week."""
HANDOFF_SPACING: Final = 1.0
"""Seconds between two free hand-offs, so that two draining nodes cannot play ping-pong."""
CALLS: Final = 64
"""Worker calls for the life of a run, whatever their reason."""
WAITS: Final = 256
"""Resolved waits that each allow one more call."""
TRIES: Final = 3
"""Further calls within one controller without progress."""
TRY_BASE: Final = 1.0
"""Seconds before the first of those further calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPolicy:
    """How often and how fast a run is taken over; times in seconds. `takeovers=0` never takes over."""

    takeovers: int = TAKEOVERS
    window: float = WINDOW
    base: float = BASE
    cap: float = CAP
    life: int = LIFE
    handoffs: int = HANDOFFS
    calls: int = CALLS
    tries: int = TRIES

    def __post_init__(self) -> None:
        """Refuse a policy that cannot work, with a sentence that says what to change (B23)."""
        check(self)
        if min(self.takeovers, self.handoffs, self.tries) < 0 or self.calls < 1 or min(self.base, self.cap) <= 0:
            raise SettingsError(
                "RecoveryPolicy: takeovers, handoffs and tries must be at least 0, calls at least 1, "
                "base and cap above 0 seconds."
            )
        if self.life < self.takeovers:
            raise SettingsError(
                f"RecoveryPolicy: life ({self.life}) is below takeovers ({self.takeovers}), so the window's cap "
                f"is never reached: raise life or lower takeovers."
            )
        if self.calls <= self.takeovers:
            raise SettingsError(
                f"RecoveryPolicy: calls ({self.calls}) must be above takeovers ({self.takeovers}), or the calls "
                f"run out before the takeovers do."
            )
        longest = max((self.pause(n, jitter=1.0) for n in range(1, self.takeovers)), default=0.0)
        if self.window <= longest:
            raise SettingsError(
                f"RecoveryPolicy: window ({self.window:g} s) is not longer than the longest wait between takeovers "
                f"({longest:g} s), so every takeover opens a fresh window and the cap is never reached: "
                f"raise window or lower cap."
            )

    def pause(self, takeover: int, *, jitter: float) -> float:
        """Return the seconds to wait after the claim of `takeover` (from 1) before the next."""
        return delay(takeover, base=self.base, cap=self.cap, jitter=jitter)

    def call_limit(self, budget: RecoveryBudget) -> int:
        """Return how many worker calls the run may use for its life."""
        return self.calls + min(budget.waits, WAITS)


# ---- plan ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Nothing is to be done: the run is terminal, held, or parked without a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Not before `until`, by the store's clock."""

    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Claim the run with this budget; `cause` is None for a first claim and a waking."""

    budget: RecoveryBudget
    not_before: float
    cause: Cause | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhaust:
    """Settle the run as `recovery_exhausted`: `limit` is spent, `cause` would have been the next takeover's."""

    limit: Limit
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Settle the run as cancelled: a stop was asked for and nobody is left to carry it out."""

    reason: str | None


Plan: TypeAlias = Leave | Wait | Claim | Exhaust | Cancel


def plan(run: Run, policy: RecoveryPolicy, *, now: float, jitter: float) -> Plan:
    """Decide what a node does about `run`; `now` is the store's clock, `jitter` lies in [0, 1). Source: B1-B21."""
    match run.status:
        case Status.COMPLETED | Status.FAILED | Status.CANCELLED:
            return Leave()
        case _ if lease.is_live(run.lease_until, now=now):
            return Leave()
        case _ if run.stop is not None:
            return Cancel(reason=run.stop.reason)
        case Status.QUEUED:
            return _no_earlier(run, Claim(budget=run.budget, not_before=now), now=now)
        case Status.PARKED:
            return _wake(run, now=now)
        case Status.ACTIVE:
            return _take_over(run, policy, now=now, jitter=jitter)
        case _:
            assert_never(run.status)


def _wake(run: Run, *, now: float) -> Plan:
    if run.wake_at is None:
        return Leave()
    return Wait(until=run.wake_at) if now < run.wake_at else Claim(budget=run.budget, not_before=now)


def _take_over(run: Run, policy: RecoveryPolicy, *, now: float, jitter: float) -> Plan:
    cause = run.cause or Cause.CRASH
    budget = run.budget
    if budget.calls >= policy.call_limit(budget):
        return Exhaust(limit=Limit.CALLS, cause=cause)
    if cause is Cause.HANDOFF and budget.handoffs < policy.handoffs:
        handed = replace(budget, handoffs=budget.handoffs + 1)
        return _no_earlier(run, Claim(budget=handed, not_before=now + HANDOFF_SPACING, cause=cause), now=now)
    if budget.life >= policy.life:
        return Exhaust(limit=Limit.LIFE, cause=cause)
    used = 0 if is_fresh(run, policy, now=now) else budget.takeovers
    if used >= policy.takeovers:
        return Exhaust(limit=Limit.WINDOW, cause=cause)
    charged = replace(
        budget,
        takeovers=used + 1,
        last_takeover_at=now,
        life=budget.life + 1,
        causes=(*budget.causes, cause),
    )
    not_before = now + policy.pause(used + 1, jitter=jitter)
    return _no_earlier(run, Claim(budget=charged, not_before=not_before, cause=cause), now=now)


def _no_earlier(run: Run, claim: Claim, *, now: float) -> Plan:
    return Wait(until=run.not_before) if now < run.not_before else claim


def is_fresh(run: Run, policy: RecoveryPolicy, *, now: float) -> bool:
    """Say whether the next takeover opens a fresh window (B11); a budget without a time reads as fresh (B12).

    What counts is until when the run was driven. If its waiting counted, hundreds of runs whose worker is dead would
    all be first takeovers again after one window of being held back, and none of those is (B24).
    """
    last = run.budget.last_takeover_at
    return last is None or _driven_until(run, now=now) - last >= policy.window


def _driven_until(run: Run, *, now: float) -> float:
    """Return when the run lost its controller, `now` when it has one and when nobody knows."""
    if run.status is not Status.ACTIVE:
        return now
    if run.holder is None:
        return run.updated_at  # letting go was the last that was written
    return now if run.lease_until is None else min(now, run.lease_until)


def exhausted(exhaust: Exhaust, run: Run, policy: RecoveryPolicy) -> Failed:
    """Return the outcome of a run whose budget is spent, in words for people (B8)."""
    match exhaust.limit:
        case Limit.WINDOW:
            spent = f"{run.budget.takeovers} takeovers within {policy.window:g} seconds"
        case Limit.LIFE:
            spent = f"{run.budget.life} takeovers in its life"
        case Limit.CALLS:
            spent = f"{run.budget.calls} worker calls in its life"
        case _:
            assert_never(exhaust.limit)
    return Failed(
        code=FailureCode.RECOVERY_EXHAUSTED,
        message=f"The run was given up after {spent}; everything it said so far is kept.",
        limit=exhaust.limit,
        causes=(*run.budget.causes, exhaust.cause),
    )


# ---- classify -----------------------------------------------------------------------------------


class Reaction(Enum):
    """What a controller does about an error."""

    STAND_DOWN = auto()
    """Go away silently: another claim owns the run. No settle, no clean-up, no abort."""
    PAUSE = auto()
    """Take nothing more from the worker and repeat the same write: the answer decides."""
    FAIL = auto()
    """Settle the run as failed and abort the worker: a verdict."""
    AGAIN = auto()
    """Call the worker again, within its tries."""
    RELEASE = auto()
    """Let go: the next claim is a takeover, and the budget bounds what follows."""


def classify(error: BaseException) -> Reaction:
    """Decide what a controller does about `error`. Source: H4-H13, W16; an error nobody named is a release."""
    match error:
        case HeadConflict():
            return Reaction.RELEASE
        case OwnershipError():
            return Reaction.STAND_DOWN
        case StoreUnavailable():
            return Reaction.PAUSE
        case LogRefused() | WorkerRaised():
            return Reaction.FAIL
        case Retry():
            return Reaction.AGAIN
        case _:
            return Reaction.RELEASE


def verdict(error: BaseException) -> Failed:
    """Return the outcome that an error to be settled stands for; its message holds nothing the worker said."""
    match error:
        case LogFull():
            return Failed(code=FailureCode.LOG_FULL, message=str(error))
        case EventTooLarge():
            return Failed(code=FailureCode.EVENT_TOO_LARGE, message=str(error))
        case Retry():
            return Failed(code=FailureCode.WORKER_FAILED, message="The worker kept asking to be called again.")
        case _:
            raised = type(error.__cause__ or error).__name__
            return Failed(code=FailureCode.WORKER_ERROR, message=f"The worker raised {raised}.")


def cause_of(error: BaseException) -> Cause:
    """Return the cause a release for `error` is booked under."""
    match error:
        case MemoryError():
            return Cause.MEMORY
        case StoreError() | HeadConflict():
            return Cause.STORE
        case _:
            return Cause.WORKER
