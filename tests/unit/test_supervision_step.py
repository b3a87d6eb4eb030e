"""One step: what is of the past changes nothing, what has no rule changes nothing, and a phase has its beginning."""

import pytest

from outlast.supervision.inputs import (
    Abandoned,
    Answered,
    Asked,
    Denied,
    Drained,
    Failed,
    Heard,
    Input,
    Lost,
    ProbeAnswered,
    ProbeFailed,
    Ready,
    Witnessed,
)
from outlast.supervision.phase import Grade, Phase, Trouble, Wakeup
from tests.machine import live

PAST: list[Input] = [
    Ready(attempt=1),
    Failed(attempt=1, trouble=Trouble.BROKEN),
    Heard(link=1, progress=True),
    Lost(link=1, trouble=Trouble.BROKEN),
    Drained(link=1, spread=10.0),
    ProbeAnswered(link=1, probe=1),
    ProbeFailed(link=1, probe=1, trouble=Trouble.BROKEN),
    Asked(link=1, request=1),
    Answered(link=1, request=1),
    Abandoned(link=1, request=1),
    Witnessed(link=1, grade=Grade.BEACON),
    Denied(link=1),
]


@pytest.mark.behaviour("P11", "R5")
@pytest.mark.parametrize("input", PAST, ids=lambda input: type(input).__name__)
def test_what_an_older_attempt_or_link_says_changes_nothing(input: Input) -> None:
    machine = live()
    machine.wake(Wakeup.USER, 1.0)
    machine.tell(Ready(attempt=2), 2.0)
    before = machine.link
    assert machine.tell(input, 3.0) == []
    assert machine.link is before


def test_a_phase_has_its_beginning() -> None:
    machine = live()
    machine.hear(1.0)
    assert machine.link.since == 0.0
    machine.wake(Wakeup.USER, 2.0)
    assert (machine.phase, machine.link.since) == (Phase.SWITCHING, 2.0)


def test_what_has_no_rule_in_a_phase_changes_nothing() -> None:
    machine = live()
    before = machine.link
    assert machine.wake(Wakeup.UPDATED, 1.0) == []
    assert machine.link is before
