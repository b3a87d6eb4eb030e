"""How many readers may be served at once, and how a stream that has no seat, or whose time is over, ends.

Rules:
1. Whoever sits stays: a newcomer is turned away, never an old reader for a new one (Z10).
2. A stream that is turned away is told so in a stream: an EventSource that meets a 4xx or 5xx never comes again.
   Who asks for a page and would wait for it is refused with 429 or 503, and when to come again.
3. Where nobody is asked who they are, there is no owner to count by; the node's number holds for all.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from starlette.types import ASGIApp, Receive, Scope, Send

from outlast.errors import Capacity, TooMany
from outlast.server.identity import ANONYMOUS
from outlast.server.readers.poll import Waiting
from outlast.server.readers.reader import Reader
from outlast.wire import native, sse

PER_OWNER: Final = 256
"""Readers of one owner: a team of people with a dozen tabs each."""
PER_NODE: Final = 10_000
"""Readers of one node: at 32 KiB each they hold a third of a gigabyte."""
COME_BACK: Final = 20.0
"""Seconds over which those who were turned away come again: a seat is free when somebody leaves, not at once."""
LOOK_EVERY: Final = 30.0
"""Seconds between two looks at how long credentials are still good: a machine that slept learns of its sleep so."""
SIGN_IN: Final = 1.0
"""Seconds after which a reader whose credentials ended may come again, with new ones."""

Left: TypeAlias = Callable[[], float]
"""Tells for how many seconds from now somebody may stay."""


class Seats:
    """The seats of one node, and who has taken how many; `of` is who sits in them."""

    def __init__(self, *, per_owner: int = PER_OWNER, per_node: int = PER_NODE, of: str = "readers") -> None:
        self._of = of
        self._per_owner = per_owner
        self._per_node = per_node
        self._taken: Counter[str] = Counter()
        self._all = 0

    def take(self, owner: str) -> "Seat":
        """Return a seat, held until the end of its block. Raises `TooMany` or `Capacity`."""
        if self._all >= self._per_node:
            raise Capacity(f"This node serves as many {self._of} as it can; try again in a moment, or on another.")
        if owner != ANONYMOUS and self._taken[owner] >= self._per_owner:
            raise TooMany(f"You have as many {self._of} open as one may; close some, or try again later.")
        self._taken[owner] += 1
        self._all += 1
        return Seat(self, owner)

    def free(self, owner: str) -> None:
        """Take one of an owner's seats back."""
        self._all -= 1
        self._taken[owner] -= 1
        if not self._taken[owner]:
            del self._taken[owner]

    async def seat(self, answer: ASGIApp | Waiting, *, owner: str, left: Left | None = None) -> ASGIApp:
        """Return `answer`: a reader that takes a seat once it is served, and what was waited for in one.

        `left` tells for how many seconds the owner's reader may stay; None lets it stay. Raises `TooMany` or `Capacity`
        where there is no seat to wait in, and what the waiting raises.
        """
        if isinstance(answer, Waiting):
            with self.take(owner):
                most = answer.seconds if left is None else max(0.0, min(answer.seconds, left()))
                return await answer.answer(most)
        if not isinstance(answer, Reader):
            return answer
        return Seated(answer, self, owner=owner, left=left)


class Seat:
    """One seat that is taken; a context manager of its own, because a generator costs each reader half a KiB."""

    __slots__ = ("_owner", "_seats")

    def __init__(self, seats: Seats, owner: str) -> None:
        self._seats = seats
        self._owner = owner

    def __enter__(self) -> None:
        """Sit."""

    def __exit__(self, *_: object) -> None:
        """Get up."""
        self._seats.free(self._owner)


class Seated:
    """A reader as ASGI that takes a seat, and gets up when nothing is `left`, by the loop's clock or the machine's.

    They go apart when the machine sleeps or its clock is set: whichever is further ends the stay.
    """

    def __init__(
        self,
        reader: Reader,
        seats: Seats,
        *,
        owner: str,
        left: Left | None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._reader = reader
        self._seats = seats
        self._owner = owner
        self._left = left
        self._leaving: asyncio.TimerHandle | None = None
        self._jitter = jitter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the reader, or tell it to come again."""
        try:
            seat = self._seats.take(self._owner)
        except (Capacity, TooMany):
            await self._turn_away(send)
            return
        with seat:
            if self._left is not None:
                self._look(self._left, until=asyncio.get_running_loop().time() + self._left())
            try:
                await self._reader(scope, receive, send)
            finally:
                if self._leaving is not None:
                    self._leaving.cancel()

    def _look(self, left: Left, *, until: float) -> None:
        loop = asyncio.get_running_loop()
        stays = min(until - loop.time(), left())
        if stays > 0:
            self._leaving = loop.call_later(min(stays, LOOK_EVERY), partial(self._look, left, until=until))
        else:
            self._reader.dismiss(native.drain(SIGN_IN, retry=SIGN_IN, reason=native.DrainReason.EXPIRED))

    async def _turn_away(self, send: Send) -> None:
        retry = COME_BACK * (0.5 + self._jitter() / 2)
        farewell = native.drain(COME_BACK, retry=retry, reason=native.DrainReason.CAPACITY)
        await self._reader.decline(send, sse.HELLO_COMMENT + farewell)
