"""Tries the client's machine on courses that chance draws, and checks after each step what must always be so.

Rules:
1. A course is a function of its seed, and a failure names the seed and the step.
2. Time goes on to the deadline mostly, sometimes less far, sometimes much too far, and sometimes not at all.
3. Inputs are drawn for the phase, so that courses get somewhere; a few are about what is over already.
"""

import random
from collections import Counter
from dataclasses import dataclass, field

from outlast.supervision import inputs
from outlast.supervision.commands import Adopt, Command, Open, Release
from outlast.supervision.inputs import Input, Tick, Woken
from outlast.supervision.link import Link, Stage, current_of
from outlast.supervision.phase import SENDING, WAKES, Grade, Phase, Trouble, Wakeup
from outlast.supervision.profile import PROFILES, STANDARD
from outlast.supervision.record import record
from outlast.supervision.step import step
from outlast.supervision.table import TRANSITIONS

COURSE = 500
"""Steps of one course: enough to be busy for as long as a budget lasts, and to be lost many times."""
AFTERLIFE = 5
"""Steps after a link was closed: nothing comes of them."""
SHOWN_EVERY = 16
"""Steps between two looks at what is shown: it is a function of the link, and making it costs as much as a step."""
MOST_AT_ONCE = 12
"""Times in a row that time has something to do at one moment: each thing that may come due, and a grace."""
MOST_OPENED = 3
"""Attempts in a row without any time between: a prompt one, one that somebody looked during, and one beside them."""
ENDINGS = (inputs.Failed, inputs.Lost)
TROUBLES = (*(each for each in Trouble if each not in WAKES), *Trouble)
WAKEUPS, GRADES = tuple(Wakeup), tuple(Grade)
SECONDS = (0.0, 0.001, 3.0, 9.999, 29.999, 30.0, 3600.0)
ADVICE = (0.0, 0.0, 0.0, 0.5, 10.0, 60.0, 301.0, -1.0, float("nan"), float("inf"))


