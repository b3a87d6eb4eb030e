"""Attempts: begun, come to nothing, become the link, waited for, and what ends a link."""

import random
from collections import Counter

import pytest

from outlast.supervision.commands import Adopt, Command, Open, Release
from outlast.supervision.inputs import Drained, Failed, Lost, Ready, WentOffline
from outlast.supervision.link import Link
from outlast.supervision.phase import Phase, Trouble, Wakeup
from outlast.supervision.profile import DESKTOP, YOUNG_DEATHS
from tests.machine import Machine, connecting, live


def test_an_attempt_that_is_ready_is_the_link() -> None:
    machine = connecting()
    assert machine.tell(Ready(attempt=1, heartbeat=3.0), 1.0) == [Adopt(attempt=1)]
    assert (machine.phase, machine.link.generation, machine.link.deadline) == (Phase.LIVE, 1, 7.0)


@pytest.mark.parametrize(
    ("told", "believed"),
    [(None, 10.0), (0.0, 10.0), (-1.0, 10.0), (float("nan"), 10.0), (2.0, 2.0), (1e9, 10.0)],
)
def test_a_promised_heartbeat_is_believed_where_it_makes_sense(told: float | None, believed: float) -> None:
    machine = connecting()
    machine.tell(Ready(attempt=1, heartbeat=told))
    assert machine.current.heartbeat == believed


@pytest.mark.behaviour("K5")
def test_failures_climb_the_ladder_for_ever() -> None:
    machine, waits = connecting(DESKTOP), list[float]()
    for _ in range(100):
        machine.tell(Failed(attempt=machine.link.attempts, trouble=Trouble.UNREACHABLE))
        assert (machine.phase, machine.link.retry_at is not None) == (Phase.BACKOFF, True)
        waits.append((machine.link.retry_at or 0.0) - machine.now)
        assert machine.wait(machine.now + waits[-1]) == [Open(attempt=machine.link.attempts)]
    assert waits == [3, 4, 8, *[16] * 97]


@pytest.mark.behaviour("K6")
def test_the_last_trouble_stays_visible_until_a_link_is_established() -> None:
    machine = connecting()
    machine.tell(Failed(attempt=1, trouble=Trouble.FOREIGN))
    machine.wait(10.0)
    assert (machine.phase, machine.link.trouble) == (Phase.CONNECTING, Trouble.FOREIGN)
    machine.tell(Ready(attempt=2))
    assert machine.link.trouble is None


def test_a_lost_link_is_tried_again_at_once_where_the_profile_is_prompt() -> None:
    assert live().lose(at=100.0) == [Open(attempt=2)]


@pytest.mark.behaviour("K14")
def test_a_lost_link_is_tried_again_after_a_wait_where_it_is_not() -> None:
    machine = live(DESKTOP)
    assert machine.lose(at=1.0) == []
    assert (machine.phase, machine.link.retry_at) == (Phase.BACKOFF, 4.0)
    machine.wait(4.0)
    machine.tell(Ready(attempt=2))
    assert (machine.phase, machine.link.generation) == (Phase.LIVE, 2)


@pytest.mark.behaviour("K15")
@pytest.mark.parametrize(("lived", "wait"), [(29.999, 4.0), (30.0, 3.0)], ids=["young", "stable"])
def test_a_long_life_begins_the_ladder_anew(lived: float, wait: float) -> None:
    machine = connecting(DESKTOP)
    machine.tell(Failed(attempt=1, trouble=Trouble.UNREACHABLE))
    machine.wait(3.0)
    machine.tell(Ready(attempt=2))
    machine.hear(15.0)
    machine.lose(at=3.0 + lived)
    assert machine.link.retry_at == pytest.approx(3.0 + lived + wait)


def test_a_link_on_which_nothing_came_of_it_is_not_stable_where_progress_is_needed() -> None:
    machine = live()
    machine.hear(15.0)
    machine.lose(at=30.0)
    assert machine.link.ladder.failures == 1


def test_a_transport_that_dies_young_three_times_gives_way_to_the_next() -> None:
    machine, opened = connecting(transports=2), list[Command]()
    for _ in range(YOUNG_DEATHS):
        machine.tell(Failed(attempt=machine.link.attempts, trouble=Trouble.FOREIGN))
        opened += machine.wait(machine.link.deadline or 0.0)
    assert opened == [Open(attempt=2), Open(attempt=3), Open(attempt=4, transport=1)]


