"""A session: many requests and their answers over one WebSocket, each as if it had come over HTTP.

A request and its answer are an *exchange*. The frames are JSON in messages of text, pieces of a body in binary ones:

    client                                                  server
    {"ask": 1, "method": "GET", "path": "/runs/x",          {"answer": 1, "status": 200, "headers": {…}}
     "headers": {…}, "body": "…"}                           0x00000001 and then a piece of the body
    {"grant": 1, "bytes": 65536}                            {"end": 1}
    {"leave": 1}                                            {"broken": 1}

What either end may rely on:

1. An exchange has a number, from 1 on, larger than every number of its session before it. It is open from its `Ask`
   until the server says `End` or `Broken`, which the server does exactly once for each, also for those that were left;
   nothing of it comes afterwards. At most `EXCHANGES` are open at once: one more is answered like any request that is
   one too many, with 429.
2. `Answer` comes first, then the pieces in order, then `End`: the answer is whole. `Broken` says that it is not, at any
   time, also instead of `Answer`: whoever asked knows nothing of what became of the request.
3. A path begins below the address of the routes, which is that of the handshake without its `/session`, and ends with
   its query. Addresses that an answer names are those of HTTP: whole, from the root on.
4. Only headers of content travel: `ASKED` in an `Ask`, where any other is refused, and `ANSWERED` in an `Answer`. A
   header that came several times is one, with commas. Who asks was said in the handshake, once for all exchanges: a
   proxy that checks or strips headers does not look into frames, so no frame can say it. A 401 in an exchange is about
   the handshake: other credentials need another session.
5. A body that is asked is text in UTF-8, whole in its `Ask`. That of a HEAD, of a 204 and of a 304 has no pieces.
6. Of every exchange at most `WINDOW` bytes of body are under way that were not granted again, so a receiver that is
   slow in one holds up no other: it takes every frame off the socket at once, and grants when what it keeps is taken.
   The bytes of a body count, and nothing else. A piece is at least 1 byte and at most `PIECE`, so the others of the
   socket come between two of a giant event.
7. `Grant` and `Leave` for what has just ended are no mistake: they have passed the `End` on their way. For what has not
   been asked they are. After `Leave` what was under way still comes.
8. Whoever gets what is no frame here ends the session, with the `Closing` code that says so. Members of a head that are
   not known are skipped; other frames come under another subprotocol.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, TypeAlias, assert_never, cast

from outlast.errors import TooLarge, WireError
from outlast.log.event import JSON, encode_json

SUBPROTOCOL: Final = "outlast.v1"
"""What a client asks for in its handshake, and the server names in its answer."""
EXCHANGES: Final = 256
"""Open at once in one session: as many as one owner may have readers."""
WINDOW: Final = 256 * 1024
"""Bytes under way in one exchange: 2.5 MB/s over a line of 100 ms, and what a receiver keeps for a stalled one."""
PIECE: Final = 64 * 1024
"""Bytes of one message at most: 50 ms of a line of 10 Mbit/s, for which the others wait."""
GRANTED_FROM: Final = WINDOW // 4
"""Bytes taken that are granted at once: a frame for each event would cost as much as the event."""
BODY: Final = 1024 * 1024
"""Bytes of a body that is asked: as many as the routes take."""
MESSAGE: Final = 2 * BODY + 64 * 1024
"""Bytes of a message of text: of a body of JSON at most every one needs an escape, and a head is small."""
PATH: Final = 16 * 1024
"""Characters of a path and its query: 64 types, and an owner, all of it in escapes, leave room."""
VALUE: Final = 4096
"""Characters of a header."""
HEADERS: Final = 32
"""Headers of one frame: more than there are to send."""
LAST: Final = 2**31 - 1
"""The largest number of an exchange; a session that comes to it makes room for another."""

ASKED: Final = frozenset(
    {"accept", "cache-control", "content-type", "if-none-match", "last-event-id", "traceparent"},
)
"""Headers of an `Ask`: they say what is wanted, and nothing about who wants it."""
ANSWERED: Final = frozenset(
    {
        *("allow", "cache-control", "content-type", "etag", "location", "outlast-run", "retry-after", "vary"),
        *("www-authenticate", "x-content-type-options"),
    },
)
"""Headers of an `Answer`. Those of a connection, of cookies and of what a page may read mean nothing in a frame."""

_NUMBER: Final = 4  # bytes before a piece
_METHOD: Final = re.compile(r"[A-Z]{1,16}")
_PATH: Final = re.compile(r"/[!\"$-~]*")  # no control character, no space, no fragment, nothing beyond ASCII
_NAME: Final = re.compile(r"[a-z0-9-]{1,64}")
_VALUE: Final = re.compile(r"(?:[!-~\xa0-\xff](?:[\t -~\xa0-\xff]*[!-~\xa0-\xff])?)?")


class Closing(IntEnum):
    """Why a session ends, as the code of the WebSocket's close; the reason beside it is a sentence for people."""

    WANTED = 1000
    """The client is done with it."""
    INVALID = 1002
    """What came is no frame of a session."""
    TOO_LARGE = 1009
    """A message was larger than any may be."""
    DRAINED = 1012
    """The node closes, and nothing is open any more: connect again, to another node or a little later."""
    EXPIRED = 3000
    """The credentials of the handshake have ended, and nothing is open any more: connect again, with new ones."""
    IDLE = 3008
    """Nothing was open for a long while."""


