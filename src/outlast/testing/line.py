"""Carries the bytes of one connection through a proxy, under the faults that it was put under.

Rules:
1. Bytes are held, never altered: a line holds at most `HELD` of them in each direction, then its peer is not read
   from any more and feels it. What is held when a fault comes is under that fault too.
2. The end of one peer, clean or by a reset, is told to the other behind the bytes before it: as late, as stalled, and
   in a black hole never.
3. A line that lost a byte in a black hole stays one when that is lifted: a stream with a hole in it would be a lie that
   no network tells.
4. After a cut by FIN what a peer still says is swallowed until the client has closed too: a socket that is closed with
   bytes unread would send a reset.
5. Seconds are the loop's.
"""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from outlast.testing.network import Bandwidth, BlackHole, Chop, Cut, D, Fault, Latency, Stall, Way, cut_of, under

HELD: Final = 64 * 1024
"""Bytes held in each direction of a connection: with less a line with latency is slow for no reason."""
PIECE: Final = 16 * 1024
"""Bytes taken at once."""
TICK: Final = 0.05
"""Seconds between two pieces of a line with a bandwidth: fine enough to look like a flow."""
LINGER: Final = struct.pack("ii", 1, 0)
"""With it to close a socket is to reset its connection."""


class Connection:
    """One connection through a proxy; `number` counts from 1, `up` and `down` are bytes that came through."""

    def __init__(self, number: int, client: socket.socket, server: socket.socket, tell: Callable[[], None]) -> None:
        self.number = number
        self.bell = Bell()
        self.swallows = False
        self._client = client
        self._server = server
        self._tell = tell
        self._faults: tuple[Fault, ...] = ()
        self._up = _Line(self, Way.UP, client, server)
        self._down = _Line(self, Way.DOWN, server, client)
        self._over = asyncio.Event()
        self._reset = False

    @property
    def up(self) -> int:
        """Bytes that came through from the client to the server."""
        return self._up.given

    @property
    def down(self) -> int:
        """Bytes that came through from the server to the client."""
        return self._down.given

    def impose(self, *faults: Fault) -> None:
        """Put this connection alone under these faults, and no longer under those before."""
        self._faults = faults
        self.cut_if_due()
        self.bell.ring()

    def cut(self, *, reset: bool = False) -> None:
        """End it now, by a FIN or a reset, whatever faults it is under."""
        self.swallows = True
        if reset:
            self._reset = True
            self._over.set()
        else:
            for peer in (self._client, self._server):
                with suppress(OSError):  # it has ended by itself, or was never reached
                    peer.shutdown(socket.SHUT_WR)
        self.bell.ring()

    def under(self, kind: type[D], way: Way) -> D | None:
        """Return the fault of a kind that holds in this direction."""
        return under(self._faults, kind, way)

    def left(self) -> int | None:
        """Return how many bytes may still come down before the next fault begins, None where none does."""
        places = [fault.after for fault in self._faults if isinstance(fault, Cut | Stall | BlackHole)]
        return min((place - self.down for place in places if place > self.down), default=None)

    def suffers(self, kind: type[Stall | BlackHole], way: Way) -> bool:
        """Say whether a fault of a kind holds in this direction, and has begun."""
        fault = self.under(kind, way)
        return fault is not None and self.down >= fault.after

    def cut_if_due(self) -> None:
        """End it when the down stream has come to where it is to be cut."""
        cut = cut_of(self._faults)
        if cut is not None and self.down >= cut.after and not self.swallows:
            self.cut(reset=cut.reset)

    def passed(self) -> None:
        """Take note that bytes came through."""
        self.cut_if_due()
        self._tell()

    def broke(self, way: Way) -> None:
        """Take note that the peer to which this direction leads cannot be written to any more."""
        (self._down if way is Way.UP else self._up).hold(None)

    def ended(self) -> None:
        """Take note that a direction has come to its end."""
        if self._up.is_done and (self._down.is_done or self.swallows):
            self._over.set()

    async def carry(self, target: tuple[str, int]) -> None:
        """Connect to the target and carry bytes until both directions have ended, or it is cut."""
        loop = asyncio.get_running_loop()
        self._client.setblocking(False)
        self._server.setblocking(False)
        for peer in (self._client, self._server):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a piece is a packet
        async with asyncio.TaskGroup() as tasks:
            pumps = [tasks.create_task(each) for each in (self._up.take(), self._down.give())]
            try:
                await loop.sock_connect(self._server, target)
            except OSError:
                self._down.hold(None)
            else:
                pumps += [tasks.create_task(each) for each in (self._up.give(), self._down.take())]
            await self._over.wait()  # for as long as its peers like; the proxy's end cancels it
            for pump in pumps:
                pump.cancel()

    def close(self) -> None:
        """Let go of both sockets."""
        for peer in (self._client, self._server):
            close(peer, reset=self._reset)


