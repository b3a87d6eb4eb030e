"""A server that restarts is not trampled by its clients, and one that stays away is tried ever more thinly."""

import pytest

from tests.simulation.herd import CLIENTS, PAGE, SPREAD, Herd, measure, printed


@pytest.fixture(scope="module")
def herd() -> Herd:
    return measure()


@pytest.mark.behaviour("K17")
@pytest.mark.parametrize("away", [0.0, 10.0, 300.0])
@pytest.mark.parametrize("seed", range(3))
def test_no_second_has_the_same_attempt_of_more_than_fifteen_percent_of_the_clients(away: float, seed: int) -> None:
    herd = measure(away=away, seed=seed)
    assert sum(herd.buckets(0).values()) == CLIENTS
    for tried in range(max(before for _, before in herd.attempts) + 1):
        assert max(herd.buckets(tried).values()) <= 0.15 * CLIENTS


@pytest.mark.behaviour("K17")
@pytest.mark.parametrize("seed", range(3))
def test_where_the_server_is_back_at_once_no_second_has_more_than_fifteen_percent_altogether(seed: int) -> None:
    assert max(measure(away=0.0, seed=seed).buckets().values()) <= 0.15 * CLIENTS


@pytest.mark.behaviour("K17")
def test_first_attempts_fall_within_the_spread_that_the_server_asked_for(herd: Herd) -> None:
    assert set(herd.buckets(0)) == set(range(int(SPREAD)))


@pytest.mark.behaviour("K17")
def test_second_attempts_are_spread_wider_and_third_ones_wider_still(herd: Herd) -> None:
    peaks = [max(herd.buckets(tried).values()) for tried in range(3)]
    widths = [len(herd.buckets(tried)) for tried in range(3)]
    assert peaks[0] > peaks[1] > peaks[2]
    assert widths[0] < widths[1] < widths[2]


def test_the_histogram_in_the_docs_is_what_was_measured(herd: Herd) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert printed(page, herd) == page, "python -m tests.simulation.herd writes it anew"
