"""A run: one accepted piece of work with exactly one outcome, and the one table of its legal transitions.

    queued ──claim──> active <──> parked
       │                │            │
       └────────────────┴────────────┴──> completed | failed(code) | cancelled        (absorbing)

*Recovering* is not a status: it is an active run that nobody holds, or whose `not_before` lies ahead.

Rules:
1. The row alone decides. What a log, a worker or a reader believes never changes a run.
2. Every claim and every settling without a controller raises the epoch; nothing ever lowers it.
3. Terminal rows are empty: no move leaves them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias, assert_never

from outlast.log.event import CHECKPOINT, JSON, JSON_TYPE, OWN_PREFIX, Event

_ID: Final = re.compile(r"[A-Za-z0-9._~-]{1,128}", re.ASCII)
ID_FORM: Final = "An id is 1 to 128 letters, digits or any of . _ ~ -"


def is_id(text: str) -> bool:
    """Say whether `text` may name a run or a thread: it stands unquoted in a URL, a header and a terminal."""
    return _ID.fullmatch(text) is not None and text not in {".", ".."}


class Status(StrEnum):
    """Where a run stands."""

    QUEUED = "queued"
    ACTIVE = "active"
    PARKED = "parked"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether no move leaves this status."""
        return not TRANSITIONS[self]


class Move(StrEnum):
    """What can happen to a run."""

    CLAIM = "claim"
    PARK = "park"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"


_UNDONE: Final = {Move.FAIL: Status.FAILED, Move.CANCEL: Status.CANCELLED}

TRANSITIONS: Final[Mapping[Status, Mapping[Move, Status]]] = MappingProxyType(
    {
        Status.QUEUED: {Move.CLAIM: Status.ACTIVE, **_UNDONE},
        Status.ACTIVE: {
            Move.CLAIM: Status.ACTIVE,  # a takeover or a hand-off
            Move.PARK: Status.PARKED,
            Move.COMPLETE: Status.COMPLETED,
            **_UNDONE,
        },
        Status.PARKED: {Move.CLAIM: Status.ACTIVE, **_UNDONE},
        Status.COMPLETED: {},
        Status.FAILED: {},
        Status.CANCELLED: {},
    }
)

TERMINALS: Final = frozenset(f"{OWN_PREFIX}{status.value}" for status in Status if status.is_terminal)
"""Types of the last event of a log, one for each outcome."""


class Cause(StrEnum):
    """Why a controller let go of its run, as far as anyone can know."""

    CRASH = "crash"
    """Its process is gone, or its lease ran out."""
    STALL = "stall"
    """Its event loop stood still past the stall limit."""
    STORE = "store"
    """The store failed in a way nobody classified."""
    WORKER = "worker"
    """The worker or what drives it failed in a way nobody classified."""
    MEMORY = "memory"
    """It ran out of memory."""
    HANDOFF = "handoff"
    """It let go on purpose, for a deploy."""


class FailureCode(StrEnum):
    """Why a run failed; the `code` of `run.failed`."""

    RECOVERY_EXHAUSTED = "recovery_exhausted"
    WORKER_ERROR = "worker_error"
    WORKER_FAILED = "worker_failed"
    LOG_FULL = "log_full"
    EVENT_TOO_LARGE = "event_too_large"
    NOT_ADMITTED = "not_admitted"
    ORPHANED = "orphaned"


