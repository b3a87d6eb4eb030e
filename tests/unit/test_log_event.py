"""What may be said, how it is kept, and that it comes back unchanged."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import InputInvalid
from outlast.log.cursor import Cursor
from outlast.log.event import JSON, Event, Said, StoredEvent, coerce, encode_json, restore

TYPES = (
    "An event's type is 1 to 128 letters, digits or any of _ . : / - "
    "and none of 'error', 'open', 'message', 'outlast.…'."
)
NOT_JSON = "This value cannot be written as JSON."

scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(), max_size=20)
values: st.SearchStrategy[Any] = st.recursive(
    scalars | texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


# ---- JSON -----------------------------------------------------------------------------------


@given(values)
def test_json_comes_back_equal_from_one_line_of_utf_8(value: JSON) -> None:
    written = encode_json(value)
    assert not {b"\n", b"\r"} & {written[i : i + 1] for i in range(len(written))}
    assert json.loads(written.decode()) == value


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"a": [1, 2.5, None, True]}, b'{"a":[1,2.5,null,true]}'),
        ("é\u2028\u2029\x85", '"é\u2028\u2029\x85"'.encode()),
        ("a\0\r\n", b'"a\\u0000\\r\\n"'),
        ("\ud83d", b'"\\ud83d"'),
        ({"é": "\udc00"}, b'{"\\u00e9":"\\udc00"}'),
    ],
)
def test_json_is_compact_and_escapes_only_what_it_must(value: JSON, written: bytes) -> None:
    assert encode_json(value) == written


NO_NUMBERS = [float("nan"), float("inf"), {"a": -float("inf")}]
NO_JSON = [object(), {1, 2}, b"a", {(1, 2): 3}]


@pytest.mark.parametrize(
    "value", [*NO_NUMBERS, *NO_JSON, circle(), nested(100_000)], ids=lambda value: type(value).__name__
)
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    with pytest.raises(InputInvalid) as refused:
        encode_json(value)
    assert str(refused.value) == NOT_JSON
    assert refused.value.__cause__ is not None


# ---- an event -------------------------------------------------------------------------------


def test_data_is_kept_as_json_and_comes_back_decoded() -> None:
    event = Event("tool.call", {"name": "search"})
    assert (event.payload, event.content_type) == (b'{"name":"search"}', "application/json")
    assert event.data == {"name": "search"}


def test_an_event_without_data_says_null() -> None:
    assert Event("ping").payload == b"null"


def test_bytes_are_kept_as_they_are_under_the_general_content_type() -> None:
    event = Event("audio", b"\0\xff\r\n")
    assert (event.payload, event.content_type, event.data) == (b"\0\xff\r\n", "application/octet-stream", b"\0\xff\r\n")


def test_bytes_may_name_their_content_type() -> None:
    event = Event("page", b"<p>", content_type="text/html; charset=utf-8")
    assert (event.data, event.content_type) == (b"<p>", "text/html; charset=utf-8")


def test_bytes_that_are_json_are_kept_to_the_byte_and_come_back_decoded() -> None:
    event = Event("data", b'{ "a" : 1.50 }', content_type="application/json")
    assert (event.payload, event.data) == (b'{ "a" : 1.50 }', {"a": 1.5})


BAD_JSON = [b"", b"{", b"NaN", b"[Infinity]", b"-Infinity", b"[" * 100_000]
BAD_UTF_8 = [b'"\xff"', b'"\xed\xa0\x80"', b"\xef\xbb\xbf1", "1".encode("utf-16"), "1".encode("utf-32")]


@pytest.mark.parametrize("payload", [*BAD_JSON, *BAD_UTF_8], ids=lambda payload: repr(payload[:12]))
def test_bytes_that_claim_to_be_json_and_are_not_are_refused(payload: bytes) -> None:
    with pytest.raises(InputInvalid) as refused:
        Event("data", payload, content_type="application/json")
    assert str(refused.value) == "The payload is not JSON in UTF-8, though its content type says so."


@pytest.mark.parametrize(
    "type",
    ["a", "_", "7", "run.started", "tool.call", "ai.text-delta", "x:y/z", "errors", "open.", "outlast", "a" * 128],
)
def test_a_type_is_letters_digits_and_a_few_signs(type: str) -> None:
    assert Event(type).type == type


TAKEN = ["error", "open", "message", "outlast.", "outlast.heartbeat"]
BAD_SIGNS = ["", " ", ".a", "-a", ":a", "/a", "a b", "a\n", "a\r", "a\0", "a\u2028", "é", "a" * 129]


@pytest.mark.parametrize("type", [*TAKEN, *BAD_SIGNS])
def test_another_type_is_refused(type: str) -> None:
    with pytest.raises(InputInvalid) as refused:
        Event(type)
    assert str(refused.value) == TYPES


@pytest.mark.parametrize(
    "content_type", ["text/plain", "a/b", "image/svg+xml", "text/html;charset=utf-8", "a/b; c=1; d=2; e=3; f=4"]
)
def test_a_content_type_is_a_type_and_a_subtype_with_few_parameters(content_type: str) -> None:
    assert Event("x", b"", content_type=content_type).content_type == content_type


@pytest.mark.parametrize(
    "content_type",
    [
        "text",
        "text/",
        "/plain",
        "a/b\n",
        "a/b\r\nx: y",
        "a b/c",
        "a/b; c=1; d=2; e=3; f=4; g=5",
        "a" * 65 + "/b",
        "é/b",
    ],
)
def test_another_content_type_is_refused(content_type: str) -> None:
    with pytest.raises(InputInvalid) as refused:
        Event("x", b"", content_type=content_type)
    assert str(refused.value) == "A content type looks like 'type/subtype'."


def test_data_under_another_content_type_than_json_is_given_as_bytes() -> None:
    with pytest.raises(InputInvalid, match="given as bytes"):
        Event("x", "<p>", content_type="text/html")
    assert Event("x", "<p>", content_type="application/json").payload == b'"<p>"'


def test_events_are_equal_by_what_is_kept_and_cannot_be_changed() -> None:
    event = Event("data", {"a": 1})
    assert event == Event("data", b'{"a":1}', content_type="application/json")
    assert event != Event("data", b'{"a":1}')
    assert not hasattr(event, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.type = "other"  # type: ignore[misc]


# ---- what a worker yields -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "event"),
    [
        (Event("x", 1), Event("x", 1)),
        ("hello", Event("text", "hello")),
        ("", Event("text", "")),
        (b"\0", Event("bytes", b"\0")),
        ({"a": 1}, Event("data", {"a": 1})),
        ([1, 2], Event("data", [1, 2])),
        ((1, 2), Event("data", [1, 2])),
    ],
)
def test_a_worker_s_word_becomes_the_event_of_its_kind(said: Said, event: Event) -> None:
    assert coerce(said) == event


@pytest.mark.parametrize("type", ["run.completed", "run.started", "run."])
def test_a_worker_cannot_say_what_is_ours_to_say(type: str) -> None:
    with pytest.raises(InputInvalid, match=r"^Event types beginning 'run\.' belong to Outlast\.$"):
        coerce(Event(type))
    assert coerce(Event("running")).type == "running"


@pytest.mark.parametrize("said", [None, 1, 1.5, object(), bytearray(b"a"), {1, 2}, range(3)])
def test_another_kind_of_word_is_refused(said: Any) -> None:
    with pytest.raises(InputInvalid, match=r"^A worker yields Event, str, bytes, dict or list\.$"):
        coerce(said)


# ---- what a store gives back ----------------------------------------------------------------


@given(st.sampled_from(["text", "run.failed", "outlast.gap", "not a type"]), st.binary(), st.text(max_size=5))
def test_a_stored_event_comes_back_unchecked(type: str, payload: bytes, content_type: str) -> None:
    event = restore(type, payload, content_type)
    assert (event.type, event.payload, event.content_type) == (type, payload, content_type)


@given(values)
def test_an_event_given_back_is_the_event_that_was_said(value: JSON) -> None:
    said = Event("data", value)
    assert restore(said.type, said.payload, said.content_type) == said


def test_the_number_of_a_stored_event_is_its_cursor_s() -> None:
    assert StoredEvent(cursor=Cursor(7, b"12345678"), event=Event("x"), epoch=1, time=0.0).seq == 7
