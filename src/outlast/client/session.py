"""Carries requests over one WebSocket, each an exchange of its own, and hears what becomes of them.

Rules:
1. One task owns the socket: it opens it, takes every frame off it at once, and closes it. A reader that is slow in one
   exchange holds up no other; what is kept for it is bounded by what was granted (R9).
2. Bytes are granted when their reader comes back for more: what it was handed and still works on counts as kept.
3. Where the socket ends, so does every exchange that is open, and none is asked again: whoever supervises knows what to
   do. A session that has ended is not opened anew.
4. A session that is not to be used again ends when its last exchange has: nothing is taken from those who read (N3).
5. Silence means nothing here, and nothing is sent to break it. A server that stands still answers no ping either, and
   whether it is gone is the supervisor's to find out.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias, assert_never

import httpx2
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.protocol import State

from outlast.client.transport import Lost
from outlast.errors import TooLarge, WireError
from outlast.supervision.phase import Trouble
from outlast.wire.session import (
    EXCHANGES,
    LAST,
    Allowance,
    Answer,
    Ask,
    Broken,
    Closing,
    End,
    FromServer,
    Grant,
    Leave,
    Piece,
    encode,
    from_server,
)

LEAVE_WITHIN: Final = 1.0
"""Seconds for telling that one leaves. Over a socket that takes nothing any more the server hears of it by its end."""
UNOPENED: Final = (OSError, WebSocketException, ImportError)
"""How it ends where no session comes about; an import fails where a proxy of the environment needs a package."""

Open: TypeAlias = Callable[[], Awaitable[ClientConnection]]
"""Opens the socket. Raises what is in `UNOPENED`."""


class Unopened(Exception):
    """A session did not come about; `why` is one of `UNOPENED`, None where it was closed meanwhile."""

    def __init__(self, why: Exception | None) -> None:
        super().__init__()
        self.why = why


class Session:
    """One socket, from before it is opened until it is closed.

    `is_known` says whether a session was spoken at its address lately: then one that ends before its first frame is
    broken, and otherwise it was none. `heard` is called when a frame comes, and when a session ends that had spoken.
    """

    def __init__(self, open: Open, *, is_known: Callable[[], bool], heard: Callable[[], None]) -> None:
        self._open = open
        self._is_known = is_known
        self._heard = heard
        self._has_spoken = False
        self._is_retired = False
        self._is_ending = False
        self._settled = asyncio.Event()
        self._socket: ClientConnection | None = None
        self._failure: Exception | None = None
        self._waiting = 0  # requests that are not asked yet, since it is still being opened
        self._last = 0
        self._exchanges: dict[int, Exchange] = {}
        self.task = asyncio.create_task(self._run(), name="session")
        self.task.add_done_callback(lambda _: self._settled.set())  # it may have been cancelled before it began

    # ---- for those who ask ------------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        """Whether one more request can be asked over it."""
        if self._is_retired or self.task.done() or (self._settled.is_set() and self._socket is None):
            return False
        if self._waiting + len(self._exchanges) >= EXCHANGES or self._last + self._waiting >= LAST:
            return False
        return self._socket is None or self._socket.state is State.OPEN

    async def ask(
        self, request: httpx2.Request, ask: Callable[[int], Ask], *, within: float | None = None
    ) -> "Exchange":
        """Ask once it is open, and return the exchange.

        `within` is for how many seconds to wait for that. Raises `Unopened`, and `TimeoutError` where it takes longer;
        what tells of the session's end; and `WireError` or `TooLarge` for what none may ask.
        """
        self._waiting += 1
        try:
            async with asyncio.timeout(within):
                await self._settled.wait()
            if self._socket is None:
                raise Unopened(self._failure)
            if self.task.done():
                raise self.broken(request)
            exchange = Exchange(self, self._last + 1, request)
            message = encode(ask(exchange.number))
            self._last, self._exchanges[exchange.number] = exchange.number, exchange
        finally:
            self._waiting -= 1
            self._end_if_over()
        try:
            await self._socket.send(message)
        except ConnectionClosed:
            exchange.fail()
        except BaseException:
            await exchange.aclose()
            raise
        return exchange

    @property
    def is_spoken(self) -> bool:
        """Whether frames have come over it, and it has not ended."""
        return self._has_spoken and not self.task.done()

    def get_extra_info(self, name: str) -> object:
        """Return what is known of the socket, by the names that httpx2's own connections use; None for others."""
        names = {"client_addr": "sockname", "server_addr": "peername", "socket": "socket", "ssl_object": "ssl_object"}
        return None if self._socket is None or name not in names else self._socket.transport.get_extra_info(names[name])

    # ---- its end ----------------------------------------------------------------------------

    def retire(self) -> None:
        """Take no more requests, and end with the last of those there are."""
        self._is_retired = True
        self._end_if_over()

    def end(self) -> None:
        """End now, whatever is open; its task tells when that is done. Harmless twice."""
        if not self._is_ending:  # once: a second time would cut its closing short
            self._is_ending = True
            self.task.cancel()

    def broken(self, request: httpx2.Request) -> Exception:
        """Return what is told of a request whose session has ended."""
        failure = self._failure
        is_known = self._is_ending or self._has_spoken or self._is_known()
        if isinstance(failure, WireError | TooLarge) or not is_known:
            lost = Lost(Trouble.FOREIGN)
            lost.__cause__ = failure
            return lost
        error = httpx2.RemoteProtocolError("the session ended", request=request)
        error.__cause__ = failure
        return error

    # ---- for its exchanges ------------------------------------------------------------------

    async def say(self, frame: Grant | Leave) -> None:
        """Say something of an exchange; where the session ends meanwhile, its end says everything."""
        assert self._socket is not None, "an exchange was opened over it"
        with suppress(ConnectionClosed):
            await self._socket.send(encode(frame))

    # ---- its task ---------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            self._socket = await self._open()
        except UNOPENED as error:
            self._failure = error
            return
        finally:
            self._settled.set()
        await self._read(self._socket)

    async def _read(self, socket: ClientConnection) -> None:
        code = Closing.WANTED
        try:
            while True:  # without a deadline: silence means nothing here
                self._hear(from_server(await socket.recv()))
        except ConnectionClosed as closed:
            self._failure = closed
        except (WireError, TooLarge) as error:
            self._failure, code = error, Closing.INVALID
        finally:
            if self._has_spoken:
                self._heard()
            for exchange in self._exchanges.values():
                exchange.fail()
            self._exchanges.clear()
            await socket.close(code)

    def _hear(self, frame: FromServer) -> None:
        exchange = self._exchanges.get(frame.exchange)
        if exchange is None:
            raise WireError("A frame belongs to no exchange that is open.")
        exchange.hear(frame)
        if not self._has_spoken:
            self._has_spoken = True
            self._heard()
        if isinstance(frame, End | Broken):
            del self._exchanges[frame.exchange]
            self._end_if_over()

    def _end_if_over(self) -> None:
        if self._is_retired and not self._exchanges and not self._waiting:
            self.end()


