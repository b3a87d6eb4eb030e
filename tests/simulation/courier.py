"""Carries a log to readers as a bad network does: streams that break off, hold back, repeat, swap and leave out.

A courier answers what a client asks, without sockets. A step is a frame that reaches the reader whole, or one thing
that happens to a stream: it breaks off, falls silent, or its link is replaced.
"""

import asyncio
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import Final

import httpx2
import pytest

from outlast.client.client import Client
from outlast.client.connect import connect
from outlast.log.cursor import Cursor, chain, origin
from outlast.log.event import Event, StoredEvent
from outlast.wire import native
from tests.integration.stream import TEXTS

BEAT: Final = 10.0
GREETING: Final = native.greeting(boot_id="courier", heartbeat=BEAT)
HEADERS: Final = {"content-type": "text/event-stream"}
SETTLED: Final = 1e-6
"""Virtual seconds after which nothing is left to be done of what happened at one moment."""
LINE_ENDS: Final = (b"\n", b"\r\n", b"\r")
"""The three ways in which a line of a stream may end."""


class End(StrEnum):
    """How a stream comes to its end."""

    PEACE = "peace"
    RESET = "reset"
    SILENCE = "silence"


def log_of(length: int) -> list[StoredEvent]:
    """Return a log with texts of every kind and its terminal event."""
    said = [Event("text", f"{TEXTS[number % 7]} {number}") for number in range(length - 1)]
    said.append(Event("run.completed", {}))
    places = chain(origin("log"), said)
    return [
        StoredEvent(cursor=place, event=event, epoch=0, time=0.0) for place, event in zip(places, said, strict=True)
    ]


class Written:
    """A log as the bytes of its frames, with every line ended in the same way."""

    def __init__(self, log: Sequence[StoredEvent], line_end: bytes = b"\n") -> None:
        frames = [native.event_frame(stored).replace(b"\n", line_end) for stored in log]
        self.frames = frames
        self.whole = b"".join(frames)
        self.borders = list(accumulate(map(len, frames), initial=0))
        self._ahead = len(line_end) - 1  # the CR of a CRLF ends the line already
        hello = native.hello(boot_id="courier", heartbeat=BEAT, head=log[-1].cursor)
        self.hello = hello.replace(b"\n", line_end)

    def after(self, seq: int) -> bytes:
        """Return what a stream says to a reader who has come so far."""
        return self.hello + self.whole[self.borders[seq] :]

    def frames_in(self, start: int, length: int) -> int:
        """Return how many frames are whole in so many bytes of a stream that begins behind the event `start`."""
        reached = self.borders[start] + length - len(self.hello) + self._ahead
        return max(bisect_right(self.borders, reached) - 1 - start, 0)


class Pool(httpx2.AsyncClient):
    """The connections of one link, which its client lets go of together."""

    def __init__(self, courier: "Courier") -> None:
        super().__init__(transport=courier)
        self._courier = courier
        courier.links.append(self)
        asyncio.get_running_loop().call_later(SETTLED, courier.count)

    async def aclose(self) -> None:
        if self in self._courier.links:
            self._courier.links.remove(self)


class Body(httpx2.AsyncByteStream):
    """The body of an answer, piece by piece; it knows whether somebody let go of it."""

    def __init__(self, pieces: AsyncGenerator[bytes, None]) -> None:
        self._pieces = pieces
        self.is_open = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def aclose(self) -> None:
        self.is_open = False
        await self._pieces.aclose()


