"""Runs that keep failing cost a bounded number of calls, whatever reads them and however many nodes there are."""

import sys

import pytest

from outlast.backoff import JITTER
from tests.simulation.storms import PAGE, SHAPES, Shape, Storm, measure, printed, table

CALLS = {
    "the process dies at once": 6,
    "the process dies after an event": 6,
    "a resume worker's process dies after an event and a checkpoint": 6,
    "every append fails": 6,
    "every append after the first fails": 6,
    "the process dies a second after every window": 21,
    "the worker raises": 1,
    "the worker asks to be called again": 4,
}
SCALES = [(readers, nodes) for nodes in (1, 3) for readers in (0, 1, 3, 20)]


@pytest.mark.fault("X9")
@pytest.mark.behaviour("B6", "B7", "B9", "B14", "B20", "B21", "H5", "H6", "O1")
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
@pytest.mark.parametrize(("readers", "nodes"), SCALES)
def test_a_storm_costs_the_same_calls_and_one_abort_at_every_scale(shape: Shape, readers: int, nodes: int) -> None:
    storm = measure(shape, readers=readers, nodes=nodes)
    assert (storm.calls, storm.aborts) == (CALLS[shape.name], 1)


@pytest.fixture(scope="module")
def storms() -> dict[str, Storm]:
    return {shape.name: measure(shape, readers=1, nodes=1) for shape in SHAPES}


@pytest.mark.behaviour("B4")
def test_each_takeover_waits_at_least_the_floor_of_its_backoff(storms: dict[str, Storm]) -> None:
    gaps = storms["every append fails"].gaps
    assert gaps[0] == 0  # the first takeover is immediate
    floors = [2**number * (1 - JITTER) for number in range(4)]
    assert all(gap >= round(floor, 1) for gap, floor in zip(gaps[1:], floors, strict=True))


@pytest.mark.fault("X9")
def test_the_table_in_the_docs_is_what_was_measured(storms: dict[str, Storm]) -> None:
    sys.stdout.write(f"{table(storms)}\n")
    page = PAGE.read_text()
    assert printed(page, storms) == page, "python -m tests.simulation.storms writes it anew"
