"""The fleet limit: a dead worker's load is not multiplied, and nobody else's recovery is slowed."""

import pytest

from outlast.fleet import FLOOR, SPAN, Fleet


def takeovers(fleet: Fleet, *, now: float, worker: str = "w") -> int:
    """Take over as many runs as the fleet lets through at one moment, at most a thousand."""
    taken = 0
    while taken < 1000 and fleet.lets(worker, now=now, later=True):
        taken += 1
    return taken


def start(fleet: Fleet, times: int, *, now: float = 0.0, worker: str = "w") -> None:
    for _ in range(times):
        assert fleet.lets(worker, now=now, later=False)


def test_the_floor_is_let_through_without_any_start() -> None:
    # Each takeover is a start itself, so a tenth of the floor and its like come on top.
    assert takeovers(Fleet(), now=0.0) == int(FLOOR / 0.9)


def test_with_many_starts_a_tenth_of_them_is_let_through_besides() -> None:
    fleet = Fleet(share=0.1, floor=5)
    start(fleet, 200)
    assert takeovers(fleet, now=1.0) == 27  # n <= 5 + (200 + n) / 10


def test_first_starts_are_never_held_back() -> None:
    fleet = Fleet(share=0.0, floor=0)
    assert takeovers(fleet, now=0.0) == 0
    start(fleet, 100)


def test_what_was_not_let_through_counts_nothing() -> None:
    fleet = Fleet(share=0.5, floor=0)
    assert takeovers(fleet, now=0.0) == 0
    start(fleet, 1)
    assert fleet.lets("w", now=0.0, later=True)


@pytest.mark.parametrize(("later", "free"), [(SPAN - 0.001, False), (SPAN, False), (SPAN + 0.001, True)])
def test_a_takeover_counts_for_one_span(later: float, free: bool) -> None:
    fleet = Fleet(share=0.0, floor=1)
    assert fleet.lets("w", now=0.0, later=True)
    assert fleet.lets("w", now=later, later=True) is free


@pytest.mark.parametrize(("later", "counted"), [(SPAN, True), (SPAN + 0.001, False)])
def test_a_start_counts_for_one_span_too(later: float, counted: bool) -> None:
    fleet = Fleet(share=0.5, floor=0)
    start(fleet, 1)
    assert fleet.lets("w", now=later, later=True) is counted


def test_one_workers_trouble_does_not_slow_another() -> None:
    fleet = Fleet(share=0.0, floor=1)
    assert takeovers(fleet, now=0.0, worker="dead") == 1
    assert takeovers(fleet, now=1.0, worker="well") == 1


def test_what_was_let_and_then_not_claimed_counts_no_longer() -> None:
    fleet = Fleet(share=0.0, floor=1)
    assert fleet.lets("w", now=0.0, later=True)
    assert not fleet.lets("w", now=1.0, later=True)
    fleet.forget("w", at=0.0, later=True)
    assert fleet.lets("w", now=1.0, later=True)


def test_a_start_that_came_to_nothing_lets_no_takeover_pass() -> None:
    fleet = Fleet(share=0.5, floor=0)
    start(fleet, 1)
    fleet.forget("w", at=0.0, later=False)
    assert not fleet.lets("w", now=0.0, later=True)


def test_what_is_forgotten_after_its_minute_is_harmless() -> None:
    fleet = Fleet(share=0.0, floor=1)
    assert fleet.lets("w", now=0.0, later=True)
    assert fleet.lets("w", now=SPAN + 1, later=True)
    fleet.forget("w", at=0.0, later=True)
    assert not fleet.lets("w", now=SPAN + 1, later=True)
