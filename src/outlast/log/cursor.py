"""Cursors: the place of an event, checkable against the log it came from.

    c0 = blake2b64(log identity)          cn = blake2b64(cn-1, len(type) type, len(content type) content type, data)

The chain makes two reads of one log comparable by their ends alone: equal cursors mean equal pasts. Epoch and
time are not part of it, so a log re-seeded from memory by another controller keeps its cursors.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Self

from outlast.errors import CursorInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from outlast.log.event import Event

CHAIN_BYTES: Final = 8
"""64 bits: a chance meeting of two pasts at one seq is 1 in 10^19, and a cursor still fits a log line."""
LAST_SEQ: Final = 2**63 - 1
"""The largest integer every store keeps."""
KINDS: Final = 256
"""Kinds of event whose part of the hash is remembered: more than a few workers say, and made for every event else."""

_TEXT: Final = re.compile(r"(0|[1-9][0-9]{0,18})(?:-([0-9a-f]{16}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place after event `seq`; `chain` is the 8-byte hash over everything up to it.

    Seq 0 is the start of the log. A cursor from outside may lack its chain: it is then taken at its word.
    """

    seq: int
    chain: bytes | None

    def __str__(self) -> str:
        """Write the form readers send back: `42-8f1c2d3e4a5b6c7d`, or `42` when unverified."""
        return str(self.seq) if self.chain is None else f"{self.seq}-{self.chain.hex()}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a cursor; `""` and `"0"` mean the start. Raises `CursorInvalid`. Cost is bounded whatever `text` is."""
        match = _TEXT.fullmatch(text)
        if text and match is None:
            raise CursorInvalid("A cursor is a number, or a number and 16 hex digits joined by '-'.")
        if match is None or match[1] == "0":
            return cls(0, None)
        seq = int(match[1])
        if seq > LAST_SEQ:
            raise CursorInvalid("A cursor's number is at most 2^63 - 1.")
        return cls(seq, bytes.fromhex(match[2]) if match[2] else None)


def origin(log: str) -> Cursor:
    """Return the cursor before the first event of the log with this identity."""
    return Cursor(0, blake2b(log.encode(), digest_size=CHAIN_BYTES).digest())


def advance(cursor: Cursor, event: "Event") -> Cursor:
    """Return the cursor of `event` written right after `cursor`. Raises `ValueError` for one without its chain."""
    if cursor.chain is None:
        raise ValueError("a cursor taken at its word has no chain to go on from")
    chain = blake2b(cursor.chain + _kind(event.type, event.content_type), digest_size=CHAIN_BYTES)
    chain.update(event.payload)
    return Cursor(cursor.seq + 1, chain.digest())


@lru_cache(maxsize=KINDS)
def _kind(type: str, content_type: str) -> bytes:
    """Return what of an event's kind its hash goes over."""
    parts = type.encode(), content_type.encode()
    return b"".join(len(part).to_bytes(4) + part for part in parts)


def chain(cursor: Cursor, events: "Iterable[Event]") -> list[Cursor]:
    """Return the cursors of `events` written one after another behind `cursor`."""
    cursors: list[Cursor] = []
    for event in events:
        cursor = advance(cursor, event)
        cursors.append(cursor)
    return cursors


class GapReason(StrEnum):
    """Why a cursor cannot be served."""

    TRIMMED = "trimmed"
    AHEAD = "ahead"
    MISMATCH = "mismatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The answer to a cursor that cannot be served: told, never silent."""

    reason: GapReason
    requested: Cursor
    first: int


def find_gap(requested: Cursor, *, head: Cursor, first: int, found: bytes | None) -> Gap | None:
    """Decide whether events after `requested` can be served, and say why not.

    `first` is the oldest seq still readable, `found` the chain the log holds at `requested.seq` (None when that
    event is not stored). A bare seq is not compared. One indexed read answers everything. Source: F6.
    """
    if requested.seq > head.seq:
        return Gap(reason=GapReason.AHEAD, requested=requested, first=first)
    if requested.seq + 1 < first:
        return Gap(reason=GapReason.TRIMMED, requested=requested, first=first)
    if requested.seq > 0 and None not in (requested.chain, found) and requested.chain != found:
        return Gap(reason=GapReason.MISMATCH, requested=requested, first=first)
    return None
