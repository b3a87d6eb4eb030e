"""The frames of a session come back as they were said, in both directions, and nothing else is taken for one."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import TooLarge, WireError
from outlast.wire import session
from outlast.wire.session import (
    ANSWERED,
    ASKED,
    BODY,
    EXCHANGES,
    GRANTED_FROM,
    HEADERS,
    LAST,
    MESSAGE,
    PATH,
    PIECE,
    VALUE,
    WINDOW,
    Allowance,
    Answer,
    Ask,
    Broken,
    Closing,
    Credit,
    End,
    Grant,
    Leave,
    Piece,
    chosen,
    encode,
    from_client,
    from_server,
)

exchanges = st.integers(1, LAST)
bodies = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
values = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=40).map(str.strip)
asks = st.builds(
    Ask,
    exchange=exchanges,
    method=st.sampled_from(["GET", "HEAD", "POST", "DELETE", "OPTIONS"]),
    path=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="#"), max_size=80).map(
        "/{}".format
    ),
    headers=st.dictionaries(st.sampled_from(sorted(ASKED)), values),
    body=st.none() | bodies,
)
answers = st.builds(
    Answer,
    exchange=exchanges,
    status=st.integers(200, 599),
    headers=st.dictionaries(st.sampled_from(sorted(ANSWERED)), values),
)
clients = (
    asks | st.builds(Grant, exchange=exchanges, size=st.integers(1, WINDOW)) | st.builds(Leave, exchange=exchanges)
)
servers = (
    answers
    | st.builds(Piece, exchange=exchanges, data=st.binary(min_size=1, max_size=300))
    | st.builds(End, exchange=exchanges)
    | st.builds(Broken, exchange=exchanges)
)
ASK: dict[str, Any] = {"ask": 1, "method": "GET", "path": "/runs", "headers": {}}


# ---- frames -------------------------------------------------------------------------------------


@given(clients)
def test_what_a_client_says_comes_back(frame: session.FromClient) -> None:
    message = encode(frame)
    assert isinstance(message, str)
    assert from_client(message) == frame


@given(servers)
def test_what_a_server_says_comes_back(frame: session.FromServer) -> None:
    message = encode(frame)
    assert isinstance(message, bytes) == isinstance(frame, Piece)
    assert from_server(message) == frame


def test_the_frames_are_those_of_the_page() -> None:
    headers = {"accept": "text/event-stream"}
    assert json.loads(encode(Ask(exchange=1, method="GET", path="/runs/x?a=1", headers=headers))) == {
        "ask": 1,
        "method": "GET",
        "path": "/runs/x?a=1",
        "headers": headers,
    }
    assert json.loads(encode(Grant(exchange=1, size=65536))) == {"grant": 1, "bytes": 65536}
    assert json.loads(encode(Leave(exchange=1))) == {"leave": 1}
    assert json.loads(encode(Answer(exchange=1, status=204))) == {"answer": 1, "status": 204, "headers": {}}
    assert encode(Piece(exchange=258, data=b"data: 1")) == b"\x00\x00\x01\x02data: 1"
    assert json.loads(encode(End(exchange=7))) == {"end": 7}
    assert json.loads(encode(Broken(exchange=7))) == {"broken": 7}


def test_members_from_tomorrow_are_skipped_and_headers_may_be_left_out() -> None:
    assert from_client('{"ask": 1, "method": "GET", "path": "/", "urgent": true}') == Ask(
        exchange=1, method="GET", path="/"
    )
    assert from_server('{"end": 3, "took": 0.5}') == End(exchange=3)


@given(st.text(max_size=40) | st.binary(max_size=40))
def test_garbage_is_no_frame_and_nothing_worse(message: str | bytes) -> None:
    for read in (from_client, from_server):
        with suppress(WireError):
            read(message)


@given(
    st.dictionaries(
        st.sampled_from(["ask", "grant", "leave", "answer", "end", "broken", "method", "path", "headers", "body"]),
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.lists(st.integers()),
    )
)
def test_heads_of_odd_members_are_no_frames_and_nothing_worse(said: dict[str, Any]) -> None:
    for read in (from_client, from_server):
        with suppress(WireError):
            read(json.dumps(said))


@pytest.mark.parametrize(
    "message",
    [
        "",
        "null",
        "[]",
        "7",
        "{}",
        '{"ask": 1}',
        '{"ask": 1, "leave": 1}',
        '{"answer": 1}',
        '{"end": 1}',
        '{"leave": NaN}',
        '{"leave": 1',
        "[" * 100_000,
        '{"leave": ' + "9" * 5000 + "}",
        b"\x00\x00\x00\x01data",
    ],
)
def test_a_server_takes_nothing_but_what_a_client_says(message: str | bytes) -> None:
    with pytest.raises(WireError):
        from_client(message)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "{}",
        '{"ask": 1}',
        '{"grant": 1, "bytes": 1}',
        '{"end": 1, "broken": 1}',
        b"",
        b"\x00\x00\x00\x01",
        b"\x01abc",
    ],
)
def test_a_client_takes_nothing_but_what_a_server_says(message: str | bytes) -> None:
    with pytest.raises(WireError):
        from_server(message)


@pytest.mark.parametrize("exchange", [0, -1, LAST + 1, True, 1.0, "1", None, [1]])
def test_a_number_is_a_whole_one_within_its_bounds(exchange: Any) -> None:
    said = json.dumps(exchange)
    for message in ('{"leave": %s}', '{"grant": %s, "bytes": 1}', '{"ask": %s, "method": "GET", "path": "/"}'):
        with pytest.raises(WireError, match="number of an exchange"):
            from_client(message % said)
    for message in ('{"end": %s}', '{"broken": %s}', '{"answer": %s, "status": 200}'):
        with pytest.raises(WireError, match="number of an exchange"):
            from_server(message % said)
    with pytest.raises(WireError, match="number of an exchange"):
        from_server(b"\x80\x00\x00\x00data")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"method": "get"}, "capital"),
        ({"method": "G" * 17}, "capital"),
        ({"method": 5}, "method"),
        ({"path": "runs"}, "slash"),
        ({"path": "/runs/ x"}, "ASCII"),
        ({"path": "/runs/\r\nx"}, "ASCII"),
        ({"path": "/runs/x#y"}, "ASCII"),
        ({"path": "/runs/ü"}, "ASCII"),
        ({"path": "/" * (PATH + 1)}, str(PATH)),
        ({"path": None}, "path"),
        ({"headers": []}, "object"),
        ({"headers": {"accept": 5}}, "texts"),
        ({"headers": {"accept": "a\r\nb: c"}}, "Latin-1"),
        ({"headers": {"accept": " a"}}, "Latin-1"),
        ({"headers": {"accept": "a" * (VALUE + 1)}}, str(VALUE)),
        ({"body": {}}, "text"),
        ({"body": "\ud800"}, "half a character"),
    ],
)
def test_a_request_that_is_none_is_refused_with_a_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(WireError, match=sentence):
        from_client(json.dumps(ASK | change))
    from_client(json.dumps(ASK))  # and without the change it is one


@pytest.mark.parametrize(
    "name",
    [
        "authorization",
        "cookie",
        "origin",
        "host",
        "x-forwarded-for",
        "forwarded",
        "x-api-key",
        "Accept",
        "content-length",
    ],
)
@pytest.mark.attack("Z13")
def test_a_frame_cannot_say_who_asks(name: str) -> None:
    with pytest.raises(WireError, match="no other headers"):
        from_client(json.dumps(ASK | {"headers": {name: "x"}}))


@pytest.mark.parametrize(
    "change",
    [
        {"status": 101},
        {"status": 600},
        {"status": "200"},
        {"status": None},
        {"headers": {"Etag": "x"}},
        {"headers": {"etag": "x\n"}},
        {"headers": {f"x-{number}": "" for number in range(HEADERS + 1)}},
    ],
)
def test_an_answer_that_is_none_is_refused(change: dict[str, Any]) -> None:
    answer: dict[str, Any] = {"answer": 1, "status": 200, "headers": {"x-new": "is fine"}}
    from_server(json.dumps(answer))
    with pytest.raises(WireError):
        from_server(json.dumps(answer | change))


def test_sizes_are_bounded() -> None:
    for size in (0, WINDOW + 1, -1, True, 1.5, "1"):
        with pytest.raises(WireError, match="bytes"):
            from_client(json.dumps({"grant": 1, "bytes": size}))
    from_server(b"\x00\x00\x00\x01" + bytes(PIECE))
    with pytest.raises(WireError, match="piece"):
        from_server(b"\x00\x00\x00\x01" + bytes(PIECE + 1))
    for read in (from_client, from_server):
        with pytest.raises(TooLarge):
            read(" " * (MESSAGE + 1))


def test_the_largest_body_of_json_travels_and_one_that_no_message_can_hold_is_refused_before_it_does() -> None:
    body = json.dumps(["\\" * (BODY // 4), '"' * (BODY // 4 - 8)])
    assert BODY - 16 < len(body) <= BODY
    ask = Ask(exchange=LAST, method="POST", path="/" * PATH, headers=dict.fromkeys(ASKED, "v" * 1000), body=body)
    assert from_client(encode(ask)) == ask
    with pytest.raises(TooLarge, match=str(BODY)):
        encode(Ask(exchange=1, method="POST", path="/runs", body="\x00" * BODY))


def test_headers_of_a_wire_become_those_of_a_frame() -> None:
    raw = [(b"Vary", b"accept"), (b"set-cookie", b"a=b"), (b"vary", b"origin"), (b"Content-Type", b"text/plain")]
    assert chosen(raw, ANSWERED) == {"vary": "accept, origin", "content-type": "text/plain"}


def test_the_bounds_fit_each_other() -> None:
    assert PIECE <= GRANTED_FROM <= WINDOW // 2, "the sender never waits for what the receiver keeps to itself"
    assert EXCHANGES < LAST
    assert all(code in range(1000, 1015) or code in range(3000, 5000) for code in Closing)


# ---- how much may come --------------------------------------------------------------------------


@given(st.lists(st.integers(1, 200_000), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_a_body_comes_whole_and_no_more_is_under_way_than_was_granted(sizes: list[int], random: Any) -> None:
    data, at, credit, allowance = bytes(sum(sizes)), 0, Credit(), Allowance()
    kept: list[int] = []
    under_way = 0
    while at < len(data) or kept:
        piece = credit.spend(data, at) if at < len(data) else b""
        if piece:
            assert len(piece) <= PIECE
            at += len(piece)
            under_way += len(piece)
            assert under_way <= WINDOW
            allowance.came(len(piece))
            kept.append(len(piece))
        if kept and (not piece or random.random() < 0.5):
            granted = allowance.took(kept.pop(0))
            under_way -= granted
            if granted:
                credit.grant(Grant(exchange=1, size=granted).size)
    assert at == len(data)


def test_nothing_goes_without_credit() -> None:
    credit, sent = Credit(), 0
    while piece := credit.spend(bytes(2 * WINDOW), sent):
        sent += len(piece)
    assert sent == WINDOW
    credit.grant(10)
    assert len(credit.spend(bytes(2 * WINDOW), sent)) == 10


def test_more_than_was_granted_or_sent_is_refused() -> None:
    credit, allowance = Credit(), Allowance()
    with pytest.raises(WireError, match="granted"):
        credit.grant(1)
    for _ in range(WINDOW // PIECE):
        allowance.came(PIECE)
    with pytest.raises(WireError, match="granted"):
        allowance.came(1)
    assert allowance.took(GRANTED_FROM - 1) == 0
    assert allowance.took(1) == GRANTED_FROM
    allowance.came(GRANTED_FROM)
