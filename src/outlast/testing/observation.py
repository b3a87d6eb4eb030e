"""What can be observed of runs under test: each fact as whoever saw it wrote it down, in the order things happened.

`at` is the loop's time in seconds. `run` is the id that the caller gave the run, `log` the identity of its log.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from outlast.client.received import Received
from outlast.facts import Fact
from outlast.log.cursor import Cursor, Gap
from outlast.log.event import Event, StoredEvent
from outlast.run import Run, Token
from outlast.stores.base import Charge, StopAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSeen:
    """A row as it was right after something was done to it; `now` is the store's clock."""

    at: float
    now: float
    row: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The store accepted a claim: the row as the node had read it, and the row that it was answered."""

    at: float
    node: str
    before: Run
    after: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The store answered a settle; `token` is None when nobody held the run."""

    at: float
    node: str
    token: Token | None
    after: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Charged:
    """The store answered a charge before a worker call."""

    at: float
    node: str
    run: str
    token: Token
    number: int
    limit: int
    charge: Charge


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The store accepted a release."""

    at: float
    node: str
    run: str
    token: Token


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceRaised:
    """The log store accepted a fence."""

    at: float
    node: str
    log: str
    token: Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The log store accepted an append and answered the new head."""

    at: float
    node: str
    log: str
    token: Token
    previous: Cursor
    events: Sequence[Event]
    head: Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class PrerequisiteRefused:
    """A refusal was noted: the row before it and after it."""

    at: float
    node: str
    before: Run
    after: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAnswered:
    """A stop was answered; `known` tells whether there was such a run."""

    at: float
    run: str
    known: bool
    answer: StopAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBegan:
    """The worker was called."""

    at: float
    run: str
    epoch: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded:
    """A call of the worker is over; `deaf` when it did not hear that it should end. It said `said`, or began to."""

    at: float
    run: str
    epoch: int
    number: int
    deaf: bool
    said: Sequence[Event] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResumed:
    """A call of a resume worker got back what was kept; `counted` is how much that is by its state, if it has one."""

    at: float
    run: str
    epoch: int
    number: int
    kept: Sequence[Event]
    counted: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointed:
    """The store accepted a checkpoint."""

    at: float
    node: str
    run: str
    token: Token
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTold:
    """The worker was told that a run is over."""

    at: float
    run: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTaken:
    """A reader took an event; `durable` tells whether the store had it at that moment."""

    at: float
    reader: str
    log: str
    stored: StoredEvent
    durable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GapTold:
    """A reader was told that its cursor cannot be served."""

    at: float
    reader: str
    log: str
    gap: Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingEnded:
    """A reader was told that the log has come to its end."""

    at: float
    reader: str
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowBegan:
    """An application began to follow a log after a cursor: the one it kept, or the start."""

    at: float
    reader: str
    log: str
    after: Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """An application took an event or a gap from its follow."""

    at: float
    reader: str
    log: str
    received: Received


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorKept:
    """An application stored a cursor, to come back with."""

    at: float
    reader: str
    log: str
    cursor: Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowEnded:
    """A follow came to its end by itself."""

    at: float
    reader: str
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FactReported:
    """A node reported a fact."""

    at: float
    node: str
    fact: Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultMet:
    """A fault was injected, by the name of its kind."""

    at: float
    node: str
    kind: str
    operation: str


Observation: TypeAlias = (
    RowSeen
    | Claimed
    | Settled
    | Charged
    | Released
    | FenceRaised
    | Appended
    | PrerequisiteRefused
    | StopAnswered
    | CallBegan
    | CallEnded
    | CallResumed
    | Checkpointed
    | AbortTold
    | EventTaken
    | GapTold
    | ReadingEnded
    | FollowBegan
    | Delivered
    | CursorKept
    | FollowEnded
    | FactReported
    | FaultMet
)
