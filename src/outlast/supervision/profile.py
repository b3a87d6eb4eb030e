"""How patient a link is: three sets of numbers, each with its reason."""

from dataclasses import dataclass
from typing import Final

HEARTBEAT: Final = 10.0
"""Seconds between two heartbeats of a server, where it does not tell."""
SHORTEST_HEARTBEAT: Final = 0.1
"""Seconds between heartbeats that are believed: below it every silence would be asked about."""
LONGEST_HEARTBEAT: Final = 120.0
"""Seconds between heartbeats that are believed: beyond it a dead link would never be noticed."""
SILENT_BEATS: Final = 2.0
"""Heartbeats of silence before a link is asked: one may be lost or late."""
ESTABLISHMENT: Final = 15.0
"""Seconds for credentials, name, connection and the first word together."""
STABLE: Final = 30.0
"""Seconds a link lives before its end is no longer the attempt's failure."""
DOUBT_AFTER: Final = 5.0
"""Seconds a request may be open before the service is doubted: a healthy one answers within one."""
DEADLOCK_AFTER: Final = 5.0
"""Seconds of doubt after which a link that still speaks is proof enough: the server lives, and does not answer."""
REPLACING_EVERY: Final = 2.0
"""Seconds between replacements for a changed path: an interface that comes up reports itself several times."""
LATE: Final = 1.0
"""Seconds by which a deadline must have been missed to be this client's own stall."""
GRACE: Final = 0.25
"""Seconds in which, after a stall of our own, what has arrived meanwhile is read before anything is judged."""
YOUNG_DEATHS: Final = 3
"""Links of one transport that may die young in a row before the next transport is tried: two may be chance."""
LOOKING: Final = 5.0
"""Seconds that looking for evidence may take; what there is speaks until the next look has had them."""
LONGEST_ADVICE: Final = 300.0
"""Seconds a server may keep us away: more is a mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The patience of a link; all numbers are seconds.

    `probe` is what an answer may take, and after a short sleep `short_probe`. After a miss either the link is asked
    once more, `pause` later and for as long again, or evidence is looked for during `triage`. `busy_budget` is how
    long evidence may speak for a server. `ladder` are the waits after failures, drawn from 0 to the rung where
    `jittered`; with `prompt` the first attempt after a lost link is immediate. `absence` replaces without a probe.
    With `needs_progress` only a link that delivered an event counts as stable. Source: behaviours K, P.
    """

    name: str
    heartbeat: float = HEARTBEAT
    establishment: float = ESTABLISHMENT
    probe: float
    short_probe: float
    pause: float | None = None
    triage: float | None = None
    busy_budget: float = 120.0
    renew_evidence: float = 10.0
    absence: float
    ladder: tuple[float, ...]
    jittered: bool = False
    prompt: bool = False
    stable: float = STABLE
    needs_progress: bool = False

    @property
    def evidence_lasts(self) -> float:
        """Seconds for which evidence speaks: until it has been looked for again."""
        return self.renew_evidence + LOOKING


STANDARD: Final = Profile(
    name="standard",
    probe=5.0,  # a healthy server answers within one second on every line that carries a chat
    short_probe=3.0,
    triage=5.0,
    absence=30.0,
    ladder=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0),
    jittered=True,
    prompt=True,
    needs_progress=True,
)
"""For programs and services: fast to notice, jittered, and slow to tear down what evidence speaks for."""

DESKTOP: Final = Profile(
    name="desktop",
    probe=15.0,
    short_probe=15.0,
    pause=5.0,
    absence=30.0,
    ladder=(3.0, 4.0, 8.0, 16.0),
)
"""For an application with a window on this machine or near it: long patience, two misses replace."""

MOBILE: Final = Profile(
    name="mobile",
    probe=3.0,
    short_probe=3.0,
    absence=10.0,
    ladder=(3.0, 4.0, 8.0, 16.0),
)
"""For a device that sleeps and wanders: a link that was out of sight is presumed dead."""

PROFILES: Final = {profile.name: profile for profile in (STANDARD, DESKTOP, MOBILE)}
"""Every profile by its name."""
