"""Server-sent events: turns events into frames and any split of a byte stream back into the same frames.

The grammar is WHATWG's (HTML, 9.2 "Server-sent events"). The rules of this file:

1. A frame is encoded once, whole, with plain LF, and shared by every reader. What would end a field early is
   refused, never stripped: a stripped id is another id.
2. Data comes back byte for byte. JSON on one line travels as it is; whatever SSE would bend (a CR, several lines,
   other content types) travels as the JSON text `{"data_base64": "…"}`, and the frame's `content-type` field, which
   every other parser skips, tells our client to undo it. An EventSource still gets JSON.
3. The parser works on bytes and decodes whole values only, so no cut can fall into a character. Every byte is
   searched once, when it arrives: an unfinished line is added to, never looked through again.
4. A line counts when its end has been seen and a frame when its blank line has; a stream that breaks off gives
   nothing of its last frame. A line end is CR, LF or CRLF. CR alone ends the line at once, and an LF that comes right
   after it, even in the next chunk, belongs to it.
5. What one frame may make us hold is bounded. Beyond the bound the stream is over: its next bytes have no meaning.
"""

import base64
import json
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from outlast.errors import WireError

MAX_FRAME: Final = 12 * 1024 * 1024
"""Bytes of one frame: an event of 8 MiB grows to 10.7 MiB as base64; the rest is room for its other fields."""
MAX_RETRY: Final = 999_999_999
"""Milliseconds, eleven days: a longer pause is a mistake, and digits without end are an attack on `int`."""

_JSON: Final = "application/json"
_ENCODED: Final = "data_base64"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_RETRY_DIGITS: Final = len(str(MAX_RETRY))

# Controls of ASCII and Latin-1 (NUL, CR, LF, DEL and NEL among them), the two Unicode line ends that careless parsers
# split at, and lone surrogates, which UTF-8 cannot carry.
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Message(NamedTuple):
    """One frame as it was received.

    `event` is "message" where the frame named none; `id`, `content_type` and `retry` (milliseconds) are the frame's
    own, None where it had none. A named tuple, because one is built per event received and a frozen dataclass
    takes three times as long to build, two fifths of the whole parsing.
    """

    event: str
    id: str | None
    data: bytes
    content_type: str | None
    retry: int | None


class FrameTooLarge(WireError):
    """A frame, or one line of it, is larger than the parser holds; trying again meets the same frame.

    `last_id` is the last id seen: the frame's own where its id came before the data, as in our frames.
    `messages` are the frames that the same bytes completed before it: deliver them, nobody else will.
    """

    code = "event_too_large"

    def __init__(self, message: str, *, last_id: str | None, messages: Sequence[Message]) -> None:
        super().__init__(message)
        self.last_id = last_id
        self.messages = tuple(messages)


# ---- out ----------------------------------------------------------------------------------------


def encode(
    *,
    data: bytes,
    event: str | None = None,
    id: str | None = None,
    retry: int | None = None,
    content_type: str | None = None,
) -> bytes:
    """Return one whole frame.

    `retry` is in milliseconds. LF in `data` is carried by several `data` lines. Raises `WireError` for CR in `data`
    (see `payload`), for an empty event, which readers would take for "message", and for control characters, Unicode
    line ends or lone surrogates in `event`, `id` or `content_type`. Source: Z1, F10, WHATWG 9.2.5.
    """
    if b"\r" in data:
        raise WireError("Data with a carriage return cannot travel as it is in a server-sent event.")
    if b"\n" in data:
        data = data.replace(b"\n", b"\ndata: ")
    head = ""
    if event is not None:
        if not event:
            raise WireError("The event type of a server-sent event is empty.")
        head = f"event: {_safe(event)}\n"
    if id is not None:
        head += f"id: {_safe(id)}\n"
    if content_type is not None:
        head += f"content-type: {_safe(content_type)}\n"
    if retry is not None:
        if not 0 <= retry <= MAX_RETRY:
            raise WireError(f"The retry of a server-sent event is 0 to {MAX_RETRY} milliseconds.")
        head += f"retry: {retry}\n"
    return head.encode() + b"data: " + data + b"\n\n"


def comment(text: str) -> bytes:
    """Return a comment between two frames: bytes on the line that say nothing. Raises `WireError` as `encode` does."""
    return f": {_safe(text)}\n\n".encode()


HELLO_COMMENT: Final = b": hello\n\n"
"""The first bytes of every stream, so that proxies and clients see it open at once (F10)."""


def payload(data: bytes, content_type: str) -> tuple[bytes, str | None]:
    """Return how an event's payload travels: the frame's data and its `content-type` field, None for plain JSON.

    Never fails; `restore` undoes it. Source: L6.
    """
    if content_type == _JSON and b"\n" not in data and b"\r" not in data and (data.isascii() or _is_utf8(data)):
        return data, None
    return b'{"%b":"%b"}' % (_ENCODED.encode(), base64.b64encode(data)), content_type


