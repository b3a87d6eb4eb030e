"""The native wire: the events of a run as JSON and as server-sent events, and the control frames.

Rules:
1. What a worker said is never decoded here. A JSON payload is spliced into the bytes around it; what cannot be
   spliced without bending a byte travels as base64 and names its content type.
2. A control frame tells how the stream is doing. It is never stored, has no id and counts nothing.
3. Shapes only grow. A reader skips members and control frames it does not know.
"""

import base64
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Final, cast

from outlast.errors import CursorInvalid, WireError
from outlast.log.cursor import Cursor, Gap
from outlast.log.event import CONTROL_PREFIX, JSON, JSON_TYPE, Event, StoredEvent, encode_json
from outlast.log.event import restore as restore_event
from outlast.wire import sse
from outlast.wire.sse import Message
from outlast.wire.status import moment

PROTOCOL: Final = 1
"""The version that `hello` tells; only a change that old readers cannot skip raises it."""
LARGEST_PORT: Final = 65535
"""What a beacon's port may be at most, as a greeting tells it."""
PLACES: Final = 64
"""Frames remembered of each kind that tells a place: of a crowd that comes to a log, everybody is told the same."""
BEAT: Final = ("head", "status", "budget", "recovering", "lease_left")
"""The members of the status document that a heartbeat repeats."""


# ---- events as JSON -----------------------------------------------------------------------------


def event_json(stored: StoredEvent) -> bytes:
    """Return one event as a JSON object on one line. Source: L6, the native wire."""
    return b'{"cursor":"%b","seq":%d,"type":%b,"epoch":%d,"time":"%b",%b}' % (
        str(stored.cursor).encode(),
        stored.seq,
        encode_json(stored.event.type),
        stored.epoch,
        moment(stored.time).encode(),
        _data(stored.event.payload, stored.event.content_type),
    )


def page(lines: Sequence[bytes], *, next: Cursor, up_to_date: bool, ended: bool, gap: bytes | None = None) -> bytes:
    """Return a page of a log, `lines` being its events as JSON.

    `next` is where the next page begins; `ended`: nothing will ever follow it; `gap` is a gap's document.
    """
    return b'{"events":[%b],%b' % (b",".join(lines), _rest(next, up_to_date, ended, gap)[1:])


def lines(events: Sequence[bytes], *, next: Cursor, up_to_date: bool, ended: bool, gap: bytes | None = None) -> bytes:
    """Return a page as NDJSON: the gap if there is one, one event a line, and a last line that says what `page` says.

    A line with `seq` is an event, one with `gap` a gap, the one with `next` the last: without it the answer broke off.
    """
    first = b"" if gap is None else b'{"gap":%b}\n' % gap
    return first + b"".join(event + b"\n" for event in events) + _rest(next, up_to_date, ended, None) + b"\n"


def _rest(next: Cursor, up_to_date: bool, ended: bool, gap: bytes | None) -> bytes:  # noqa: FBT001 - `page`'s own
    rest = encode_json({"next": str(next), "up_to_date": up_to_date, "ended": ended})
    return rest if gap is None else b'%b,"gap":%b}' % (rest[:-1], gap)


def snapshot(events: Iterable[bytes], *, cursor: Cursor) -> bytes:
    """Return the snapshot of a log: its fold up to `cursor`. Source: F7, F8."""
    return b"%b%b%b" % (snapshot_head(cursor), b",".join(events), SNAPSHOT_TAIL)


def snapshot_head(cursor: Cursor) -> bytes:
    """Return what of a snapshot stands before its events; commas between them and `SNAPSHOT_TAIL` follow."""
    return b'{"cursor":"%b","events":[' % str(cursor).encode()


SNAPSHOT_TAIL: Final = b"]}"


