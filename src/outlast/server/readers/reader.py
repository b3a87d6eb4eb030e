"""One reader's stream, as ASGI: replay from the log, then the ring, then live, ended by what is durable.

Rules:
1. A reader is a seq. Whatever comes next is asked for behind that seq, from the ring where it reaches back that far
   and from the log otherwise: replay and live are one sequence (F3).
2. Order: `hello`, a gap if there is one, stored events, `caught-up`, live events and heartbeats, the terminal event,
   `end`. Then the body is complete.
3. A store that fails, and a node that drains, end the stream cleanly with a hint to come again, behind what is stored;
   only the log tells an outcome (F9, F15).
4. A slow client is felt as a send that does not return. One that takes nothing for `SEND_WITHIN` seconds is dropped.
5. The client's leaving ends whatever the reader waits for, and so does cancellation from outside, of either kind:
   nothing here is awaited on the way out.
6. One page of the log is read per turn of the loop, however many readers ask, and it is kept for those who come to
   its place: a crowd that comes to a log of huge events neither holds up the others nor costs a copy each.
7. A view leaves events out and moves behind them all the same: `head` in `caught-up` and in a heartbeat is a place
   up to which everything that the view shows has been sent.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from outlast.errors import RunGone, StoreError
from outlast.facts import Departure, ReaderClosed, ReaderOpened, StoreTroubled
from outlast.run import Run
from outlast.server.readers.feed import Feed
from outlast.server.readers.place import Place
from outlast.server.readers.ring import CHUNK, Entry
from outlast.server.readers.room import Room, until_left
from outlast.server.readers.shelf import FramedPage, Spot
from outlast.server.readers.view import WHOLE, View
from outlast.wire import native

PART: Final = 2 * CHUNK
"""Bytes of one send at most: a chunk, or a part of one huge event."""
RETRY_AFTER_TROUBLE: Final = 2.0
"""Seconds before a reader comes again when the store failed: most failures are over by then."""
SPREAD: Final = 2.0
"""Seconds over which the readers of a closing node come back to the others: a deploy is no stampede."""
HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
    (b"vary", b"accept"),
)
"""Of every stream: no cache, no proxy and no compression may hold a frame back."""


class Reader:
    """The response to one request for the stream of a run.

    `feed` is asked for when the response begins: a feed that nobody has joined ends, and a response may wait before.
    `opening` are the first bytes of its body; `sending_since` is when the send began that has not returned yet.
    """

    __slots__ = (  # there are thousands of these
        "__weakref__",
        "_beats",
        "_caught_up",
        "_clock",
        "_departure",
        "_failed",
        "_farewell",
        "_feed",
        "_find_feed",
        "_goal",
        "_gone",
        "_headers",
        "_log",
        "_loop",
        "_opening",
        "_page",
        "_presence",
        "_room",
        "_seq",
        "_status",
        "_view",
        "_waiting",
        "sending_since",
    )

    def __init__(
        self,
        run: Run,
        place: Place,
        feed: Callable[[], Feed],
        room: Room,
        *,
        opening: bytes,
        view: View = WHOLE,
        status: int = 200,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        self.sending_since: float | None = None
        self._log = run.log
        self._goal = place.head.cursor
        self._seq = place.after
        self._find_feed = feed
        self._room = room
        self._opening = opening
        self._view = view
        self._status = status
        self._headers = headers
        self._caught_up = False
        self._departure: Departure | None = None
        self._page: FramedPage | None = None
        self._failed = False
        self._farewell: bytes | None = None
        self._gone = False
        self._waiting: asyncio.Future[None] | None = None
        self._presence: asyncio.Timeout | None = None
        self._loop = asyncio.get_running_loop()
        self._clock = self._loop.time

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the run has ended, the client has left, or the node closes."""
        # A bare task and no group: a group would wait for it on the way out, and costs each reader half a KiB.
        watch = self._loop.create_task(until_left(receive), name="watch a reader")
        watch.add_done_callback(self._watched)
        try:
            async with asyncio.timeout(None) as presence:
                self._enter(presence)
                try:
                    await self._stream(send)
                finally:
                    self._leave()
        except TimeoutError:  # `drop` says so: nobody is there to be told
            pass
        finally:
            watch.cancel()

    def wake(self) -> None:
        """Look again: there is something to send."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def drop(self, departure: Departure = Departure.STALLED) -> None:
        """End the stream where it stands, whatever it waits for. Harmless twice."""
        dropped, self._gone = self._gone, True  # which also ends it when a `send` swallows the cancellation
        self._departure = self._departure or departure
        if self._presence is not None and not dropped:
            self._presence.reschedule(self._clock())

    async def decline(self, send: Send, farewell: bytes) -> None:
        """Answer with these bytes alone, under the status and the headers the stream would have had."""
        headers = [*HEADERS, *self._headers]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": farewell})

    def dismiss(self, farewell: bytes) -> None:
        """End the stream cleanly, with these last bytes. Harmless at any time."""
        self._farewell = farewell
        self.wake()

    def _enter(self, presence: asyncio.Timeout) -> None:
        self._presence = presence
        self._feed = self._find_feed()
        del self._find_feed  # and with it the run and its input
        self._beats = self._feed.beats
        self._room.readers[self] = None
        self._feed.join(self)
        self._room.report(ReaderOpened(run=self._log))

    def _leave(self) -> None:
        self._presence = None
        self._room.leave(self)
        self._feed.leave(self)
        self._room.report(ReaderClosed(run=self._log, departure=self._departure or Departure.LEFT))

    def _watched(self, watch: asyncio.Task[None]) -> None:
        if not watch.cancelled():  # the client has left, or the server can no longer say so and tells why in its log
            self.drop(Departure.LEFT)

    # ---- what is sent -----------------------------------------------------------------------

    async def _stream(self, send: Send) -> None:
        # Every event of every reader comes through this loop: it creates nothing but the message and the wait.
        headers = [*HEADERS, *self._headers]
        await self._send(send, {"type": "http.response.start", "status": self._status, "headers": headers})
        while not self._gone:
            chunk = self._ready()
            if chunk is None:
                chunk = await self._from_log(send)
                if not (chunk or self._failed or self._farewell is not None):
                    continue  # the view shows nothing of this page, and more lies behind it
            # Nearly always small; a huge event stays one copy for all its readers.
            small = len(self._opening) + len(chunk) <= PART
            if small and not self._caught_up and self._seq >= self._feed.ring.tail:
                chunk += self._aside() or b""
            if self._farewell is not None:
                chunk = b""
            if self._opening:
                chunk = await self._opened(send, chunk)
            last = self._last() if not chunk or (small and self._is_through()) else None
            if last is not None:
                self._departure, frame = last
                await self._say(send, chunk + frame, more=False)
                return
            if chunk:
                if small:  # one call less
                    await self._send(send, {"type": "http.response.body", "body": chunk, "more_body": True})
                else:
                    await self._say(send, chunk)
                self._page = None
            else:
                # Without a deadline: the feed wakes its readers at every heartbeat, and a broken one wakes them too.
                self._waiting = self._loop.create_future()
                await self._waiting

    def _ready(self) -> bytes | None:
        """Return what can be sent from memory, and move behind it; None when the log is to be read."""
        found = self._feed.ring.after(self._seq, self._view)
        if found is None:
            return None
        chunk, self._seq = found
        return chunk or self._aside()

    def _aside(self) -> bytes | None:
        """Return the control frame that is due where the ring has nothing newer; empty when none is."""
        if not self._caught_up:
            if self._seq < self._goal.seq:
                return None  # the feed has not come as far as the log had when this reader came
            self._caught_up = True
            return native.caught_up(self._goal)
        if self._beats != self._feed.beats:
            self._beats = self._feed.beats
            return self._feed.beat
        return b""

    async def _opened(self, send: Send, chunk: bytes = b"") -> bytes:
        """Return `chunk` behind the opening, one send for both; a chunk alone when the two are better said apart."""
        # A snapshot may be in the opening, and the stream may stay for hours.
        opening, self._opening = self._opening, b""
        if chunk and len(opening) + len(chunk) <= PART:
            return opening + chunk
        await self._say(send, opening)
        return chunk

    async def _from_log(self, send: Send) -> bytes:
        """Return what the log has next, and move behind it; empty when the view shows none of it, or the log failed."""
        await asyncio.sleep(0)  # a client that takes all at once must not keep the loop to itself
        spot = (self._log, self._seq, self._view)
        try:
            page = self._room.pages.find(spot)
            if page is None:
                if self._opening:  # who waits for the store has heard who speaks
                    await self._opened(send)
                page = await self._read(spot)
            self._page = page
        except (StoreError, RunGone) as error:  # a run that is gone is told so when the client comes back
            self._failed = True
            self._room.report(StoreTroubled(during="reader", error=error.code))
            return b""
        self._seq = page.seq
        return page.chunk

    async def _read(self, spot: Spot) -> FramedPage:
        async with self._room.reading:  # without a deadline: those before this reader read one page each
            found = self._room.pages.find(spot)  # one of those may have been at the same place
            if found is not None:
                return found
            events = await self._room.read(self._log, after=self._seq)
        shown = [Entry(stored).dressed(self._view) for stored in events if self._view.shows(stored.event.type)]
        page = FramedPage(chunk=b"".join(shown), seq=events[-1].seq)
        self._room.pages.keep(spot, page)
        return page

    def _is_through(self) -> bool:
        """Say whether nothing can follow what was just made ready but the last word, which then comes along with it."""
        return self._feed.ended and self._caught_up and self._seq >= self._feed.ring.tail

    def _last(self) -> tuple[Departure, bytes] | None:
        """Return what is said last and why, now that nothing is ready; None as long as more may come."""
        if self._farewell is not None:
            return Departure.EXPIRED, self._farewell
        if self._room.draining and (self._failed or not self._feed.ended):
            return Departure.DRAINED, native.drain(SPREAD, retry=SPREAD * self._room.jitter())
        if self._failed or self._feed.broken:
            return Departure.TROUBLE, native.retry_hint(RETRY_AFTER_TROUBLE)
        if self._feed.ended:
            return Departure.ENDED, native.end(self._feed.head)
        return None

    async def _say(self, send: Send, chunk: bytes, *, more: bool = True) -> None:
        if len(chunk) <= PART:
            await self._send(send, {"type": "http.response.body", "body": chunk, "more_body": more})
            return
        for start in range(0, len(chunk), PART):  # one huge event: the server feels the client in between
            part, follows = chunk[start : start + PART], start + PART < len(chunk)
            await self._send(send, {"type": "http.response.body", "body": part, "more_body": more or follows})

    async def _send(self, send: Send, message: Message) -> None:
        if self._gone:
            return
        self.sending_since = self._clock()  # the hub drops who does not get over it
        try:
            await send(message)
        except OSError:  # the client is gone, and this server says so
            self._gone = True
        self.sending_since = None
