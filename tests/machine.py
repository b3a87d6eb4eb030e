"""Drives the client's machine by hand: inputs at their times go in, time is told, what is held is counted."""

from dataclasses import dataclass, field
from typing import Any

from outlast.supervision.commands import Command, Open, Release
from outlast.supervision.inputs import Heard, Input, Lost, Ready, Tick, Want, Woken
from outlast.supervision.link import Current, Link
from outlast.supervision.phase import Phase, Trouble, Wakeup
from outlast.supervision.profile import STANDARD, Profile
from outlast.supervision.step import step
from outlast.supervision.table import TRANSITIONS

MOST_TICKS = 100
"""Times that time may be told of at one moment: more is a machine that spins."""


@dataclass(slots=True, kw_only=True)
class Machine:
    """One link, the time it was last told of anything, and the chance that every wait is drawn with."""

    link: Link
    now: float = 0.0
    jitter: float = 0.5
    held: set[int] = field(default_factory=set)

    def tell(self, input: Input, at: float | None = None) -> list[Command]:
        """Let something happen, at a time or now; return what is to be done about it."""
        assert at is None or at >= self.now, "time goes on"
        self.now = self.now if at is None else at
        before = self.link.phase
        self.link, commands = step(self.link, input, now=self.now, jitter=self.jitter)
        assert self.phase is before or self.phase in TRANSITIONS[before], f"{before} is not followed by {self.phase}"
        for command in commands:
            match command:
                case Open(attempt=attempt):
                    self.held.add(attempt)
                case Release(attempt=attempt):
                    self.held.remove(attempt)
                case _:
                    pass
        return list(commands)

    def wait(self, until: float) -> list[Command]:
        """Tell of time whenever it has come, up to `until`, that moment included."""
        done: list[Command] = []
        ticks = 0
        while (deadline := self.link.deadline) is not None and deadline <= until:
            ticks = 0 if deadline > self.now else ticks + 1
            assert ticks < MOST_TICKS, "the machine spins"
            done += self.tell(Tick(), max(deadline, self.now))
        self.now = max(self.now, until)
        return done

    def wake(self, wakeup: Wakeup, at: float | None = None, *, seconds: float = 0.0) -> list[Command]:
        """Let there be a reason to look."""
        return self.tell(Woken(wakeup=wakeup, seconds=seconds), at)

    def hear(self, at: float | None = None, *, progress: bool = False) -> list[Command]:
        """Let something come in over the link."""
        return self.tell(Heard(link=self.current.id, progress=progress), at)

    def lose(self, trouble: Trouble = Trouble.BROKEN, at: float | None = None) -> list[Command]:
        """Let the link end."""
        return self.tell(Lost(link=self.current.id, trouble=trouble), at)

    @property
    def phase(self) -> Phase:
        return self.link.phase

    @property
    def current(self) -> Current:
        """The link that there is."""
        assert self.link.current is not None, "there is a link"
        return self.link.current


def connecting(profile: Profile = STANDARD, **members: Any) -> Machine:
    """Return a machine whose first attempt is in flight since 0."""
    machine = Machine(link=Link(profile=profile, **members))
    machine.tell(Want())
    return machine


def live(profile: Profile = STANDARD, **members: Any) -> Machine:
    """Return a machine whose link was established at 0."""
    machine = connecting(profile, **members)
    machine.tell(Ready(attempt=machine.link.attempts))
    return machine
