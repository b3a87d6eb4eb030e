"""One session: takes the client's frames, serves every exchange in a task of its own, sends their frames one by one.

Rules:
1. One message is sent at a time, in the order in which exchanges ask for it, and each is small: nobody waits for more
   than one piece of every other. A socket that takes nothing for `SEND_WITHIN` is over, like a reader's.
2. The socket's end is `http.disconnect` in every exchange. Those that have not ended `GRACE` later are cancelled:
   nothing of them survives the session.
3. A frame that is none, or at the wrong time, ends the session, and the close says why.
4. A session in which nothing is open ends when the node drains, when its credentials have ended, and after `IDLE`.
"""

import asyncio
from collections.abc import Callable
from typing import Final, assert_never

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from outlast.errors import TooLarge, WireError
from outlast.server.readers.room import SEND_WITHIN
from outlast.server.seats import Left, Seat
from outlast.server.session.exchange import Exchange, Stock
from outlast.server.session.handshake import Handshake
from outlast.wire.session import (
    EXCHANGES,
    SUBPROTOCOL,
    Ask,
    Broken,
    Closing,
    End,
    FromServer,
    Grant,
    Leave,
    encode,
    from_client,
)

IDLE: Final = 300.0
"""Seconds a session may stay in which nothing is open: clients of ours ask every 15, so nobody is there."""
GRACE: Final = 5.0
"""Seconds an exchange may go on after the session's end: time to let go of what it holds, not to work on unseen."""
CLOSE_WITHIN: Final = 1.0
"""Seconds in which a close must have gone: a socket that takes nothing is not told why it ends."""

_REASONS: Final = {
    Closing.DRAINED: "This node closes: connect again.",
    Closing.EXPIRED: "The credentials have ended: connect again with new ones.",
    Closing.IDLE: "Nothing was asked for a long while.",
}
_REASON_BYTES: Final = 123  # of a close frame (RFC 6455, 5.5)