# ---- frames -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Open an exchange with a request. Raises `WireError` for what no request may be."""

    exchange: int
    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be asked."""
        _check_exchange(self.exchange)
        if not _METHOD.fullmatch(self.method):
            raise WireError("A method is 1 to 16 capital letters.")
        if len(self.path) > PATH or not _PATH.fullmatch(self.path):
            raise WireError(f"A path begins with a slash, is at most {PATH} characters long, and written in ASCII.")
        if not self.headers.keys() <= ASKED:
            raise WireError(f"An exchange has no other headers than {', '.join(sorted(ASKED))}.")
        _check_headers(self.headers)
        if self.body is not None and not _is_utf8(self.body):
            raise WireError("A body holds half a character, which UTF-8 cannot carry.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Let `size` more bytes of a body come. Raises `WireError`."""

    exchange: int
    size: int

    def __post_init__(self) -> None:
        """Refuse what is no number of bytes."""
        _check_exchange(self.exchange)
        if not _is_whole(self.size, 1, WINDOW):
            raise WireError(f"A grant is 1 to {WINDOW} bytes.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Want no more of an exchange: what a client that hangs up says over HTTP. Raises `WireError`."""

    exchange: int

    def __post_init__(self) -> None:
        """Refuse a number that is none."""
        _check_exchange(self.exchange)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Begin to answer. Raises `WireError`."""

    exchange: int
    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        """Refuse what is no answer."""
        _check_exchange(self.exchange)
        if not _is_whole(self.status, 200, 599):
            raise WireError("A status is 200 to 599.")
        _check_headers(self.headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some of the body of an answer. Raises `WireError`."""

    exchange: int
    data: bytes

    def __post_init__(self) -> None:
        """Refuse what is no piece."""
        _check_exchange(self.exchange)
        if not 1 <= len(self.data) <= PIECE:
            raise WireError(f"A piece is 1 to {PIECE} bytes.")


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The answer is whole. Raises `WireError`."""

    exchange: int

    def __post_init__(self) -> None:
        """Refuse a number that is none."""
        _check_exchange(self.exchange)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """Nothing more comes of the answer, and it is not whole. Raises `WireError`."""

    exchange: int

    def __post_init__(self) -> None:
        """Refuse a number that is none."""
        _check_exchange(self.exchange)


FromClient: TypeAlias = Ask | Grant | Leave
"""What a client says."""
FromServer: TypeAlias = Answer | Piece | End | Broken
"""What a server says."""


def encode(frame: FromClient | FromServer) -> str | bytes:
    """Return the message of a frame, text for a head and bytes for a piece. Raises `TooLarge`."""
    match frame:
        case Ask(exchange=exchange, method=method, path=path, headers=headers, body=body):
            said: dict[str, JSON] = {"ask": exchange, "method": method, "path": path, "headers": {**headers}}
            message = encode_json(said if body is None else {**said, "body": body})
            if len(message) > MESSAGE:
                raise TooLarge(f"A body may have at most {BODY} bytes.")
            return message.decode()
        case Grant(exchange=exchange, size=size):
            return f'{{"grant":{exchange},"bytes":{size}}}'
        case Leave(exchange=exchange):
            return f'{{"leave":{exchange}}}'
        case Answer(exchange=exchange, status=status, headers=headers):
            return encode_json({"answer": exchange, "status": status, "headers": {**headers}}).decode()
        case Piece(exchange=exchange, data=data):
            return exchange.to_bytes(_NUMBER) + data
        case End(exchange=exchange):
            return f'{{"end":{exchange}}}'
        case Broken(exchange=exchange):
            return f'{{"broken":{exchange}}}'
        case _:
            assert_never(frame)


def from_client(message: str | bytes) -> FromClient:
    """Return the frame that a client's message is. Raises `WireError`, and `TooLarge` for more than any may be."""
    if isinstance(message, bytes):
        raise WireError("A client says everything in text.")
    match _head(message, ("ask", "grant", "leave")):
        case "ask", exchange, said:
            body = said.get("body")
            if not (body is None or isinstance(body, str)):
                raise WireError("The body of an exchange is text.")
            method, path = _text(said, "method"), _text(said, "path")
            return Ask(exchange=exchange, method=method, path=path, headers=_headers(said), body=body)
        case "grant", exchange, said:
            return Grant(exchange=exchange, size=said.get("bytes", 0))
        case _, exchange, _:
            return Leave(exchange=exchange)


def from_server(message: str | bytes) -> FromServer:
    """Return the frame that a server's message is. Raises `WireError`, and `TooLarge` for more than any may be."""
    if isinstance(message, bytes):
        return Piece(exchange=int.from_bytes(message[:_NUMBER]), data=message[_NUMBER:])
    match _head(message, ("answer", "end", "broken")):
        case "answer", exchange, said:
            return Answer(exchange=exchange, status=said.get("status", 0), headers=_headers(said))
        case "end", exchange, _:
            return End(exchange=exchange)
        case _, exchange, _:
            return Broken(exchange=exchange)


def chosen(headers: Iterable[tuple[bytes, bytes]], names: Collection[str]) -> dict[str, str]:
    """Return those headers that have one of these names, as a frame has them: each once, in small letters."""
    found: dict[str, str] = {}
    for raw, value in headers:
        name, text = raw.decode("latin-1").lower(), value.decode("latin-1")
        if name in names:
            found[name] = f"{found[name]}, {text}" if name in found else text
    return found


# ---- how much may come --------------------------------------------------------------------------


class Credit:
    """How many bytes of an exchange's body may go: kept by the end that sends it."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = WINDOW

    def spend(self, data: bytes, at: int) -> bytes:
        """Return what of `data` may go now as one piece, from `at` on; empty where nothing may."""
        piece = data[at : at + min(self.left, PIECE)]
        self.left -= len(piece)
        return piece

    def grant(self, size: int) -> None:
        """Let `size` bytes more go. Raises `WireError` for more than went."""
        if self.left + size > WINDOW:
            raise WireError("More bytes were granted than have come.")
        self.left += size


class Allowance:
    """How many bytes of an exchange's body may come: kept by the end that receives it."""

    __slots__ = ("_left", "_taken")

    def __init__(self) -> None:
        self._left = WINDOW
        self._taken = 0

    def came(self, size: int) -> None:
        """Count a piece that came. Raises `WireError` where so much was not granted."""
        if size > self._left:
            raise WireError("More bytes came than were granted.")
        self._left -= size

    def took(self, size: int) -> int:
        """Count bytes that came and are kept no longer; return how many to grant now, 0 for none yet."""
        self._taken += size
        if self._taken < GRANTED_FROM:
            return 0
        granted, self._taken = self._taken, 0
        self._left += granted
        return granted


# ---- inside -------------------------------------------------------------------------------------


def _head(message: str, kinds: tuple[str, ...]) -> tuple[str, int, Mapping[str, Any]]:
    """Return which of the kinds a head is, its exchange and all its members."""
    if len(message) > MESSAGE:
        raise TooLarge(f"A message may have at most {MESSAGE} bytes.")
    try:
        said = json.loads(message, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise WireError("A message of text is not JSON.") from error
    if not isinstance(said, dict):
        raise WireError("A message of text is a JSON object.")
    members = cast("dict[str, Any]", said)
    named = [kind for kind in kinds if kind in members]
    if len(named) != 1:
        raise WireError(f"A message of text has one of the members {', '.join(kinds)}.")
    return named[0], members[named[0]], members


def _refuse(_constant: str) -> None:
    raise ValueError("NaN and infinities are not JSON")


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    if not isinstance(value, str):
        raise WireError(f"The {name} of an exchange is text.")
    return value


def _headers(said: Mapping[str, Any]) -> dict[str, str]:
    headers = said.get("headers", {})
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in cast("Any", headers).values()):
        raise WireError("The headers of an exchange are a JSON object of texts.")
    return cast("dict[str, str]", headers)


def _check_exchange(exchange: int) -> None:
    if not _is_whole(exchange, 1, LAST):
        raise WireError(f"The number of an exchange is 1 to {LAST}.")


def _check_headers(headers: Mapping[str, str]) -> None:
    if len(headers) > HEADERS:
        raise WireError(f"A frame has at most {HEADERS} headers.")
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise WireError("The name of a header is 1 to 64 small letters, digits or hyphens.")
        if len(value) > VALUE or not _VALUE.fullmatch(value):
            raise WireError(f"A header is at most {VALUE} characters of Latin-1, without control characters.")


def _is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
