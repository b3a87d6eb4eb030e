"""Row *machine*: how many steps a second the client's machine makes, on the course of a link that is used."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import process_time

from bench.measure import Goal, Kind, Quantity, Row, Sample, check
from outlast.supervision.inputs import (
    Answered,
    Asked,
    Drained,
    Heard,
    Input,
    ProbeAnswered,
    Ready,
    Tick,
    Want,
    Witnessed,
    Woken,
)
from outlast.supervision.link import Link
from outlast.supervision.phase import Grade, Wakeup
from outlast.supervision.step import step

STEPS = "steps a second"
TOLD = "steps a second, each with its deadline"
HALF = 0.5
"""The chance that every wait is drawn with."""
PACE = 0.02
"""Seconds between two events of a run: as fast as models speak."""
CHAPTER = 200
"""Events between two things that do not happen often."""


@dataclass(slots=True)
class Course:
    """What happened to one link, in its order, and what became of it."""

    link: Link = field(default_factory=Link)
    now: float = 0.0
    told: list[tuple[Input, float]] = field(default_factory=list[tuple[Input, float]])

    def tell(self, input: Input, after: float = 0.0) -> None:
        """Let something happen."""
        self.now += after
        self.told.append((input, self.now))
        self.link, _ = step(self.link, input, now=self.now, jitter=HALF)

    def wait(self) -> None:
        """Let time go on to what comes next."""
        deadline = self.link.deadline
        assert deadline is not None, "a link that is wanted goes on by itself"
        self.tell(Tick(), max(deadline - self.now, 0.0))

    @property
    def id(self) -> int:
        """The number of the link, or of the attempt that becomes it."""
        return self.link.attempts


def travel(steps: int) -> Course:
    """Return a course of at least so many steps: events mostly, and now and then what a day brings."""
    course = Course()
    course.tell(Want())
    course.tell(Ready(attempt=course.id, heartbeat=10.0), 0.1)
    chapter = 0
    while len(course.told) < steps:
        speak(course, chapter)
        NEWS[chapter % len(NEWS)](course)
        chapter += 1
    return course


def speak(course: Course, chapter: int) -> None:
    """Let a run speak, with a heartbeat and a request of the application's now and then."""
    for number in range(CHAPTER):
        course.tell(Heard(link=course.id, progress=number % 20 != 0), PACE)
        if number % 10 == 0:
            request = chapter * CHAPTER + number
            course.tell(Asked(link=course.id, request=request), PACE / 4)
            course.tell(Answered(link=course.id, request=request), PACE / 4)


def look(course: Course) -> None:
    """Let somebody look again: the link is asked, and answers."""
    course.tell(Woken(wakeup=Wakeup.VISIBLE, seconds=5.0), PACE)
    assert course.link.current is not None, "it is only asked"
    course.tell(ProbeAnswered(link=course.id, probe=course.link.current.probes), PACE)


def hang(course: Course) -> None:
    """Let the server be busy for a while: silent, asked, spoken for."""
    course.wait()
    course.wait()
    for _ in range(3):
        course.tell(Witnessed(link=course.id, grade=Grade.BEACON), PACE)
        course.wait()
    course.tell(Heard(link=course.id), PACE)


def deploy(course: Course) -> None:
    """Let the server send its clients elsewhere, and the next link be made while this one speaks."""
    course.tell(Drained(link=course.id, spread=1.0), PACE)
    course.tell(Heard(link=course.id), PACE)
    course.wait()
    course.tell(Ready(attempt=course.id, heartbeat=10.0), PACE)


NEWS: tuple[Callable[[Course], None], ...] = (look, look, look, hang, look, look, look, deploy)


def replay(course: Course, *, told: bool) -> float:
    """Return the steps a second of CPU time of a course that is gone through again; `told` reads the deadline too."""
    link = Link()
    began = process_time()
    for input, now in course.told:
        link, _ = step(link, input, now=now, jitter=HALF)
        if told:
            link.deadline  # noqa: B018 - a shell reads it after each step
    took = process_time() - began
    check(course.link, link, "what became of the link")
    return len(course.told) / took


def row(share: float) -> Row:
    """Ask about steps alone, and as a shell makes them."""
    course = travel(max(2000, int(200_000 * share)))

    def ours() -> Sample:
        return {STEPS: replay(course, told=False), TOLD: replay(course, told=True)}

    return Row(
        question=f"The client's machine goes through {len(course.told):,} steps of one link.",
        quantities={name: Quantity(unit="/s", kind=Kind.RATE) for name in (STEPS, TOLD)},
        ours=ours,
        goals=[Goal(quantity=STEPS, bound=100_000.0), Goal(quantity=TOLD)],
    )