@pytest.mark.behaviour("R13")
def test_a_transport_that_is_not_spoken_there_gives_way_to_the_next_at_once() -> None:
    machine = connecting(transports=3)
    machine.tell(Failed(attempt=1, trouble=Trouble.FOREIGN))
    machine.wait(machine.link.deadline or 0.0)
    assert machine.tell(Failed(attempt=2, trouble=Trouble.UNSPOKEN)) == [Open(attempt=3, transport=1)]
    assert (machine.phase, machine.link.trouble) == (Phase.CONNECTING, Trouble.UNSPOKEN)
    assert machine.link.young_deaths == 0, "those were another one's"
    assert machine.tell(Failed(attempt=3, trouble=Trouble.UNSPOKEN)) == [Open(attempt=4, transport=2)]
    assert machine.tell(Failed(attempt=4, trouble=Trouble.UNSPOKEN)) == []
    assert (machine.phase, machine.link.transport) == (Phase.BACKOFF, 2), "where none is left nobody is pressed"


@pytest.mark.behaviour("R13")
def test_a_link_that_has_to_go_is_replaced_over_the_next_transport_where_its_own_is_not_spoken_any_more() -> None:
    machine = live(transports=2)
    machine.tell(Drained(link=1, spread=0.0), 1.0)
    assert machine.wait(1.0) == [Open(attempt=2)]
    assert machine.tell(Failed(attempt=2, trouble=Trouble.UNSPOKEN), 2.0) == [Open(attempt=3, transport=1)]
    assert (machine.phase, machine.current.id) == (Phase.SWITCHING, 1)
    assert machine.tell(Ready(attempt=3), 3.0) == [Adopt(attempt=3), Release(attempt=1)]


@pytest.mark.behaviour("R13")
@pytest.mark.parametrize(("trouble", "transport"), [(Trouble.BROKEN, 1), (Trouble.UNREACHABLE, 0)])
def test_links_that_break_young_give_way_but_not_those_whose_server_is_gone(trouble: Trouble, transport: int) -> None:
    machine = connecting(transports=2)
    for _ in range(YOUNG_DEATHS):
        machine.tell(Ready(attempt=machine.link.attempts))
        machine.lose(trouble)
        while machine.link.candidate is None:
            machine.wait(machine.link.deadline or 0.0)
    assert machine.link.transport == transport


@pytest.mark.behaviour("R1")
@pytest.mark.parametrize("trouble", [Trouble.UNREACHABLE, Trouble.UNSPOKEN])
def test_a_failed_candidate_leaves_a_living_link_alone(trouble: Trouble) -> None:
    machine = live(transports=2)
    machine.wake(Wakeup.USER, 1.0)
    assert machine.tell(Failed(attempt=2, trouble=trouble), 2.0) == []
    assert (machine.phase, machine.current.id) == (Phase.LIVE, 1)


def test_an_attempt_that_is_refused_for_good_blocks() -> None:
    machine = connecting()
    machine.tell(Failed(attempt=1, trouble=Trouble.VERSION))
    assert (machine.phase, machine.link.deadline) == (Phase.BLOCKED, None)


def test_a_lost_link_blocks_where_the_server_says_that_it_is_no_use() -> None:
    machine = live()
    machine.lose(Trouble.REVOKED)
    assert machine.phase is Phase.BLOCKED


@pytest.mark.behaviour("N4")
@pytest.mark.parametrize(
    ("after", "trouble", "phase"),
    [
        (29.999, Trouble.CREDENTIALS, Phase.BACKOFF),
        (30.0, Trouble.CREDENTIALS, Phase.BLOCKED),
        (0.0, Trouble.REVOKED, Phase.BLOCKED),
    ],
)
def test_a_server_that_restarts_may_not_know_yet_whom_it_trusts(after: float, trouble: Trouble, phase: Phase) -> None:
    machine = live()
    machine.lose(at=0.0)
    if after:
        machine.wake(Wakeup.RESUMED, 14.0)
        machine.wake(Wakeup.RESUMED, 28.0)  # each begins an attempt with fifteen seconds of its own
    machine.tell(Failed(attempt=machine.link.attempts, trouble=trouble), after)
    assert machine.phase is phase


@pytest.mark.behaviour("N4")
@pytest.mark.parametrize(("at", "phase"), [(30.999, Phase.BACKOFF), (31.0, Phase.BLOCKED)])
def test_a_link_that_is_refused_right_after_a_restart_is_made_anew(at: float, phase: Phase) -> None:
    machine = live()
    machine.lose(at=1.0)
    machine.tell(Ready(attempt=2), 1.0)
    machine.lose(Trouble.CREDENTIALS, at)
    assert machine.phase is phase


