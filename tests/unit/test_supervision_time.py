"""What has come due is done, one thing at a time, and our own stall is nobody else's fault."""

import pytest

from outlast.supervision.commands import Open, Probe, Release
from outlast.supervision.inputs import Tick
from outlast.supervision.phase import Phase, Trouble
from outlast.supervision.profile import GRACE, LATE
from tests.machine import connecting, live


@pytest.mark.behaviour("K7")
def test_an_attempt_ends_exactly_at_its_deadline_and_is_let_go_once() -> None:
    machine = connecting()
    assert machine.tell(Tick(), 14.999) == []
    assert machine.tell(Tick(), 15.0) == [Release(attempt=1)]
    assert (machine.phase, machine.link.trouble) == (Phase.BACKOFF, Trouble.SILENT)
    assert machine.tell(Tick(), 15.0) == []


def test_time_that_is_told_too_early_changes_nothing() -> None:
    machine = live()
    before = machine.link
    assert machine.tell(Tick(), 19.999) == []
    assert machine.link is before


@pytest.mark.behaviour("P17")
def test_a_deadline_that_is_a_little_late_is_judged() -> None:
    assert live().tell(Tick(), 20.0 + LATE) == [Probe(link=1, probe=1)]


@pytest.mark.behaviour("P17")
def test_after_a_stall_of_our_own_what_has_come_in_meanwhile_is_read_first() -> None:
    machine = live()
    assert machine.tell(Tick(), 60.0) == []
    assert machine.link.deadline == 60.0 + GRACE
    machine.hear(60.1)
    assert machine.wait(79.0) == []
    assert machine.phase is Phase.LIVE


@pytest.mark.behaviour("P17")
def test_what_nothing_came_in_for_is_judged_after_the_grace() -> None:
    machine = live()
    machine.tell(Tick(), 60.0)
    assert machine.wait(60.249) == []
    assert machine.wait(60.25) == [Probe(link=1, probe=1)]


def test_a_wait_ends_with_an_attempt() -> None:
    machine = connecting()
    machine.wait(15.0)
    assert machine.wait(15.25) == [Open(attempt=2)]
