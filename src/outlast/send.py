"""A send: what a client asks of a server and does not give up, and the one table of what becomes of it.

    queued ──> sent ──> accepted | rejected          (absorbing)

Rules:
1. Its key is what it asks and of which run: asked for again with the same content it is the same send, with another
   content a conflict. The server knows it by that key too, so one that arrives twice does nothing twice.
2. *sent* is written before the first byte leaves, and says that it may have arrived: what is *queued* certainly has
   not. From then on it is sent again, under the same key, until there is an answer.
3. Only an answer settles a send. A refusal is an answer, and is kept until somebody has taken note of it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

MOST_SENDS: Final = 1000
"""Sends kept for one server that nobody has taken note of: a person who types for a day while it is away."""
MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of content in them: sixteen of the largest requests that a server takes."""


class State(StrEnum):
    """What has become of a send."""

    QUEUED = "queued"
    SENT = "sent"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.QUEUED: frozenset({State.SENT}),
    State.SENT: frozenset({State.SENT, State.ACCEPTED, State.REJECTED}),
    State.ACCEPTED: frozenset(),
    State.REJECTED: frozenset(),
}
"""Where each state may lead."""
SETTLED: Final = frozenset(state for state, following in TRANSITIONS.items() if not following)
"""States in which an answer has come."""


class Kind(StrEnum):
    """What a send asks for."""

    START = "start"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSend:
    """What is to be sent: `content` is the body of the request, in JSON."""

    kind: Kind
    run: str
    owner: str | None
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A send as it is kept: which one, about which run, what became of it, and how often it was sent.

    `state` is `queued`, `sent` (it may have arrived), `accepted` or `rejected`; `code` says why, as `error.code` would.
    Source: R11.
    """

    number: int
    kind: Kind
    run: str
    owner: str | None
    state: State
    tries: int
    code: str | None
    content: bytes = field(repr=False)

    @property
    def is_settled(self) -> bool:
        """Whether an answer has come."""
        return self.state in SETTLED

    @property
    def said(self) -> dict[str, Any]:
        """What was asked for; nothing once it is accepted."""
        said: dict[str, Any] = json.loads(self.content or b"{}")
        return said


def digest(content: bytes) -> bytes:
    """Return SHA-256 over the canonical JSON of a content: the same for the same thing said in another order."""
    canonical = json.dumps(json.loads(content), sort_keys=True, separators=(",", ":"))
    return sha256(canonical.encode()).digest()


def fits(size: int, *, sends: int, held: int) -> bool:
    """Say whether another send with `size` bytes of content may be kept beside `sends` others with `held` bytes."""
    return sends < MOST_SENDS and held + size <= MOST_BYTES
