import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import WireError
from outlast.log.cursor import Cursor, Gap, GapReason, origin
from outlast.log.event import BINARY_TYPE, JSON_TYPE, Event, StoredEvent, restore
from outlast.wire import native
from outlast.wire.sse import Message, Parser

NOW = 1_796_000_000.5
CURSOR = Cursor(57, bytes.fromhex("8f1c2d3e4a5b6c7d"))
TOLD: dict[str, Any] = {
    "head": str(CURSOR),
    "status": "active",
    "budget": {"calls": {"used": 2, "limit": 64}},
    "recovering": None,
    "lease_left": 12.4,
}


def stored(event: Event, seq: int = 1) -> StoredEvent:
    return StoredEvent(cursor=Cursor(seq, b"\x01" * 8), event=event, epoch=3, time=NOW)


def parsed(frames: bytes) -> list[Message]:
    return Parser().feed(frames)


# ---- events as JSON -----------------------------------------------------------------------------

AWKWARD = [
    Event("text", "a\u0000b"),
    Event("text", "\ud83d"),
    Event("text", "line\u2028paragraph\u2029next\u0085line"),
    Event("text", "CR\r LF\n CRLF\r\n"),
    Event("data", {"nested": [1, None, {"ü": "👩‍👩‍👧"}]}),
    Event("data", b'{\n  "pretty": [1.50e1, "\\u0041"]\r\n}', content_type=JSON_TYPE),
    Event("data", b' "spaced" ', content_type=JSON_TYPE),
    Event("bytes", bytes(range(256))),
    Event("bytes", b""),
    Event("image", b"\xff\xd8", content_type="image/jpeg; q=1"),
    restore("data", b'"\xed\xa0\xbd"', JSON_TYPE),  # stored when rules were laxer: half a character, as bytes
]


def payload_in(event: bytes) -> bytes:
    """Cut a payload out of an event's JSON as a client that wants its very bytes would."""
    said = json.loads(event)
    if "data_base64" in said:
        return base64.b64decode(said["data_base64"], validate=True)
    cut = event.partition(b',"data":')[2][:-1]
    assert cut == cut.strip(), "white space around a value is lost with the first parser that reads it"
    return cut


@pytest.mark.behaviour("L6")
@pytest.mark.parametrize("event", AWKWARD, ids=range(len(AWKWARD)))
def test_a_payload_crosses_as_json_byte_for_byte(event: Event) -> None:
    crossed = native.event_json(stored(event))
    assert b"\n" not in crossed
    assert payload_in(crossed) == event.payload
    said = json.loads(crossed)
    assert said.get("content_type", JSON_TYPE) == event.content_type
    assert {"cursor", "seq", "type", "epoch", "time"} <= said.keys()


def test_an_event_in_json_has_the_shape_of_the_wire() -> None:
    assert native.event_json(stored(Event("text", "hi"), 42)) == (
        b'{"cursor":"42-0101010101010101","seq":42,"type":"text","epoch":3,'
        b'"time":"2026-11-30T00:53:20.500Z","data":"hi"}'
    )
    assert native.event_json(stored(Event("bytes", b"\x00"))).endswith(
        b'"data_base64":"AA==","content_type":"application/octet-stream"}'
    )


@pytest.mark.behaviour("L6")
def test_a_page_is_json_whatever_its_events_hold() -> None:
    events = [stored(event, seq) for seq, event in enumerate(AWKWARD, 1)]
    page = json.loads(
        native.page([native.event_json(each) for each in events], next=CURSOR, up_to_date=True, ended=False)
    )
    assert [each["seq"] for each in page["events"]] == list(range(1, len(AWKWARD) + 1))
    assert page | {"events": []} == {"events": [], "next": str(CURSOR), "up_to_date": True, "ended": False}


def test_a_page_without_events_and_with_a_gap() -> None:
    gap = Gap(reason=GapReason.TRIMMED, requested=Cursor(3, None), first=9)
    page = json.loads(native.page([], next=origin("f00d"), up_to_date=True, ended=True, gap=native.gap_document(gap)))
    assert page == {
        "events": [],
        "next": str(origin("f00d")),
        "up_to_date": True,
        "ended": True,
        "gap": {"reason": "trimmed", "requested": "3", "first": 9, "cursor": "8"},
    }


# ---- frames -------------------------------------------------------------------------------------


