"""The fleet limit: a dead worker's load is not multiplied, and nobody else's recovery is slowed."""

import pytest

from outlast.fleet import FLOOR, SPAN, Fleet


def takeovers(fleet: Fleet, *, now: float, worker: str = "w") -> int:
    """Take over as many runs as the fleet lets through at one moment, at most a thousand."""
    taken = 0
    while taken < 1000 and fleet.may_take_over(worker, now=now):
        fleet.started(worker, now=now, later=True)
        taken += 1
    return taken


def test_the_floor_is_let_through_without_any_start() -> None:
    # Each takeover is a start itself, so a tenth of the floor and its like come on top.
    assert FLOOR <= takeovers(Fleet(), now=0.0) <= FLOOR / 0.9 + 1


def test_with_many_starts_a_tenth_of_them_is_let_through_besides() -> None:
    fleet = Fleet(share=0.1, floor=5)
    for _ in range(200):
        fleet.started("w", now=0.0, later=False)
    assert takeovers(fleet, now=1.0) == 28  # n < 5 + (200 + n) / 10


def test_asking_counts_nothing() -> None:
    fleet = Fleet(share=0.0, floor=1)
    assert all(fleet.may_take_over("w", now=0.0) for _ in range(10))


@pytest.mark.parametrize(("later", "free"), [(SPAN - 0.001, False), (SPAN, False), (SPAN + 0.001, True)])
def test_a_takeover_counts_for_one_span(later: float, free: bool) -> None:
    fleet = Fleet(share=0.0, floor=1)
    fleet.started("w", now=0.0, later=True)
    assert fleet.may_take_over("w", now=later) is free


def test_a_start_counts_for_one_span_too() -> None:
    fleet = Fleet(share=1.0, floor=0)
    fleet.started("w", now=0.0, later=False)
    assert fleet.may_take_over("w", now=SPAN)
    assert not fleet.may_take_over("w", now=SPAN + 0.001)


def test_one_workers_trouble_does_not_slow_another() -> None:
    fleet = Fleet(share=0.0, floor=1)
    fleet.started("dead", now=0.0, later=True)
    assert not fleet.may_take_over("dead", now=1.0)
    assert fleet.may_take_over("well", now=1.0)
