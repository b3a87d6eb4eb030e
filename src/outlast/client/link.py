"""One connection to a run's log: asks for the stream from a cursor, and turns its bytes into frames.

A connection is used once. Whatever ends it is told in one of two ways: `Lost`, which another try may cure, or an
error of `outlast.errors`, which none will.
"""

import asyncio
import contextlib
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeAlias

import httpx2

from outlast.client import problem
from outlast.errors import InputInvalid
from outlast.log.cursor import Cursor
from outlast.wire.sse import FrameTooLarge, Message, Parser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ESTABLISH: Final = 15.0
"""Seconds for credentials, name, connection and the answer's head together."""
BEAT: Final = 10.0
"""Seconds between heartbeats, where the server does not tell."""
BEATS: Final = 2.5
"""Heartbeats of silence before a connection is given up: two may be lost, and the third half over."""
LONGEST_BEAT: Final = 120.0
"""Seconds between heartbeats that are believed: beyond it a dead connection would never be noticed."""
SNAPSHOT_WITHIN: Final = 300.0
"""Seconds for a snapshot: 256 MiB, as much as a log may hold, over a line of 7 Mbit/s."""
RETRIED: Final = frozenset({408, 425, 429})
"""Statuses below 500 that ask for another try."""
LOCAL: Final = ("all://127.0.0.1", "all://localhost", "all://[::1]")
"""Where no proxy is asked: to a proxy, this machine is itself."""

Headers: TypeAlias = Mapping[str, str]
HeadersOf: TypeAlias = Callable[[], Headers | Awaitable[Headers]]


class Trouble(StrEnum):
    """Why there is no stream just now; another try may cure each of them."""

    UNREACHABLE = "unreachable"
    """No connection came about."""
    BROKEN = "broken"
    """The connection broke."""
    SILENT = "silent"
    """Nothing was heard for longer than heartbeats are apart."""
    BUSY = "busy"
    """The server answered that it cannot serve this now."""
    ENDED = "ended"
    """The stream ended before the run did."""
    DRAINING = "draining"
    """The server sends its readers elsewhere."""
    FOREIGN = "foreign"
    """The answer was no event stream: something else speaks for the server."""
    SKIPPED = "skipped"
    """Events were missing in the stream."""


class Lost(Exception):
    """The stream is lost for a reason that another try may cure; not before `pause` seconds."""

    def __init__(self, trouble: Trouble, *, pause: float = 0.0) -> None:
        super().__init__(trouble)
        self.trouble = trouble
        self.pause = pause


def direct() -> httpx2.AsyncClient:
    """Return a client that reaches this machine without a proxy, whatever proxies the environment names."""
    return httpx2.AsyncClient(mounts=dict.fromkeys(LOCAL))


