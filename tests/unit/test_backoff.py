"""The one curve of delays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.backoff import JITTER, delay

jitters = st.floats(min_value=0, max_value=1, exclude_max=True)


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 16.0), (6, 32.0), (7, 60.0), (8, 60.0), (64, 60.0), (10_000, 60.0)],
)
def test_a_delay_doubles_until_its_cap(attempt: int, seconds: float) -> None:
    assert delay(attempt, base=1.0, cap=60.0, jitter=0.5) == pytest.approx(seconds)


@pytest.mark.parametrize(("jitter", "seconds"), [(0.0, 8.0), (0.25, 9.0), (0.5, 10.0), (0.75, 11.0), (1.0, 12.0)])
def test_jitter_picks_a_place_in_a_band_of_a_fifth_either_way(jitter: float, seconds: float) -> None:
    assert delay(2, base=5.0, cap=60.0, jitter=jitter) == pytest.approx(seconds)


def test_the_cap_is_moved_by_jitter_too_so_that_a_herd_at_the_cap_parts() -> None:
    assert delay(9, base=1.0, cap=60.0, jitter=0.0) == pytest.approx(48.0)
    assert delay(9, base=1.0, cap=60.0, jitter=1.0) == pytest.approx(72.0)


@pytest.mark.parametrize("attempt", [0, -1])
def test_attempts_count_from_one(attempt: int) -> None:
    with pytest.raises(ValueError, match=r"^attempt counts from 1$"):
        delay(attempt, base=1.0, cap=60.0, jitter=0.5)


@pytest.mark.parametrize("attempt", [64, 65, 1_000_000])
def test_a_large_attempt_stays_on_the_last_step_of_the_curve(attempt: int) -> None:
    assert delay(attempt, base=1.0, cap=float("inf"), jitter=0.5) == 2.0**63


@given(st.integers(1, 100), jitters)
def test_a_delay_stays_within_its_band(attempt: int, jitter: float) -> None:
    middle = min(2.0 ** (attempt - 1), 60.0)
    found = delay(attempt, base=1.0, cap=60.0, jitter=jitter)
    assert middle * (1 - JITTER) <= found <= middle * (1 + JITTER)


@given(st.integers(1, 6), jitters, jitters)
def test_jitter_never_changes_the_order_of_two_delays_below_the_cap(attempt: int, early: float, late: float) -> None:
    assert delay(attempt, base=1.0, cap=1e9, jitter=early) < delay(attempt + 1, base=1.0, cap=1e9, jitter=late)
