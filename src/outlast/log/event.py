"""Events: what a worker says, and what the log keeps of it.

Payloads are bytes with a content type. JSON is the default, written as UTF-8 on one line; a lone surrogate,
which UTF-8 cannot carry, is written as its JSON escape. Whatever the bytes are, they come back unchanged.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from outlast.errors import InputInvalid
from outlast.log.cursor import Cursor

JSON: TypeAlias = str | int | float | bool | Sequence["JSON"] | Mapping[str, "JSON"] | None

JSON_TYPE: Final = "application/json"
BINARY_TYPE: Final = "application/octet-stream"

OWN_PREFIX: Final = "run."
"""Types beginning so belong to Outlast: `run.started`, `run.restarted`, the terminals."""
CHECKPOINT: Final = "run.checkpoint"
"""A worker can go on from here: a takeover of a resume worker keeps everything up to such an event."""
RESERVED: Final = frozenset({"error", "open", "message"})
"""Names an EventSource gives a meaning of its own."""
CONTROL_PREFIX: Final = "outlast."
"""Types of control frames, which are never stored."""

_TYPE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}")
_CONTENT_TYPE: Final = re.compile(
    r"[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}(; ?[A-Za-z0-9=_.+-]{1,64}){0,4}"
)

# Made once: `json.dumps` makes an encoder at every call that asks for anything special, and that takes as long again.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_ESCAPING: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def encode_json(value: JSON) -> bytes:
    """Return `value` as JSON bytes on one line.

    Raises `InputInvalid` for what JSON cannot say: NaN, infinities, other objects, circles, too deep nesting.
    """
    try:
        text = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputInvalid("This value cannot be written as JSON.") from error
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate: JSON's own escape carries it, UTF-8 does not
        return _ESCAPING.encode(value).encode()


@dataclass(frozen=True, slots=True, init=False)
class Event:
    """One thing a worker says: a type and a payload.

    `Event("tool.call", {"name": "search"})` carries JSON; `Event("audio", b"…")` carries bytes, with
    `content_type` naming what they are. `payload` is what is stored. Types are 1 to 128 letters, digits
    and `_ . : / -`; `run.*`, `outlast.*`, `error`, `open` and `message` are not a worker's to use.
    Raises `InputInvalid`.
    """

    type: str
    payload: bytes
    content_type: str

    def __init__(self, type: str, data: JSON | bytes = None, *, content_type: str | None = None) -> None:
        """Check the type and encode the data."""
        if not is_type(type):
            raise InputInvalid(
                "An event's type is 1 to 128 letters, digits or any of _ . : / - and none of "
                "'error', 'open', 'message', 'outlast.…'."
            )
        if isinstance(data, bytes):
            payload, content_type = data, content_type or BINARY_TYPE
            if content_type == JSON_TYPE:
                _check_json(payload)
        else:
            payload, content_type = encode_json(data), content_type or JSON_TYPE
            if content_type != JSON_TYPE:
                raise InputInvalid("Data of another content type than JSON is given as bytes.")
        if not _CONTENT_TYPE.fullmatch(content_type):
            raise InputInvalid("A content type looks like 'type/subtype'.")
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "payload", payload)
        object.__setattr__(self, "content_type", content_type)

    @property
    def data(self) -> JSON | bytes:
        """The payload as given: JSON decoded, anything else as bytes."""
        return json.loads(self.payload) if self.content_type == JSON_TYPE else self.payload


def _check_json(payload: bytes) -> None:
    try:
        # Decoded first: from bytes, json.loads takes UTF-16, a BOM and lone surrogates as well, which no browser does.
        json.loads(payload.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputInvalid("The payload is not JSON in UTF-8, though its content type says so.") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def is_type(text: str) -> bool:
    """Say whether `text` can be the type of a stored event."""
    return _TYPE.fullmatch(text) is not None and text not in RESERVED and not text.startswith(CONTROL_PREFIX)


Said: TypeAlias = Event | str | bytes | Sequence[JSON] | Mapping[str, JSON]
"""What a worker may yield: an event, or data whose type follows from its kind."""


def coerce(said: Said) -> Event:
    """Return the event that a worker's yield stands for.

    `str` becomes `text`, `bytes` becomes `bytes`, dicts and lists become `data`. Raises `InputInvalid` for
    anything else, and for the types `run.*`, which are ours to write. Source: the native wire.
    """
    match said:
        case Event():
            if said.type.startswith(OWN_PREFIX):
                raise InputInvalid("Event types beginning 'run.' belong to Outlast.")
            return said
        case str():
            return Event("text", said)
        case bytes():
            return Event("bytes", said)
        case Mapping() | list() | tuple():
            return Event("data", said)
        case _:
            raise InputInvalid("A worker yields Event, str, bytes, dict or list.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """One event of a log as it is kept: its place, who wrote it and when.

    `epoch` is the writer's; `time` is the store's clock in seconds since 1970 as anchored when the store was made.
    """

    cursor: Cursor
    event: Event
    epoch: int
    time: float

    @property
    def seq(self) -> int:
        """The event's number, from 1."""
        return self.cursor.seq


def restore(type: str, payload: bytes, content_type: str) -> Event:
    """Return an event read back from a store, without checking it again.

    What is stored was checked when it was said; a reader must get it back even if today's rules are stricter.
    """
    event = object.__new__(Event)
    object.__setattr__(event, "type", type)
    object.__setattr__(event, "payload", payload)
    object.__setattr__(event, "content_type", content_type)
    return event
