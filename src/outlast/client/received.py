"""What a reader receives: the events of a log, and the gaps that are told where events cannot be served."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from outlast.errors import CursorInvalid, WireError
from outlast.log.cursor import Cursor
from outlast.log.event import JSON, Event
from outlast.wire import native
from outlast.wire.sse import Message


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
        return self.event.type in native.TERMINALS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedGap:
    """The events after `requested` cannot be served, and the stream goes on after `cursor`.

    `reason` is `trimmed`, `ahead` or `mismatch`; `first` is the oldest seq still readable. What a reader made of the
    events up to `requested` may be wrong: events from `cursor` on come anew.
    """

    reason: str
    requested: Cursor
    first: int
    cursor: Cursor


Received: TypeAlias = ReceivedEvent | ReceivedGap


def event_of(message: Message) -> ReceivedEvent | None:
    """Return the event of the log that a frame carries, None when it carries none. Raises `WireError`."""
    try:
        stored = native.stored_from_frame(message)
    except CursorInvalid as error:
        raise WireError("The id of a frame is no cursor.") from error
    return None if stored is None else ReceivedEvent(cursor=stored.cursor, event=stored.event)


def gap_of(said: Mapping[str, JSON]) -> ReceivedGap:
    """Return the gap that a control frame tells. Raises `WireError`."""
    first = said.get("first")
    try:
        return ReceivedGap(
            reason=str(said.get("reason")),
            requested=Cursor.parse(str(said.get("requested"))),
            first=first if isinstance(first, int) else 1,
            cursor=Cursor.parse(str(said.get("cursor"))),
        )
    except CursorInvalid as error:
        raise WireError("A gap does not tell where the stream goes on.") from error
