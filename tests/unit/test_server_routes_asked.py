import pytest
from starlette.requests import Request

from outlast.errors import CursorInvalid, InputInvalid
from outlast.log.cursor import Cursor
from outlast.server.readers.view import WHOLE, View
from outlast.server.routes.asked import MOST_TYPES, Kind, cursor_of, kind_of, view_of, wants_stream


def request(headers: dict[str, str], *, query: str = "", method: str = "GET") -> Request:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    return Request({"type": "http", "method": method, "path": "/", "query_string": query.encode(), "headers": raw})


@pytest.mark.parametrize(
    ("accept", "stream"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream", True),
        ("text/event-stream, */*", True),
        ("text/event-stream;q=0.1", True),
        ("application/json;q=0.5, text/event-stream;q=0.6", True),
        ("application/json, text/event-stream", True),
        ("application/json, text/event-stream;q=0.1", False),
        ("text/event-stream;q=0", False),
        ("text/event-stream; q=0.000", False),
        ("*/*", False),
        ("text/*", False),
        ("application/json", False),
        ("", False),
    ],
)
def test_a_stream_is_for_who_accepts_it_by_name(accept: str, *, stream: bool) -> None:
    assert wants_stream(request({"accept": accept})) is stream
    assert wants_stream(request({})) is False
    assert wants_stream(request({"accept": accept}, method="HEAD")) is False


@pytest.mark.case(89)
@pytest.mark.parametrize(
    ("headers", "query", "cursor"),
    [
        ({}, "", Cursor(0, None)),
        ({}, "after=", Cursor(0, None)),
        ({}, "after=0", Cursor(0, None)),
        ({}, "after=7", Cursor(7, None)),
        ({"last-event-id": "9"}, "", Cursor(9, None)),
        ({"last-event-id": "9"}, "after=7", Cursor(9, None)),
        ({"last-event-id": ""}, "after=7", Cursor(7, None)),
        ({"last-event-id": "9-8f1c2d3e4a5b6c7d"}, "", Cursor(9, bytes.fromhex("8f1c2d3e4a5b6c7d"))),
    ],
)
def test_the_last_event_id_beats_the_address(headers: dict[str, str], query: str, cursor: Cursor) -> None:
    assert cursor_of(request(headers, query=query)) == cursor


@pytest.mark.behaviour("F6")
@pytest.mark.case(89)
def test_a_request_that_names_two_places_is_refused_and_one_that_names_one_twice_is_not() -> None:
    def told(*ids: bytes, query: bytes = b"") -> Request:
        raw = [(b"last-event-id", id) for id in ids]
        return Request({"type": "http", "method": "GET", "path": "/", "query_string": query, "headers": raw})

    for two in (told(b"1", b"2"), told(query=b"after=1&after=2"), told(b"1", b"1-8f1c2d3e4a5b6c7d")):
        with pytest.raises(CursorInvalid, match="two places"):
            cursor_of(two)
    for one in (
        told(b"1", b"1"),
        told(b"", b"1"),
        told(b"1", query=b"after=2&after=3"),
        told(query=b"after=1&after=1"),
    ):
        assert cursor_of(one) == Cursor(1, None)


BAD = ["x", "-1", "1-", "1-zz", "01", "1.0", "9223372036854775808", "1" * 1_000_000, "1-8F1C2D3E4A5B6C7D", "\x85", "²"]


@pytest.mark.behaviour("F6")
@pytest.mark.attack("Z2")
@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_a_malformed_cursor_is_refused_without_repeating_it(bad: str) -> None:
    with pytest.raises(CursorInvalid) as refused:
        cursor_of(request({"last-event-id": bad}))
    assert bad not in str(refused.value) or len(bad) < 3


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/x-ndjson", Kind.LINES),
        ("application/x-ndjson, */*", Kind.LINES),
        ("application/json, application/x-ndjson", Kind.LINES),
        ("application/json;q=0.9, application/x-ndjson;q=0.8", Kind.PAGE),
        ("text/event-stream;q=0.2, application/x-ndjson;Q=0.30;v=1, application/json;q=0.1", Kind.LINES),
        ("application/x-ndjson;q=0, text/event-stream;q=0.000", Kind.PAGE),
        ("application/x-ndjson;q=2", Kind.PAGE),
        ("application/x-ndjson;q=\u00b2", Kind.PAGE),
        (";q=1,,;;", Kind.PAGE),
        ("image/png", Kind.PAGE),
    ],
)
def test_the_kind_of_answer_is_the_one_liked_best(accept: str, kind: Kind) -> None:
    assert kind_of(request({"accept": accept})) is kind


def test_head_is_answered_as_a_page_or_as_lines() -> None:
    both = {"accept": "text/event-stream, application/x-ndjson;q=0.5"}
    assert kind_of(request(both, method="HEAD")) is Kind.LINES


@pytest.mark.parametrize(
    ("query", "view"),
    [
        ("", WHOLE),
        ("envelope=0", WHOLE),
        ("envelope=1", View(envelope=True)),
        ("types=text", View(types=frozenset({"text"}))),
        (
            "types=text,run.restarted,a:b/c-d&envelope=1",
            View(types=frozenset({"text", "run.restarted", "a:b/c-d"}), envelope=True),
        ),
    ],
)
def test_a_view_is_the_types_and_the_dress(query: str, view: View) -> None:
    assert view_of(request({}, query=query)) == view


@pytest.mark.parametrize(
    "query",
    [
        "types=",
        "types=a,",
        "types=a,,b",
        "types=a%20b",
        "types=error",
        "types=outlast.gap",
        "types=%0A",
        "envelope=2",
        "envelope=",
        "types=" + ",".join("a" * (MOST_TYPES + 1)),
        "types=" + "x" * 129,
    ],
)
def test_a_view_that_is_none_is_refused_without_repeating_it(query: str) -> None:
    with pytest.raises(InputInvalid):
        view_of(request({}, query=query))
