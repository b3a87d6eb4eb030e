"""How late an event loop is: a timer of a millisecond, set again and again."""

import asyncio
from typing import Self

from bench.measure import Sample, percentile

LAG = "loop lag, p99"
MEDIAN = "loop lag, median"
EVERY = 0.001
"""Seconds between two looks at how late the loop is."""


class Lateness:
    """How late a timer of a millisecond is, again and again, while this is entered."""

    def __init__(self) -> None:
        self._lags: list[float] = []
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        """Set the first timer."""
        self._set()
        return self

    def __exit__(self, *_: object) -> None:
        """Set no more."""
        if self._timer is not None:
            self._timer.cancel()

    def told(self) -> Sample:
        """Return the lags in milliseconds."""
        lags = self._lags or [0.0]
        return {LAG: percentile(lags, 0.99) * 1e3, MEDIAN: percentile(lags, 0.5) * 1e3}

    def _set(self) -> None:
        self._timer = self._loop.call_later(EVERY, self._look, self._loop.time() + EVERY)

    def _look(self, due: float) -> None:
        self._lags.append(self._loop.time() - due)
        self._set()