class Limit(StrEnum):
    """Which part of the recovery budget ran out."""

    WINDOW = "window"
    LIFE = "life"
    CALLS = "calls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The worker came to its end; `result` is the JSON bytes of what it returned, if anything."""

    result: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The run failed; `message` is for people and holds nothing a worker said."""

    code: FailureCode
    message: str
    limit: Limit | None = None
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """A person stopped the run; `reason` is what they gave."""

    reason: str | None = None


Outcome: TypeAlias = Completed | Failed | Cancelled


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryBudget:
    """What a run has used up so far; the limits are the policy's.

    `takeovers` counts the open window, `last_takeover_at` (store's clock) says when that window's newest one
    was; `life`, `handoffs` and `calls` are never reset by anything. `waits` counts resolved waits, each of
    which allows one more call. `causes` has one entry per takeover.
    """

    takeovers: int = 0
    last_takeover_at: float | None = None
    life: int = 0
    handoffs: int = 0
    calls: int = 0
    waits: int = 0
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StopIntent:
    """The durable fact that a person wants the run ended; `at` is by the store's clock."""

    at: float
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a resume worker goes on from: the seq of its `run.checkpoint`, and its state as JSON bytes."""

    seq: int
    state: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """The fencing token of one claim: every write carries it. Equal epochs with other claim ids are refused."""

    epoch: int
    claim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The row of one run, as the store read it.

    `owner` and `id` together are its key; `log` is the identity Outlast minted for it, the only name of a run
    that may appear in our own logs. Times are seconds by the store's clock. `lease_until` is the end of the
    *holder's* lease, joined in by the store; it is None when nobody holds the run or the holder has no lease.
    `cause` is why the last controller let go, None when it never said. `not_before` is the earliest time of the
    next claim; `wake_at` is when a parked run wants to be woken. `traceparent` names the trace of whoever started it.
    """

    owner: str
    id: str
    log: str
    worker: str
    input: bytes
    digest: bytes
    status: Status = Status.QUEUED
    thread: str | None = None
    metadata: bytes = b"{}"
    traceparent: str | None = None
    epoch: int = 0
    claim: str | None = None
    holder: str | None = None
    lease_until: float | None = None
    cause: Cause | None = None
    budget: RecoveryBudget = field(default_factory=RecoveryBudget)
    not_before: float = 0.0
    wake_at: float | None = None
    stop: StopIntent | None = None
    outcome: Outcome | None = None
    created_at: float = 0.0
    updated_at: float = 0.0
    settled_at: float | None = None

    @property
    def token(self) -> Token:
        """The fencing token of the newest claim. Raises `ValueError` when the run was never claimed."""
        if self.claim is None:
            raise ValueError("a run that was never claimed has no token")
        return Token(epoch=self.epoch, claim=self.claim)

    @property
    def attempt(self) -> int:
        """How often the run was claimed to be driven: 1 for the first controller, one more per takeover or hand-off."""
        return 1 + self.budget.life + self.budget.handoffs


def move_of(outcome: Outcome) -> Move:
    """Return the move that an outcome is."""
    match outcome:
        case Completed():
            return Move.COMPLETE
        case Failed():
            return Move.FAIL
        case Cancelled():
            return Move.CANCEL
        case _:
            assert_never(outcome)


def after(status: Status, move: Move) -> Status:
    """Return where `move` leads from `status`. Raises `ValueError` for a move the table does not have."""
    try:
        return TRANSITIONS[status][move]
    except KeyError:
        raise ValueError(f"a {status} run cannot {move}") from None


def started(run: Run) -> Event:
    """Return the event that opens the log of a run claimed for the first time."""
    return Event("run.started", {"epoch": run.epoch, "attempt": run.attempt})


def restarted(run: Run, *, cause: Cause, keep: int) -> Event:
    """Return the event of a takeover: readers fold away what came after seq `keep`. Source: W14."""
    return Event("run.restarted", {"epoch": run.epoch, "attempt": run.attempt, "cause": cause.value, "keep": keep})


def checkpointed() -> Event:
    """Return the event of a checkpoint. What the worker needs to go on is no reader's business: it stands elsewhere."""
    return Event(CHECKPOINT, {})


def terminal(outcome: Outcome) -> Event:
    """Return the last event of a log: what became of the run."""
    match outcome:
        case Completed(result=result):
            payload = b'{"result":%b}' % result if result else b"{}"
            return Event("run.completed", payload, content_type=JSON_TYPE)
        case Failed():
            return Event("run.failed", describe(outcome))
        case Cancelled(reason=reason):
            return Event("run.cancelled", {"reason": reason})
        case _:
            assert_never(outcome)


def describe(outcome: Failed) -> dict[str, JSON]:
    """Return a failure as the JSON that `run.failed` and the status document carry."""
    said: dict[str, JSON] = {"code": outcome.code.value, "message": outcome.message}
    if outcome.limit is not None:
        said["limit"] = outcome.limit.value
    if outcome.causes:
        said["causes"] = [cause.value for cause in outcome.causes]
    return said