def snapshot_tag(cursor: Cursor, types: Collection[str] | None) -> str:
    """Return what names a snapshot: the place it reaches, and the types it was asked for."""
    if types is None:
        return str(cursor)
    return f"{cursor}.{blake2b(encode_json(sorted(types)), digest_size=8).hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """How a reader gets over a gap: reading goes on after `cursor`, and what is before it is in a snapshot.

    The snapshot is here, as JSON, or to be fetched from `url`, where it may be a newer one.
    """

    cursor: Cursor
    snapshot: bytes | None = None
    url: str | None = None


def gap_document(gap: Gap, bridge: Bridge | None = None) -> bytes:
    """Return a gap as it is told: `cursor` is where reading goes on. Without a bridge that is the first event left."""
    cursor = Cursor(gap.first - 1, None) if bridge is None else bridge.cursor
    said: dict[str, JSON] = {
        "reason": gap.reason.value,
        "requested": str(gap.requested),
        "first": gap.first,
        "cursor": str(cursor),
    }
    if bridge is not None and bridge.url is not None:
        said["snapshot_url"] = bridge.url
    document = encode_json(said)
    if bridge is not None and bridge.snapshot is not None:
        document = b'%b,"snapshot":%b}' % (document[:-1], bridge.snapshot)
    return document


def _data(payload: bytes, content_type: str) -> bytes:
    travels, encoded = sse.payload(payload, content_type)
    # White space around a JSON value is not part of it, so whoever cuts the value out again would lose it.
    if encoded is None and payload == payload.strip():
        return b'"data":' + travels
    return b'"data_base64":"%b","content_type":%b' % (base64.b64encode(payload), encode_json(content_type))


# ---- events and control frames as server-sent events -----------------------------------------------


def event_frame(stored: StoredEvent) -> bytes:
    """Return the frame of one stored event: its type, its cursor as the id, its data. Source: F10, L6."""
    event = stored.event
    data, content_type = sse.payload(event.payload, event.content_type)
    return sse.encode(data=data, event=event.type, id=str(stored.cursor), content_type=content_type)


def envelope_frame(stored: StoredEvent) -> bytes:
    """Return an event as an unnamed frame with all of it in the data, for who can only hear `onmessage`."""
    return sse.encode(data=event_json(stored), id=str(stored.cursor))


def line_in(envelope: bytes) -> bytes:
    """Return the JSON of the event in a frame that `envelope_frame` made."""
    return envelope[envelope.index(b"\ndata: ") + len(b"\ndata: ") : -len(b"\n\n")]


def stored_in(frame: bytes, *, epoch: int, time: float) -> StoredEvent:
    """Return the event in a frame that `event_frame` made; the frame does not tell `epoch` and `time`."""
    (message,) = sse.Parser().feed(frame)
    stored = stored_from_frame(message)
    assert stored is not None, "a frame of a stored event"
    return replace(stored, epoch=epoch, time=time)


def place_of(head: JSON) -> Cursor:
    """Return the place that a control frame tells as its head; the start of the log where it tells none."""
    with suppress(CursorInvalid):
        return Cursor.parse(head if isinstance(head, str) else "")
    return Cursor(0, None)


def greeting(*, boot_id: str, heartbeat: float, store: str | None = None, beacon: int | None = None) -> dict[str, JSON]:
    """Return who speaks, and what may be expected of them.

    `heartbeat` is in seconds, `store` names what they speak for, `beacon` is the port of their beacon, if there is one.
    """
    said: dict[str, JSON] = {"boot_id": boot_id, "protocol": PROTOCOL, "heartbeat": heartbeat}
    optional = {"store": store, "beacon": beacon}
    return said | {name: value for name, value in optional.items() if value is not None}


@lru_cache(maxsize=PLACES)
def hello(
    *, boot_id: str, heartbeat: float, head: Cursor, store: str | None = None, beacon: int | None = None
) -> bytes:
    """Return the first bytes of a stream: a comment for proxies, then the greeting and where the log stands."""
    said = {**greeting(boot_id=boot_id, heartbeat=heartbeat, store=store, beacon=beacon), "head": str(head)}
    return sse.HELLO_COMMENT + _control("hello", said)


def heartbeat(document: Mapping[str, JSON], *, loop_lag: float, now: float) -> bytes:
    """Return a sign of life that client code can see; `document` is the run's status document."""
    said = {name: document[name] for name in BEAT}
    return _control("heartbeat", {**said, "loop_lag": round(loop_lag, 3), "server_time": moment(now)})


