"""Cursors as text, the chain behind them, and when one cannot be served."""

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import CursorInvalid
from outlast.log.cursor import Cursor, Gap, GapReason, advance, chain, find_gap, origin
from outlast.log.event import Event, restore

CHAIN = bytes.fromhex("8f1c2d3e4a5b6c7d")
OTHER = bytes.fromhex("0000000000000001")
FORM = "A cursor is a number, or a number and 16 hex digits joined by '-'."

seqs = st.integers(1, 2**63 - 1)
chains = st.binary(min_size=8, max_size=8)
events = st.builds(restore, st.text(max_size=4), st.binary(max_size=4), st.text(max_size=4))


# ---- text -----------------------------------------------------------------------------------


@given(seqs, st.none() | chains)
def test_a_cursor_comes_back_from_its_text(seq: int, chain: bytes | None) -> None:
    assert Cursor.parse(str(Cursor(seq, chain))) == Cursor(seq, chain)


@pytest.mark.parametrize(
    ("text", "cursor"),
    [
        ("", Cursor(0, None)),
        ("0", Cursor(0, None)),
        ("0-8f1c2d3e4a5b6c7d", Cursor(0, None)),
        ("42", Cursor(42, None)),
        ("42-8f1c2d3e4a5b6c7d", Cursor(42, CHAIN)),
        ("9223372036854775807", Cursor(2**63 - 1, None)),
    ],
)
def test_a_cursor_is_read(text: str, cursor: Cursor) -> None:
    assert Cursor.parse(text) == cursor


BAD_NUMBERS = ["-1", "+1", "007", "1.0", "1e3", " 1", "1 ", "1\n", "1\0", "\u0661", "now", "99" * 10]
BAD_CHAINS = ["1-", "-", "1-8f1c2d3e4a5b6c7", "1-8f1c2d3e4a5b6c7d0", "1-8F1C2D3E4A5B6C7D", "1--8f1c2d3e4a5b6c7d"]
GIANTS = ["1" * 1_000_000, "1-8f1c2d3e4a5b6c7d" * 1000]


@pytest.mark.parametrize("text", [*BAD_NUMBERS, *BAD_CHAINS, *GIANTS])
def test_text_that_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(CursorInvalid) as refused:
        Cursor.parse(text)
    assert str(refused.value) == FORM


@pytest.mark.parametrize("text", ["9223372036854775808", "9999999999999999999-8f1c2d3e4a5b6c7d"])
def test_a_number_that_no_store_keeps_is_refused(text: str) -> None:
    with pytest.raises(CursorInvalid, match=r"^A cursor's number is at most 2\^63 - 1\.$"):
        Cursor.parse(text)


@given(st.text(max_size=40))
def test_any_text_is_a_cursor_or_refused(text: str) -> None:
    try:
        cursor = Cursor.parse(text)
    except CursorInvalid:
        return
    assert str(cursor) == text or cursor == Cursor(0, None)


# ---- the chain ------------------------------------------------------------------------------


def digest(*parts: bytes) -> bytes:
    return blake2b(b"".join(parts), digest_size=8).digest()


def test_a_log_begins_at_zero_with_the_hash_of_its_identity() -> None:
    assert origin("log1") == Cursor(0, digest(b"log1"))


def test_an_event_s_chain_is_the_hash_of_its_past_its_kind_and_its_payload() -> None:
    first = advance(origin("log1"), Event("text", "hé"))
    kind = b"\0\0\0\x04text\0\0\0\x10application/json"
    assert first == Cursor(1, digest(digest(b"log1"), kind, '"hé"'.encode()))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", "c", b""), ("a", "bc", b"")),
        (("a", "b", b"c"), ("a", "", b"bc")),
        (("a", "bc", b""), ("a", "b", b"c")),
        (("a", "b", b""), ("b", "a", b"")),
        (("a", "b", b"1"), ("a", "b", b"2")),
    ],
)
def test_events_that_differ_anywhere_have_other_chains(
    one: tuple[str, str, bytes], other: tuple[str, str, bytes]
) -> None:
    written = [advance(origin("log1"), restore(type, payload, content)) for type, content, payload in (one, other)]
    assert written[0].chain != written[1].chain


def test_the_same_event_in_another_log_or_at_another_place_has_another_chain() -> None:
    event = Event("text", "a")
    first = advance(origin("log1"), event)
    assert first.chain != advance(origin("log2"), event).chain
    assert first.chain != advance(first, event).chain


@given(st.lists(events, max_size=5), st.lists(events, max_size=5))
def test_a_chain_goes_on_from_where_it_was_cut(past: list[Event], rest: list[Event]) -> None:
    start = origin("log1")
    whole = chain(start, past + rest)
    cut = chain(start, past)
    assert whole == cut + chain(cut[-1] if cut else start, rest)
    assert [cursor.seq for cursor in whole] == list(range(1, len(whole) + 1))


def test_a_cursor_taken_at_its_word_cannot_be_gone_on_from() -> None:
    with pytest.raises(ValueError, match="no chain to go on from"):
        advance(Cursor(3, None), Event("text", "a"))


# ---- gaps -----------------------------------------------------------------------------------

HEAD = Cursor(9, CHAIN)


def test_the_reasons_of_a_gap_are_the_published_words() -> None:
    assert {reason.name: reason.value for reason in GapReason} == {
        "TRIMMED": "trimmed",
        "AHEAD": "ahead",
        "MISMATCH": "mismatch",
    }


@pytest.mark.parametrize(
    ("requested", "first", "found", "reason"),
    [
        (Cursor(0, None), 1, None, None),
        (Cursor(0, CHAIN), 1, OTHER, None),
        (Cursor(9, CHAIN), 1, CHAIN, None),
        (Cursor(9, None), 1, CHAIN, None),
        (Cursor(9, CHAIN), 1, None, None),
        (Cursor(9, OTHER), 1, CHAIN, GapReason.MISMATCH),
        (Cursor(1, OTHER), 1, CHAIN, GapReason.MISMATCH),
        (Cursor(10, None), 1, None, GapReason.AHEAD),
        (Cursor(2**63 - 1, CHAIN), 1, None, GapReason.AHEAD),
        (Cursor(0, None), 2, None, GapReason.TRIMMED),
        (Cursor(3, CHAIN), 5, None, GapReason.TRIMMED),
        (Cursor(4, CHAIN), 5, None, None),
        (Cursor(5, CHAIN), 5, CHAIN, None),
        (Cursor(9, CHAIN), 10, None, None),
        (Cursor(10, CHAIN), 12, None, GapReason.AHEAD),
    ],
)
def test_a_place_is_served_or_told_why_not(
    requested: Cursor, first: int, found: bytes | None, reason: GapReason | None
) -> None:
    gap = find_gap(requested, head=HEAD, first=first, found=found)
    assert gap == (reason and Gap(reason=reason, requested=requested, first=first))