def restore(data: bytes, content_type: str | None) -> tuple[bytes, str]:
    """Return an event's payload and content type from a frame's data and `content-type` field.

    Raises `WireError` when a frame names a content type and its data is not the JSON that goes with it.
    """
    if content_type is None:
        return data, _JSON
    try:
        return base64.b64decode(json.loads(data)[_ENCODED], validate=True), content_type
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise WireError("A frame with a content type does not carry its data as base64.") from error


def _safe(text: str) -> str:
    # Whatever is unsafe is not printable either; asking that first spares nearly every text the slower search.
    if not text.isprintable() and _UNSAFE.search(text):
        raise WireError("A field of a server-sent event holds a control character, a line end or half a character.")
    return text


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# ---- in -----------------------------------------------------------------------------------------


class Parser:
    """The frames of one stream, from its first byte; a new connection takes a new parser.

    `retry` is the last pause in milliseconds that the stream asked for and `last_id` the last id it named, None
    before; both count from their own line on, also in frames without data. A client's cursor is its own affair:
    `last_id` runs ahead of what was delivered.
    """

    __slots__ = (
        "_after_cr",
        "_content_type",
        "_data",
        "_event",
        "_id",
        "_line",
        "_max_frame",
        "_retry",
        "_size",
        "_started",
        "last_id",
        "retry",
    )

    def __init__(self, *, max_frame: int = MAX_FRAME) -> None:
        """Hold at most `max_frame` bytes of a frame: its lines without their ends, finished comments not counted."""
        self.retry: int | None = None
        self.last_id: str | None = None
        self._max_frame = max_frame
        self._started = False
        self._after_cr = False
        self._line = bytearray()  # the unfinished line; what follows is the unfinished frame
        self._event = ""
        self._id: str | None = None
        self._content_type: str | None = None
        self._retry: int | None = None
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[Message]:
        """Take the next bytes and return the frames they complete, in order.

        Raises `FrameTooLarge`, and again on every later call. Source: R12, WHATWG 9.2.6.
        """
        messages: list[Message] = []
        if not self._too_large():
            self._read(self._lines(chunk), messages)
        if self._too_large():
            raise FrameTooLarge(
                f"A frame of the stream is larger than {self._max_frame} bytes.",
                last_id=self.last_id,
                messages=messages,
            )
        return messages

    def _too_large(self) -> bool:
        return self._size + len(self._line) > self._max_frame

    def _lines(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` ends, and keep what follows them."""
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        # bytes.splitlines, unlike that of str, knows exactly the three line ends of rule 4.
        lines = chunk.splitlines()
        if not lines:
            return lines
        rest = b""
        if chunk.endswith(b"\r"):
            self._after_cr = True
        elif not chunk.endswith(b"\n"):
            rest = lines.pop()
        if lines and self._line:
            lines[0] = bytes(self._line) + lines[0]
            self._line = bytearray()
        if lines and not self._started:
            self._start(lines)
        self._line += rest
        return lines

    def _start(self, lines: list[bytes]) -> None:
        """Drop the mark that only the first line of a stream may begin with."""
        self._started = True
        if lines[0].startswith(_BYTE_ORDER_MARK):
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
            self._size += len(_BYTE_ORDER_MARK)  # as while the line was unfinished: no cut moves the bound

    def _read(self, lines: list[bytes], messages: list[Message]) -> None:
        """Add to `messages` the frames that `lines` complete, up to a frame that is too large."""
        for line in lines:
            if not line:
                if self._data:
                    data = b"\n".join(self._data)
                    messages.append(Message(self._event or "message", self._id, data, self._content_type, self._retry))
                    self._data = []
                self._event = ""
                self._id = self._content_type = self._retry = None
                self._size = 0
                continue
            self._size += len(line)
            if self._size > self._max_frame:
                return
            # The cases that make up nearly every stream cost one split here; `_rare` knows all of them.
            name, _, value = line.partition(b": ")
            if name == b"data":
                self._data.append(value)
            elif name == b"event":
                self._event = value.decode(errors="replace")
            elif name == b"id" and b"\0" not in value:
                self.last_id = self._id = value.decode(errors="replace")
            else:
                self._rare(line)

    def _rare(self, line: bytes) -> None:
        """Take any field by the letter of the standard."""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"":  # a comment, of which nothing is kept
                self._size -= len(line)
            case b"data":
                self._data.append(value)
            case b"event":
                self._event = value.decode(errors="replace")
            case b"id" if b"\0" not in value:
                self.last_id = self._id = value.decode(errors="replace")
            case b"content-type":
                self._content_type = value.decode(errors="replace")
            case b"retry" if value.isdigit() and len(value) <= _RETRY_DIGITS:
                self.retry = self._retry = int(value)
            case _:
                pass
