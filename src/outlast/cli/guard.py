"""One connection of `outlast serve`: HTTP as uvicorn speaks it, within limits of size and time.

Rules:
1. A request's line and headers have so many bytes and so many seconds, counted from when they may begin and not from
   the last byte that came: a client that sends one byte a second is as silent as one that sends none (Z8).
2. Its body has so many seconds too, whether or not anybody reads it; its bytes are the routes' to count (Z9).
3. What breaks a limit of size is told so where that can still be said; then the connection ends.
"""

import asyncio
import sys
from http import HTTPStatus
from typing import Any, ClassVar, Final, cast

import h11
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_BYTES: Final = 64 * 1024
"""Of a request's line and headers: cookies and a long token fit many times."""
HEADERS_WITHIN: Final = 10.0
"""Seconds until the headers are there: longer than any honest client needs, also over a bad line."""
BODY_WITHIN: Final = 30.0
"""Seconds until the body is there: the routes give up a little earlier, so that their answer can still be told."""


class Guard(H11Protocol):
    """A connection that ends when its client takes too long. The limits are the class's, for whoever wants others."""

    headers_within: ClassVar[float] = HEADERS_WITHIN
    body_within: ClassVar[float] = BODY_WITHIN

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*arguments, **named)
        self._awaited: object = None
        self._is_upgraded = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        super().connection_made(cast("asyncio.Transport", transport))
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request, or for the rest of a body that nobody wanted."""
        super().on_response_complete()
        self._watch()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection over: from now on it is none of ours."""
        self._is_upgraded = True
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._await(None)
        super().connection_lost(exc)

    def send_400_response(self, message: str) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Refuse what is no request of HTTP, or one that begins with too much; cut it where an answer is under way."""
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.abort()
            return
        hint: int = getattr(sys.exception(), "error_status_hint", HTTPStatus.BAD_REQUEST)
        headers = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        for event in (
            h11.Response(status_code=hint, headers=headers, reason=HTTPStatus(hint).phrase.encode()),
            h11.Data(data=message.encode("ascii")),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def _watch(self) -> None:
        state: object = self.conn.their_state
        is_over = self._is_upgraded or self.transport.is_closing()
        self._await(state if state in {h11.IDLE, h11.SEND_BODY} and not is_over else None)

    def _await(self, awaited: object) -> None:
        if awaited is self._awaited:
            return  # the deadline goes on: a byte now and then is no progress
        self._awaited = awaited
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if awaited is not None:
            within = self.headers_within if awaited is h11.IDLE else self.body_within
            self._deadline = self.loop.call_later(within, self.transport.abort)


class ShortHeaders:
    """An application that gets no request whose headers, which came at once, are too long."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 431, or let the application answer."""
        size = len(scope["raw_path"]) + len(scope["query_string"])
        size += sum(len(name) + len(value) + len(b": \r\n") for name, value in scope["headers"])
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        refusal = Response(status_code=status, headers={"connection": "close"})
        await (self._app if size <= HEADER_BYTES else refusal)(scope, receive, send)