@dataclass(slots=True)
class Course:
    """One link's life; `passed` counts the transitions that were seen."""

    seed: int
    passed: Counter[tuple[Phase, Phase]] = field(default_factory=Counter)
    link: Link = field(init=False)
    chance: random.Random = field(init=False)
    now: float = 0.0
    held: set[int] = field(default_factory=set)
    told: int = 0
    opened: int = 0
    spent: int = 0
    steps: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        profile = self.chance.choice([STANDARD, *PROFILES.values()])
        local, account, many = (self.chance.random() < share for share in (0.1, 0.3, 0.5))
        self.link = Link(profile=profile, is_local=local, account_bound=account, transports=1 + many)

    def run(self, steps: int = COURSE) -> None:
        """Go on for so many steps; fails where something is not as it must always be."""
        for number in range(steps):
            before = self.link
            if self.spent == AFTERLIFE:
                return
            self.spent += before.phase is Phase.CLOSED
            self.steps += 1
            moment, input = self.draw()
            if moment > self.now:
                self.told = self.opened = 0
            self.now = moment
            self.link, commands = step(before, input, now=moment, jitter=self.chance.random())
            try:
                self.check(before, input, commands)
            except AssertionError as wrong:
                wrong.add_note(f"seed {self.seed}, step {number}, at {moment}: {input} in {before.phase}\n{before}")
                raise

    # ---- what is drawn ------------------------------------------------------------------------------

    def draw(self) -> tuple[float, Input]:
        """Return what happens next, and when."""
        chance, deadline = self.chance, self.link.deadline
        pick = chance.random()
        if deadline is not None and pick < 0.35:
            late = chance.random()
            return max(self.now, deadline) + (0.0 if late < 0.9 else 5.0 * late), Tick()
        ahead = 5.0 if deadline is None else max(0.0, deadline - self.now)
        moment = self.now if pick < 0.45 else self.now + ahead * chance.random()
        return moment, self.something()

    def something(self) -> Input:
        """Return an input that may come in this phase."""
        link, chance = self.link, self.chance
        pick = chance.random()
        if pick < 0.08:
            return Woken(wakeup=chance.choice(WAKEUPS), seconds=chance.choice(SECONDS))
        if pick < 0.13:
            return inputs.WentOffline() if link.online else Woken(wakeup=Wakeup.ONLINE)
        if pick < 0.132:
            return inputs.Close()  # seldom: a course ends with it
        if link.candidate is not None and pick < 0.5:
            return self.outcome(link.candidate.id)
        if link.current is not None:
            return self.word(link.current.id)
        if link.phase is Phase.IDLE:
            return inputs.Want()
        return self.outcome(chance.randint(0, link.attempts)) if pick < 0.8 else self.word(link.attempts)

    def outcome(self, attempt: int) -> Input:
        """Return what may become of an attempt."""
        pick = self.chance.random()
        if pick < 0.5:
            return inputs.Ready(attempt=attempt, heartbeat=self.chance.choice((None, 3.0, 10.0, 1e9)))
        trouble = self.chance.choice(TROUBLES)
        return inputs.Failed(attempt=attempt, trouble=trouble, pause=self.chance.choice(ADVICE))

    def word(self, current: int) -> Input:
        """Return what may be said over a link, or about it; some of it by the link before."""
        chance = self.chance
        link = current if chance.random() < 0.95 else current - 1
        pick, number = chance.random(), chance.randint(1, 3)
        if pick < 0.35:
            return inputs.Heard(link=link, progress=pick < 0.05)
        if pick < 0.45:
            return inputs.Asked(link=link, request=number)
        if pick < 0.5:
            return inputs.Answered(link=link, request=number)
        if pick < 0.53:
            return inputs.Abandoned(link=link, request=number)
        if pick < 0.58:
            return inputs.ProbeAnswered(link=link, probe=number)
        if pick < 0.84:
            return inputs.Witnessed(link=link, grade=chance.choice(GRADES))
        if pick < 0.86:
            return inputs.Denied(link=link)
        if pick < 0.9:
            return inputs.Drained(link=link, spread=chance.choice(ADVICE))
        trouble = chance.choice(TROUBLES)
        if pick < 0.95:
            return inputs.Lost(link=link, trouble=trouble, pause=chance.choice(ADVICE))
        return inputs.ProbeFailed(link=link, probe=number, trouble=trouble)

    # ---- what must always be so -----------------------------------------------------------------------

    def check(self, before: Link, input: Input, commands: tuple[Command, ...]) -> None:
        """Check a step."""
        after = self.link
        if after is before:
            assert not commands, "what changes nothing asks for nothing"
        if is_past(before, input):
            assert after is before, "the past changes nothing"
        elif isinstance(input, ENDINGS):
            self.held.discard(input.attempt if isinstance(input, inputs.Failed) else input.link)
        self.count(before, input, commands)
        self.follow(before, input, commands)
        check_time(after, self.now)
        if isinstance(input, Tick):
            self.told += 1
            assert self.told <= MOST_AT_ONCE, "time spins"
            assert after is not before or (before.deadline or 0.0) > self.now, "time that has come does something"
            check_suspicion(before, commands, self.now)
        if isinstance(input, inputs.Failed) and is_sound(before, self.now) and input.trouble is not Trouble.REVOKED:
            assert not commands, "a failed candidate leaves a living link alone"

    def count(self, before: Link, input: Input, commands: tuple[Command, ...]) -> None:
        """Check that what is held is what the commands say, and that numbers rise."""
        after, generation, attempts = self.link, before.generation, before.attempts
        for command in commands:
            match command:
                case Open(attempt=attempt):
                    attempts += 1
                    self.opened += 1
                    assert attempt == attempts, "attempts are numbered in their order"
                    assert after.is_reachable, "nothing is opened without a network"
                    assert after.ladder.floor <= self.now, "nothing is opened before the time that was asked for"
                    self.held.add(attempt)
                case Release(attempt=attempt):
                    assert attempt in self.held, "what is let go was held"
                    self.held.remove(attempt)
                case Adopt(attempt=attempt):
                    generation += 1
                    assert isinstance(input, inputs.Ready), "only what is ready is adopted"
                    assert input.attempt == attempt, "and it is what is ready"
                case _:
                    pass
        assert (after.generation, after.attempts) == (generation, attempts), "each is counted once"
        assert self.held == {each.id for each in (after.candidate, after.current) if each is not None}, "none leaks"
        if isinstance(input, Woken | inputs.Want | inputs.Drained):
            self.opened = 0  # a person or a machine that wakes may do so as often as it likes
        assert self.opened <= MOST_OPENED, "attempts spin"

    def follow(self, before: Link, input: Input, commands: tuple[Command, ...]) -> None:
        """Check that the phase follows from the one before, and what it promises."""
        was, phase = before.phase, self.link.phase
        if phase is not was:
            self.passed[was, phase] += 1
            assert phase in TRANSITIONS[was], f"{was} is not followed by {phase}"
        assert self.link.since == (before.since if phase is was else self.now), "a phase has its beginning"
        if was is Phase.CLOSED:
            assert self.link is before, "what is closed stays closed"
        if was is Phase.BLOCKED and commands:
            assert isinstance(input, Woken | inputs.Close), "a block is ended by a wakeup"
            if isinstance(input, Woken):
                reason = before.block or Trouble.BUSY
                assert input.wakeup in {Wakeup.USER, *WAKES.get(reason, ())}, "and by one that its reason lists"
        if self.steps % SHOWN_EVERY:
            return
        shown = record(self.link)
        assert (shown.phase, shown.can_send) == (phase, phase in SENDING), "what is shown is the machine"
        assert (shown.evidence is not None) == (phase is Phase.BUSY) or phase is Phase.SWITCHING, "busy has evidence"


