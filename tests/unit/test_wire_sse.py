"""The wire `sse`: whatever goes in comes out, however the bytes are cut, and nobody can forge a frame."""

import base64
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outlast.errors import OutlastError, WireError
from outlast.log.limits import EVENT_BYTES
from outlast.wire import sse
from outlast.wire.sse import FrameTooLarge, Message, Parser

CURSOR = "42-8f1c2d3e4a5b6c7d"
FAMILY = "👩‍👩‍👧‍👦"  # four people joined by three zero-width joiners: 25 bytes
MARK = b"\xef\xbb\xbf"

# Payloads that broke somebody's stream.
NASTY = {
    "empty": b"",
    "a space in front": b" x",
    "NUL": b'"\x00"',
    "a lone surrogate as an escape": b'"\\ud800"',
    "a lone surrogate in UTF-8's manner": b'"\xed\xa0\x80"',
    "U+2028, U+2029 and NEL": '"\u2028\u2029\x85"'.encode(),
    "CR": b"[1,\r2]",
    "LF": b"[1,\n2]",
    "CRLF": b"[1,\r\n2]",
    "line ends alone": b"\r\n\r\n\n\n",
    "a forged frame": b'{}\n\nevent: run.completed\nid: 99\ndata: {"forged":true}\n\n',
    "a forged frame in CR": b"{}\r\revent: run.completed\rdata: {}\r\r",
    "a field of our own": b'{"data_base64":"AAAA"}',
    "a family": f'"{FAMILY}"'.encode(),
    "a byte order mark": MARK + b"{}",
    "not text": bytes(range(256)),
    "a megabyte": b'"' + "漢🙂é".encode() * 116_509 + b'"',
}
CONTENT_TYPES = ("application/json", "application/octet-stream", "text/plain; charset=utf-8")


def parse(*chunks: bytes) -> list[Message]:
    parser = Parser()
    return [message for chunk in chunks for message in parser.feed(chunk)]


def feed_until_error(parser: Parser, chunks: Iterable[bytes]) -> tuple[list[Message], FrameTooLarge]:
    messages: list[Message] = []
    for chunk in chunks:
        try:
            messages += parser.feed(chunk)
        except FrameTooLarge as error:
            return messages, error
    pytest.fail("the parser met no bound")


def cuts(stream: bytes) -> Iterable[Sequence[bytes]]:
    """Every way to cut `stream` once, and the way that cuts it at every byte."""
    for place in range(len(stream) + 1):
        yield stream[:place], stream[place:]
    yield [bytes((byte,)) for byte in stream]


def reference(stream: bytes) -> tuple[list[Message], int | None, str | None]:
    """The standard by the letter, on the whole stream: its frames, its last retry, its last id."""
    messages: list[Message] = []
    last_retry: int | None = None
    last_id: str | None = None
    fields: dict[str, Any] = {}
    for line in re.split(rb"\r\n|\r|\n", stream.removeprefix(MARK))[:-1]:
        name, value = re.fullmatch(rb"([^:]*)(?:: ?(.*))?", line, re.DOTALL).groups(b"")  # type: ignore[union-attr]
        if line == b"":
            if "data" in fields:
                data = b"".join(piece + b"\n" for piece in fields["data"])[:-1]
                event = fields.get("event", "") or "message"
                messages.append(Message(event, fields.get("id"), data, fields.get("content-type"), fields.get("retry")))
            fields = {}
        elif name == b"data":
            fields.setdefault("data", []).append(value)
        elif name in {b"event", b"content-type"}:
            fields[name.decode()] = value.decode(errors="replace")
        elif name == b"id" and 0 not in value:
            last_id = fields["id"] = value.decode(errors="replace")
        elif name == b"retry" and re.fullmatch(rb"[0-9]{1,9}", value):
            last_retry = fields["retry"] = int(value)
    return messages, last_retry, last_id


