"""How many runs of one worker a node may take over again, so that a dead worker's load is not multiplied.

Rules:
1. First starts, first takeovers and hand-offs are not held back here; the node's start concurrency bounds them.
2. Second and later takeovers of a worker's runs may make up 10 % of that worker's starts in the last minute, plus a
   floor, so that a quiet system still recovers (B24).
3. The limit is per worker: a dead one does not slow the others.
4. Who asks first goes first: a node asks in the order in which runs became due, so none starves (B24).
"""

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Final

SPAN: Final = 60.0
"""Seconds over which starts and later takeovers are counted."""
SHARE: Final = 0.1
"""Later takeovers per start: a worker that fails everything gets a tenth more load, not twice as much."""
FLOOR: Final = 30
"""Later takeovers that are always allowed in one span: a handful of unlucky runs on a quiet node never waits."""


@dataclass(slots=True)
class _Counts:
    starts: deque[float] = field(default_factory=deque[float])
    later: deque[float] = field(default_factory=deque[float])

    def expire(self, before: float) -> None:
        for times in (self.starts, self.later):
            while times and times[0] < before:
                times.popleft()


class Fleet:
    """One node's count of starts per worker; `now` is the store's clock in seconds."""

    def __init__(self, *, share: float = SHARE, floor: int = FLOOR) -> None:
        self._share = share
        self._floor = floor
        self._counts: defaultdict[str, _Counts] = defaultdict(_Counts)

    def lets(self, worker: str, *, now: float, later: bool) -> bool:
        """Say whether one more run of this worker may be claimed at `now`, and count it if so.

        `later`: it would be a second or later takeover. Asking and counting are one step, because many claims are
        under way at the same time; one that was then not made is told to `forget`.
        """
        counts = self._counts[worker]
        counts.expire(now - SPAN)
        if later and len(counts.later) + 1 > self._floor + self._share * (len(counts.starts) + 1):
            return False
        counts.starts.append(now)
        if later:
            counts.later.append(now)
        return True

    def forget(self, worker: str, *, at: float, later: bool) -> None:
        """Count no longer what `lets` let at the time `at`: the run was not claimed after all."""
        counts = self._counts[worker]
        for times in (counts.starts, counts.later) if later else (counts.starts,):
            if at in times:  # else it is older than what is counted
                times.remove(at)
