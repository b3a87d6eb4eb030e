"""Reads pages of a log that come as lines of JSON, and gives the frames that a stream would have had in their place.

Rules:
1. A payload is cut out of its line, never decoded and encoded again, so it comes back byte for byte.
2. A line counts when its end has been seen; an answer that breaks off gives nothing of its last line.
3. The line that tells where the next page begins is the last: without it the answer was not whole.
4. What one line may make us hold is bounded, as one frame of a stream is.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from outlast.errors import CursorInvalid, WireError
from outlast.log.cursor import Cursor
from outlast.log.event import CONTROL_PREFIX
from outlast.wire.sse import MAX_FRAME, FrameTooLarge, Message

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    """The end of a page: where the next one begins, and whether there is anything yet, or ever, to come."""

    next: Cursor
    up_to_date: bool
    ended: bool


Line: TypeAlias = Message | Last
"""What a line says."""


class Lines:
    """Turns any split of a page's bytes into the same lines."""

    def __init__(self, *, most: int = MAX_FRAME) -> None:
        self._most = most
        self._begun = bytearray()
        self._last_id: str | None = None

    def feed(self, chunk: bytes) -> Sequence[Line]:
        """Return what the lines say that these bytes complete.

        Raises `WireError` for a line that is not of a page, and `FrameTooLarge` for one beyond the bound; its
        `messages` are those that the same bytes completed before it.
        """
        found: list[Line] = []
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._add(end, found)
            whole = bytes(self._begun)
            self._begun.clear()
            if whole.strip():
                line = read(whole)
                found.append(line)
                self._last_id = line.id if isinstance(line, Message) else self._last_id
        self._add(rest, found)
        return found

    def _add(self, part: bytes, found: Sequence[Line]) -> None:
        if len(self._begun) + len(part) > self._most:
            messages = [line for line in found if isinstance(line, Message)]
            raise FrameTooLarge("A line of a page is too large.", last_id=self._last_id, messages=messages)
        self._begun += part


def read(line: bytes) -> Line:
    """Return what one line says: an event or a gap as the frame of it, or the page's end. Raises `WireError`."""
    try:
        said = dict(_members(line.decode()))
        if "next" in said:
            flags = (said.get(name) == "true" for name in ("up_to_date", "ended"))
            up_to_date, ended = flags
            return Last(next=Cursor.parse(json.loads(said["next"])), up_to_date=up_to_date, ended=ended)
        if "gap" in said:
            return _message(f"{CONTROL_PREFIX}gap", None, said["gap"], None)
        type, cursor = str(json.loads(said["type"])), str(json.loads(said["cursor"]))
        if "data" in said:
            return _message(type, cursor, said["data"], None)
        encoded = '{"data_base64":%s}' % said["data_base64"]  # noqa: UP031 - braces
        return _message(type, cursor, encoded, str(json.loads(said["content_type"])))
    except (LookupError, ValueError, TypeError, RecursionError, CursorInvalid) as error:
        raise WireError("A line of a page is not of the wire.") from error


def _message(event: str, id: str | None, data: str, content_type: str | None) -> Message:
    return Message(event=event, id=id, data=data.encode(), content_type=content_type, retry=None)


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Yield each member of a JSON object, its value as it is written. Raises `ValueError` for what is none."""
    at = _past(text, 0, "{")
    while True:
        name, at = _DECODER.raw_decode(text, at)
        at = _past(text, at, ":")
        _, end = _DECODER.raw_decode(text, at)
        if not isinstance(name, str):
            raise ValueError("a name is a string")  # noqa: TRY004 - it is of the text
        yield name, text[at:end]
        at = _skip(text, end)
        if text[at : at + 1] == "}":
            break
        at = _past(text, at, ",")
    if _skip(text, at + 1) != len(text):
        raise ValueError("something follows the object")


def _past(text: str, at: int, mark: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != mark:
        raise ValueError(f"{mark} expected")
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
