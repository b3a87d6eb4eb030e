"""Keeping the node's lease: one renewal at a time, from a thread of its own with a connection of its own.

Rules:
1. A worker that blocks the event loop does not lose its runs: the thread goes on renewing (H16).
2. Past the stall limit it gives the lease up instead, marked as a stall: a loop that stands still serves nobody.
3. An error proves nothing. The next try comes sooner than a renewal would (H8, H17).
4. Proof counts from when the accepted renewal was *sent* (H9).
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from outlast import lease
from outlast.facts import Report
from outlast.lease import LeasePolicy
from outlast.server.pulse import BEAT_EVERY
from outlast.server.trouble import Trouble
from outlast.stores.base import Renewer

RETRY_EVERY: Final = 1.0
"""Seconds between tries while the store gives no answer: several fit between a missed renewal and the lease's end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed:
    """An accepted renewal: when it was sent, by the loop's clock, and what the node holds by the rows (log → epoch)."""

    sent_at: float
    held: Mapping[str, int]


class Keeper:
    """Renews one node's lease; `renew` may be called from any thread, one call at a time.

    `beat_at` is when the event loop was last seen alive and `lag` how late it was then, both set by the node.
    `renewed_at` is when the newest accepted renewal was sent. They are read and written without a lock: a float is
    replaced at once.
    """

    def __init__(
        self,
        renewer: Renewer,
        policy: LeasePolicy,
        *,
        clock: Callable[[], float],
        report: Report,
        on_renewed: Callable[[Renewed], None],
    ) -> None:
        self._renewer = renewer
        self._policy = policy
        self._clock = clock
        self._trouble = Trouble("renewal", report)
        self._on_renewed = on_renewed
        self.beat_at = self.renewed_at = clock()
        self.lag = 0.0

    def renew(self) -> float:
        """Renew once, or give the lease up when the loop is stalled; return the seconds until the next renewal."""
        sent_at = self._clock()
        stalled = lease.is_stalled(self.beat_at, self._policy, now=sent_at)
        try:
            renewal = self._renewer.renew(stalled=stalled, lag=self._lag(now=sent_at))
        except Exception as error:  # noqa: BLE001 - a loop's every turn: reported, and tried again
            self._trouble.met(error)
            return min(RETRY_EVERY, self._policy.renew_every)
        self._trouble.over()
        if not stalled:
            self.renewed_at = sent_at
            self._on_renewed(Renewed(sent_at=sent_at, held=renewal.held))
        return self._policy.renew_every

    def _lag(self, *, now: float) -> float:
        """Return how late the loop is: as it said at its last beat, or, overdue, as late as its next one is by now."""
        return max(self.lag, now - self.beat_at - BEAT_EVERY)

    def close(self) -> None:
        """Give the renewer's connection back."""
        self._renewer.close()


class Pacer(Protocol):
    """What calls a keeper again and again: a thread in earnest, something else on a virtual clock."""

    def start(self, keeper: Keeper) -> None:
        """Begin renewing."""
        ...

    def close(self) -> None:
        """Stop renewing, wait for a renewal under way, and close the keeper."""
        ...


class RenewalThread:
    """Calls a keeper from a daemon thread."""

    def __init__(self) -> None:
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, keeper: Keeper) -> None:
        """Begin renewing."""
        self._thread = threading.Thread(target=self._run, args=(keeper,), name="outlast-renewal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop renewing; waits for a renewal under way, which the store bounds."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, keeper: Keeper) -> None:
        pause = 0.0
        while not self._closing.wait(pause):
            pause = keeper.renew()
        keeper.close()


clock = time.monotonic
"""The clock of asyncio's own loops, readable from a thread."""
