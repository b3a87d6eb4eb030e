"""What a link asks its shell to do."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Make a connection over a transport, told by its index, and tell what becomes of the attempt."""

    attempt: int
    transport: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Let go of what became of this attempt, connection or not."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """What became of this attempt is the link now: whatever is followed moves over to it."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Ask over the link whether the server is there."""

    link: int
    probe: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather:
    """Look for what speaks for the server."""

    link: int


Command: TypeAlias = Open | Release | Adopt | Probe | Gather
