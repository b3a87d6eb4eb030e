"""One request of a session as ASGI sees it: its body comes whole, its answer goes in pieces, as fast as granted.

Rules:
1. A `send` returns when its bytes have gone. Who is not granted any holds it up, which is how readers that take nothing
   are found and dropped; whatever else answers waits for `GRANTED_WITHIN` and no longer.
2. What waits for grants is memory of ours, so all exchanges of a session together may wait with `HELD` bytes. One that
   would go beyond is over as if its client had left: it asked for more whole answers than it takes.
3. Once the client has left, `receive` says so and what is sent goes nowhere, as servers do it (ASGI 2.3).
4. An exchange ends once: with `End` behind a whole answer, and with `Broken` in any other case.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final, TypeAlias

from starlette.types import Message

from outlast.server.readers.room import SEND_WITHIN
from outlast.wire.session import ANSWERED, EXCHANGES, Answer, Ask, Broken, Credit, End, FromServer, Piece, chosen

GRANTED_WITHIN: Final = 2 * SEND_WITHIN
"""Seconds until a client that grants nothing counts as one that left: a reader has been dropped by then."""
HELD: Final = EXCHANGES * 128 * 1024
"""Bytes that wait for grants in one session at most: a stalled reader may cost so many. Thirty whole pages, or all of
its exchanges if they are streams, which wait with no more than a part each."""
_BARE: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})

Say: TypeAlias = Callable[[FromServer], Awaitable[None]]
"""Sends a frame; where nobody is there any more it goes nowhere."""


class Stock:
    """How many bytes wait for grants in one session."""

    def __init__(self) -> None:
        self._held = 0

    @contextmanager
    def hold(self, size: int) -> Generator[bool, None, None]:
        """Count bytes that wait, for as long as the block lasts; False where that is more than may."""
        self._held += size
        try:
            yield self._held <= HELD
        finally:
            self._held -= size


class Exchange:
    """One exchange; `receive` and `send` are for the application, the rest for the session, whose stock it shares."""

    __slots__ = (
        "_body",
        "_change",
        "_credit",
        "_has_begun",
        "_has_body",
        "_has_left",
        "_is_over",
        "_number",
        "_say",
        "_stock",
    )

    def __init__(self, ask: Ask, say: Say, stock: Stock) -> None:
        self._number = ask.exchange
        self._body: bytes | None = (ask.body or "").encode()
        self._has_body = ask.method != "HEAD"
        self._say = say
        self._stock = stock
        self._credit = Credit()
        self._has_begun = False
        self._has_left = False
        self._is_over = False
        self._change = asyncio.Event()

    # ---- the session's ----------------------------------------------------------------------

    def grant(self, size: int) -> None:
        """Let `size` more bytes go. Raises `WireError`."""
        self._credit.grant(size)
        self._changed()

    def leave(self) -> None:
        """Tell the application that nobody listens any more. Harmless twice."""
        self._has_left = True
        self._changed()

    async def end(self) -> None:
        """Say that it is broken where the application, which has ended, has not said all."""
        if not self._is_over:
            await self._over(Broken(exchange=self._number))

    # ---- the application's ------------------------------------------------------------------

    async def receive(self) -> Message:
        """Return the request, then that the client has left or has been told everything."""
        if self._body is not None and not self._has_left:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        while not (self._has_left or self._is_over):
            await self._change.wait()  # without a deadline: it is over with the session at the latest
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take a part of the answer; return when it has gone."""
        if self._has_left:
            await asyncio.sleep(0)  # an application that does nothing but send must not keep the loop to itself
            return
        match message["type"]:
            case "http.response.start" if not self._has_begun:
                await self._begin(message)
            case "http.response.body" if self._has_begun and not self._is_over:
                if self._has_body:
                    await self._give(message.get("body", b""))
                if not (message.get("more_body", False) or self._has_left):
                    await self._over(End(exchange=self._number))
            case unexpected:
                raise RuntimeError(f"the message {unexpected!r} is out of place here")

    async def _begin(self, message: Message) -> None:
        self._has_begun = True
        self._has_body = self._has_body and message["status"] not in _BARE
        headers = chosen(message.get("headers", ()), ANSWERED)
        await self._say(Answer(exchange=self._number, status=message["status"], headers=headers))

    async def _give(self, data: bytes) -> None:
        at = 0
        while at < len(data) and not self._has_left:
            piece = self._credit.spend(data, at)
            if piece:
                at += len(piece)
                await self._say(Piece(exchange=self._number, data=piece))
            else:
                await self._granted(len(data))

    async def _granted(self, size: int) -> None:
        """Wait with so many bytes until some of them may go."""
        with self._stock.hold(size) as may_wait:
            if may_wait:
                await self._wait()
            else:
                self.leave()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(GRANTED_WITHIN):
                while not (self._credit.left or self._has_left):
                    await self._change.wait()
        except TimeoutError:
            self.leave()

    async def _over(self, last: End | Broken) -> None:
        await self._say(last)
        self._is_over = True  # not before: a `send` that is cancelled while it waits has said nothing
        self._changed()

    def _changed(self) -> None:
        self._change.set()
        self._change = asyncio.Event()
