"""The trace that a request belongs to, as the header `traceparent` names it: read strictly, or not at all.

Source: W3C Trace Context, section 3.2. Other versions than 00 are left alone: nobody writes one yet.
"""

import re
from typing import Final

HEADER: Final = "traceparent"

_FORM: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


def is_traceparent(text: str) -> bool:
    """Say whether `text` is a `traceparent` of version 00: two ids that are not zero, and flags."""
    return _FORM.fullmatch(text) is not None


def traceparent(trace: int, span: int, flags: int) -> str:
    """Return what names this span of this trace."""
    return f"00-{trace:032x}-{span:016x}-{flags:02x}"


def ids(text: str) -> tuple[int, int, int]:
    """Return trace, span and flags of a `traceparent`. Raises `ValueError` for what is none."""
    if not is_traceparent(text):
        raise ValueError("not a traceparent of version 00")
    _, trace, span, flags = text.split("-")
    return int(trace, 16), int(span, 16), int(flags, 16)