@pytest.mark.behaviour("K12")
def test_an_address_at_which_there_was_a_server_may_have_one_again() -> None:
    machine = connecting()
    machine.tell(Failed(attempt=1, trouble=Trouble.ADDRESS))
    assert machine.phase is Phase.BLOCKED
    machine = live()
    machine.lose(at=3600.0)
    machine.tell(Failed(attempt=2, trouble=Trouble.ADDRESS), 7200.0)
    assert (machine.phase, machine.link.trouble) == (Phase.BACKOFF, Trouble.BUSY)


@pytest.mark.behaviour("M2")
def test_another_server_at_the_address_is_no_passing_trouble() -> None:
    machine = live()
    machine.lose(at=1.0)
    machine.tell(Failed(attempt=2, trouble=Trouble.CONFIGURATION), 2.0)
    assert (machine.phase, machine.link.trouble) == (Phase.BLOCKED, Trouble.CONFIGURATION)


@pytest.mark.parametrize(("jitter", "seconds"), [(0.0, 0.0), (0.5, 5.0), (0.75, 7.5)])
def test_a_draining_server_is_left_at_a_time_of_ones_own_within_the_spread(jitter: float, seconds: float) -> None:
    machine = live()
    machine.jitter = jitter
    machine.tell(Drained(link=1, spread=10.0), 1.0)
    assert (machine.phase, machine.link.retry_at) == (Phase.SWITCHING, 1.0 + seconds)
    machine.lose(Trouble.DRAINING)
    assert (machine.phase, machine.link.retry_at) == (Phase.BACKOFF, 1.0 + seconds)


def test_a_link_that_ends_without_a_network_is_not_tried_again() -> None:
    machine = live()
    machine.tell(WentOffline(), 1.0)
    assert machine.phase is Phase.LIVE
    assert machine.lose(at=2.0) == []
    assert (machine.phase, machine.link.deadline) == (Phase.OFFLINE, None)


def test_the_wait_that_the_server_asked_for_is_kept() -> None:
    machine = connecting()
    machine.tell(Failed(attempt=1, trouble=Trouble.BUSY, pause=60.0))
    assert machine.link.retry_at == 60.0 + 0.5 * 0.5


def test_what_replaces_a_link_that_nothing_speaks_for_is_let_go_with_it_when_it_fails() -> None:
    machine = live()
    machine.wait(30.0)
    assert machine.phase is Phase.SWITCHING
    assert machine.tell(Failed(attempt=2, trouble=Trouble.UNREACHABLE)) == [Release(attempt=1)]
    assert machine.phase is Phase.BACKOFF


def test_a_loss_while_the_replacement_is_under_way_only_ends_the_old_link() -> None:
    machine = live()
    machine.wake(Wakeup.USER, 1.0)
    assert machine.lose(at=2.0) == []
    assert machine.phase is Phase.CONNECTING
    machine.tell(Lost(link=1, trouble=Trouble.BROKEN))
    assert machine.phase is Phase.CONNECTING


def test_a_machine_that_is_told_nothing_does_nothing() -> None:
    assert Machine(link=Link()).wait(3600.0) == []


@pytest.mark.behaviour("K17")
def test_a_herd_comes_back_spread_out_and_wider_after_each_failure() -> None:
    chance = random.Random(17)
    came: list[list[float]] = [[], [], []]
    for _ in range(1000):
        machine = live()
        machine.jitter = chance.random()
        machine.tell(Drained(link=1, spread=10.0), 1.0)
        machine.tell(Lost(link=1, trouble=Trouble.DRAINING), 1.0)
        for attempts in came:
            machine.wait(machine.link.deadline or 0.0)
            attempts.append(machine.now)
            machine.jitter = chance.random()
            machine.tell(Failed(attempt=machine.link.attempts, trouble=Trouble.UNREACHABLE))
    crowds = [max(Counter(map(int, attempts)).values()) for attempts in came]
    assert crowds[0] <= 150
    assert crowds == sorted(crowds, reverse=True)
    assert [max(attempts) - min(attempts) for attempts in came] == sorted(max(each) - min(each) for each in came)
    everyone = Counter(int(moment) for attempts in came for moment in attempts)
    assert max(everyone.values()) <= 150, "nor do the stragglers of one meet those who failed already"
