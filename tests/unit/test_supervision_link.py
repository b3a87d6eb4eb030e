"""What is read off the state of a link: its phase, when time is to be told, and what is late."""

from dataclasses import replace

from outlast.supervision.inputs import Asked, WentOffline, Witnessed
from outlast.supervision.link import Due, Link, Service
from outlast.supervision.phase import Grade, Phase, Trouble, Wakeup
from outlast.supervision.profile import DESKTOP, STANDARD
from tests.machine import connecting, live


def test_a_link_that_nobody_wants_is_idle_and_waits_for_no_time() -> None:
    link = Link()
    assert (link.phase, link.deadline, link.can_send, link.attempt) == (Phase.IDLE, None, False, 1)


def test_an_attempt_has_its_deadline() -> None:
    link = connecting().link
    assert (link.phase, list(link.dues())) == (Phase.CONNECTING, [(15.0, Due.ESTABLISHMENT)])


def test_a_live_link_is_asked_after_two_of_its_heartbeats() -> None:
    machine = live()
    assert (machine.phase, machine.link.deadline, machine.link.can_send) == (Phase.LIVE, 20.0, True)


def test_without_a_network_there_is_nothing_to_wait_for() -> None:
    machine = connecting()
    machine.tell(WentOffline())
    assert (machine.phase, machine.link.deadline) == (Phase.OFFLINE, None)


def test_a_link_on_this_machine_needs_no_network() -> None:
    machine = connecting(is_local=True)
    machine.tell(WentOffline())
    assert machine.link.is_reachable
    assert machine.phase is Phase.CONNECTING


def test_a_probe_by_a_wakeup_shows_nothing_until_it_is_missed() -> None:
    machine = live(DESKTOP)
    machine.wake(Wakeup.VISIBLE, 1.0)
    assert machine.phase is Phase.LIVE
    machine.wait(16.0)
    assert machine.phase is Phase.SLOW


def test_a_silent_link_is_slow_at_once() -> None:
    machine = live()
    machine.wait(20.0)
    assert machine.phase is Phase.SLOW


def test_a_link_that_is_being_replaced_is_switching_and_sends() -> None:
    machine = live()
    machine.wake(Wakeup.USER, 1.0)
    assert (machine.phase, machine.link.can_send, machine.link.is_replacing) == (Phase.SWITCHING, True, True)


def test_the_oldest_question_counts_whether_somebody_waits_for_it_or_not() -> None:
    assert Service().since is None
    assert Service(asked=((1, 3.0), (2, 4.0))).since == 3.0
    assert Service(asked=((1, 3.0),), abandoned_at=2.0).since == 2.0
    assert Service(abandoned_at=2.0).since == 2.0


def test_a_busy_server_has_a_budget_and_its_evidence_is_renewed() -> None:
    machine = live()
    machine.wait(25.0)
    machine.tell(Witnessed(link=1, grade=Grade.BEACON))
    assert machine.phase is Phase.BUSY
    dues = {due: at for at, due in machine.link.dues()}
    assert dues[Due.BUDGET] == 25.0 + STANDARD.busy_budget
    assert dues[Due.EVIDENCE] == 25.0 + STANDARD.renew_evidence


def test_an_unanswered_request_is_doubted_after_five_seconds() -> None:
    machine = live()
    machine.tell(Asked(link=1, request=1), 2.0)
    assert machine.link.deadline == 7.0


def test_a_blocked_link_waits_for_no_time() -> None:
    link = replace(connecting().link, candidate=None, block=Trouble.VERSION)
    assert (link.phase, link.deadline) == (Phase.BLOCKED, None)