@pytest.mark.behaviour("L6", "F1")
@pytest.mark.parametrize("event", AWKWARD, ids=range(len(AWKWARD)))
@pytest.mark.case(125)
def test_an_event_crosses_as_a_frame_byte_for_byte(event: Event) -> None:
    (message,) = parsed(native.event_frame(stored(event, 42)))
    received = native.stored_from_frame(message)
    assert received is not None
    assert received.event == event
    assert received.cursor == Cursor(42, b"\x01" * 8)


@pytest.mark.behaviour("L6")
@given(st.text() | st.binary() | st.dictionaries(st.text(), st.integers() | st.none()))
def test_whatever_is_said_comes_back(said: Any) -> None:
    event = Event("said", said)
    (message,) = parsed(native.event_frame(stored(event)))
    received = native.stored_from_frame(message)
    assert received is not None
    assert received.event == event
    assert payload_in(native.event_json(stored(event))) == event.payload


@pytest.mark.behaviour("F10")
def test_a_stored_event_has_an_id_and_a_control_frame_none() -> None:
    (message,) = parsed(native.event_frame(stored(Event("text", "hi"), 42)))
    assert (message.event, message.id, message.data) == ("text", "42-0101010101010101", b'"hi"')
    for frame in controls().values():
        assert [message.id for message in parsed(frame)] == [None]


def controls() -> dict[str, bytes]:
    gap = Gap(reason=GapReason.AHEAD, requested=Cursor(99, None), first=1)
    return {
        "hello": native.hello(boot_id="b00t", heartbeat=10.0, head=CURSOR),
        "heartbeat": native.heartbeat({**TOLD, "thread": "t"}, loop_lag=0.0021, now=NOW),
        "caught-up": native.caught_up(CURSOR),
        "drain": native.drain(2.0, retry=0.5),
        "gap": native.gap_frame(gap),
        "end": native.end(CURSOR),
    }


def test_hello_names_the_port_of_a_beacon_where_there_is_one() -> None:
    frame = native.hello(boot_id="b00t", heartbeat=10.0, head=CURSOR, beacon=8401)
    control = native.control_from_frame(parsed(frame)[0])
    assert control is not None
    assert control.said == {"boot_id": "b00t", "protocol": 1, "heartbeat": 10.0, "head": str(CURSOR), "beacon": 8401}


def test_hello_names_the_store_that_is_spoken_for() -> None:
    assert native.greeting(boot_id="b00t", heartbeat=10.0, store="5t0re") == {
        "boot_id": "b00t",
        "protocol": 1,
        "heartbeat": 10.0,
        "store": "5t0re",
    }
    control = native.control_from_frame(parsed(native.hello(boot_id="b", heartbeat=1.0, head=CURSOR, store="5t0re"))[0])
    assert control is not None
    assert control.said["store"] == "5t0re"


@pytest.mark.parametrize("head", [None, 7, "", "seven", "-1"])
def test_a_head_that_is_no_place_is_the_start_of_the_log(head: Any) -> None:
    assert native.place_of(str(CURSOR)) == CURSOR
    assert native.place_of(head).seq == 0


def test_every_control_frame_says_what_the_wire_names() -> None:
    said = {name: native.control_from_frame(parsed(frame)[0]) for name, frame in controls().items()}
    assert [control and control.name for control in said.values()] == list(said)
    head = "57-8f1c2d3e4a5b6c7d"
    told = {name: control.said for name, control in said.items() if control is not None}
    assert told["hello"] == {"boot_id": "b00t", "protocol": 1, "heartbeat": 10.0, "head": head}
    assert told["caught-up"] == told["end"] == {"head": head}
    assert told["drain"] == {"reason": "closing", "spread": 2.0}
    assert told["gap"] == {"reason": "ahead", "requested": "99", "first": 1, "cursor": "0"}
    assert told["heartbeat"] == {
        **TOLD,
        "loop_lag": 0.002,
        "server_time": "2026-11-30T00:53:20.500Z",
    }


@pytest.mark.behaviour("F10")
def test_the_first_byte_of_a_stream_is_a_comment_that_proxies_pass_on() -> None:
    assert native.hello(boot_id="b", heartbeat=10.0, head=CURSOR).startswith(b": hello\n\nevent: outlast.hello\n")
    assert b"\r" not in b"".join(controls().values())


