"""Faults of a network are facts, and tell which direction they hold in."""

import pytest

from outlast.testing.network import Bandwidth, BlackHole, Chop, Cut, Fault, Latency, Stall, Way, cut_of, under

FAULTS: list[Fault] = [Cut(7), Latency(0.1, Way.UP), Latency(0.2), Chop(3, Way.DOWN), Stall()]


def test_a_fault_holds_in_its_own_directions_and_the_first_one_counts() -> None:
    assert under(FAULTS, Latency, Way.UP) == Latency(0.1, Way.UP)
    assert under(FAULTS, Latency, Way.DOWN) == Latency(0.2)
    assert under(FAULTS, Chop, Way.DOWN) == Chop(3, Way.DOWN)
    assert under(FAULTS, Chop, Way.UP) is None
    assert under(FAULTS, Stall, Way.UP) == under(FAULTS, Stall, Way.DOWN) == Stall()
    assert under(FAULTS, BlackHole, Way.UP) is None


def test_a_cut_is_found_among_the_others() -> None:
    assert cut_of(FAULTS) == Cut(7, reset=False)
    assert cut_of([Stall()]) is None


def test_a_line_that_could_never_move_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        Chop(0)
    with pytest.raises(ValueError, match="Stall"):
        Bandwidth(0)
