"""A server that is not ours, at the other end of sessions: it says what it is told to, and remembers what it heard."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from outlast.testing.line import Bell
from outlast.wire.session import SUBPROTOCOL, Answer, Ask, Broken, End, FromClient, FromServer, Piece, encode
from outlast.wire.session import from_client as frame_of

Script: TypeAlias = Callable[["Talk", Ask], Awaitable[None]]
"""What answers each request."""
F = TypeVar("F", bound=FromClient)


class Talk:
    """One session: what its client said, in the handshake and since."""

    def __init__(self, socket: ServerConnection) -> None:
        assert socket.request is not None, "its handshake is over"
        self.socket = socket
        self.path = socket.request.path
        self.headers = socket.request.headers
        self.heard: list[FromClient] = []

    def of(self, kind: type[F]) -> list[F]:
        """Return the frames of a kind that came."""
        return [frame for frame in self.heard if isinstance(frame, kind)]

    @property
    def is_open(self) -> bool:
        """Whether it goes on."""
        return self.socket.close_code is None

    async def say(self, *frames: FromServer | str | bytes) -> None:
        """Say frames, or what is none."""
        for frame in frames:
            await self.socket.send(frame if isinstance(frame, str | bytes) else encode(frame))

    async def answer(self, ask: Ask, *pieces: bytes, status: int = 200, **headers: str) -> None:
        """Answer the whole of a request."""
        number = ask.exchange
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        said = [Piece(exchange=number, data=piece) for piece in pieces]
        await self.say(Answer(exchange=number, status=status, headers=names), *said, End(exchange=number))

    async def begin(self, ask: Ask) -> None:
        """Say the head of an answer."""
        await self.say(Answer(exchange=ask.exchange, status=200))

    async def piece(self, ask: Ask, data: bytes) -> None:
        """Say some of its body."""
        await self.say(Piece(exchange=ask.exchange, data=data))

    async def end(self, ask: Ask) -> None:
        """Say that it is whole."""
        await self.say(End(exchange=ask.exchange))

    async def break_off(self, ask: Ask) -> None:
        """Say that it will never be whole."""
        await self.say(Broken(exchange=ask.exchange))


class SessionPeer:
    """Takes sessions at `url`; what does not `refuse` is answered by the script, or by whoever holds the talk."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        refuse: Callable[[Request], Response | None] = lambda _request: None,
        subprotocol: str | None = SUBPROTOCOL,
        **options: Any,
    ) -> None:
        self.talks: list[Talk] = []
        self.url = ""
        self.hold: asyncio.Event | None = None  # what a handshake waits for
        self._script = script
        self._refuse = refuse
        self._subprotocols = None if subprotocol is None else [Subprotocol(subprotocol)]
        self._options = options
        self._bell = Bell()
        self._server: Server | None = None

    async def until(self, so: Callable[["SessionPeer"], bool]) -> None:
        """Wait until something is so; without a deadline, the test's own."""
        await self._bell.until(lambda: so(self))

    async def asked(self, number: int = 1, *, of: int = 0) -> Ask:
        """Wait for the n-th request of a session and return it."""
        await self.until(lambda peer: len(peer.talks) > of and len(peer.talks[of].of(Ask)) >= number)
        return self.talks[of].of(Ask)[number - 1]

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._talk,
            "127.0.0.1",
            0,
            subprotocols=self._subprotocols,
            select_subprotocol=None if self._subprotocols else lambda _connection, _offered: None,
            process_request=self._shake_hands,
            ping_interval=None,
            open_timeout=None,
            close_timeout=1.0,
            compression=None,
            logger=logging.getLogger("tests.talks"),
            **self._options,
        )
        (listener,) = self._server.sockets
        self.url = f"http{'s' if 'ssl' in self._options else ''}://127.0.0.1:{listener.getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._server is not None, "entered first"
        self._server.close()
        await self._server.wait_closed()

    async def _shake_hands(self, _socket: ServerConnection, request: Request) -> Response | None:
        if self.hold is not None:
            await self.hold.wait()
        return self._refuse(request)

    async def _talk(self, socket: ServerConnection) -> None:
        talk = Talk(socket)
        self.talks.append(talk)
        self._bell.ring()
        try:
            with suppress(ConnectionClosed):
                async with asyncio.TaskGroup() as answering:
                    while True:
                        talk.heard.append(frame := frame_of(await socket.recv()))
                        self._bell.ring()
                        if isinstance(frame, Ask) and self._script is not None:
                            answering.create_task(_answer(self._script(talk, frame)))
        except* ConnectionClosed:
            pass
        finally:
            self._bell.ring()


async def _answer(answering: Awaitable[None]) -> None:
    with suppress(ConnectionClosed):
        await answering
