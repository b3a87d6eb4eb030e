"""What can happen to a link.

Rules:
1. An input about an attempt or a link names it. One that names another than the current is of the past and says
   nothing.
2. No input is trusted to be the last word: hints are triggers, and only a connection's own end ends it.
"""

from dataclasses import dataclass
from typing import TypeAlias

from outlast.supervision.phase import Grade, Trouble, Wakeup

# ---- intent -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """Somebody wants the link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """It is over for good."""


# ---- hints --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Woken:
    """There is a reason to look now; `seconds` is for how long nobody looked, or the machine slept."""

    wakeup: Wakeup
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WentOffline:
    """The machine says that it has no network."""


# ---- what becomes of an attempt -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The attempt has become a connection, and the server has spoken over it. `heartbeat` is what it promised."""

    attempt: int
    heartbeat: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The attempt came to nothing; `pause` is for how many seconds the server asked us to stay away."""

    attempt: int
    trouble: Trouble
    pause: float = 0.0


# ---- what the link says ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """Something came in over the link; with `progress`, an event of a log."""

    link: int
    progress: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The link has ended."""

    link: int
    trouble: Trouble
    pause: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """The server goes, and asks its clients to come back within `spread` seconds, each at a time of its own."""

    link: int
    spread: float


# ---- questions --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswered:
    """The probe was answered."""

    link: int
    probe: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFailed:
    """The probe found out that the link is dead."""

    link: int
    probe: int
    trouble: Trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request was sent, or a stream ought to move: a healthy server answers soon."""

    link: int
    request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The request was answered, whatever the answer was."""

    link: int
    request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandoned:
    """Nobody waits for the request's answer any more."""

    link: int
    request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Witnessed:
    """Something speaks for the server."""

    link: int
    grade: Grade


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """Something speaks against the server: it is gone, or has lost its runs to another one."""

    link: int


# ---- time -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """The deadline has come."""


Input: TypeAlias = (
    Want
    | Close
    | Woken
    | WentOffline
    | Ready
    | Failed
    | Heard
    | Lost
    | Drained
    | ProbeAnswered
    | ProbeFailed
    | Asked
    | Answered
    | Abandoned
    | Witnessed
    | Denied
    | Tick
)
