"""What each event of a run looks like: text flows, tools take one dim line, takeovers and the outcome stand out."""

import base64
import json
from collections.abc import Mapping
from typing import Final, Protocol, assert_never

from outlast.cli.terminal import Screen, Style, inline
from outlast.cli.wording import outcome_sentence, takeover_sentence
from outlast.client.received import Received, ReceivedEvent, ReceivedGap
from outlast.log.event import JSON
from outlast.log.fold import RESTARTED, TEXT
from outlast.run import Cause

COMPACT: Final = 160
"""Characters that anything but text may take: two rows of a usual terminal."""
OUTCOMES: Final = {"run.completed": Style.GOOD, "run.failed": Style.BAD, "run.cancelled": Style.NOTED}
GAPS: Final = {
    "trimmed": "the log no longer holds what came next",
    "ahead": "the log does not reach as far as this reader had read",
    "mismatch": "the log has another past than this reader has read",
}


class Telling(Protocol):
    """Some way of telling what was received."""

    def take(self, received: Received) -> None:
        """Tell one thing that was received."""
        ...


class Transcript:
    """A run as a person reads it."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._seq = 0

    def take(self, received: Received) -> None:
        match received:
            case ReceivedEvent():
                self._event(received)
            case ReceivedGap(snapshot=snapshot):
                if self._seq:
                    self._screen.fold()  # it comes anew
                self._mark(f"gap: {GAPS.get(received.reason, 'events cannot be served')}", Style.NOTED)
                for event in snapshot:
                    self._event(event)
            case _:
                assert_never(received)
        self._seq = received.cursor.seq

    def _event(self, received: ReceivedEvent) -> None:
        data = data_of(received)
        said: Mapping[str, JSON] = data if isinstance(data, Mapping) else {}
        if received.type == TEXT and isinstance(data, str):
            self._screen.text(data)
        elif received.type == RESTARTED:
            if not said.get("keep"):
                self._screen.fold()
            self._mark(takeover_sentence(said), Style.NOTED)
        elif received.type in OUTCOMES:
            self._mark(outcome_sentence(received.type.removeprefix("run."), said), OUTCOMES[received.type])
        elif received.type != "run.started":
            self._screen.aside(compact(received.type, data))

    def _mark(self, sentence: str, style: Style) -> None:
        self._screen.line(f"— {sentence} —", style)
        self._screen.keep()


class Listing:
    """A run as a program reads it: one JSON object a line."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def take(self, received: Received) -> None:
        self._screen.line(as_json(received))


def as_json(received: Received) -> str:
    """Return what was received as one line of JSON, in ASCII: no payload can act on a terminal."""
    match received:
        case ReceivedEvent():
            said = _event_document(received)
        case ReceivedGap():
            gap = {name: str(getattr(received, name)) for name in ("reason", "requested", "cursor")}
            snapshot = [_event_document(event) for event in received.snapshot]
            said = {"gap": {**gap, "first": received.first, "snapshot": snapshot}}
        case _:
            assert_never(received)
    return json.dumps(said, separators=(",", ":"))


def _event_document(received: ReceivedEvent) -> dict[str, JSON]:
    data = data_of(received)
    said: dict[str, JSON] = {"cursor": str(received.cursor), "seq": received.seq, "type": received.type}
    if isinstance(data, bytes):
        return said | {"data_base64": base64.b64encode(data).decode(), "content_type": received.content_type}
    return said | {"data": data}


def compact(type: str, data: JSON | bytes) -> str:
    """Return any event as one short line: `tool.call read_docs {"module":"heapq"}`."""
    if isinstance(data, bytes):
        return f"{type} ({len(data)} bytes)"
    name = ""
    if isinstance(data, Mapping) and isinstance(data.get("tool"), str):
        name = f" {data['tool']}"
        data = data.get("result", data.get("arguments"))
    return inline(f"{type}{name} {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}", COMPACT)


def is_takeover(received: ReceivedEvent) -> bool:
    """Return whether this tells a takeover; a planned hand-off is none."""
    if received.type != RESTARTED:
        return False
    data = data_of(received)
    return not (isinstance(data, Mapping) and data.get("cause") == Cause.HANDOFF)


def data_of(received: ReceivedEvent) -> JSON | bytes:
    """Return the event's data; the bytes themselves where they are not the JSON they claim to be."""
    try:
        return received.data
    except (ValueError, RecursionError):
        return received.payload
