"""What a reader asks for and receives: events of a log, and the gaps that are told where they cannot be served."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from outlast.errors import CursorInvalid, WireError
from outlast.log.cursor import Cursor
from outlast.log.event import JSON, Event
from outlast.run import TERMINALS
from outlast.wire import native
from outlast.wire.sse import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is followed, and how. `types` are joined by commas; None leaves nothing out.

    A link that is blocked is waited for where `patient`; otherwise what blocks it is raised.
    """

    run: str
    owner: str | None = None
    types: str | None = None
    patient: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedEvent:
    """One event as a reader received it; `str(received.cursor)` is its place, to go on from later."""

    cursor: Cursor
    event: Event

    @property
    def seq(self) -> int:
        """The event's number, from 1."""
        return self.cursor.seq

    @property
    def type(self) -> str:
        """What kind of event it is."""
        return self.event.type

    @property
    def data(self) -> JSON | bytes:
        """The payload as it was said: JSON decoded, anything else as bytes."""
        return self.event.data

    @property
    def payload(self) -> bytes:
        """The payload as it is stored."""
        return self.event.payload

    @property
    def content_type(self) -> str:
        """What the payload is."""
        return self.event.content_type

    @property
    def is_terminal(self) -> bool:
        """Whether this is the last event of its log."""
        return self.event.type in TERMINALS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedGap:
    """The events after `requested` cannot be served: `snapshot` replaces all that came before, `cursor` is its place.

    `reason` is `trimmed`, `ahead` or `mismatch`; `first` is the oldest seq still readable. The snapshot is what is left
    of the log up to `cursor`, after rewinds and with adjacent texts merged: build your state from it anew. Events after
    `cursor` follow.
    """

    reason: str
    requested: Cursor
    first: int
    cursor: Cursor
    snapshot: tuple[ReceivedEvent, ...] = ()

    @property
    def is_end(self) -> bool:
        """Whether the log ends within the snapshot."""
        return bool(self.snapshot) and self.snapshot[-1].is_terminal


Received: TypeAlias = ReceivedEvent | ReceivedGap


def event_of(message: Message) -> ReceivedEvent | None:
    """Return the event of the log that a frame carries, None when it carries none. Raises `WireError`."""
    try:
        found = native.event_from_frame(message)
    except CursorInvalid as error:
        raise WireError("The id of a frame is no cursor.") from error
    return None if found is None else ReceivedEvent(cursor=found[0], event=found[1])


def gap_of(said: Mapping[str, JSON]) -> ReceivedGap:
    """Return the gap that a control frame tells, with the snapshot if it is in there. Raises `WireError`."""
    first = said.get("first")
    try:
        gap = ReceivedGap(
            reason=str(said.get("reason")),
            requested=Cursor.parse(str(said.get("requested"))),
            first=first if isinstance(first, int) else 1,
            cursor=Cursor.parse(str(said.get("cursor"))),
        )
    except CursorInvalid as error:
        raise WireError("A gap does not tell where the stream goes on.") from error
    return with_snapshot(gap, said["snapshot"]) if "snapshot" in said else gap


def with_snapshot(gap: ReceivedGap, said: JSON) -> ReceivedGap:
    """Return `gap` with the snapshot that a server told. Raises `WireError`."""
    events = said.get("events") if isinstance(said, Mapping) else None
    if not (isinstance(said, Mapping) and isinstance(events, list)):
        raise WireError("A snapshot is no JSON object with its events.")
    try:
        cursor = Cursor.parse(str(said.get("cursor")))
    except CursorInvalid as error:
        raise WireError("A snapshot does not tell its place.") from error
    return replace(gap, cursor=cursor, snapshot=tuple(map(_event_in, events)))


def _event_in(said: JSON) -> ReceivedEvent:
    cursor, event = native.event_from_json(said if isinstance(said, Mapping) else {})
    return ReceivedEvent(cursor=cursor, event=event)
