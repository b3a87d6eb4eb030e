"""What is wanted, and hints: a person, the network, a sleep, other credentials."""

from typing import Any

import pytest

from outlast.supervision.commands import Open, Probe, Release
from outlast.supervision.inputs import Close, Failed, Ready, Want, WentOffline
from outlast.supervision.link import Link
from outlast.supervision.phase import Phase, Trouble, Wakeup
from outlast.supervision.profile import DESKTOP, MOBILE, STANDARD, Profile
from tests.machine import Machine, connecting, live


@pytest.mark.behaviour("K2")
def test_wanting_it_twice_is_wanting_it_once() -> None:
    machine = connecting()
    assert machine.tell(Want()) == []
    assert machine.link.attempts == 1


def test_the_end_lets_go_of_link_and_attempt() -> None:
    machine = live()
    machine.wake(Wakeup.USER)
    assert machine.tell(Close()) == [Release(attempt=2), Release(attempt=1)]
    assert (machine.link.deadline, machine.held) == (None, set())


def test_what_is_closed_is_never_wanted_again() -> None:
    machine = live()
    machine.tell(Close())
    assert machine.tell(Want()) == []
    assert machine.phase is Phase.CLOSED


@pytest.mark.behaviour("K3")
def test_nothing_is_tried_without_a_network_and_at_once_with_one() -> None:
    machine = Machine(link=Link())
    machine.tell(WentOffline())
    assert machine.tell(Want()) == []
    assert machine.wake(Wakeup.ONLINE, 9.0) == [Open(attempt=1)]


@pytest.mark.behaviour("K13")
def test_losing_the_network_lets_go_once_of_a_link_that_is_silent_too() -> None:
    machine = live()
    assert machine.tell(WentOffline(), 10.0) == [Release(attempt=1)]
    assert machine.tell(WentOffline(), 11.0) == []
    assert machine.wake(Wakeup.ONLINE, 12.0) == [Open(attempt=2)]


@pytest.mark.behaviour("K13")
@pytest.mark.parametrize(("at", "members"), [(9.999, {}), (19.0, {"is_local": True})], ids=["speaks", "local"])
def test_a_link_that_speaks_or_needs_no_network_is_asked_instead(at: float, members: dict[str, Any]) -> None:
    machine = live(**members)
    assert machine.tell(WentOffline(), at) == [Probe(link=1, probe=1)]
    assert machine.phase is Phase.LIVE


@pytest.mark.behaviour("N1")
def test_another_path_replaces_without_a_probe_and_at_most_once_in_two_seconds() -> None:
    machine = live()
    assert machine.wake(Wakeup.PATH_CHANGED, 1.0) == [Open(attempt=2)]
    assert machine.wake(Wakeup.PATH_CHANGED, 2.999) == []
    assert machine.wait(2.999) == []
    assert machine.wait(3.0) == [Release(attempt=2), Open(attempt=3)]


@pytest.mark.behaviour("N1")
def test_another_path_restarts_an_attempt_under_its_number_and_shortens_no_wait() -> None:
    machine = connecting(DESKTOP)
    machine.tell(Failed(attempt=1, trouble=Trouble.UNREACHABLE))
    assert machine.wake(Wakeup.PATH_CHANGED) == []
    machine.wait(3.0)
    number = machine.link.attempt
    assert machine.wake(Wakeup.PATH_CHANGED) == [Release(attempt=2), Open(attempt=3)]
    assert machine.link.attempt == number == 2


@pytest.mark.behaviour("K4")
def test_a_person_who_looks_without_a_network_begins_the_ladder_anew() -> None:
    machine = connecting(DESKTOP)
    machine.tell(Failed(attempt=1, trouble=Trouble.UNREACHABLE))
    machine.tell(WentOffline())
    assert machine.link.attempt == 2
    assert machine.wake(Wakeup.VISIBLE) == []
    assert (machine.link.attempt, machine.phase) == (1, Phase.OFFLINE)


@pytest.mark.behaviour("K10")
def test_a_person_ends_a_wait() -> None:
    machine = connecting(DESKTOP)
    machine.tell(Failed(attempt=1, trouble=Trouble.UNREACHABLE))
    assert machine.wake(Wakeup.USER, 1.0) == [Open(attempt=2)]
    assert machine.link.attempt == 1


@pytest.mark.behaviour("P9")
def test_an_attempt_during_which_somebody_looked_fails_without_a_wait_once() -> None:
    machine = connecting()
    machine.wake(Wakeup.VISIBLE)
    assert machine.tell(Failed(attempt=1, trouble=Trouble.UNREACHABLE)) == [Open(attempt=2)]
    assert machine.tell(Failed(attempt=2, trouble=Trouble.UNREACHABLE)) == []


def test_looking_does_not_come_before_the_time_that_the_server_asked_for() -> None:
    machine = connecting()
    machine.tell(Failed(attempt=1, trouble=Trouble.BUSY, pause=60.0))
    assert machine.wake(Wakeup.VISIBLE, 1.0) == []
    assert machine.link.retry_at == 60.0


@pytest.mark.behaviour("P6")
@pytest.mark.parametrize(("profile", "seconds"), [(MOBILE, 10.0), (STANDARD, 30.0), (DESKTOP, 30.0)])
@pytest.mark.parametrize("wakeup", [Wakeup.VISIBLE, Wakeup.RESUMED])
def test_a_long_absence_replaces_and_a_shorter_one_probes(profile: Profile, seconds: float, wakeup: Wakeup) -> None:
    assert live(profile).wake(wakeup, 1.0, seconds=seconds) == [Open(attempt=2)]
    assert live(profile).wake(wakeup, 1.0, seconds=seconds - 0.001) == [Probe(link=1, probe=1)]


def test_a_link_that_waits_for_its_replacement_is_hastened() -> None:
    machine = live()
    machine.wait(30.0)
    machine.wake(Wakeup.VISIBLE)
    assert machine.link.candidate is not None
    assert machine.link.candidate.woken


@pytest.mark.behaviour("N2")
def test_other_credentials_replace_the_link_of_an_account_and_no_other() -> None:
    assert live(account_bound=True).wake(Wakeup.CREDENTIALS_CHANGED) == [Open(attempt=2)]
    assert live().wake(Wakeup.CREDENTIALS_CHANGED) == []


@pytest.mark.behaviour("K12")
@pytest.mark.parametrize(
    ("trouble", "wakeup"),
    [
        (Trouble.CREDENTIALS, Wakeup.CREDENTIALS_CHANGED),
        (Trouble.VERSION, Wakeup.UPDATED),
        (Trouble.ADDRESS, Wakeup.USER),
        (Trouble.CONFIGURATION, Wakeup.USER),
    ],
)
def test_a_block_is_ended_by_its_own_wakeups_and_by_a_person(trouble: Trouble, wakeup: Wakeup) -> None:
    machine = connecting()
    machine.tell(Failed(attempt=1, trouble=trouble))
    assert machine.wait(3600.0) == []
    assert not any(machine.wake(each) for each in Wakeup if each not in {wakeup, Wakeup.USER})
    assert machine.wake(wakeup) == [Open(attempt=2)]
    machine.tell(Ready(attempt=2))
    assert machine.phase is Phase.LIVE
