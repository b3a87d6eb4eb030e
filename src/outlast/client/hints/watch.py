"""Watches for what a link should be told: whatever source this machine has, while it has it.

Rules:
1. No source is needed. One that is missing, or stops working, is done without, and nobody is told an error.
2. A burst of reports is one reading, half a second later: an interface that comes up reports itself several times.
   So there is at most one hint of the network in that time.
3. A sleep is looked for every second, and whenever the network reports, which on waking comes first, or logind says
   that the machine woke. The clocks alone tell that it slept: whoever asks them first, it is told once.
4. No task but logind's: readings take no time, so timers and the socket's own readiness are all there is.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from enum import StrEnum
from typing import Final, Protocol

from outlast.client.hints import logind, sleep
from outlast.client.hints.network import Network
from outlast.client.hints.path import Hint, Path, news
from outlast.client.hints.sleep import Clocks, Sleep
from outlast.supervision.inputs import Woken
from outlast.supervision.phase import Wakeup

SETTLE: Final = 0.5
"""Seconds from a report to the reading: what belongs together comes within, and nobody waits long."""
LOOK_EVERY: Final = 1.0
"""Seconds between two looks at the clocks: how late a sleep is noticed where nothing else says when to look."""


class Source(StrEnum):
    """Where hints come from."""

    NETWORK = "network"
    """Linux tells when interfaces, addresses and routes change."""
    BOOT_CLOCK = "boot-clock"
    """A clock that counts sleep exactly."""
    WALL_CLOCK = "wall-clock"
    """The wall clock, which may also be set."""


class Subscription(Protocol):
    """Something that reports changes of this machine's network and can be asked how it is; see `network.Network`."""

    def fileno(self) -> int:
        """Return what becomes readable when there are reports."""
        ...

    def heard(self) -> bool:
        """Take the reports that have come in, and tell whether there were any. Raises OSError."""
        ...

    def read(self) -> Path | None:
        """Return the path as it is; None when it may have changed meanwhile. Raises OSError."""
        ...

    def close(self) -> None:
        """End the subscription."""
        ...


@asynccontextmanager
async def watching(
    tell: Callable[[Hint], None],
    *,
    subscribe: Callable[[], Subscription | None] = Network.subscribe,
    clocks: Callable[[], Clocks | None] = sleep.clocks,
    listening: Callable[[Callable[[], None]], AbstractAsyncContextManager[None]] = logind.listening,
) -> AsyncGenerator[frozenset[Source], None]:
    """Tell hints to a machine for as long as the block runs; the block is given the sources that there are.

    `tell` is called on the running loop: `WentOffline` and `Woken(online)` when that changes, offline also when it is
    so from the beginning; `Woken(path-changed)` when this machine's addresses or its way out are others; and
    `Woken(resumed)` with the seconds it slept. Linux has every source. Elsewhere sleep alone is noticed, by the wall
    clock, and only where `time.monotonic` stops in sleep: on macOS it does, on Windows it does not. `listening` is no
    source: it says when to look at the clocks. Nothing is told after the block. Source: N5, N6.
    """
    watch = _Watch(tell, subscribe(), clocks())
    try:
        watch.start()
        async with listening(watch.look):
            yield watch.sources
    finally:
        watch.close()


class _Watch:
    """What is watched, and the timers of that."""

    def __init__(self, tell: Callable[[Hint], None], subscription: Subscription | None, clocks: Clocks | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._tell = tell
        self._subscription = subscription
        self._clocks = clocks
        self._sleep = None if clocks is None else Sleep(clocks)
        self._path: Path | None = None
        self._settling: asyncio.TimerHandle | None = None
        self._looking: asyncio.TimerHandle | None = None

    @property
    def sources(self) -> frozenset[Source]:
        """Where hints come from at present."""
        found: set[Source] = set()
        if self._subscription is not None:
            found.add(Source.NETWORK)
        if self._clocks is not None:
            found.add(Source.BOOT_CLOCK if self._clocks.is_exact else Source.WALL_CLOCK)
        return frozenset(found)

    def start(self) -> None:
        """Begin, and tell at once when there is no network."""
        if self._sleep is not None:
            self._looking = self._loop.call_later(LOOK_EVERY, self._look_again)
        if (subscription := self._subscription) is not None:
            self._loop.add_reader(subscription.fileno(), self._hear, subscription)  # every loop on Linux can
            self._read(subscription)

    def close(self) -> None:
        """End."""
        if self._looking is not None:
            self._looking.cancel()
        if self._subscription is not None:
            self._release(self._subscription)

    # ---- sleep ----

    def look(self) -> None:
        """Look at the clocks, and tell when the machine slept."""
        if self._sleep is not None and (seconds := self._sleep.slept()):
            self._tell(Woken(wakeup=Wakeup.RESUMED, seconds=seconds))

    def _look_again(self) -> None:
        self._looking = self._loop.call_later(LOOK_EVERY, self._look_again)
        self.look()

    # ---- network ----

    def _hear(self, subscription: Subscription) -> None:
        try:
            heard = subscription.heard()
        except OSError:
            self._do_without(subscription)
            return
        if heard and self._settling is None:
            self._settle(subscription)
        self.look()

    def _settle(self, subscription: Subscription) -> None:
        self._settling = self._loop.call_later(SETTLE, self._read, subscription)

    def _read(self, subscription: Subscription) -> None:
        self._settling = None
        try:
            path = subscription.read()
        except OSError:
            self._do_without(subscription)
            return
        if path is None:
            self._settle(subscription)
            return
        before, self._path = self._path, path
        if (hint := news(before, path)) is not None:
            self._tell(hint)

    def _do_without(self, subscription: Subscription) -> None:
        self._release(subscription)
        if self._path is not None and not self._path.is_online:
            self._tell(Woken(wakeup=Wakeup.ONLINE))  # nobody is left who could: better to try in vain

    def _release(self, subscription: Subscription) -> None:
        self._subscription = None
        if self._settling is not None:
            self._settling.cancel()
        self._loop.remove_reader(subscription.fileno())
        subscription.close()