def test_a_drain_and_a_retry_hint_say_when_an_eventsource_comes_back() -> None:
    (drained,) = parsed(controls()["drain"])
    assert drained.retry == 500
    parser = Parser()
    assert parser.feed(native.retry_hint(2.0)) == []
    assert parser.retry == 2000


@pytest.mark.parametrize(
    "message",
    [
        Message("message", None, b"hi", None, None),
        Message("text", None, b"1", None, None),
        Message("outlast.later", "3", b"{}", None, None),
    ],
)
def test_what_is_not_of_the_log_is_no_stored_event(message: Message) -> None:
    assert native.stored_from_frame(message) is None


def test_a_stored_event_is_no_control_frame() -> None:
    assert native.control_from_frame(Message("text", "1", b'"hi"', None, None)) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"[" * 100_000, b"\xff"])
def test_a_control_frame_that_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        native.control_from_frame(Message("outlast.hello", None, data, None, None))


def test_a_control_frame_of_a_newer_server_is_kept_with_its_name() -> None:
    control = native.control_from_frame(Message("outlast.later", None, b'{"x":1}', None, None))
    assert control == native.Control(name="later", said={"x": 1})


def test_bytes_in_a_frame_keep_their_content_type() -> None:
    (message,) = parsed(native.event_frame(stored(Event("bytes", b"\x00\r\n"))))
    received = native.stored_from_frame(message)
    assert received is not None
    assert received.event.content_type == BINARY_TYPE


# ---- other dresses ------------------------------------------------------------------------------


@pytest.mark.behaviour("F1", "L6")
def test_lines_are_the_page_one_event_a_line() -> None:
    events = [native.event_json(stored(event, seq)) for seq, event in enumerate(AWKWARD, 1)]
    gap = native.gap_document(Gap(reason=GapReason.AHEAD, requested=Cursor(99, None), first=1))
    for told in (None, gap):
        answer = native.lines(events, next=CURSOR, up_to_date=True, ended=False, gap=told)
        assert answer.endswith(b"\n")
        first, *rest = answer.split(b"\n")[:-1] if told else [None, *answer.split(b"\n")[:-1]]
        assert first is None or json.loads(first) == {"gap": json.loads(gap)}
        assert rest[:-1] == events
        assert json.loads(rest[-1]) == {"next": str(CURSOR), "up_to_date": True, "ended": False}


@pytest.mark.behaviour("F1", "F10", "L6")
@pytest.mark.parametrize("event", AWKWARD)
def test_an_envelope_is_unnamed_has_the_cursor_and_carries_the_event_whole(event: Event) -> None:
    kept = stored(event, 42)
    frame = native.envelope_frame(kept)
    (message,) = parsed(frame)
    assert (message.event, message.id, message.content_type) == ("message", str(kept.cursor), None)
    assert message.data == native.line_in(frame) == native.event_json(kept)


@pytest.mark.parametrize("event", AWKWARD)
def test_a_frame_gives_its_event_back(event: Event) -> None:
    kept = stored(event, 42)
    assert native.stored_in(native.event_frame(kept), epoch=kept.epoch, time=kept.time) == kept


@pytest.mark.behaviour("F7")
def test_a_gap_tells_the_snapshot_or_where_it_is() -> None:
    gap = Gap(reason=GapReason.AHEAD, requested=Cursor(99, None), first=1)
    inline = native.snapshot([native.event_json(stored(event)) for event in AWKWARD], cursor=CURSOR)
    told = json.loads(native.gap_document(gap, native.Bridge(cursor=CURSOR, snapshot=inline)))
    assert told["cursor"] == told["snapshot"]["cursor"] == str(CURSOR)
    assert len(told["snapshot"]["events"]) == len(AWKWARD)
    (message,) = parsed(native.gap_frame(gap, native.Bridge(cursor=CURSOR, url="/x/runs/r1/snapshot")))
    assert message.id is None
    assert json.loads(message.data) == {
        "reason": "ahead",
        "requested": "99",
        "first": 1,
        "cursor": str(CURSOR),
        "snapshot_url": "/x/runs/r1/snapshot",
    }


def test_a_snapshot_is_named_by_its_place_and_by_what_it_shows() -> None:
    tags = [native.snapshot_tag(CURSOR, types) for types in (None, {"a"}, {"a", "b"}, {"b", "a"})]
    assert tags[2] == tags[3]
    assert len(set(tags)) == 3
