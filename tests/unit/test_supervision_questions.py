"""Probes and what their answers mean, requests without an answer, and evidence."""

import pytest

from outlast.supervision.commands import Gather, Open, Probe, Release
from outlast.supervision.inputs import (
    Abandoned,
    Answered,
    Asked,
    Denied,
    Failed,
    ProbeAnswered,
    ProbeFailed,
    Ready,
    Witnessed,
)
from outlast.supervision.phase import Grade, Phase, Trouble, Wakeup
from outlast.supervision.profile import DESKTOP, MOBILE
from outlast.supervision.questions import MOST_ASKED
from tests.machine import live


@pytest.mark.behaviour("P2")
def test_desktop_asks_twice_and_replaces_after_thirty_five_seconds() -> None:
    machine = live(DESKTOP)
    assert machine.wake(Wakeup.VISIBLE) == [Probe(link=1, probe=1)]
    assert machine.wait(14.999) == []
    assert machine.wait(15.0) == [Gather(link=1)]
    assert machine.wait(19.999) == []
    assert machine.wait(20.0) == [Probe(link=1, probe=2)]
    assert machine.wait(34.999) == []
    assert machine.wait(35.0) == [Open(attempt=2)]


@pytest.mark.behaviour("P5")
def test_mobile_asks_once() -> None:
    machine = live(MOBILE)
    machine.wake(Wakeup.VISIBLE)
    assert machine.wait(2.999) == []
    assert machine.wait(3.0) == [Open(attempt=2)]


@pytest.mark.behaviour("P16")
def test_standard_looks_for_evidence_and_leaves_a_silent_link_after_thirty_seconds() -> None:
    machine = live()
    assert machine.wait(20.0) == [Probe(link=1, probe=1)]
    assert machine.wait(25.0) == [Gather(link=1)]
    assert machine.wait(29.999) == []
    assert machine.wait(30.0) == [Open(attempt=2)]


@pytest.mark.behaviour("P8")
def test_a_second_look_neither_restarts_nor_stacks_the_probe() -> None:
    machine = live()
    machine.wake(Wakeup.VISIBLE, 1.0)
    assert machine.wake(Wakeup.VISIBLE, 4.0) == []
    assert machine.link.deadline == 6.0


def test_anything_that_comes_in_clears_the_links_suspicion() -> None:
    machine = live()
    machine.wait(20.0)
    machine.hear(21.0)
    assert machine.phase is Phase.LIVE


@pytest.mark.behaviour("P13")
def test_the_probe_that_was_not_answered_stays_an_open_question_until_it_is() -> None:
    machine = live()
    machine.wait(20.0)
    machine.hear(21.0)
    assert machine.wait(25.0) == [Gather(link=1)]
    assert machine.phase is Phase.SLOW
    machine.tell(ProbeAnswered(link=1, probe=1), 26.0)
    assert machine.phase is Phase.LIVE


@pytest.mark.behaviour("P13")
@pytest.mark.parametrize("is_answered", [True, False], ids=["answer", "progress"])
def test_a_service_that_does_not_answer_is_busy_until_it_answers_or_moves(is_answered: bool) -> None:
    machine = live()
    machine.tell(Asked(link=1, request=1), 1.0)
    machine.hear(9.0)
    machine.wait(10.999)
    assert machine.phase is Phase.SLOW
    machine.wait(11.0)
    assert machine.phase is Phase.BUSY
    machine.hear(19.0)
    assert machine.phase is Phase.BUSY
    if is_answered:
        machine.tell(Answered(link=1, request=1))
    else:
        machine.hear(progress=True)
    assert machine.phase is Phase.LIVE


def test_a_question_that_nobody_waits_for_any_more_is_still_open() -> None:
    machine = live()
    machine.tell(Asked(link=1, request=1), 1.0)
    machine.tell(Abandoned(link=1, request=1), 2.0)
    machine.tell(Abandoned(link=1, request=9), 2.0)
    machine.wait(6.0)
    assert machine.phase is Phase.SLOW
    machine.tell(Answered(link=1, request=9))
    assert machine.phase is Phase.LIVE


def test_an_answer_leaves_a_younger_question_open_without_doubt() -> None:
    machine = live()
    machine.tell(Asked(link=1, request=1), 1.0)
    machine.tell(Asked(link=1, request=2), 5.0)
    machine.wait(6.0)
    machine.tell(Answered(link=1, request=1), 7.0)
    assert (machine.phase, machine.current.service.since) == (Phase.LIVE, 5.0)
    machine.wait(10.0)
    assert machine.phase is Phase.SLOW