class Exchange(httpx2.AsyncByteStream):
    """One request and what comes of its answer, whose body is read here.

    A wait here ends with its session or with the read timeout of the request. Raises `httpx2.RemoteProtocolError` for
    an answer that is broken off, `httpx2.ReadTimeout`, and `Lost` where what spoke was no session.
    """

    def __init__(self, session: Session, number: int, request: httpx2.Request) -> None:
        self.number = number
        self._session = session
        self._request = request
        self._within: float | None = request.extensions.get("timeout", {}).get("read")
        self._head: Answer | None = None
        self._pieces: deque[bytes] = deque()  # at most as many bytes as were granted
        self._allowance = Allowance()
        self._handed = 0  # bytes that the reader works on
        self._is_whole = False
        self._failure: Exception | None = None
        self._has_left = False
        self._changed = asyncio.Event()

    # ---- for the reader ---------------------------------------------------------------------

    async def head(self) -> Answer:
        """Return how the answer begins, once it does."""
        await self._until(lambda: self._head is not None)
        assert self._head is not None, "waited for"
        return self._head

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            granted = self._allowance.took(self._handed)
            self._handed = 0
            if granted and not self._is_whole:
                await self._session.say(Grant(exchange=self.number, size=granted))
            await self._until(lambda: bool(self._pieces) or self._is_whole)
            if not self._pieces:
                return
            piece = self._pieces.popleft()
            self._handed = len(piece)
            yield piece

    async def aclose(self) -> None:
        """Leave, unless all of it has come. Harmless twice."""
        self._pieces.clear()
        if self._is_whole or self._has_left or self._failure is not None:
            return
        self._has_left = True
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_WITHIN):
                await self._session.say(Leave(exchange=self.number))

    async def _until(self, so: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(self._within):
                await self._heard(lambda: so() or self._failure is not None)
        except TimeoutError as late:
            raise httpx2.ReadTimeout("the server said nothing in time", request=self._request) from late
        if not so() and self._failure is not None:
            raise self._failure

    async def _heard(self, so: Callable[[], bool]) -> None:
        while not so():
            self._changed.clear()
            await self._changed.wait()

    # ---- for the session --------------------------------------------------------------------

    def hear(self, frame: FromServer) -> None:
        """Take in a frame. Raises `WireError` for one that is out of place here."""
        is_in_order = isinstance(frame, Broken) or isinstance(frame, Answer) == (self._head is None)
        if not is_in_order:
            raise WireError("An answer begins once, and before anything of it.")
        match frame:
            case Answer():
                self._head = frame
            case Piece(data=data):
                self._allowance.came(len(data))
                if not self._has_left:
                    self._pieces.append(data)
            case End():
                self._is_whole = True
            case Broken():
                self._failure = httpx2.RemoteProtocolError("the answer was broken off", request=self._request)
            case _:
                assert_never(frame)
        self._changed.set()

    def fail(self) -> None:
        """Be broken off, since the session has ended."""
        self._failure = self._session.broken(self._request)
        self._changed.set()
