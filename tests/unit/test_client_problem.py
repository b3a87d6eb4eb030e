"""Refusals on the wire become the errors that their codes name."""

import json

import pytest

from outlast import errors
from outlast.client.problem import ADDRESS, MAX_SENTENCE, refusal
from outlast.errors import Refusal, ThreadBusy


def body(**document: object) -> bytes:
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "kind",
    [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Refusal)],
    ids=lambda kind: kind.code,
)
def test_every_code_becomes_its_own_error(kind: type[Refusal]) -> None:
    error = refusal(409, body(code=kind.code, detail="A sentence.", live="other"))
    assert type(error) is kind
    assert str(error) == "A sentence."


def test_a_busy_thread_names_its_live_run() -> None:
    error = refusal(409, body(code="thread_busy", detail="Busy.", live="run-7"))
    assert isinstance(error, ThreadBusy)
    assert error.live == "run-7"


def test_the_title_stands_in_for_a_missing_detail_and_the_code_for_both() -> None:
    assert str(refusal(404, body(code="run_not_found", title="Run not found"))) == "Run not found"
    assert str(refusal(404, body(code="run_not_found"))) == "The server refused with run_not_found."


def test_a_code_from_tomorrow_is_a_plain_refusal_with_its_sentence() -> None:
    error = refusal(451, body(code="from_tomorrow", detail="Not any more."))
    assert type(error) is Refusal
    assert str(error) == "Not any more."


@pytest.mark.parametrize(
    "foreign",
    [
        b"",
        b"<html>Not Found</html>",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b"[" * 100_000,
        body(detail="Not Found"),
        body(code=7),
    ],
)
def test_what_is_no_problem_document_is_told_by_its_status_alone(foreign: bytes) -> None:
    error = refusal(404, foreign)
    assert type(error) is Refusal
    assert str(error) == f"The server answered 404 Not Found, and not in the way of Outlast: {ADDRESS}"


def test_a_path_at_which_a_server_has_nothing_is_a_wrong_address() -> None:
    error = refusal(404, body(code="not_found", detail="There is nothing at this path."))
    assert type(error) is Refusal
    assert "where its routes are mounted" in str(error)


def test_a_status_without_a_name_is_told_by_its_number() -> None:
    assert "answered 499, and" in str(refusal(499, b""))


def test_a_servers_sentence_is_one_short_line_of_printable_text() -> None:
    error = refusal(400, body(code="input_invalid", detail="a\n\x1b[31mred\x00\u2028\u202e" + "x" * 10_000))
    assert str(error).startswith("a[31mredx")
    assert str(error).isprintable()
    assert len(str(error)) == MAX_SENTENCE
