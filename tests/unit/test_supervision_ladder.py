"""How long an attempt waits: the rungs, chance, the server's spread and its Retry-After."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.supervision.ladder import Ladder, advice
from outlast.supervision.profile import DESKTOP, STANDARD

jitters = st.floats(min_value=0, max_value=1, exclude_max=True)


@pytest.mark.behaviour("K5")
@pytest.mark.parametrize(("failures", "seconds"), [(0, 3), (1, 3), (2, 4), (3, 8), (4, 16), (5, 16), (10_000, 16)])
def test_desktop_climbs_its_rungs_and_stays_on_the_last(failures: int, seconds: float) -> None:
    assert Ladder(failures=failures).wait(DESKTOP, now=0.0, jitter=0.9) == seconds


@pytest.mark.behaviour("K16")
@given(st.integers(1, 100), jitters)
def test_a_jittered_wait_falls_anywhere_from_now_to_its_rung(failures: int, jitter: float) -> None:
    rung = STANDARD.ladder[min(failures, 7) - 1]
    assert Ladder(failures=failures).wait(STANDARD, now=0.0, jitter=jitter) == jitter * rung


@pytest.mark.behaviour("K17")
@pytest.mark.parametrize(("failures", "width"), [(0, 10), (1, 20), (2, 40), (3, 80), (4, 160), (5, 300), (99, 300)])
def test_every_failure_spreads_a_herd_twice_as_wide_up_to_five_minutes(failures: int, width: float) -> None:
    ladder = Ladder(failures=failures, spread=10.0)
    assert ladder.wait(STANDARD, now=0.0, jitter=0.5) == width / 2


@pytest.mark.behaviour("K16", "K17")
@given(jitters)
def test_who_failed_within_the_spread_leaves_the_rest_of_it_to_the_others(jitter: float) -> None:
    ladder = Ladder(spread=10.0, spread_until=110.0).after(0.0, now=103.0)
    assert ladder.wait(STANDARD, now=103.0, jitter=jitter) == 7.0 + jitter * 20.0
    assert ladder.wait(DESKTOP, now=103.0, jitter=jitter) == 7.0 + jitter * 20.0
    assert ladder.wait(STANDARD, now=111.0, jitter=jitter) == jitter * 20.0


@pytest.mark.behaviour("K16")
def test_of_two_floors_the_later_one_holds() -> None:
    assert Ladder(failures=1, spread=1.0, spread_until=2.0, floor=60.0).wait(STANDARD, now=0.0, jitter=0.0) == 60.0
    assert Ladder(failures=1, spread=1.0, spread_until=60.0, floor=2.0).wait(STANDARD, now=0.0, jitter=0.0) == 60.0


def test_a_spread_below_the_rung_makes_nobody_come_sooner() -> None:
    assert Ladder(failures=7, spread=0.01).wait(STANDARD, now=0.0, jitter=0.5) == 15.0
    assert Ladder(failures=1, spread=1.0).wait(DESKTOP, now=0.0, jitter=0.1) == 3.0


@pytest.mark.behaviour("K16")
@given(jitters)
def test_nobody_comes_before_the_time_that_the_server_asked_for(jitter: float) -> None:
    ladder = Ladder(failures=1, floor=160.0)
    assert ladder.wait(STANDARD, now=100.0, jitter=jitter) == 60.0 + jitter * 0.5
    assert ladder.wait(DESKTOP, now=100.0, jitter=jitter) == 60.0
    assert ladder.wait(DESKTOP, now=159.0, jitter=jitter) == 3.0


@pytest.mark.behaviour("K16")
@pytest.mark.parametrize(
    ("said", "believed"),
    [(0, 0), (-1, 0), (math.nan, 0), (math.inf, 0), (-math.inf, 0), (0.001, 0.001), (300, 300), (300.001, 300)],
)
def test_advice_is_believed_up_to_five_minutes_and_nonsense_not_at_all(said: float, believed: float) -> None:
    assert advice(said) == believed
