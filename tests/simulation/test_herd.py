"""A server that restarts is not trampled by its clients, and one that stays away is tried ever more thinly."""

import pytest

from outlast.supervision.profile import DESKTOP, STANDARD, Profile
from tests.simulation.herd import CLIENTS, PAGE, SPREAD, Herd, measure, printed


@pytest.fixture(scope="module")
def herd() -> Herd:
    return measure()


@pytest.mark.behaviour("K17")
@pytest.mark.parametrize("profile", [STANDARD, DESKTOP], ids=lambda profile: profile.name)
@pytest.mark.parametrize("away", [0.0, 10.0, 60.0])
def test_however_long_a_server_is_away_no_second_has_more_than_fifteen_percent(away: float, profile: Profile) -> None:
    for seed in range(2):
        herd = measure(away=away, seed=seed, profile=profile)
        assert sum(herd.buckets(0).values()) == CLIENTS
        assert max(herd.buckets().values()) <= 0.15 * CLIENTS, seed


@pytest.mark.behaviour("K17")
def test_who_failed_comes_again_when_all_have_had_their_first_turn(herd: Herd) -> None:
    assert all(at >= SPREAD for at, before in herd.attempts if before)


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
