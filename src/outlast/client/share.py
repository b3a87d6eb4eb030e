"""Lets everybody who follows one run in one client read the same stream of it, each from a place of their own.

Rules:
1. One task receives, and only while a reader has nothing left to read: what nobody comes for stays with the server, so
   a slow application slows it down and costs no connection (R9).
2. A reader's place moves when it comes back for the next item, so an exception in its code leaves it before what was
   being handled (R3).
3. What came last is held, up to a bound. Nobody waits for another: a reader that falls behind what is held goes on
   over a stream of its own.
4. Who comes later shares where everything behind its place is held and the place is known to be of this log (R10).
   Anywhere else the server decides, over another stream.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from outlast.client.follow import Follow
from outlast.client.received import Asked, Received, ReceivedEvent, ReceivedGap
from outlast.client.record import RunRecord
from outlast.log.cursor import Cursor

MOST_HELD: Final = 512
"""Items held for others: what a chat says in a minute, so that a window opened beside another one shares with it."""
MOST_BYTES: Final = 128 * 1024
"""Bytes of payload held for others: a few hundred events of a chat, and of many runs together no burden."""

Begin: TypeAlias = Callable[[Asked, Cursor], Follow]
"""Returns a follow that begins behind a cursor."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """What came at once, behind the place `before`; `first` is the number of its first item, of all that ever came."""

    before: Cursor
    first: int
    items: Sequence[Received]
    size: int


class Share:
    """One follow, what came of it last, and who reads it."""

    def __init__(self, follow: Follow, begin: Cursor) -> None:
        self.readers: set[Reader] = set()
        self.ended = False
        self.failure: Exception | None = None
        self.end = 0  # the number of the item that comes next
        self._follow = follow
        self._begin = begin
        self._held: deque[_Piece] = deque()
        self._bytes = 0
        self._is_closing = False
        self._wanted = asyncio.Event()
        self._arrived = asyncio.Event()
        self._receiving = asyncio.create_task(self._receive(), name="follow a run")

    @property
    def place(self) -> Cursor:
        """The place behind everything that came."""
        return self._follow.cursor

    @property
    def record(self) -> RunRecord:
        """How the run stands, with the place of the reader that is furthest behind."""
        record = self._follow.record
        place = min((reader.place for reader in self.readers), key=lambda place: place.seq, default=record.place)
        over = record.over and all(reader.number == self.end for reader in self.readers)
        return record if (place, over) == (record.place, record.over) else replace(record, place=place, over=over)

    def items(self, number: int) -> Sequence[Received]:
        """Return some of what came, from this number on; nothing where that is not held any more."""
        for piece in reversed(self._held):  # most readers are in the newest
            if piece.first <= number:
                return piece.items[number - piece.first :] if number > piece.first else piece.items
        return ()

    def number_behind(self, place: Cursor) -> int | None:
        """Return the number of the item behind `place`; None where a reader of that place cannot share."""
        known = self._held[0].before if self._held else self._begin
        if self.failure is not None or not known.seq <= place.seq <= self.place.seq:
            return None
        items = [item for piece in self._held for item in piece.items]
        behind = len(items)  # how many are behind the place; counted from the end, since a gap may lead back
        while behind and items[behind - 1].cursor.seq > place.seq:
            behind -= 1
        ahead = items[behind:]
        if place.seq == self.place.seq:
            known = self.place
        elif behind:
            known = items[behind - 1].cursor
        is_known = place.chain is None or (place.seq == known.seq and place.chain == known.chain)
        is_told = any(isinstance(item, ReceivedGap) and item.requested.seq != place.seq for item in ahead)
        return self.end - len(ahead) if is_known and not is_told else None

    async def more(self) -> None:
        """Wait until more has come, or nothing will."""
        self._wanted.set()
        await self._arrived.wait()  # without a deadline: a run may be silent for as long as it likes

    async def leave(self, reader: "Reader") -> None:
        """Let a reader go; with the last one everything else goes. Harmless twice."""
        self.readers.discard(reader)
        if self.readers:
            return
        if not self._is_closing:  # once: a second time would cut the closing short
            self._is_closing = True
            self._receiving.cancel()
        await asyncio.wait([self._receiving])  # without a deadline: it has those of its stream
        if not self._receiving.cancelled():
            self._receiving.result()

    async def _receive(self) -> None:
        try:
            await self._receive_on()
        finally:  # here and not where a reader leaves, which may be cancelled while it does
            self._is_closing = True
            await self._follow.close()

    async def _receive_on(self) -> None:
        while not self.ended and self.failure is None:
            await self._wanted.wait()  # without a deadline: readers take the time they need
            self._wanted.clear()
            before = self.place
            try:
                received = await self._follow.receive()
            except Exception as error:  # noqa: BLE001 - whatever it is, each reader is told, when it comes to it
                self.failure = error
            else:
                self.ended = not received
                self._hold(_Piece(before, self.end, received, sum(map(_size, received))))
            arrived, self._arrived = self._arrived, asyncio.Event()
            arrived.set()

    def _hold(self, piece: _Piece) -> None:
        """Hold what came, and let go of the oldest beyond the bound."""
        self._held.append(piece)
        self._bytes += piece.size
        self.end += len(piece.items)
        while len(self._held) > 1 and (self.end - self._held[0].first > MOST_HELD or self._bytes > MOST_BYTES):
            self._bytes -= self._held.popleft().size


class Reader:
    """One place in a log, and the share that it reads; `place` is behind what was taken."""

    def __init__(self, asked: Asked, place: Cursor, shares: "Shares") -> None:
        self.asked = asked
        self._taken = place
        self._shares = shares
        self._share, self.number = shares.join(self, place)

    @property
    def place(self) -> Cursor:
        """The place behind what was taken, and behind what the view left out after that."""
        return self._share.place if self.number == self._share.end else self._taken

    async def next(self) -> Sequence[Received]:
        """Return some of what comes next, the same until it is taken; nothing when nothing more will come.

        Raises what ends the follow, once everything before that has been taken.
        """
        while True:
            share = self._share
            if self.number < share.end:
                if items := share.items(self.number):
                    return items
                await self._fall_behind()
            elif share.failure is not None:
                raise share.failure
            elif share.ended:
                return ()
            else:
                await share.more()

    def take(self, received: Received) -> None:
        """Move behind the first that was not taken yet."""
        self._taken = received.cursor
        self.number += 1

    async def close(self) -> None:
        """Let go of the share. Harmless twice."""
        await self._shares.leave(self, self._share)

    async def _fall_behind(self) -> None:
        share, (self._share, self.number) = self._share, self._shares.join(self, self._taken)
        await self._shares.leave(self, share)


class Shares:
    """Every share of one client; `begin` makes the follow of a new one."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._by_asked: dict[Asked, list[Share]] = {}

    def __iter__(self) -> Iterator[Share]:
        """Iterate over the shares that somebody reads."""
        for shares in self._by_asked.values():
            yield from shares

    def join(self, reader: Reader, place: Cursor) -> tuple[Share, int]:
        """Return the share that a reader can read behind `place`, and the number of the item that it begins with."""
        shares = self._by_asked.setdefault(reader.asked, [])
        for share in shares:
            if (number := share.number_behind(place)) is not None:
                break
        else:
            share, number = Share(self._begin(reader.asked, place), place), 0
            shares.append(share)
        share.readers.add(reader)
        return share, number

    async def leave(self, reader: Reader, share: Share) -> None:
        """Let a reader go from a share; nobody joins one that has none."""
        shares = self._by_asked.get(reader.asked, [])
        if share.readers <= {reader} and share in shares:
            shares.remove(share)
            if not shares:
                del self._by_asked[reader.asked]
        await share.leave(reader)


def _size(received: Received) -> int:
    if isinstance(received, ReceivedEvent):
        return len(received.event.payload)
    return sum(map(_size, received.snapshot))
