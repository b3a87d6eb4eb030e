"""One WebSocket of `outlast serve`, as uvicorn speaks it, within limits of memory. It needs `outlast[websocket]`.

Rules:
1. A handshake with a line of more than 8 KiB is refused: the library reads no longer ones, and says nothing.
2. A message comes in so many fragments at most: empty ones count as no bytes of it, and may come without end.
3. A client that reads nothing gets no answers to its pings: uvicorn would keep them for it, however many there are.
4. A handshake that was refused is over, and no accident for the log of errors.
"""

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

FRAGMENTS: Final = 1024
"""Of one message: clients that stream a file use some hundred, and ours sends each message whole."""

_TOO_LONG: Final = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
_REFUSAL: Final = f"HTTP/1.1 {_TOO_LONG} {_TOO_LONG.phrase}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".encode()


class Line(WebSocketsSansIOProtocol):
    """A connection whose client cannot make it hold more than its messages may have."""

    def data_received(self, data: bytes) -> None:
        """Take what came; the handshake comes at once, and whole."""
        super().data_received(data)
        if not self.handshake_initiated:
            self.transport.write(_REFUSAL)
            self.transport.close()

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
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()  # and let go of it (RFC 6455, 5.5.3: not every ping needs an answer)

    async def send(self, message: "ASGISendEvent") -> None:
        """Send what the application says."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True
