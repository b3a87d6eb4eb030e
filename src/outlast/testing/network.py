"""What a bad network does to a connection, as facts: for a `FaultProxy` to impose."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Flag, auto
from typing import TypeAlias, TypeVar


class Way(Flag):
    """A direction: up is from the client to the server."""

    UP = auto()
    DOWN = auto()
    BOTH = UP | DOWN


@dataclass(frozen=True, slots=True)
class Latency:
    """Every byte, and the end, comes `seconds` later."""

    seconds: float
    way: Way = Way.BOTH


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """At most `rate` bytes come through in a second."""

    rate: float
    way: Way = Way.BOTH

    def __post_init__(self) -> None:
        if self.rate <= 0:
            raise ValueError("a line without any bandwidth is a Stall")


@dataclass(frozen=True, slots=True)
class Chop:
    """Bytes come in pieces of `size` at most, each in a turn of the loop of its own."""

    size: int
    way: Way = Way.BOTH

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError("a piece has at least one byte")


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection ends when exactly `after` bytes of its down stream have come through, by a FIN or a reset."""

    after: int
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Stall:
    """Nothing is read and nothing comes through until the fault is lifted: the windows of the kernel fill up.

    It begins when exactly `after` bytes of the down stream have come through.
    """

    way: Way = Way.BOTH
    after: int = 0


@dataclass(frozen=True, slots=True)
class BlackHole:
    """What is sent is swallowed, the end too: nobody is told anything.

    It begins when exactly `after` bytes of the down stream have come through: then the connection is half-open.
    """

    way: Way = Way.BOTH
    after: int = 0


@dataclass(frozen=True, slots=True)
class Refuse:
    """No connection comes about: nobody listens, or, with `listening`, each is accepted and reset."""

    listening: bool = False


Directed: TypeAlias = Latency | Bandwidth | Chop | Stall | BlackHole
"""What one direction of a connection can be under."""
Fault: TypeAlias = Directed | Cut
"""What a connection can be under."""
D = TypeVar("D", bound=Directed)


def under(faults: Iterable[Fault], kind: type[D], way: Way) -> D | None:
    """Return the first fault of a kind that holds in this direction."""
    return next((fault for fault in faults if isinstance(fault, kind) and way in fault.way), None)


def cut_of(faults: Iterable[Fault]) -> Cut | None:
    """Return the first of the cuts."""
    return next((fault for fault in faults if isinstance(fault, Cut)), None)
