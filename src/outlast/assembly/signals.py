"""SIGTERM and SIGINT begin a drain, and reach whoever handled them before as soon as it is over.

Servers answer a signal by waiting for open streams, which end by themselves never, and run the lifespan's end after
that or not at all. So the signal is ours first.

Rules:
1. The first signal drains, and is passed on when the drain is over. A second one leaves no time, takes the first one's
   place, and is passed on at once; so is every later one.
2. Only the main thread hears signals. Elsewhere, and where a signal is ignored or not handled by Python, none is ours.
3. In the end everything is as it was. Who has handled signals on top of us meanwhile keeps doing so, and we pass on.
"""

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final, TypeAlias

from outlast.server.drain import HURRY, INTERRUPT_GRACE

OURS: Final = (signal.SIGTERM, signal.SIGINT)

Handler: TypeAlias = Callable[[int, FrameType | None], object]


class Signals:
    """Hears signals for the application that runs on this loop; `drain` is called on the loop, with the grace."""

    def __init__(self, drain: Callable[[float], None], *, grace: float) -> None:
        self._drain = drain
        self._grace = grace
        self._loop = asyncio.get_running_loop()
        self._before: dict[int, Handler | int] = {}
        self._kept: int | None = None
        self._heard = False
        self._over = False

    def install(self) -> None:
        """Hear signals from now on. Call it on the loop's thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in OURS:
            before = signal.getsignal(number)
            if callable(before) or before == signal.SIG_DFL:
                self._before[number] = before
                signal.signal(number, self._hear)

    def restore(self) -> None:
        """Put back what was there before, and pass on what still comes. Harmless twice."""
        self._over = True
        for number, before in self._before.items():
            if signal.getsignal(number) == self._hear:
                signal.signal(number, before)

    def drained(self) -> None:
        """Pass on what was heard: the drain is over."""
        self._over = True
        kept, self._kept = self._kept, None
        if kept is not None:
            self._pass_on(kept, None)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        # Between any two instructions of the loop's thread: nothing of the loop may be touched but this.
        first, self._heard = not self._heard, True
        if self._over or self._loop.is_closed():
            self._pass_on(number, frame)
            return
        grace = (min(self._grace, INTERRUPT_GRACE) if number == signal.SIGINT else self._grace) if first else HURRY
        self._kept = number if first else None
        self._loop.call_soon_threadsafe(self._drain, min(grace, self._grace))
        if not first:
            self._pass_on(number, frame)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        before = self._before[number]
        if callable(before):
            before(number, frame)
        else:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
