"""When a node that leaves stops waiting: for its runs to finish, for their workers to end, for their rows to be let go.

Rules:
1. Within the grace a run finishes where it is (D2). What is left is handed off early enough that the node is gone when
   the grace is over, also where a worker hears nothing and a store is slow. A resume worker goes at its next
   checkpoint, where nothing is taken back: from the beginning where a node that stays has its worker (`relief`), and
   shortly before the hand-off in any case.
2. Whatever was begun, a shorter grace may still be asked for: of several ends the earliest counts.
3. A node that has nothing left to wait for waits for nothing.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

GRACE: Final = 25.0
"""Seconds from the signal to the end: Kubernetes and gunicorn kill after 30, and the server itself needs some."""
INTERRUPT_GRACE: Final = 3.0
"""Seconds after Ctrl-C: somebody sits there and waits, and most of what is nearly done is done by then."""
HURRY: Final = 1.0
"""Seconds when nobody wants to wait: a worker may end properly, its run is handed off, and that is all."""
PATIENCE: Final = 0.2
"""Share of the grace for workers that were told to end: they have files and connections to close."""
LEAVE: Final = 0.1
"""Share of the grace for last words and rows."""
LEAST_LEAVE: Final = 1.0
"""Seconds for them: hundreds of runs are let go of in that time."""
MOST_LEAVE: Final = 2.0
"""Seconds: a store that has not answered by then is away, and a lease that ends frees the runs as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """Seconds from the beginning of a drain to each of its moments."""

    checkpoint: float
    hand_off: float
    leave_behind: float
    gone: float


def timetable(grace: float, *, stop_grace: float) -> Timetable:
    """Divide `grace` among runs that finish, workers that end, and rows that are let go; seconds, all of them."""
    patience = min(stop_grace, grace, max(HURRY, grace * PATIENCE))
    leave = min(max(LEAST_LEAVE, grace * LEAVE), MOST_LEAVE)
    hand_off = max(0.0, grace - patience - leave)
    return Timetable(
        checkpoint=max(0.0, hand_off - patience),
        hand_off=hand_off,
        leave_behind=hand_off + patience,
        gone=hand_off + patience + leave,
    )


class Drain:
    """One node's drain: `begin` it, await each moment in turn, `end` what is left of it when nothing is left to do.

    `checkpoint`, `hand_off`, `leave_behind` and `gone` are set when their time has come. `finished` and `handed_off`
    count runs.
    """

    def __init__(self, *, stop_grace: float) -> None:
        self.begun = asyncio.Event()
        self.checkpoint = asyncio.Event()
        self.hand_off = asyncio.Event()
        self.leave_behind = asyncio.Event()
        self.gone = asyncio.Event()
        self.finished = 0
        self.handed_off = 0
        self._stop_grace = stop_grace
        self._timers: list[asyncio.TimerHandle] = []

    def begin(self, grace: float) -> None:
        """Begin, or shorten what has begun."""
        times = timetable(grace, stop_grace=self._stop_grace)
        loop = asyncio.get_running_loop()
        self.begun.set()
        for moment, seconds in (
            (self.checkpoint, times.checkpoint),
            (self.hand_off, times.hand_off),
            (self.leave_behind, times.leave_behind),
            (self.gone, times.gone),
        ):
            if not moment.is_set():
                self._timers.append(loop.call_later(seconds, moment.set))

    def count(self, *, finished: bool, handed_off: bool) -> None:
        """Count one run that ended, if it did so in the drain."""
        if self.begun.is_set():
            self.finished += finished
            self.handed_off += handed_off

    def end(self) -> None:
        """Let every moment come now: there is nothing to wait for. Harmless twice."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        for moment in (self.checkpoint, self.hand_off, self.leave_behind, self.gone):
            moment.set()
