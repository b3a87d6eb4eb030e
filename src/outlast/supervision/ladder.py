"""How long to stay away after failures: rungs, spread over a herd, never earlier than the server asked."""

import math
from dataclasses import dataclass

from outlast.supervision.change import changed
from outlast.supervision.profile import LONGEST_ADVICE, Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Where a link stands on its ladder.

    `failures` counts from 0 since the last reset; `spread` is the server's advice over how many seconds its clients
    come back, `spread_until` when these are over: who has failed before leaves them to those whose first turn comes.
    `floor` is the time before which the server wants to see nobody. Source: K5, K16, K17.
    """

    failures: int = 0
    spread: float = 0.0
    spread_until: float = 0.0
    floor: float = 0.0

    def after(self, pause: float, *, now: float) -> "Ladder":
        """Return where one stands after one more failure; the server wants to be left alone for `pause` seconds."""
        asked = advice(pause)
        return changed(self, failures=self.failures + 1, floor=now + asked if asked else self.floor)

    def wait(self, profile: Profile, *, now: float, jitter: float) -> float:
        """Return the seconds to the next attempt; `jitter` in [0, 1) picks where in its span that falls."""
        rung = profile.ladder[min(max(self.failures, 1), len(profile.ladder)) - 1]
        asked = min(self.spread * 2.0 ** min(self.failures, 16), LONGEST_ADVICE)
        away = max(self.floor - now, self.spread_until - now, 0.0)
        drawn = away + jitter * max(asked, rung) if profile.jittered or asked else away
        return drawn if profile.jittered else max(drawn, rung)


def advice(seconds: float) -> float:
    """Return what is believed of a server's advice: nothing of what makes no sense, and five minutes at most."""
    return max(0.0, float(min(seconds, LONGEST_ADVICE))) if seconds < math.inf else 0.0
