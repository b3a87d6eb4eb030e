"""One WebSocket of `outlast serve`, as uvicorn speaks it, within limits of memory. It needs `outlast[websocket]`.

Rules:
1. A handshake with a line of more than 8 KiB is refused: the library reads no longer ones, and says nothing.
2. A message comes in so many fragments at most: empty ones count as no bytes of it, and may come without end.
3. A message that has begun has so many seconds to come whole, however many bytes of it still come: what has come of
   it is kept until then (Z8). While we read nothing, nobody can be late.
4. A client that reads nothing gets no answers to its pings: uvicorn would keep them for it, however many there are.
5. A handshake that was refused is over, and no accident for the log of errors.
"""

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

from outlast.cli.guard import BODY_WITHIN

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

FRAGMENTS: Final = 1024
"""Of one message: clients that stream a file use some hundred, and ours sends each message whole."""

_TOO_LONG: Final = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
_REFUSAL: Final = f"HTTP/1.1 {_TOO_LONG} {_TOO_LONG.phrase}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".encode()


class Line(WebSocketsSansIOProtocol):
    """A connection whose client cannot make it hold more than its messages may have, nor for long."""

    message_within: ClassVar[float] = BODY_WITHIN

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*arguments, **named)
        self._came = 0  # what has come whole
        self._deadline: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Take what came; the handshake comes at once, and whole."""
        before = self._came
        super().data_received(data)
        if not self.handshake_initiated:
            self.transport.write(_REFUSAL)
            self.transport.close()
        elif self._came != before:
            self._wait_for_nothing()
        elif self._deadline is None and self.handshake_complete and not self.close_sent:
            self._deadline = self.loop.call_later(self.message_within, self._is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._wait_for_nothing()
        super().connection_lost(exc)

    def send_receive_event_to_app(self) -> None:
        """Hand over a message, which is whole."""
        self._came += 1
        super().send_receive_event_to_app()

    def handle_cont(self, event: Frame) -> None:
        """Take a fragment, or end the connection where there are too many."""
        if len(self.frames) < FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.frames = []
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, "A message came in too many fragments.")
            self.handle_parser_exception()

    def handle_ping(self) -> None:
        """Answer a ping, unless nobody takes the answers."""
        self._came += not self.frames  # between two fragments it is no sign that the message goes on
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()  # and let go of it (RFC 6455, 5.5.3: not every ping needs an answer)

    def handle_pong(self, event: Frame) -> None:
        """Take the answer to a ping, or one that nobody asked for."""
        self._came += not self.frames
        super().handle_pong(event)

    async def send(self, message: "ASGISendEvent") -> None:
        """Send what the application says."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True

    def _is_late(self) -> None:
        self._deadline = self.loop.call_later(self.message_within, self._is_late) if self.read_paused else None
        if self._deadline is None:
            self.transport.abort()

    def _wait_for_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