def test_open_questions_are_remembered_up_to_a_bound() -> None:
    machine = live()
    for request in range(100):
        machine.tell(Asked(link=1, request=request))
    assert len(machine.current.service.asked) == MOST_ASKED


@pytest.mark.behaviour("P4")
def test_a_definite_failure_replaces_at_once() -> None:
    machine = live()
    machine.wake(Wakeup.VISIBLE, 1.0)
    failed = ProbeFailed(link=1, probe=1, trouble=Trouble.BROKEN)
    assert machine.tell(failed, 2.0) == [Release(attempt=1), Open(attempt=2)]
    assert machine.link.attempt == 1


def test_a_definite_failure_of_a_link_that_is_being_replaced_ends_it_alone() -> None:
    machine = live()
    machine.wake(Wakeup.USER)
    assert machine.tell(ProbeFailed(link=1, probe=1, trouble=Trouble.BROKEN)) == [Release(attempt=1)]
    assert machine.phase is Phase.CONNECTING


@pytest.mark.behaviour("P14")
def test_evidence_keeps_a_silent_link_as_long_as_it_lasts_and_its_budget_ends_it() -> None:
    machine = live()
    machine.wait(26.0)
    for moment in range(26, 146, 10):
        machine.wait(float(moment))
        machine.tell(Witnessed(link=1, grade=Grade.KERNEL))
        assert machine.phase is Phase.BUSY
    assert machine.wait(145.999) == [Gather(link=1)]
    assert machine.wait(146.0)[:1] == [Open(attempt=2)]
    assert (machine.phase, machine.link.can_send) == (Phase.SWITCHING, True)
    machine.tell(Ready(attempt=2))
    assert machine.phase is Phase.LIVE


@pytest.mark.behaviour("R7")
@pytest.mark.parametrize("grade", [None, *Grade], ids=str)
def test_what_speaks_against_a_silent_server_outweighs_all_that_spoke_for_it(grade: Grade | None) -> None:
    machine = live()
    machine.wait(25.0)
    if grade is not None:
        machine.tell(Witnessed(link=1, grade=grade))
    assert machine.tell(Denied(link=1)) == [Open(attempt=2)]
    assert (machine.phase, machine.link.can_send) == (Phase.SWITCHING, True)
    assert (machine.current.witness, machine.current.busy_since, machine.current.gathered_at) == (None, None, None)
    assert machine.tell(Failed(attempt=2, trouble=Trouble.UNREACHABLE)) == [Release(attempt=1)]


@pytest.mark.behaviour("R7")
def test_nothing_is_believed_against_a_server_that_was_not_asked_or_still_has_time_to_answer() -> None:
    machine = live()
    machine.tell(Asked(link=1, request=1), 10.0)
    machine.wait(15.0)
    assert machine.phase is Phase.SLOW
    assert machine.tell(Denied(link=1)) == []
    assert machine.wait(20.0) == [Probe(link=1, probe=1)]
    assert machine.tell(Denied(link=1), 24.999) == []
    assert machine.phase is Phase.SLOW


@pytest.mark.behaviour("P14")
def test_evidence_that_is_not_renewed_ends() -> None:
    machine = live()
    machine.wait(25.0)
    machine.tell(Witnessed(link=1, grade=Grade.BEACON))
    assert machine.wait(39.999) == [Gather(link=1)]
    assert machine.wait(40.0) == [Open(attempt=2)]


def test_a_weaker_witness_does_not_take_a_fresh_stronger_ones_place() -> None:
    machine = live()
    machine.wait(25.0)
    machine.tell(Witnessed(link=1, grade=Grade.BEACON))
    machine.tell(Witnessed(link=1, grade=Grade.KERNEL), 26.0)
    assert machine.current.witness is not None
    assert (machine.current.witness.grade, machine.current.witness.at) == (Grade.BEACON, 25.0)


def test_nothing_needs_to_speak_for_a_server_that_is_not_late() -> None:
    machine = live()
    machine.tell(Witnessed(link=1, grade=Grade.BEACON), 1.0)
    assert (machine.phase, machine.current.witness) == (Phase.LIVE, None)
