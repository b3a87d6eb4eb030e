"""The one record of a link that people and programs are shown, and the sentence that says it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from outlast.supervision.link import Link
from outlast.supervision.phase import Grade, Phase, Trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRecord:
    """How the link to a server is; times are seconds on the supervisor's clock.

    `since` is when the phase began, `last_heard` when the link spoke last, `retry_at` when the next attempt comes.
    `attempt` counts from 1, and stands where one is in flight or waited for. `trouble` says why there is no link, or
    why it is being replaced; `evidence` what speaks for a server that is `busy`. Source: M4, M5.
    """

    phase: Phase
    since: float
    generation: int
    last_heard: float | None
    attempt: int | None
    retry_at: float | None
    trouble: Trouble | None
    evidence: Grade | None
    can_send: bool


def record(link: Link) -> LinkRecord:
    """Return what is shown of a link: a function of the machine alone."""
    current, is_trying = link.current, link.is_replacing
    witness = None if current is None else current.witness
    return LinkRecord(
        phase=link.phase,
        since=link.since,
        generation=link.generation,
        last_heard=None if current is None else current.heard_at,
        attempt=link.attempt if is_trying else None,
        retry_at=link.retry_at,
        trouble=link.trouble,
        evidence=None if witness is None else witness.grade,
        can_send=link.can_send,
    )


_PLAIN: Final = {
    Phase.IDLE: "not connected",
    Phase.LIVE: "connected",
    Phase.BUSY: "server is busy, your run continues",
    Phase.SWITCHING: "moving to a new connection",
    Phase.OFFLINE: "offline",
    Phase.CLOSED: "closed",
}
_BLOCKED: Final[Mapping[Trouble | None, str]] = {
    Trouble.CREDENTIALS: "sign in again",
    Trouble.REVOKED: "sign in again",
    Trouble.VERSION: "update needed",
    Trouble.ADDRESS: "check the address",
    Trouble.CONFIGURATION: "another server answers at this address",
    Trouble.CERTIFICATE: "the server's certificate cannot be trusted",
}


def sentence(record: LinkRecord, *, now: float) -> str:
    """Return how the record is told to a person. Source: M6."""
    match record.phase:
        case Phase.SLOW:
            assert record.last_heard is not None, "there is a link"
            return f"slow, last heard {now - record.last_heard:.0f} s ago"
        case Phase.BACKOFF:
            assert record.retry_at is not None, "the next attempt has its time"
            return f"lost, retrying in {max(0, record.retry_at - now):.0f} s"
        case Phase.CONNECTING:
            return "connecting" if record.attempt == 1 else f"connecting, attempt {record.attempt}"
        case Phase.BLOCKED:
            return _BLOCKED.get(record.trouble, "cannot connect")
        case _:
            return _PLAIN[record.phase]