class Link:
    """One connection, from its request to its end."""

    def __init__(
        self, client: httpx2.AsyncClient, address: str, *, owner: str | None = None, types: str | None = None
    ) -> None:
        self._client = client
        self._address = address
        asked = {"owner": owner, "types": types}
        self._asked = {name: value for name, value in asked.items() if value is not None}
        self._parser = Parser()
        self._response: httpx2.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._oversize: FrameTooLarge | None = None
        self._beat = BEAT

    @property
    def pause(self) -> float:
        """Seconds that the stream asked its readers to wait before they come again; 0 when it did not."""
        return (self._parser.retry or 0) / 1000

    def expect(self, beat: object) -> None:
        """Take the server's word for how many seconds its heartbeats are apart, unless it is nonsense."""
        if isinstance(beat, int | float) and 0 < beat <= LONGEST_BEAT:
            self._beat = beat

    async def open(self, cursor: Cursor, headers: Headers | HeadersOf | None) -> bool:
        """Ask for everything after `cursor`; False when nothing more will ever come.

        Raises `Lost`, a `Refusal`, and whatever a `headers` callable raises.
        """
        try:
            async with asyncio.timeout(ESTABLISH):
                status = await self._ask(cursor, await _headers(headers))
                if status == HTTPStatus.UNAUTHORIZED and callable(headers):  # the token may just have run out
                    await self.close()
                    status = await self._ask(cursor, await _headers(headers))
                return await self._judge(status)
        except TimeoutError:
            raise Lost(Trouble.SILENT) from None
        except httpx2.LocalProtocolError as error:
            raise InputInvalid("The headers cannot be sent as they are.") from error
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise Lost(Trouble.UNREACHABLE) from error
        except httpx2.RequestError as error:
            raise Lost(Trouble.BROKEN) from error

    async def receive(self) -> Sequence[Message]:
        """Return the frames that the next bytes complete, maybe none. Raises `Lost` and `FrameTooLarge`."""
        assert self._chunks is not None, "opened first"
        if self._oversize is not None:
            raise self._oversize
        try:
            async with asyncio.timeout(BEATS * self._beat):
                chunk = await anext(self._chunks, None)
        except TimeoutError:
            raise Lost(Trouble.SILENT) from None
        except httpx2.RequestError as error:
            raise Lost(Trouble.BROKEN) from error
        if chunk is None:
            raise Lost(Trouble.ENDED)
        try:
            return self._parser.feed(chunk)
        except FrameTooLarge as error:
            self._oversize = error  # told when the frames before it have been taken
            return error.messages

    async def snapshot(self, headers: Headers | HeadersOf | None) -> bytes:
        """Fetch the snapshot of the log, beside the stream. Raises `Lost`, and whatever a `headers` callable raises.

        It is asked for where the log is, wherever the server says that it is: credentials go nowhere else.
        """
        try:
            async with asyncio.timeout(SNAPSHOT_WITHIN):
                answer = await self._client.get(
                    f"{self._address}/snapshot",
                    params=self._asked,
                    headers={**await _headers(headers), "accept": "application/json"},
                    timeout=ESTABLISH,
                    follow_redirects=False,
                )
        except TimeoutError:
            raise Lost(Trouble.SILENT) from None
        except httpx2.RequestError as error:
            raise Lost(Trouble.BROKEN) from error
        if answer.status_code != HTTPStatus.OK:
            raise Lost(Trouble.BUSY, pause=_seconds(answer.headers.get("retry-after", "")))
        return answer.content

    async def close(self) -> None:
        """Let go of the connection. Harmless twice."""
        response, self._response, self._chunks = self._response, None, None
        if response is not None:
            with contextlib.suppress(httpx2.RequestError):  # it is of no use any more, broken or not
                await response.aclose()

    async def _ask(self, cursor: Cursor, headers: Headers) -> int:
        ours = {"accept": "text/event-stream", "accept-encoding": "identity", "cache-control": "no-cache"}
        if cursor.seq:
            ours["last-event-id"] = str(cursor)
        request = self._client.build_request(
            "GET", f"{self._address}/events", params=self._asked, headers={**headers, **ours}, timeout=None
        )
        self._response = await self._client.send(request, stream=True, follow_redirects=False)
        return self._response.status_code

    async def _judge(self, status: int) -> bool:
        assert self._response is not None, "asked first"
        if status == HTTPStatus.NO_CONTENT:
            return False
        if status in RETRIED or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise Lost(Trouble.BUSY, pause=_seconds(self._response.headers.get("retry-after", "")))
        if status != HTTPStatus.OK:
            raise problem.refusal(status, await self._body(self._response))
        if not self._response.headers.get("content-type", "").startswith("text/event-stream"):
            raise Lost(Trouble.FOREIGN)
        self._chunks = self._response.aiter_bytes()
        return True

    async def _body(self, response: httpx2.Response) -> bytes:
        body = b""
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > problem.MAX_PROBLEM:
                break
        return body


async def _headers(headers: Headers | HeadersOf | None) -> Headers:
    given = headers() if callable(headers) else headers or {}
    return await given if inspect.isawaitable(given) else given


def _seconds(retry_after: str) -> float:
    # The other form, a date, would compare two machines' clocks.
    return float(retry_after) if re.fullmatch(r"[0-9]{1,9}", retry_after) else 0.0