@lru_cache(maxsize=PLACES)
def caught_up(head: Cursor) -> bytes:
    """Return the word that everything up to `head`, the one that `hello` told, has been sent."""
    return _control("caught-up", {"head": str(head)})


class DrainReason(StrEnum):
    """Why a stream ends before its run does."""

    CLOSING = "closing"
    """The node closes: another goes on."""
    CAPACITY = "capacity"
    """There are as many readers as there may be, on this node or of this owner."""
    EXPIRED = "expired"
    """The reader's credentials have ended: come again with new ones."""


def drain(spread: float, *, retry: float, reason: DrainReason = DrainReason.CLOSING) -> bytes:
    """Return the word to go: come again within `spread` seconds, an EventSource in `retry`."""
    return _control("drain", {"reason": reason.value, "spread": spread}, retry=retry)


def gap_frame(gap: Gap, bridge: Bridge | None = None) -> bytes:
    """Return the word that the requested cursor cannot be served, and where the stream goes on instead."""
    return sse.encode(data=gap_document(gap, bridge), event=f"{CONTROL_PREFIX}gap")


@lru_cache(maxsize=PLACES)
def end(head: Cursor) -> bytes:
    """Return the last frame of a stream: its run has its outcome, and `head` is its terminal event."""
    return _control("end", {"head": str(head)})


def retry_hint(seconds: float) -> bytes:
    """Return what makes an EventSource come back in `seconds` and says nothing else."""
    return b"retry: %d\n\n" % round(1000 * seconds)


def _control(name: str, said: Mapping[str, JSON], *, retry: float | None = None) -> bytes:
    milliseconds = None if retry is None else round(1000 * retry)
    return sse.encode(data=encode_json(said), event=CONTROL_PREFIX + name, retry=milliseconds)


# ---- and back -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A control frame as it was received: its name without `outlast.`, and what it says, unchecked."""

    name: str
    said: Mapping[str, JSON]


def control_from_frame(message: Message) -> Control | None:
    """Return the control frame that `message` is; None for anything else. Raises `WireError`."""
    if not message.event.startswith(CONTROL_PREFIX):
        return None
    try:
        said = json.loads(message.data)
    except (ValueError, RecursionError) as error:
        raise WireError("A control frame is not JSON.") from error
    if not isinstance(said, dict):
        raise WireError("A control frame is not a JSON object.")
    return Control(name=message.event.removeprefix(CONTROL_PREFIX), said=cast("dict[str, JSON]", said))


def stored_from_frame(message: Message) -> StoredEvent | None:
    """Return the stored event that `message` is; None for a control frame and for frames that are not of a log.

    A frame does not tell who wrote the event or when: `epoch` and `time` are 0. Raises `WireError` for a frame with
    an id that is no event of ours.
    """
    found = event_from_frame(message)
    return None if found is None else StoredEvent(cursor=found[0], event=found[1], epoch=0, time=0.0)


def event_from_frame(message: Message) -> tuple[Cursor, Event] | None:
    """Return the same event with its place alone: a reader has no use for what a frame does not tell."""
    if message.id is None or message.event.startswith(CONTROL_PREFIX):
        return None
    cursor = Cursor.parse(message.id)
    payload, content_type = sse.restore(message.data, message.content_type)
    return cursor, restore_event(message.event, payload, content_type)


def event_from_json(said: Mapping[str, JSON]) -> tuple[Cursor, Event]:
    """Return the event of a page, a line, an envelope or a snapshot.

    JSON comes back with the same meaning, written on one line; other payloads byte for byte. Raises `WireError`.
    """
    try:
        cursor, type = Cursor.parse(str(said["cursor"])), str(said["type"])
        if "data" in said:
            return cursor, restore_event(type, json.dumps(said["data"], separators=(",", ":")).encode(), JSON_TYPE)
        payload = base64.b64decode(str(said["data_base64"]), validate=True)
        return cursor, restore_event(type, payload, str(said["content_type"]))
    except (LookupError, ValueError, CursorInvalid) as error:
        raise WireError("An event in JSON lacks its cursor, its type or its data.") from error
