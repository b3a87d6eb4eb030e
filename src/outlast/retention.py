"""How long an ended run stays readable, and how long afterwards its id is still known to be gone.

Rules:
1. A run that has not ended is never deleted, whatever its age: its limits are `log.limits`' business.
2. An ended run stays whole, from its first event, for `finished` seconds; then it and its log are deleted at once.
3. What stays is a tombstone, for `gone` seconds: whoever asks is told that the run was there, and a start that is
   repeated late does not do the work again.
"""

from dataclasses import dataclass
from typing import Final

from outlast.errors import SettingsError
from outlast.log.limits import DAY
from outlast.number import check

FINISHED: Final = 7 * DAY
"""A week: who was away over a weekend still finds what was said."""
GONE: Final = 30 * DAY
"""A month: longer than any client goes on repeating a start."""
SHORTEST: Final = 60.0
"""Seconds: a reader that lost its connection at the end, and a start whose answer was lost, come back within them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Seconds an ended run is kept, and seconds its tombstone is kept after that; `inf` is for ever."""

    finished: float = FINISHED
    gone: float = GONE

    def __post_init__(self) -> None:
        """Refuse a retention under which a reader or a repeated start would come too late (B23)."""
        check(self, endless=True)
        for name, seconds in (("finished", self.finished), ("gone", self.gone)):
            if seconds < SHORTEST:
                raise SettingsError(
                    f"Retention.{name} is {seconds:g} s, and readers and repeated starts need at least "
                    f"{SHORTEST:g}: raise it, or erase single runs."
                )
