"""When a node's lease is live, when to renew it, and what still counts as proof of ownership.

A lease decides *liveness* only: whether others may try to claim. *Ownership* is decided by the epoch of
an accepted write, so no promise of safety rests on anything in this file.

Two clocks appear here and are never mixed: `until` and `now` of `is_live` are the store's; the times of
`pause_at` are one process's monotonic clock.
"""

from dataclasses import dataclass
from typing import Final

from outlast.errors import SettingsError
from outlast.number import check

TTL: Final = 15.0
"""Seconds: long enough to sit out a garbage collection or a slow disk, short enough for a person to wait."""
RENEW_EVERY: Final = 5.0
"""Seconds: a third of the TTL, so two renewals in a row may be lost."""
MARGIN: Final = 3.0
"""Seconds before the end of the lease at which an unproved controller pauses."""
STALL_LIMIT: Final = 120.0
"""Seconds an event loop may stand still before its node gives up its runs: longer than any honest blocking call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasePolicy:
    """How long a node's lease lasts and how it is kept; all in seconds."""

    ttl: float = TTL
    renew_every: float = RENEW_EVERY
    margin: float = MARGIN
    stall_limit: float = STALL_LIMIT

    def __post_init__(self) -> None:
        """Refuse a policy that cannot work, with a sentence that says what to change (B23)."""
        check(self)
        if self.ttl <= 0 or self.renew_every <= 0 or self.margin < 0:
            raise SettingsError("lease_ttl and renew_every must be above 0, and lease_margin at least 0 seconds.")
        if self.ttl < 3 * self.renew_every:
            raise SettingsError(
                f"lease_ttl is {self.ttl:g} s but must hold three renewals: "
                f"set it to at least {3 * self.renew_every:g}, or renew_every to at most {self.ttl / 3:g}."
            )
        if self.ttl - self.margin <= self.renew_every:
            raise SettingsError(
                f"lease_margin is {self.margin:g} s and leaves no room for one renewal: "
                f"set it below {self.ttl - self.renew_every:g}."
            )
        if self.stall_limit < self.ttl:
            raise SettingsError(
                f"stall_limit is {self.stall_limit:g} s, less than the lease it would give up: "
                f"set it to at least lease_ttl ({self.ttl:g})."
            )


def is_live(until: float | None, *, now: float) -> bool:
    """Say whether a lease that ends at `until` is live; both by the store's clock. `None`: there is no lease."""
    return until is not None and now < until


def pause_at(proved_at: float, policy: LeasePolicy) -> float:
    """Return when a controller must pause if nothing proves its ownership again.

    `proved_at` is when the newest *accepted* fenced write (a renewal or an append) was **sent**: its answer
    says that the lease ran from then, not from when the answer came. Source: H9.
    """
    return proved_at + policy.ttl - policy.margin


def is_stalled(beat_at: float, policy: LeasePolicy, *, now: float) -> bool:
    """Say whether the event loop last seen alive at `beat_at` has stood still past the stall limit (H16)."""
    return now - beat_at > policy.stall_limit