class Multiplexer:
    """A session as ASGI, of somebody who was let in: `app` answers its exchanges, `crowded` those that are too many.

    `seat` is its own. `left` tells for how long its credentials are good; None where they do not end. `on_end` is
    called when it is over.
    """

    def __init__(
        self,
        app: ASGIApp,
        crowded: ASGIApp,
        handshake: Handshake,
        seat: Seat,
        *,
        left: Left | None = None,
        on_end: Callable[["Multiplexer"], None],
    ) -> None:
        self._app = app
        self._crowded = crowded
        self._handshake = handshake
        self._seat = seat
        self._left = left
        self._on_end = on_end
        self._open: dict[int, Exchange] = {}
        self._stock = Stock()
        self._last = 0
        self._turn = asyncio.Lock()
        self._presence: asyncio.Timeout | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._is_over = False
        self._is_draining = False
        self._closing: tuple[Closing, str] | None = None
        self._loop = asyncio.get_running_loop()

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the session until either end has had enough of it."""
        self._send = send
        with self._seat:
            try:
                await receive()  # without a deadline: servers say at once that somebody wants to connect
                await send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL})
                await self._serve(receive)
            except OSError:  # gone before it was accepted
                pass
            finally:
                self._on_end(self)

    def drain(self) -> None:
        """End as soon as nothing is open. Harmless twice."""
        self._is_draining = True
        if not self._open:
            self.end(Closing.DRAINED)

    def end(self, closing: Closing | None = None, reason: str | None = None) -> None:
        """End now, telling the client why; None where it is not there to be told. Only the first end counts."""
        if self._is_over:
            return
        self._is_over = True
        if closing is not None:
            self._closing = closing, reason or _REASONS[closing]
        if self._presence is not None:
            self._presence.reschedule(self._loop.time())

    # ---- inside -----------------------------------------------------------------------------

    async def _serve(self, receive: Receive) -> None:
        async with asyncio.TaskGroup() as tasks:
            serving: set[asyncio.Task[None]] = set()
            try:
                await self._stay(receive, tasks, serving)
            finally:
                self.end()
                if self._idle is not None:
                    self._idle.cancel()
                for exchange in self._open.values():
                    exchange.leave()
            await self._close()
            if serving:
                await asyncio.wait(serving, timeout=GRACE)
            for task in serving:
                task.cancel()

    async def _stay(self, receive: Receive, tasks: asyncio.TaskGroup, serving: set[asyncio.Task[None]]) -> None:
        try:
            async with asyncio.timeout(None) as presence:
                self._presence = presence
                try:
                    self._rest()
                    await self._listen(receive, tasks, serving)
                finally:
                    self._presence = None
        except TimeoutError:  # `end` says so
            pass
        except TooLarge as error:
            self.end(Closing.TOO_LARGE, str(error))
        except WireError as error:
            self.end(Closing.INVALID, str(error))

    async def _listen(self, receive: Receive, tasks: asyncio.TaskGroup, serving: set[asyncio.Task[None]]) -> None:
        while not self._is_over:
            message = await receive()  # without a deadline: see rule 4
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            frame = from_client(message.get("bytes") or b"" if text is None else text)
            match frame:
                case Ask():
                    task = await self._ask(frame, tasks)
                    if task is not None:
                        serving.add(task)
                        task.add_done_callback(serving.discard)
                case Grant(exchange=number, size=size):
                    if (exchange := self._find(number)) is not None:
                        exchange.grant(size)
                case Leave(exchange=number):
                    if (exchange := self._find(number)) is not None:
                        exchange.leave()
                case _:
                    assert_never(frame)
            await asyncio.sleep(0)  # servers hand over what came together without letting others run

    def _find(self, number: int) -> Exchange | None:
        if number > self._last:
            raise WireError("This exchange has not been asked.")
        return self._open.get(number)

    async def _ask(self, ask: Ask, tasks: asyncio.TaskGroup) -> asyncio.Task[None] | None:
        if ask.exchange <= self._last:
            raise WireError("The number of an exchange is larger than those before it.")
        self._last = ask.exchange
        exchange, scope = Exchange(ask, self._say, self._stock), self._handshake.request(ask)
        if len(self._open) >= EXCHANGES:  # answered here, so that who asks on and on waits for it
            await self._exchange(self._crowded, scope, exchange)
            return None
        self._open[ask.exchange] = exchange
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        return tasks.create_task(self._exchange(self._app, scope, exchange), name="exchange")

    async def _exchange(self, app: ASGIApp, scope: Scope, exchange: Exchange) -> None:
        try:
            await app(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            pass
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # it is meant: otherwise the application has cancelled itself
        except Exception as failure:  # noqa: BLE001 - told as servers tell it; the other exchanges go on
            context = {"message": "An exchange of a session failed", "exception": failure}
            self._loop.call_exception_handler(context)
        await exchange.end()

    async def _say(self, frame: FromServer) -> None:
        message = encode(frame)
        kind = "text" if isinstance(message, str) else "bytes"
        async with self._turn:  # without a deadline: whoever is before us has one
            if self._is_over:
                return
            try:
                async with asyncio.timeout(SEND_WITHIN):
                    await self._send({"type": "websocket.send", kind: message})
            except (OSError, TimeoutError):  # gone, or as good as
                self.end()
                return
        if isinstance(frame, End | Broken):
            self._open.pop(frame.exchange, None)
            self._rest()

    def _rest(self) -> None:
        """Look whether the session has to be there, where nothing is open."""
        if self._open or self._is_over:
            return
        if self._is_draining:
            self.end(Closing.DRAINED)
        elif self._left is not None and self._left() <= 0:
            self.end(Closing.EXPIRED)
        elif self._idle is None:
            self._idle = self._loop.call_later(IDLE, self.end, Closing.IDLE)

    async def _close(self) -> None:
        if self._closing is None:
            return
        closing, reason = self._closing
        try:
            async with asyncio.timeout(CLOSE_WITHIN), self._turn:
                await self._send({"type": "websocket.close", "code": int(closing), "reason": reason[:_REASON_BYTES]})
        except (OSError, TimeoutError):  # nobody is there to be told
            pass
