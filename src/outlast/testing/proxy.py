"""Stands between a client and a server on real sockets, and does to their connections what a bad network does.

    async with FaultProxy("127.0.0.1", 8400) as proxy:
        ...                                     # the client uses proxy.url
        proxy.impose(Stall(Way.DOWN))           # on every connection there is, and on those that come
        await proxy.until(lambda traffic: traffic.live == 2)
        proxy.lift()

What a line does with its bytes is in `outlast.testing.line`. Seconds are the loop's.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from outlast.testing.line import Bell, Connection, close
from outlast.testing.network import Fault, Refuse, Way

BACKLOG: Final = 1024
"""Connections that may wait to be accepted: as many clients as a test lets come at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What has gone through a proxy: connections accepted, alive now and most at once; bytes in each direction."""

    accepted: int
    live: int
    most: int
    up: int
    down: int


class FaultProxy:
    """Forward what comes to `port` of this machine to `host`, under the faults imposed.

    `each` says which faults the n-th connection, counted from 1, is born with, besides those imposed on all. `window`
    is what the kernel may hold of a connection on either side, in bytes; small ones fill soon.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        each: Callable[[int], Iterable[Fault]] = lambda _number: (),
        window: int | None = None,
    ) -> None:
        self.port = 0
        self._host = host
        self._target = port
        self._each = each
        self._window = window
        self._faults: tuple[Fault | Refuse, ...] = ()
        self._listener: socket.socket | None = None
        self._is_open = False
        self._lines: dict[Connection, asyncio.Task[None]] = {}
        self._failed: list[asyncio.Task[None]] = []
        self._bell = Bell()
        self._accepted = self._most = 0
        self._gone = {Way.UP: 0, Way.DOWN: 0}

    @property
    def url(self) -> str:
        """Where a client of the server goes instead."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self) -> tuple["Connection", ...]:
        """The connections alive now, in the order in which they came."""
        return tuple(self._lines)

    @property
    def traffic(self) -> Traffic:
        """What has gone through so far."""
        return Traffic(
            accepted=self._accepted,
            live=len(self._lines),
            most=self._most,
            up=self._gone[Way.UP] + sum(each.up for each in self._lines),
            down=self._gone[Way.DOWN] + sum(each.down for each in self._lines),
        )

    async def until(self, so: Callable[[Traffic], bool]) -> None:
        """Wait for traffic of which `so` is true; without a deadline, which is the test's own."""
        await self._bell.until(lambda: so(self.traffic))

    def impose(self, *faults: Fault | Refuse) -> None:
        """Put every connection, those to come too, under these faults, and no longer under those before."""
        self._faults = faults
        for connection in self.connections:
            connection.impose(*self._common())
        if any(isinstance(fault, Refuse) and not fault.listening for fault in faults):
            self._listen(open=False)
        elif not self._is_open:
            self._listen(open=True)

    def lift(self) -> None:
        """Take all faults away: what was stalled goes on, and connections are accepted."""
        self.impose()

    def cut(self, *, reset: bool = False) -> None:
        """End every connection now, by a FIN or a reset."""
        for connection in self.connections:
            connection.cut(reset=reset)

    def retarget(self, port: int) -> None:
        """Lead connections that come from now on to another port."""
        self._target = port

    async def __aenter__(self) -> Self:
        self._listen(open=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._close()
        tasks = list(self._lines.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for task in self._failed:
            task.result()  # a fault of the proxy's own is seen

    def _common(self) -> Iterator[Fault]:
        return (fault for fault in self._faults if not isinstance(fault, Refuse))

    def _listen(self, *, open: bool) -> None:
        """Take the port, anew; nobody else gets it while it is closed."""
        self._close()
        self._listener = listener = socket.socket()
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._narrow(listener)
        listener.bind(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self._is_open = open
        if open:
            listener.listen(BACKLOG)
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _close(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()

    def _narrow(self, peer: socket.socket) -> None:
        if self._window is not None:  # before it listens or connects: what it accepts has it from there
            for side in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                peer.setsockopt(socket.SOL_SOCKET, side, self._window)

    def _accept(self, listener: socket.socket) -> None:
        with suppress(BlockingIOError, ConnectionAbortedError):
            client, _ = listener.accept()
            self._accepted += 1
            if any(isinstance(fault, Refuse) for fault in self._faults):
                close(client, reset=True)
                self._bell.ring()
                return
            server = socket.socket()
            self._narrow(server)
            connection = Connection(self._accepted, client, server, self._bell.ring)
            connection.impose(*self._common(), *self._each(self._accepted))
            task = asyncio.create_task(connection.carry((self._host, self._target)), name=f"proxied {self._accepted}")
            self._lines[connection] = task
            self._most = max(self._most, len(self._lines))
            task.add_done_callback(lambda task: self._ended(connection, task))
            self._bell.ring()

    def _ended(self, connection: "Connection", task: asyncio.Task[None]) -> None:
        connection.close()  # here, since a task that was cancelled before it began closes nothing
        del self._lines[connection]
        self._gone[Way.UP] += connection.up
        self._gone[Way.DOWN] += connection.down
        if not task.cancelled() and task.exception() is not None:
            self._failed.append(task)
        self._bell.ring()
