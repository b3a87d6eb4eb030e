"""Who asks, what they ask to do, and the two functions of an application that decide about it."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from starlette.requests import HTTPConnection

from outlast.run import Run

ANONYMOUS: Final = ""
"""The owner of every run where nobody is asked who they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whom a request speaks for; `expires_at` is when its credentials end, in Unix seconds, None if they do not.

    `subject` tells apart those who share one owner, such as the members of a team; `authorize` gets it, nothing else
    looks at it.
    """

    owner: str
    subject: str | None = None
    expires_at: float | None = None

    def __post_init__(self) -> None:
        """Refuse a time that is none. Raises `ValueError`."""
        if self.expires_at is not None and not math.isfinite(self.expires_at):
            raise ValueError("expires_at is a time in Unix seconds, or None")


class Action(StrEnum):
    """What a request asks to do; every route about runs is one of these."""

    START = "start"
    """Start a run. Nothing of it is known yet: what it is to do is `admit`'s to judge."""
    LIST = "list"
    """List an owner's runs, look at a thread, or at the nodes."""
    READ = "read"
    """See a run: its status, its events, its snapshot."""
    STOP = "stop"
    """Stop a run, also one that is not there yet."""
    ERASE = "erase"
    """Delete a run that has ended, and its log."""


Authenticate: TypeAlias = Callable[[HTTPConnection], Awaitable["str | Identity | None"]]
"""Returns the owner a request speaks for, or an `Identity`; None refuses it."""

Authorize: TypeAlias = Callable[[Identity, Action, str, "Run | None"], Awaitable[bool]]
"""Says whether this identity may do this to that owner's run. The run is None where there is none to be seen: for
`START`, `LIST`, and a run that is not there (yet, or any more)."""
