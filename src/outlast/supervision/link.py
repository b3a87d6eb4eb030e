"""The state of the link to one server: what is wanted, what there is, and when time itself is to be told next.

Two suspicions are never merged. The *link's* arises from silence or a probe, and anything that comes in clears it; the
*service's* arises from a request without an answer, and only an answer or progress clears it.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum

from outlast.supervision.ladder import Ladder
from outlast.supervision.phase import SENDING, Grade, Phase, Trouble
from outlast.supervision.profile import (
    DEADLOCK_AFTER,
    DOUBT_AFTER,
    REPLACING_EVERY,
    SILENT_BEATS,
    STANDARD,
    Profile,
)


class Intent(StrEnum):
    """What is wanted of a link."""

    NONE = "none"
    WANTED = "wanted"
    CLOSED = "closed"


class Stage(StrEnum):
    """How far the finding out has come."""

    PROBE = "probe"
    """The probe may still be answered in time."""
    PAUSE = "pause"
    """It was missed; one more follows."""
    SECOND = "second"
    """The second probe may still be answered in time."""
    TRIAGE = "triage"
    """It was missed; something may speak for the server."""
    DOOMED = "doomed"
    """Nothing was asked: the way of the connection is gone, or it was slept through."""


class Due(StrEnum):
    """What time does to a link."""

    ESTABLISHMENT = "establishment"
    RETRY = "retry"
    PATH = "path"
    EVIDENCE = "evidence"
    FADED = "faded"
    STAGE = "stage"
    SILENCE = "silence"
    DOUBT = "doubt"
    DEADLOCK = "deadlock"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Moment:
    """When something happens, and where in its span of chance a wait may fall, in [0, 1)."""

    now: float
    jitter: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """That the link may be dead, since `asked_at`. `until` ends the stage.

    `silent` says that something was late already when it began, not only a wakeup: then people are told at once.
    """

    stage: Stage
    asked_at: float
    until: float
    silent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What was asked of the server: `asked` are open requests and since when they count, the oldest first.

    `since` is when the oldest unanswered question was asked, of those that somebody still waits for and those that
    nobody does any more; `doubted` says that it has been open for too long.
    """

    asked: tuple[tuple[int, float], ...] = ()
    abandoned_at: float | None = None
    doubted: bool = False

    @property
    def is_quiet(self) -> bool:
        """Whether no question is open."""
        return not self.asked and self.abandoned_at is None

    @property
    def since(self) -> float | None:
        """When the oldest question without an answer was asked; None where there is none."""
        moments = [moment for _, moment in self.asked]
        moments += [] if self.abandoned_at is None else [self.abandoned_at]
        return min(moments, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """The newest that speaks for the server, and when it did."""

    grade: Grade
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """An established link; `id` is the attempt that became it. Times are the caller's clock.

    `busy_since` is when something spoke for the server first, since when its budget runs; `witness` what does now.
    """

    id: int
    ready_at: float
    heard_at: float
    heartbeat: float
    progressed: bool = False
    probes: int = 0
    suspicion: Suspicion | None = None
    service: Service = field(default_factory=Service)
    busy_since: float | None = None
    witness: Witness | None = None
    gathered_at: float | None = None

    @property
    def silent_at(self) -> float:
        """When the silence will have lasted too long."""
        return self.heard_at + SILENT_BEATS * self.heartbeat

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is suspected, asked or late."""
        return self.suspicion is None and self.service.is_quiet

    def speaks(self, now: float) -> bool:
        """Say whether the link has spoken within a heartbeat."""
        return now - self.heard_at < self.heartbeat

    @property
    def is_slow(self) -> bool:
        """Whether people are told that something is late."""
        found_late = self.suspicion is not None and (self.suspicion.silent or self.suspicion.stage is not Stage.PROBE)
        return found_late or self.service.doubted

    def deadlock_at(self, since: float) -> float | None:
        """When a link that goes on speaking proves that its server has not answered `since`; None if it is silent."""
        if self.witness is not None or (self.suspicion is not None and self.suspicion.silent):
            return None
        at = since + DOUBT_AFTER + DEADLOCK_AFTER
        return max(at, self.heard_at) if at <= self.heard_at + self.heartbeat else None

    def evidence_until(self, profile: Profile) -> float:
        """When what speaks for the server will do so no longer; where nothing does, that is long past."""
        if self.witness is None:
            return -math.inf
        if self.witness.grade is Grade.FRAMES:
            return self.silent_at + profile.probe  # the probe that asks a silent link may yet be answered
        return self.witness.at + profile.evidence_lasts


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An attempt in flight, until its deadline. `woken`: a reason to look came meanwhile, so its failure waits less."""

    id: int
    until: float
    woken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The link to one server.

    `is_local` says that the network has no part in it; `account_bound` that it stands on credentials;
    `transports` is how many ways to connect there are. `generation`
    rises by one with each established link, `attempts` with each attempt. `must_move` says that a replacement is wanted
    although nothing is wrong with the link. Source: design of the client, behaviours K, P, N1, R1.
    """

    profile: Profile = STANDARD
    is_local: bool = False
    account_bound: bool = False
    transports: int = 1
    intent: Intent = Intent.NONE
    since: float = 0.0
    online: bool = True
    generation: int = 0
    attempts: int = 0
    current: Current | None = None
    candidate: Candidate | None = None
    ladder: Ladder = field(default_factory=Ladder)
    retry_at: float | None = None
    must_move: bool = False
    block: Trouble | None = None
    trouble: Trouble | None = None
    lost_at: float | None = None
    replaced_at: float | None = None
    path_changed: bool = False
    transport: int = 0
    young_deaths: int = 0
    grace: float | None = None

    @property
    def phase(self) -> Phase:
        """How the link is: a function of everything else here. Source: M4."""
        if self.intent is not Intent.WANTED:
            return Phase.CLOSED if self.intent is Intent.CLOSED else Phase.IDLE
        if self.block is not None:
            return Phase.BLOCKED
        if self.current is None:
            return self._phase_without_link
        if self.is_replacing:
            return Phase.SWITCHING
        if self.current.witness is not None:
            return Phase.BUSY
        return Phase.SLOW if self.current.is_slow else Phase.LIVE

    @property
    def _phase_without_link(self) -> Phase:
        if self.candidate is not None:
            return Phase.CONNECTING
        return Phase.BACKOFF if self.is_reachable else Phase.OFFLINE

    @property
    def can_send(self) -> bool:
        """Whether something can be sent."""
        return self.phase in SENDING

    @property
    def is_reachable(self) -> bool:
        """Whether an attempt makes sense, as far as this machine knows its network."""
        return self.online or self.is_local

    @property
    def attempt(self) -> int:
        """The number of the attempt in flight, or of the next one, from 1 since the last reset."""
        return self.ladder.failures + 1

    @property
    def deadline(self) -> float | None:
        """When time is to be told next, on the caller's clock; None when only an input can change anything."""
        dues = self.dues()
        if not dues:
            return None
        first = min(dues)[0]
        return first if self.grace is None else max(first, self.grace)

    @property
    def is_replacing(self) -> bool:
        """Whether another attempt is under way or has its time."""
        return self.candidate is not None or self.retry_at is not None

    def dues(self) -> list[tuple[float, Due]]:
        """Return what time will do, and when, whatever else happens not. What stands first goes first."""
        found: list[tuple[float, Due]] = []
        if self.candidate is not None:
            found.append((self.candidate.until, Due.ESTABLISHMENT))
        if self.retry_at is not None:
            found.append((self.retry_at, Due.RETRY))
        if self.path_changed:
            assert self.replaced_at is not None, "it was replaced for another path just before"
            found.append((self.replaced_at + REPLACING_EVERY, Due.PATH))
        current = self.current
        if current is not None:
            if current.busy_since is not None:
                assert current.gathered_at is not None, "what speaks for a busy server was looked for"
                found.append((current.gathered_at + self.profile.renew_evidence, Due.EVIDENCE))
            if current.witness is not None:
                found.append((current.evidence_until(self.profile), Due.FADED))
            if not self.is_replacing:  # otherwise nothing else can come of a question to the old link
                found += self._dues_of_questions(current)
        return found

    def _dues_of_questions(self, current: Current) -> list[tuple[float, Due]]:
        suspicion, since = current.suspicion, current.service.since
        found = [(current.silent_at, Due.SILENCE) if suspicion is None else (suspicion.until, Due.STAGE)]
        if since is not None:
            if not current.service.doubted:
                found.append((since + DOUBT_AFTER, Due.DOUBT))
            elif (deadlock_at := current.deadlock_at(since)) is not None:
                found.append((deadlock_at, Due.DEADLOCK))
        if current.busy_since is not None:
            found.append((current.busy_since + self.profile.busy_budget, Due.BUDGET))
        return found


def current_of(link: Link) -> Current:
    """Return the connection of a link that has one, as the table knows of each rule that asks."""
    assert link.current is not None, "the table calls this where there is a link"
    return link.current
