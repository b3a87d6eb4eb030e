"""A `traceparent` is read to the letter, or it is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.wire.trace import ids, is_traceparent, traceparent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize("flags", ["00", "01", "ff"])
def test_two_ids_and_flags_are_one(flags: str) -> None:
    assert is_traceparent(f"00-{TRACE}-{SPAN}-{flags}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        GOOD.upper(),
        f" {GOOD}",
        f"{GOOD}\n",
        f"{GOOD}-00",
        GOOD[:-1],
        f"01-{TRACE}-{SPAN}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-0g",
        f"00-{TRACE[:-1]}٣-{SPAN}-01",
        f"00_{TRACE}_{SPAN}_01",
    ],
)
def test_anything_else_is_none(text: str) -> None:
    assert not is_traceparent(text)
    with pytest.raises(ValueError, match="not a traceparent"):
        ids(text)


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 255))
def test_what_is_written_is_read_as_it_was(trace: int, span: int, flags: int) -> None:
    written = traceparent(trace, span, flags)
    assert is_traceparent(written)
    assert ids(written) == (trace, span, flags)


@given(st.text())
def test_whatever_comes_is_answered(text: str) -> None:
    assert not is_traceparent(text) or text == traceparent(*ids(text))
