"""A sleep is what two clocks move apart by, with clocks that are set by hand."""

import sys
import time

import pytest

from outlast.client.hints.sleep import NOTICED, STEPPED, Clocks, Sleep, clocks


class Hands:
    """Two clocks."""

    def __init__(self) -> None:
        self.awake = 100.0
        self.always = 5000.0

    def passes(self, seconds: float, *, asleep: float = 0.0) -> None:
        self.awake += seconds
        self.always += seconds + asleep

    def clocks(self, *, noticed: float = NOTICED) -> Clocks:
        return Clocks(awake=lambda: self.awake, always=lambda: self.always, noticed=noticed, is_exact=True)


@pytest.mark.behaviour("N6")
def test_a_sleep_is_told_once_and_exactly() -> None:
    hands = Hands()
    sleep = Sleep(hands.clocks())
    hands.passes(3600)
    assert sleep.slept() == 0
    hands.passes(1, asleep=42.5)
    assert sleep.slept() == 42.5
    assert sleep.slept() == 0
    hands.passes(1, asleep=1)
    assert sleep.slept() == NOTICED


def test_what_is_too_short_to_matter_is_not_told_and_does_not_add_up() -> None:
    hands = Hands()
    sleep = Sleep(hands.clocks())
    for _ in range(100):
        hands.passes(1, asleep=0.99)
        assert sleep.slept() == 0


def test_a_clock_that_is_set_back_is_no_sleep_then_nor_later() -> None:
    hands = Hands()
    sleep = Sleep(hands.clocks(noticed=STEPPED))
    hands.passes(1, asleep=-3600)
    assert sleep.slept() == 0
    hands.passes(1)
    assert sleep.slept() == 0
    hands.passes(1, asleep=STEPPED)
    assert sleep.slept() == STEPPED


def test_a_process_that_is_stopped_between_the_two_clocks_did_not_sleep() -> None:
    hands, stops = Hands(), iter([0.0, 60.0])

    def always() -> float:
        hands.passes(next(stops, 0.0))
        return hands.always

    sleep = Sleep(Clocks(awake=lambda: hands.awake, always=always, noticed=NOTICED, is_exact=True))
    assert sleep.slept() == 0
    assert next(stops, None) is None, "it was stopped"
    assert sleep.slept() == 0


def test_this_system_has_the_clocks_it_should_have() -> None:
    found = clocks()
    if sys.platform == "win32":
        assert found is None
        return
    assert found is not None
    assert found.is_exact is hasattr(time, "CLOCK_BOOTTIME")
    assert Sleep(found).slept() == 0


@pytest.mark.behaviour("N6")
@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_fall_back_to_the_jump_of_the_wall_clock_where_it_jumps(
    monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    found = clocks()
    if platform == "win32":
        assert found is None, "nothing there stops in sleep"
    else:
        assert found is not None
        assert (found.awake, found.always, found.noticed) == (time.monotonic, time.time, STEPPED)
        assert not found.is_exact
