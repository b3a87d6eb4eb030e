"""The sentences of the command line: what has become of the connection, of a run, of its recovery budget."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast

from outlast.cli.terminal import inline
from outlast.log.event import JSON
from outlast.run import Cause
from outlast.supervision.phase import Grade, Phase, Trouble
from outlast.supervision.record import LinkRecord, sentence

LONGEST: Final = 300
"""Characters of a worker's or a person's words on one line of ours."""

TROUBLES: Final[Mapping[Trouble, str]] = {
    Trouble.UNREACHABLE: "the server cannot be reached",
    Trouble.BROKEN: "the connection broke",
    Trouble.SILENT: "nothing is heard of the server any more",
    Trouble.BUSY: "the server is busy",
    Trouble.ENDED: "the connection was closed",
    Trouble.DRAINING: "the server closes and sends its readers away",
    Trouble.FOREIGN: "something else answers at this address",
    Trouble.SKIPPED: "events were missing",
    Trouble.UNEXPECTED: "this client failed unexpectedly",
    Trouble.UNSPOKEN: "it takes no connection of this kind",
    Trouble.CREDENTIALS: "the server does not accept the credentials",
    Trouble.REVOKED: "the server has taken this identity's rights away",
    Trouble.VERSION: "the server speaks another version",
    Trouble.ADDRESS: "no Outlast answers at this address",
    Trouble.CONFIGURATION: "it is not the one that was meant",
    Trouble.CERTIFICATE: "the server's certificate cannot be trusted",
}

EVIDENCE: Final[Mapping[Grade, str]] = {
    Grade.FRAMES: "its streams go on",
    Grade.BEACON: "its beacon answers",
    Grade.WITNESS: "another node sees it",
    Grade.KERNEL: "its machine acknowledges",
}


def link_sentence(record: LinkRecord, *, now: float) -> str:
    """Return how the link is, and why; `now` is on the clock of the record."""
    said = sentence(record, now=now)
    if record.phase is Phase.BUSY and record.evidence is not None:
        return f"{said} ({EVIDENCE[record.evidence]})"
    if record.trouble is None or record.phase is Phase.LIVE:
        return said
    attempt = f" (attempt {record.attempt})" if record.phase is Phase.BACKOFF else ""
    return f"{said}: {TROUBLES[record.trouble]}{attempt}"


def recovery_sentence(recovering: object) -> str | None:
    """Return how a run that nobody drives goes on, from a status document's `recovering`; None where it is null."""
    if not isinstance(recovering, Mapping):
        return None
    said = cast("Mapping[str, Any]", recovering)
    return f"recovering: takeover {plain(said, 'takeover')} in {plain(said, 'next_try_in')} s ({plain(said, 'cause')})"


def node_sentence(node: Mapping[str, Any]) -> str:
    """Return how a node is, from its entry in `GET /nodes`."""
    name = f"node {inline(str(node.get('id')), 24)}"
    left, draining = node.get("lease_left"), ", draining" if node.get("draining") else ""
    if left is not None:
        lag = f"{1000 * float(node['loop_lag']):.0f} ms"
        return f"{name}: lease ends in {float(left):.1f} s, loop lag {lag}{draining}"
    what = "stalled and gave its runs up" if node.get("stalled") else "died"
    return f"{name}: {what} {_one_unit(float(node['lapsed_for']))} ago{draining}"


def takeover_sentence(restarted: Mapping[str, JSON]) -> str:
    """Return what a `run.restarted` tells."""
    if restarted.get("cause") == Cause.HANDOFF:
        return f"handed off: attempt {plain(restarted, 'attempt')}"
    return f"taken over: attempt {plain(restarted, 'attempt')} ({plain(restarted, 'cause')})"


def outcome_sentence(status: str, outcome: Mapping[str, JSON]) -> str:
    """Return what became of a run, from its terminal status and what its terminal event or status document says."""
    match status:
        case "completed":
            return "completed"
        case "cancelled":
            return f"stopped: {plain(outcome, 'reason')}" if outcome.get("reason") else "stopped"
        case _:
            causes = outcome.get("causes")
            listed = f" (causes: {', '.join(map(str, causes))})" if isinstance(causes, list) else ""
            return inline(f"failed: {plain(outcome, 'code')}: {plain(outcome, 'message')}{listed}", LONGEST)


def ago(time: str, *, now: datetime) -> str:
    """Return how long ago an RFC 3339 time was, in one unit."""
    try:
        seconds = max(0.0, (now - datetime.fromisoformat(time)).total_seconds())
    except ValueError:
        return "?"
    return f"{_one_unit(seconds)} ago"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _one_unit(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def plain(said: Mapping[str, JSON], name: str) -> str:
    """Return a member as text for one line, `?` when it is not there."""
    value = said.get(name)
    return "?" if value is None else inline(str(value), LONGEST)