def is_past(link: Link, input: Input) -> bool:
    """Tell whether an input is about an attempt or a link that is not there."""
    attempt, current = getattr(input, "attempt", None), getattr(input, "link", None)
    if attempt is not None:
        return link.candidate is None or link.candidate.id != attempt
    return current is not None and (link.current is None or link.current.id != current)


def is_sound(link: Link, now: float) -> bool:
    """Tell whether there is a link that speaks, and no reason to replace it."""
    current = link.current
    if current is None or link.must_move or now >= current.silent_at:
        return False
    return current.suspicion is None and not current.service.doubted


def check_time(link: Link, now: float) -> None:
    """Check that whatever is wanted goes on by itself, and that what is over time is told of."""
    deadline = link.deadline
    if link.phase not in {Phase.IDLE, Phase.OFFLINE, Phase.BLOCKED, Phase.CLOSED}:
        assert deadline is not None, "what is wanted goes on by itself"
    if link.phase is Phase.BUSY:
        current = current_of(link)
        assert current.busy_since is not None, "its budget runs"
        over = min(current.evidence_until(link.profile), current.busy_since + link.profile.busy_budget)
        over = max(over, link.grace or 0.0)
        assert now < over or (deadline is not None and deadline <= now), "busy has an end"


def check_suspicion(before: Link, commands: tuple[Command, ...], now: float) -> None:
    """Check that a link is replaced on suspicion only after what its profile asks for."""
    current = before.current
    if current is None or before.is_replacing or current.suspicion is None or before.path_changed:
        return
    if not any(isinstance(command, Open) for command in commands):
        return
    profile, is_over = before.profile, current.busy_since is not None and now >= current.busy_since + 120.0
    once = profile.pause is None and profile.triage is None
    assert is_over or once or current.suspicion.stage in {Stage.SECOND, Stage.TRIAGE, Stage.DOOMED}, "two misses"


def courses(seed: int, steps: int) -> Counter[tuple[Phase, Phase]]:
    """Try courses from a seed on until so many steps were made; return the transitions that were seen."""
    passed: Counter[tuple[Phase, Phase]] = Counter()
    while steps > 0:
        course = Course(seed, passed)
        course.run()
        steps -= course.steps
        seed += 1
    return passed
