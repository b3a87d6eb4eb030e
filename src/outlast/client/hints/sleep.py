"""Notices that the machine slept, by two clocks of which only one goes on in sleep.

Rules:
1. Linux has both: BOOTTIME counts sleep, MONOTONIC does not. What they move apart is the sleep, exactly; a step of the
   wall clock changes neither.
2. Where only `time.monotonic` stops in sleep, as on macOS, the wall clock takes the other's place. It may be set, so
   only a step forward that is larger than a correction counts; a large correction is taken for a sleep.
3. On Windows `time.monotonic` counts sleep, so there is nothing to compare, and no sleep is noticed.
4. A process that is stopped between the two readings of one look has slept just as little; the look is repeated.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

Clock: TypeAlias = Callable[[], float]
"""A clock, in seconds from anywhere."""

NOTICED: Final = 1.0
"""Seconds asleep that count: after less nothing has run into a deadline."""
STEPPED: Final = 5.0
"""Seconds by which the wall clock may run ahead at once without having slept: time services correct less than that."""
TOGETHER: Final = 0.1
"""Seconds within which two clocks are read at one moment."""
LOOKS: Final = 3
"""Looks at the clocks, when something came between: twice in a row is bad luck, and then the last one counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Two clocks: `awake` stops while the machine sleeps, `always` does not.

    It slept when they have moved apart by `noticed` seconds. With `is_exact` nothing else moves them apart.
    """

    awake: Clock
    always: Clock
    noticed: float
    is_exact: bool


def clocks() -> Clocks | None:
    """Return this system's clocks; None where none of them stops in sleep."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        boot = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
        return Clocks(awake=time.monotonic, always=boot, noticed=NOTICED, is_exact=True)
    if sys.platform == "win32":
        return None
    return Clocks(awake=time.monotonic, always=time.time, noticed=STEPPED, is_exact=False)


class Sleep:
    """Compares two clocks whenever it is asked."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._apart = self._look()

    def slept(self) -> float:
        """Return for how many seconds the machine slept since this was last asked; 0 when it did not."""
        before, self._apart = self._apart, self._look()
        seconds = self._apart - before
        return seconds if seconds >= self._clocks.noticed else 0.0

    def _look(self) -> float:
        apart = 0.0
        for _ in range(LOOKS):
            awake = self._clocks.awake()
            apart = self._clocks.always() - awake
            if self._clocks.awake() - awake < TOGETHER:
                break
        return apart
