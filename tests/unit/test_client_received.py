"""Frames of a log become events, and control frames the gaps they tell."""

import pytest

from outlast.client.received import ReceivedEvent, ReceivedGap, event_of, gap_of
from outlast.errors import WireError
from outlast.log.cursor import Cursor, Gap, GapReason
from outlast.log.event import JSON, Event, StoredEvent
from outlast.wire import native
from outlast.wire.sse import Parser

PLACE = Cursor(42, bytes(8))


def received(event: Event) -> ReceivedEvent:
    stored = StoredEvent(cursor=PLACE, event=event, epoch=3, time=1.0)
    (message,) = Parser().feed(native.event_frame(stored))
    found = event_of(message)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "event",
    [
        Event("text", "héllo \U0001f469\u200d\U0001f4bb"),
        Event("text", "lone \ud83d surrogate"),
        Event("tool.call", {"name": "search", "nested": [1, None, True]}),
        Event("audio", b"\x00\xff\r\n", content_type="audio/ogg"),
        Event("data", b'{"spread":\r\n 1}', content_type="application/json"),
    ],
    ids=["text", "surrogate", "json", "bytes", "json with line ends"],
)
def test_an_event_comes_back_byte_for_byte(event: Event) -> None:
    found = received(event)
    assert found.event == event
    assert (found.seq, str(found.cursor)) == (42, f"42-{'0' * 16}")
    assert (found.type, found.data, found.payload, found.content_type) == (
        event.type,
        event.data,
        event.payload,
        event.content_type,
    )


@pytest.mark.parametrize(
    ("type", "last"),
    [("run.completed", True), ("run.failed", True), ("run.cancelled", True), ("run.restarted", False), ("text", False)],
)
def test_the_three_terminals_are_the_last_events_of_their_log(type: str, last: bool) -> None:
    assert received(Event(type, {})).is_terminal is last


def test_a_frame_without_a_place_is_no_event() -> None:
    (message,) = Parser().feed(b"event: text\ndata: 1\n\n")
    assert event_of(message) is None


def test_a_frame_with_a_nonsensical_place_is_an_error_of_the_wire() -> None:
    (message,) = Parser().feed(b"event: text\nid: soon\ndata: 1\n\n")
    with pytest.raises(WireError):
        event_of(message)


def test_a_gap_is_read() -> None:
    said = {"reason": "trimmed", "requested": "3", "first": 9, "cursor": str(PLACE), "from": "tomorrow"}
    assert gap_of(said) == ReceivedGap(reason="trimmed", requested=Cursor(3, None), first=9, cursor=PLACE)


@pytest.mark.behaviour("R4")
def test_a_gap_brings_the_snapshot_and_goes_on_behind_it() -> None:
    events = [
        Event("text", "lone \ud83d, \u2028"),
        Event("audio", b"\x00\xff\r\n", content_type="audio/ogg"),
        Event("data", b'{"spread":\r\n 1e999}', content_type="application/json"),
    ]
    lines = [native.event_json(StoredEvent(cursor=PLACE, event=event, epoch=1, time=0.0)) for event in events]
    gap = Gap(reason=GapReason.AHEAD, requested=Cursor(99, None), first=1)
    bridge = native.Bridge(cursor=PLACE, snapshot=native.snapshot(lines, cursor=PLACE))
    (message,) = Parser().feed(native.gap_frame(gap, bridge))
    control = native.control_from_frame(message)
    assert control is not None
    told = gap_of(control.said)
    assert (told.cursor, told.reason, told.is_end) == (PLACE, "ahead", False)
    assert [(each.type, each.data, each.content_type) for each in told.snapshot] == [
        (event.type, event.data, event.content_type) for event in events
    ]


@pytest.mark.parametrize(
    "snapshot",
    [
        None,
        [],
        {"cursor": "1"},
        {"cursor": "x", "events": []},
        {"cursor": "1", "events": [1]},
        {"cursor": "1", "events": [{"cursor": "1", "type": "a"}]},
        {"cursor": "1", "events": [{"cursor": "x", "type": "a", "data": 1}]},
        {"cursor": "1", "events": [{"cursor": "1", "type": "a", "data_base64": "%", "content_type": "a/b"}]},
    ],
)
def test_a_snapshot_that_is_none_is_an_error_of_the_wire(snapshot: JSON) -> None:
    with pytest.raises(WireError):
        gap_of({"reason": "ahead", "requested": "3", "first": 1, "cursor": "1", "snapshot": snapshot})


def test_a_gap_without_the_place_to_go_on_from_is_an_error_of_the_wire() -> None:
    with pytest.raises(WireError):
        gap_of({"reason": "trimmed", "requested": "3", "first": 9})