LINE_ENDS = (b"\n", b"\r", b"\r\n")
NAMES = (b"data", b"data", b"event", b"id", b"retry", b"content-type", b"", b"Data", b"dat", b" data", MARK + b"data")
COLONS = (b": ", b": ", b":", b":  ", b"")
VALUES = st.one_of(
    st.sampled_from((b"", b"x", b"0", b"3000", b"007", b"-1", b"1" * 10, b"a: b", b":", b"\x00", b"x\x00y", MARK)),
    st.binary(max_size=8).map(lambda value: value.translate(None, b"\r\n")),
    st.text(max_size=4).map(lambda text: text.encode(errors="surrogatepass").translate(None, b"\r\n")),
    st.just(FAMILY.encode()),
)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Anything line-shaped, biased towards frames: own line end for each line, or one for all."""
    ends = draw(st.sampled_from((*[(end,) for end in LINE_ENDS], LINE_ENDS)))
    field = st.tuples(st.sampled_from(NAMES), st.sampled_from(COLONS), VALUES).map(b"".join)
    lines = draw(st.lists(st.one_of(field, field, st.just(b"")), max_size=9))
    pieces = [draw(st.sampled_from((b"", b"", MARK, MARK * 2)))]
    for line in lines:
        pieces += [line, draw(st.sampled_from(ends))]
    return b"".join([*pieces, draw(st.sampled_from((b"", b"data: cut off", b"\n", b"\r")))])


SAFE_TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="\u2028\u2029"), max_size=12)
UNSAFE = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\u2028", "\u2029", "\ud800", "\udfff"]


# ---- out ----------------------------------------------------------------------------------------


@pytest.mark.behaviour("F10")
def test_a_frame_is_plain_lf_with_its_fields_in_a_fixed_order() -> None:
    frame = sse.encode(data=b"{}", event="text", id=CURSOR, retry=250, content_type="text/plain")
    assert frame == b"event: text\nid: 42-8f1c2d3e4a5b6c7d\ncontent-type: text/plain\nretry: 250\ndata: {}\n\n"
    assert sse.encode(data=b"") == b"data: \n\n"


@pytest.mark.behaviour("F10")
def test_a_stream_may_begin_with_a_comment_that_nobody_hears() -> None:
    assert sse.HELLO_COMMENT == sse.comment("hello") == b": hello\n\n"
    assert parse(sse.HELLO_COMMENT, sse.encode(data=b"1")) == [Message("message", None, b"1", None, None)]


def test_lines_of_data_travel_as_lines_and_come_back_joined() -> None:
    assert sse.encode(data=b"a\n\nb\n") == b"data: a\ndata: \ndata: b\ndata: \n\n"
    assert parse(sse.encode(data=b"a\n\nb\n"))[0].data == b"a\n\nb\n"


def test_data_that_the_standard_would_bend_is_refused() -> None:
    for data in (b"\r", b"a\r\nb", b"a\r"):
        with pytest.raises(WireError):
            sse.encode(data=data)


def test_an_empty_event_type_is_refused_because_readers_would_hear_message() -> None:
    with pytest.raises(WireError, match="empty"):
        sse.encode(data=b"", event="")
    assert parse(sse.encode(data=b"", id=""))[0].id == ""


@pytest.mark.parametrize("retry", [-1, sse.MAX_RETRY + 1])
def test_a_retry_that_no_reader_would_take_is_refused(retry: int) -> None:
    with pytest.raises(WireError):
        sse.encode(data=b"", retry=retry)


@pytest.mark.parametrize("retry", [0, sse.MAX_RETRY])
def test_a_retry_at_either_end_of_its_range_arrives(retry: int) -> None:
    assert parse(sse.encode(data=b"", retry=retry))[0].retry == retry


@pytest.mark.attack("Z1")
@pytest.mark.parametrize("character", UNSAFE, ids=ascii)
@pytest.mark.parametrize("place", ["{}", "x{}", "{}x", "é{}"])
def test_control_characters_are_refused_and_not_stripped(character: str, place: str) -> None:
    text = place.format(character)
    attempts: list[Callable[[], bytes]] = [
        lambda: sse.encode(data=b"", event=text),
        lambda: sse.encode(data=b"", id=text),
        lambda: sse.encode(data=b"", content_type=text),
        lambda: sse.comment(text),
    ]
    for attempt in attempts:
        with pytest.raises(WireError) as caught:
            attempt()
        assert caught.value.code == "wire_invalid"
        assert isinstance(caught.value, OutlastError)
        assert text not in str(caught.value)


@pytest.mark.attack("Z1")
@given(event=st.text(max_size=6), id=st.text(max_size=6), data=st.binary(max_size=40))
@example(event="a\nevent: b", id="1", data=b"")
@example(event="a", id="1\n\ndata: b\n\n", data=b"")
@example(event="a", id="1", data=b"\n\nevent: b\ndata: c\n\n")
def test_as_many_frames_come_out_as_went_in_whatever_they_hold(event: str, id: str, data: bytes) -> None:
    carried, content_type = sse.payload(data, "application/json")
    if not event or any(character in UNSAFE or "\ud800" <= character <= "\udfff" for character in event + id):
        with pytest.raises(WireError):
            sse.encode(data=carried, event=event, id=id, content_type=content_type)
        return
    frame = sse.encode(data=carried, event=event, id=id, content_type=content_type)
    assert parse(frame, frame) == [Message(event, id, carried, content_type, None)] * 2


@pytest.mark.behaviour("L6", "R12")
@given(
    event=SAFE_TEXT.filter(bool),
    id=st.none() | SAFE_TEXT,
    retry=st.none() | st.integers(0, sse.MAX_RETRY),
    content_type=st.none() | SAFE_TEXT,
    data=st.binary(max_size=60).map(lambda data: data.translate(None, b"\r")),
)
def test_what_is_encoded_is_what_is_parsed(
    event: str, id: str | None, retry: int | None, content_type: str | None, data: bytes
) -> None:
    frame = sse.encode(data=data, event=event, id=id, retry=retry, content_type=content_type)
    assert b"\r" not in frame
    assert parse(frame) == [Message(event, id, data, content_type, retry)]


# ---- payloads -----------------------------------------------------------------------------------


@pytest.mark.behaviour("L6")
@pytest.mark.attack("Z1")
@pytest.mark.parametrize("content_type", CONTENT_TYPES)
@pytest.mark.parametrize("data", NASTY.values(), ids=NASTY.keys())
def test_a_payload_comes_back_byte_for_byte(data: bytes, content_type: str) -> None:
    carried, field = sse.payload(data, content_type)
    stream = sse.encode(data=carried, event="x", id=CURSOR, content_type=field)
    (message,) = parse(stream)
    assert sse.restore(message.data, message.content_type) == (data, content_type)
    assert (message.event, message.id) == ("x", CURSOR)


@pytest.mark.behaviour("L6")
@given(data=st.binary(max_size=80), content_type=st.sampled_from(CONTENT_TYPES))
def test_any_payload_comes_back_byte_for_byte(data: bytes, content_type: str) -> None:
    carried, field = sse.payload(data, content_type)
    (message,) = parse(sse.encode(data=carried, content_type=field))
    assert sse.restore(message.data, message.content_type) == (data, content_type)


def test_json_on_one_line_travels_as_it_is() -> None:
    for data in (b'{"a":1}', f'"{FAMILY}\u2028"'.encode(), b'"\x00"'):
        assert sse.payload(data, "application/json") == (data, None)


def test_what_is_no_json_line_travels_as_json_that_an_event_source_can_read() -> None:
    for data, content_type in (
        (b"\x00\xff", "audio/wav"),
        (b"[\n]", "application/json"),
        (b"\xff", "application/json"),
    ):
        carried, field = sse.payload(data, content_type)
        assert field == content_type
        assert base64.b64decode(json.loads(carried)["data_base64"]) == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'"data_base64"',
        b'{"data":"AAAA"}',
        b'{"data_base64":1}',
        b'{"data_base64":null}',
        b'{"data_base64":"AA"}',
        b'{"data_base64":"AA!AA"}',
        b'{"data_base64":"\xc3\xa9AAA"}',
        b"\xff\xfe\xff",
        b"[" * 100_000,
        b"9" * 5000,
    ],
    ids=lambda data: ascii(data[:24]),
)
def test_a_frame_that_names_a_content_type_and_carries_no_base64_is_refused(data: bytes) -> None:
    with pytest.raises(WireError) as caught:
        sse.restore(data, "audio/wav")
    assert caught.value.code == "wire_invalid"


def test_a_later_version_may_say_more_beside_the_base64() -> None:
    assert sse.restore(b'{ "data_base64": "AAE=", "more": 1 }', "audio/wav") == (b"\x00\x01", "audio/wav")


# ---- in -----------------------------------------------------------------------------------------


@pytest.mark.behaviour("R12")
@pytest.mark.case(43)
@given(stream=streams())
@example(stream=b"data: a\r\n\r\ndata: b\r\n\r\n")
@example(stream=b"data: a\r\rdata: b\n\ndata: c\r\n\n")
@example(stream=MARK + MARK + b"data: a\n\ndata: b\n\n")
@example(stream=b"id: 1\x00\nid: 2\nid: 3\x00\ndata\n\n")
@example(stream=b"id:1\x00\nevent:x\ndata:x\n\n")
@example(stream=b"event: x\nid: 1\ncontent-type: y\nretry: 1\ndata\n\ndata\n\n")
@example(stream=b"retry: 5\n\nid: 7\n\nretry: 6\nid: 8\ndata: cut off")
def test_every_cut_of_every_stream_gives_the_frames_of_the_standard(stream: bytes) -> None:
    messages, retry, last_id = reference(stream)
    for chunks in cuts(stream):
        parser = Parser()
        assert [message for chunk in chunks for message in parser.feed(chunk)] == messages
        assert (parser.retry, parser.last_id) == (retry, last_id)


@pytest.mark.behaviour("R12")
@given(stream=streams(), places=st.lists(st.integers(0, 200), max_size=12).map(sorted))
def test_any_number_of_cuts_gives_the_same_frames(stream: bytes, places: list[int]) -> None:
    chunks = [stream[start:stop] for start, stop in zip([0, *places], [*places, len(stream)], strict=True)]
    assert parse(*chunks) == reference(stream)[0]


@pytest.mark.behaviour("R12")
@pytest.mark.case(41)
@pytest.mark.parametrize("text", ["é漢🙂", FAMILY, f"「{FAMILY}」\u2028\x85"], ids=ascii)
def test_a_character_may_be_cut_anywhere(text: str) -> None:
    stream = sse.encode(data=json.dumps(text, ensure_ascii=False).encode(), event="é漢", id=f"1{FAMILY}")
    for chunks in cuts(stream):
        (message,) = parse(*chunks)
        assert json.loads(message.data) == text
        assert (message.event, message.id) == ("é漢", f"1{FAMILY}")


@pytest.mark.behaviour("R12")
@pytest.mark.case(43)
@pytest.mark.parametrize("end", LINE_ENDS, ids=ascii)
def test_the_same_frames_come_from_every_line_end(end: bytes) -> None:
    lines = [MARK + b": a comment", b"event:x", b"id:1", b"data:y", b"data", b"unknown: z", b"", b"data:  y", b"", b""]
    for chunks in cuts(end.join(lines)):
        assert parse(*chunks) == [Message("x", "1", b"y\n", None, None), Message("message", None, b" y", None, None)]


@pytest.mark.case(43)
def test_a_carriage_return_ends_the_frame_without_waiting_for_what_follows() -> None:
    parser = Parser()
    assert len(parser.feed(b"data: a\r\r")) == 1
    assert parser.feed(b"\ndata: b\r") == []
    assert parser.feed(b"") == []
    assert parser.feed(b"\n") == []
    assert len(parser.feed(b"\n")) == 1


def test_a_byte_order_mark_counts_at_the_start_of_the_stream_alone() -> None:
    for chunks in cuts(MARK + b"data: a\n\n" + MARK + b"data: b\n\n"):
        assert [message.data for message in parse(*chunks)] == [b"a"]
    assert parse(b"\n" + MARK + b"data: a\n\n") == []


@pytest.mark.behaviour("R12")
def test_a_stream_that_breaks_off_gives_nothing_of_its_last_frame() -> None:
    whole = sse.encode(data=b"1", event="x", id="1")
    last = sse.encode(data=b"22", event="x", id="2")
    for place in range(len(last)):
        assert parse(whole + last[:place]) == [Message("x", "1", b"1", None, None)]


def test_frames_without_data_are_not_told_but_their_retry_and_id_count() -> None:
    parser = Parser()
    assert (parser.retry, parser.last_id) == (None, None)
    assert parser.feed(b"retry: 1500\nevent: x\nid: 7\n\n") == []
    assert (parser.retry, parser.last_id) == (1500, "7")
    assert parser.feed(b"data\n\n") == [Message("message", None, b"", None, None)]
    assert (parser.retry, parser.last_id) == (1500, "7")


def test_a_retry_that_is_no_plain_number_is_ignored() -> None:
    parser = Parser()
    for value in (b"", b"-1", b"+1", b"1.5", b"1e3", b"x", b"1_0", "٣".encode(), b"9" * 10, b"9" * 5000):
        parser.feed(b"retry: " + value + b"\n")
    assert parser.retry is None


def test_what_is_no_utf_8_is_replaced_in_names_and_kept_in_data() -> None:
    (message,) = parse(b"event: a\xff\nid: \xc3\ncontent-type: \xe2\x82\ndata: \xff\xfe\n\n")
    assert message == Message("a\ufffd", "\ufffd", b"\xff\xfe", "\ufffd", None)


# ---- bounds -------------------------------------------------------------------------------------


@pytest.mark.case(117)
def test_the_largest_event_there_may_be_passes_in_its_longest_form() -> None:
    carried, content_type = sse.payload(bytes(EVENT_BYTES), "application/octet-stream")
    (message,) = parse(sse.encode(data=carried, event="x" * 128, id="9" * 40, content_type=content_type))
    assert sse.restore(message.data, message.content_type)[0] == bytes(EVENT_BYTES)


@pytest.mark.behaviour("R12")
@pytest.mark.case(117)
@pytest.mark.parametrize("mark", [b"", MARK], ids=["plain", "marked"])
def test_a_frame_above_the_bound_ends_typed_wherever_the_stream_is_cut(mark: bytes) -> None:
    # 16 bytes of frame: "id: 2" and "data: 1234x" are 16, "data: 12345x" is one too many.
    good = mark + sse.encode(data=b"1", id="1")
    for chunks in cuts(good + sse.encode(data=b"1234x", id="2")):
        parser = Parser(max_frame=16)
        assert [message.id for chunk in chunks for message in parser.feed(chunk)] == ["1", "2"]
    for chunks in cuts(good + sse.encode(data=b"12345x", id="2") + sse.encode(data=b"3", id="3")):
        parser = Parser(max_frame=16)
        delivered, error = feed_until_error(parser, chunks)
        assert [*delivered, *error.messages] == [Message("message", "1", b"1", None, None)]
        assert (error.code, error.last_id) == ("event_too_large", "2")


def test_the_bound_holds_at_the_first_line_of_a_marked_stream_wherever_it_is_cut() -> None:
    for size, fits in ((13, True), (12, False)):
        for chunks in cuts(MARK + b"data: 1234\n\n"):
            parser = Parser(max_frame=size)
            try:
                told = sum(len(parser.feed(chunk)) for chunk in chunks)
            except FrameTooLarge:
                told = 0
            assert told == fits


@pytest.mark.case(117)
@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"], ids=ascii)
def test_a_parser_that_met_its_bound_stays_at_its_end(end: bytes) -> None:
    parser = Parser(max_frame=16)
    with pytest.raises(FrameTooLarge) as first:
        parser.feed(b"id: 1\ndata: 1\n\nid: 2\ndata: 1\ndata: 1234567890" + end)
    assert [message.id for message in first.value.messages] == ["1"]
    for chunk in (b"", b"\n", b"\n\n", b"data: 1\n\n"):
        with pytest.raises(FrameTooLarge) as again:
            parser.feed(chunk)
        assert again.value.messages == ()
        assert again.value.last_id == "2"


def test_a_frame_of_many_small_lines_meets_the_bound_too() -> None:
    parser = Parser(max_frame=1000)
    for _ in range(250):
        parser.feed(b"data\n")
    with pytest.raises(FrameTooLarge):
        parser.feed(b"data\n")


def test_a_line_without_end_is_given_up_at_the_bound() -> None:
    for start in (b"data: ", b": ", b"x", b"\x00"):
        parser = Parser(max_frame=1000)
        parser.feed(start)
        for _ in range(9):
            parser.feed(b"x" * 100)
        with pytest.raises(FrameTooLarge):
            parser.feed(b"x" * 100)


def test_comments_may_go_on_for_ever_inside_a_frame() -> None:
    parser = Parser(max_frame=32)
    parser.feed(b"data: 1\n")
    for _ in range(100):
        assert parser.feed(b": still here\n:\n") == []
    assert parser.feed(b"\n") == [Message("message", None, b"1", None, None)]


def work(call: Callable[[], object]) -> int:
    """Return over how many bytes the methods of bytes objects went during `call`."""
    total = 0

    def watch(_frame: FrameType, kind: str, function: Any) -> None:
        nonlocal total
        owner = getattr(function, "__self__", None) if kind == "c_call" else None
        if isinstance(owner, bytes | bytearray):
            total += len(owner)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
    return total


@pytest.mark.behaviour("R12")
def test_an_unfinished_line_is_not_searched_again_with_every_chunk() -> None:
    line = b"data: " + b"x" * 100_000 + b"\n\n"
    at_once = work(lambda: Parser().feed(line))
    in_pieces = work(lambda: parse(*[line[place : place + 50] for place in range(0, len(line), 50)]))
    assert len(line) <= at_once <= 8 * len(line)
    assert in_pieces <= 2 * at_once


def test_a_frame_of_very_many_lines_is_joined_once() -> None:
    data = b"\n" * 1_000_000
    (message,) = parse(sse.encode(data=data))
    assert message.data == data


# ---- others agree -------------------------------------------------------------------------------


def heard(stream: bytes) -> list[tuple[str, str, str, int | None]]:
    """What httpx2, whose parser is not ours, makes of a stream."""
    response = httpx2.Response(
        200,
        headers={"content-type": "text/event-stream"},
        content=stream,
        request=httpx2.Request("GET", "http://localhost/"),
    )
    return [(event.event, event.id, event.data, event.retry) for event in httpx2.EventSource(response)]


@pytest.mark.attack("Z1")
@pytest.mark.behaviour("L6")
@pytest.mark.case(43)
@given(
    frames=st.lists(
        st.tuples(SAFE_TEXT.filter(bool), SAFE_TEXT, st.none() | st.integers(0, sse.MAX_RETRY), st.binary(max_size=30)),
        max_size=5,
    )
)
@example(frames=[("x", CURSOR, None, data) for data in list(NASTY.values())[:-1]])
def test_a_foreign_parser_hears_the_same_frames(frames: list[tuple[str, str, int | None, bytes]]) -> None:
    stream = sse.HELLO_COMMENT
    expected: list[tuple[str, str, str, int | None]] = []
    for event, id, retry, data in frames:
        carried, content_type = sse.payload(data, "application/json")
        stream += sse.encode(data=carried, event=event, id=id, retry=retry, content_type=content_type)
        expected.append((event, id, carried.decode(), retry))
    assert heard(stream) == expected


def test_a_foreign_parser_joins_our_lines_of_data() -> None:
    assert heard(sse.encode(data=b"a\n\nb\n")) == [("message", "", "a\n\nb\n", None)]