class _Line:
    """One direction of a connection, and what is held in it: bytes, b"" for the end, None for a reset."""

    def __init__(self, connection: Connection, way: Way, source: socket.socket, sink: socket.socket) -> None:
        self.given = 0
        self.is_done = False
        self._connection = connection
        self._way = way
        self._source = source
        self._sink = sink
        self._held: deque[tuple[float, bytes | None]] = deque()
        self._size = 0
        self._hollow = False
        self._now = asyncio.get_running_loop().time

    def hold(self, piece: bytes | None) -> None:
        """Take a piece into the line, to come out when its time has come."""
        latency = self._connection.under(Latency, self._way)
        self._held.append((self._now() + (latency.seconds if latency else 0.0), piece))
        self._size += len(piece or b"")
        self._connection.bell.ring()

    async def take(self) -> None:
        """Take what the one peer says for as long as there is room and no stall."""
        loop = asyncio.get_running_loop()
        piece: bytes | None = b"something"
        while piece:
            await self._connection.bell.until(lambda: not self._is_stalled() and self._size < HELD)
            try:
                piece = await loop.sock_recv(self._source, PIECE)
            except OSError:
                piece = None
            self.hold(piece)
            await asyncio.sleep(0)  # a socket that is always ready would let nobody else have a turn

    async def give(self) -> None:
        """Give what is held to the other peer, each piece in its time."""
        while True:
            await self._connection.bell.until(lambda: bool(self._held))
            due, piece = self._held[0]
            await asyncio.sleep(max(due - self._now(), 0.0))
            await self._connection.bell.until(lambda: not self._is_stalled())
            if not piece:
                self._end(reset=piece is None)
                return
            await self._send(piece)
            self._held.popleft()
            self._size -= len(piece)
            self._connection.bell.ring()

    async def _send(self, piece: bytes) -> None:
        loop = asyncio.get_running_loop()
        while piece and not self._is_swallowed():
            size = self._portion()
            part, piece = piece[:size], piece[size:]
            bandwidth = self._connection.under(Bandwidth, self._way)
            if bandwidth is not None:
                await asyncio.sleep(len(part) / bandwidth.rate)
            await self._connection.bell.until(lambda: not self._is_stalled())
            if self._is_swallowed():  # meanwhile
                return
            try:
                await loop.sock_sendall(self._sink, part)
            except OSError:
                self._hollow = True
                self._connection.broke(self._way)
                return
            self.given += len(part)
            self._connection.passed()
            await asyncio.sleep(0)  # as above

    def _portion(self) -> int:
        """Return how many bytes may come through at once, under all the faults there are."""
        size = PIECE
        if chop := self._connection.under(Chop, self._way):
            size = min(size, chop.size)
        if bandwidth := self._connection.under(Bandwidth, self._way):
            size = min(size, max(1, int(bandwidth.rate * TICK)))
        left = self._connection.left() if self._way is Way.DOWN else None
        return size if left is None else min(size, left)

    def _end(self, *, reset: bool) -> None:
        hole = self._is_swallowed() and not self._connection.swallows
        if hole:
            return  # nobody is told
        if reset:
            self._connection.cut(reset=True)
            return
        with suppress(OSError):  # it has ended by itself
            self._sink.shutdown(socket.SHUT_WR)
        self.is_done = True
        self._connection.ended()

    def _is_stalled(self) -> bool:
        return self._connection.suffers(Stall, self._way) and not self._connection.swallows

    def _is_swallowed(self) -> bool:
        self._hollow = self._hollow or self._connection.suffers(BlackHole, self._way)
        return self._hollow or self._connection.swallows


class Bell:
    """Wakes those who wait until something is so."""

    def __init__(self) -> None:
        self._change = asyncio.Event()

    def ring(self) -> None:
        """Let everybody look again."""
        self._change.set()
        self._change = asyncio.Event()

    async def until(self, so: Callable[[], bool]) -> None:
        """Wait until `so` is true: without a deadline, since what waits here ends with what it belongs to."""
        while not so():
            await self._change.wait()


def close(peer: socket.socket, *, reset: bool) -> None:
    """Let go of a socket, by a FIN or a reset."""
    if reset:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
    peer.close()
