"""Named facts that the shells report: what logs, metrics and traces are made of.

A fact holds enums, numbers and ids that Outlast minted (`run` is the log identity, never a caller's id; `node`
a node's), so whatever prints facts cannot leak a payload, a label or a name from outside. A shell is handed one
`Report` and knows nothing of where it leads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from outlast.run import Cause, FailureCode, Limit, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted:
    """A node took up its work."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDraining:
    """A node claims nothing more, and waits for the `runs` it drives."""

    node: str
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStopped:
    """A node let go of everything it held; of its last runs some `finished` here, others were `handed_off`."""

    node: str
    finished: int
    handed_off: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunClaimed:
    """One claim, or the settling of a run whose budget is spent; one such fact per claim (B16)."""

    run: str
    epoch: int
    attempt: int
    takeovers: int
    cause: Cause | None
    exhausted: Limit | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimMissed:
    """Another node won the race; nothing was written."""

    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrerequisiteFailed:
    """Admission refused a takeover; the run row is untouched and the next try comes after a cool-down."""

    run: str
    retry_in: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettled:
    """A run has its outcome; `limit` is the part of its budget that was spent, for one that is exhausted."""

    run: str
    status: Status
    code: FailureCode | None
    limit: Limit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReleased:
    """A controller let go of its run; the next claim is a takeover, or a hand-off."""

    run: str
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPaused:
    """A controller takes nothing more from its worker until the store answers."""

    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerResumed:
    """A paused controller was proved to own its run and goes on."""

    run: str
    paused_for: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStoodDown:
    """A controller found that another claim owns its run, and ended itself."""

    run: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCalled:
    """The worker is about to be called; `call` is the charged number.

    `waited` is the seconds since the claim, for the first call of a controller.
    """

    run: str
    epoch: int
    call: int
    waited: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFailed:
    """The worker raised; `frames` are file, line and function of its traceback, innermost last. No message of it."""

    run: str
    error: str
    frames: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLeftBehind:
    """A call of the worker goes on although its run is over for it: it did not end when it was told to.

    It keeps its thread or task, and what it holds, until it ends by itself; `left` are all such calls of the node.
    """

    run: str
    epoch: int
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortDelivered:
    """The worker acknowledged that a run is over."""

    run: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortFailed:
    """The worker did not acknowledge an abort; it is tried again unless `given_up`."""

    run: str
    epoch: int
    error: str
    given_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTroubled:
    """A loop of a node could not do its store operation and backs off; `during` names the loop."""

    during: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HookTroubled:
    """A function of the application failed or took too long, so what was asked is refused; `hook` names which."""

    hook: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BeaconLost:
    """The thread or process that answered at a node's beacon has ended; another is lit as soon as that can be."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBuried:
    """A node on this machine was provably dead; its runs need not wait for its lease."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsAppended:
    """A batch of events is durable; `seconds` is how long the store took. Told only where somebody counts."""

    run: str
    events: int
    bytes: int
    seconds: float


class Departure(StrEnum):
    """Why a reader is no longer served."""

    ENDED = "ended"
    """It was told that the log has ended."""
    LEFT = "left"
    """Its client went away."""
    STALLED = "stalled"
    """Its client took nothing for too long and was dropped."""
    DRAINED = "drained"
    """It was sent to another node."""
    EXPIRED = "expired"
    """Its credentials ran out while it read, and it was asked to sign in again."""
    TROUBLE = "trouble"
    """The store failed, and it was asked to come again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOpened:
    """A reader is being served."""

    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderClosed:
    """A reader is no longer served."""

    run: str
    departure: Departure


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsExpired:
    """What a look for what is past its retention came to: runs that became tombstones, tombstones that were deleted."""

    runs: int
    tombstones: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCorrupt:
    """The row of a run cannot be read; it is passed over, and every other run is looked after."""

    run: str


Fact: TypeAlias = (
    NodeStarted
    | NodeDraining
    | NodeStopped
    | BeaconLost
    | NodeBuried
    | RunClaimed
    | ClaimMissed
    | PrerequisiteFailed
    | RunSettled
    | RunReleased
    | ControllerPaused
    | ControllerResumed
    | ControllerStoodDown
    | WorkerCalled
    | WorkerFailed
    | CallLeftBehind
    | AbortDelivered
    | AbortFailed
    | StoreTroubled
    | HookTroubled
    | EventsAppended
    | ReaderOpened
    | ReaderClosed
    | RunsExpired
    | RunCorrupt
)

Report: TypeAlias = Callable[[Fact], None]
