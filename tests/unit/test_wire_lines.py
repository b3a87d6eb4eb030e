"""A page of lines gives the frames of a stream, however it is cut, and byte for byte."""

import json

import pytest

from outlast.errors import WireError
from outlast.log.cursor import Cursor, Gap, GapReason, chain, origin
from outlast.log.event import Event, StoredEvent
from outlast.wire import native
from outlast.wire.lines import Last, Line, Lines, read
from outlast.wire.sse import FrameTooLarge, Message, Parser

SAID = [
    Event("text", 'héllo \U0001f469\u200d\U0001f4bb ,"data":1'),
    Event("deep", {"data": {"gap": [1, "}"], "next": None}}),
    Event("spaced", b'{ "a" : 1.50 }', content_type="application/json"),
    Event("framed", b' "a" ', content_type="application/json"),
    Event("lines", b'{\n"a":1}', content_type="application/json"),
    Event("bytes", bytes(range(256)), content_type="audio/ogg"),
]
PLACES = chain(origin("log"), SAID)
LOG = [StoredEvent(cursor=place, event=event, epoch=1, time=0.0) for place, event in zip(PLACES, SAID, strict=True)]
GAP = native.gap_document(Gap(reason=GapReason.AHEAD, requested=Cursor(9, None), first=1))
PAGE = native.lines([native.event_json(each) for each in LOG], next=PLACES[-1], up_to_date=True, ended=False, gap=GAP)


def test_the_frames_are_those_of_a_stream_and_the_payloads_the_very_bytes() -> None:
    gap, *events, last = Lines().feed(PAGE)
    assert last == Last(next=PLACES[-1], up_to_date=True, ended=False)
    assert [gap] == Parser().feed(native.gap_frame(Gap(reason=GapReason.AHEAD, requested=Cursor(9, None), first=1)))
    for line, stored in zip(events, LOG, strict=True):
        assert isinstance(line, Message)
        found = native.stored_from_frame(line)
        assert found is not None
        assert (found.cursor, found.event) == (stored.cursor, stored.event)
        assert found.event.payload == stored.event.payload


def test_any_cut_gives_the_same_lines() -> None:
    whole = Lines().feed(PAGE)
    for place in range(len(PAGE)):
        lines = Lines()
        assert [*lines.feed(PAGE[:place]), *lines.feed(PAGE[place:])] == whole
    lines, found = Lines(), list[Line]()
    for byte in PAGE:
        found += lines.feed(bytes([byte]))
    assert found == whole


def test_a_page_that_breaks_off_gives_nothing_of_its_last_line() -> None:
    assert not any(isinstance(line, Last) for line in Lines().feed(PAGE[:-1]))


@pytest.mark.behaviour("M3")
def test_members_in_another_order_with_spaces_and_members_from_tomorrow_are_read() -> None:
    line = b'{ "data" : [1, 2 ] , "from_tomorrow": {"a": "}"}, "type":"text", "cursor" : "7" }\r'
    assert read(line) == Message(event="text", id="7", data=b"[1, 2 ]", content_type=None, retry=None)
    assert Lines().feed(b"\n\n") == []


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[]",
        b"\xff",
        b'"text"',
        b'{"cursor":"1","type":"text"}',
        b'{"cursor":"1","data":1}',
        b'{"cursor":"1","type":"text","data":}',
        b'{"cursor":"1","type":"text","data":1',
        b'{"cursor":"1","type":"text","data":1} x',
        b'{"cursor":"1","type":"bytes","data_base64":"AA=="}',
        b'{"next":"yesterday","up_to_date":true,"ended":false}',
        b'{"next":7,"up_to_date":true,"ended":false}',
        b"{1:2}",
        b'{"cursor":"1","type":"text","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=range(14),
)
def test_what_is_no_line_of_a_page_is_told_typed(line: bytes) -> None:
    with pytest.raises(WireError):
        Lines().feed(line + b"\n")


def test_a_line_beyond_the_bound_is_told_with_what_came_before_it() -> None:
    small = json.dumps({"cursor": "3", "type": "text", "data": 1}).encode() + b"\n"
    with pytest.raises(FrameTooLarge) as caught:
        Lines(most=100).feed(small + b"x" * 101)
    assert [message.id for message in caught.value.messages] == ["3"]
    assert caught.value.last_id == "3"
    lines = Lines(most=100)
    lines.feed(b"x" * 60)
    with pytest.raises(FrameTooLarge):
        lines.feed(b"x" * 60)