class Courier(httpx2.AsyncBaseTransport):
    """Answers who is there, and every request for events with what `stream` makes of the reader's cursor.

    `links` are the pools of connections that nobody has let go of, `most` how many of them there were at once.
    """

    def __init__(self, stream: Callable[[Cursor], AsyncGenerator[bytes, None]]) -> None:
        self.cursors: list[Cursor] = []
        self.links: list[Pool] = []
        self.greeted = 0
        self.most = 0
        self._bodies: list[Body] = []
        self._stream = stream

    @asynccontextmanager
    async def connect(self, jitter: Callable[[], float] = lambda: 0.5) -> AsyncGenerator[Client, None]:
        """Connect a client that reaches nobody else; at the end nothing of it is left."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("outlast.client.http.direct", lambda: Pool(self))
            async with connect("http://courier", transports=["sse"], hints=False, jitter=jitter) as client:
                yield client
        assert not self.links, "every link was let go of"
        assert not self.open, "every stream was let go of"

    def count(self) -> None:
        """Count the links, now that whatever happens at one moment has happened."""
        self.most = max(self.most, len(self.links))

    @property
    def open(self) -> int:
        """How many streams nobody has let go of."""
        return sum(body.is_open for body in self._bodies)

    async def greet(self) -> None:
        """Be there; whoever is not raises, or waits."""

    async def answer(self) -> None:
        """Answer a question about a run; whoever does not raises, or waits."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/session"):
            self.greeted += 1
            await self.greet()
            return httpx2.Response(200, json=GREETING)
        if not request.url.path.endswith("/events"):
            await self.answer()
            return httpx2.Response(200, json={})
        cursor = Cursor.parse(request.headers.get("last-event-id", ""))
        self.cursors.append(cursor)
        body = Body(self._stream(cursor))
        self._bodies = [*(each for each in self._bodies if each.is_open), body]
        return httpx2.Response(200, headers=HEADERS, stream=body)


async def end(how: End) -> None:
    """End a stream: in peace when this returns."""
    match how:
        case End.PEACE:
            return
        case End.RESET:
            raise httpx2.ReadError("reset, as drawn")
        case End.SILENCE:
            await asyncio.Event().wait()  # for as long as the reader likes


# ---- a network that draws what it does --------------------------------------------------------------------------


PAUSES: Final = (0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 1.0, 3.0, 12.0)
"""Seconds between pieces: few values, so that what happens happens at the same moment as something else."""
LENGTH: Final = 1500
"""Frames that most streams say, at most, before they end."""
BACK: Final = 1000
"""Events that a stream repeats, at most, which the reader took from the one before."""


class Mischief(Courier):
    """Draws for each stream where it begins, what it does to its frames, into what pieces it falls, and how it ends.

    What follows a place is left out at most once in all: a peer that does so again does not keep to the wire. `steps`
    counts them by what they were.
    """

    def __init__(self, written: Sequence[Written], dice: random.Random) -> None:
        super().__init__(self._say)
        self.steps: Counter[str] = Counter()
        self._written = written
        self._dice = dice
        self._left_out: set[int] = set()

    async def greet(self) -> None:
        """Be away now and then, or slow: then the replacement fails, or takes its time."""
        roll = self._dice.random()
        if roll < 0.1:
            raise httpx2.ConnectError("away, as drawn")
        await asyncio.sleep(self._dice.choice(PAUSES) if roll < 0.5 else 0.0)

    async def _say(self, cursor: Cursor) -> AsyncGenerator[bytes, None]:
        written, dice = self._dice.choice(self._written), self._dice
        first = max(cursor.seq - (dice.randint(0, BACK) if dice.random() < 0.5 else 0), 0)
        frames = written.frames[first : first + dice.randint(1, LENGTH)]
        is_last = first + len(frames) == len(written.frames)
        self._spoil(frames, first, known=cursor.seq - first)
        how = dice.choice(list(End))
        said, frames_at = written.hello + b"".join(frames), list(accumulate(map(len, frames), initial=0))
        if dice.random() < 0.5 and not is_last:
            said = said[: dice.randint(0, len(said))]
        counted = 0
        for start, stop in pairwise([0, *sorted(dice.sample(range(len(said)), min(len(said), 3))), len(said)]):
            await asyncio.sleep(dice.choice(PAUSES))
            whole = max(bisect_right(frames_at, stop - len(written.hello)) - 1, 0)
            self.steps["frame"] += whole - counted
            counted = whole
            yield said[start:stop]
        self.steps[how] += 1
        await end(how)

    def _spoil(self, frames: list[bytes], first: int, *, known: int) -> None:
        """Repeat a frame, leave one out, or swap two that the reader does not know yet."""
        place = known + self._dice.randint(0, LENGTH // 2)
        if place + 1 >= len(frames):
            return
        roll = self._dice.random()
        if roll < 0.4:
            self.steps["repeated"] += 1
            frames.insert(self._dice.randint(place, len(frames)), frames[place])
        elif roll < 0.8 and first + place not in self._left_out:
            self._left_out.add(first + place)
            self.steps["left out" if roll < 0.6 else "swapped"] += 1
            frame = frames.pop(place)
            if roll >= 0.6:
                frames.insert(place + 1, frame)
