"""A process that dies, or stands still, at any place of a run's life: what it costs, and how soon another goes on."""

from typing import Any

import pytest

from outlast.facts import ControllerStoodDown
from outlast.run import Status
from outlast.testing.clock import run
from outlast.testing.faults import Moment
from outlast.testing.history import History
from outlast.testing.invariants import check, rows
from outlast.testing.observation import CallBegan, CallEnded, CallResumed, Claimed, FactReported
from outlast.testing.worker import Save
from outlast.workers.base import Kind
from tests.simulation.killpoints import CHECKPOINTS, POINTS, TTL, Blow, Point, Scene, label

TAKEOVER_WITHIN = TTL + 2.0


async def play(point: Point, blow: Blow, *, readers: int, **options: Any) -> tuple[Scene, History]:
    scene = Scene(point, blow, readers=readers, **options)
    history = await scene.play()
    check(history)
    return scene, history


def test_all_fifteen_points_of_the_matrix_are_here() -> None:
    assert {point.number for point in POINTS} == set(range(1, 16))


@pytest.mark.fault("X1")
@pytest.mark.behaviour("B1", "B3", "H21", "W12", "O3", "A2")
@pytest.mark.parametrize("readers", [1, 3])
@pytest.mark.parametrize("point", POINTS, ids=label)
def test_a_process_that_dies_costs_what_its_place_says_and_another_goes_on_in_time(point: Point, readers: int) -> None:
    scene, history = run(play(point, Blow(), readers=readers))
    (row,) = history.rows.values()
    assert row.status is (Status.FAILED if point.fails else Status.COMPLETED)
    others = 1 if point.admission else 0  # the node that was lost before
    assert row.budget.life == point.charged + others
    assert scene.struck_at is not None
    later = [each.at - scene.struck_at for each in history.of(CallBegan) if each.at > scene.struck_at]
    if point.number in {12, 13, 15}:
        assert not later  # settled is settled
    else:
        assert len(later) == 1
        assert later[0] <= (TAKEOVER_WITHIN if point.charged else 2.0)
    assert not list(rows.told_once(history)) or point.number in {13, 15}


@pytest.mark.fault("X1", "X2")
@pytest.mark.behaviour("W14")
@pytest.mark.invariant("goes-on-where-readers-are", "ends-as-the-worker-believes", "checkpoints-are-in-the-log")
@pytest.mark.parametrize("blow", [Blow(), Blow(seconds=2 * TTL + 1)], ids=["dies", "stands still"])
@pytest.mark.parametrize("point", [*POINTS, *CHECKPOINTS], ids=label)
def test_a_resume_worker_goes_on_from_its_checkpoint_wherever_its_process_was_struck(point: Point, blow: Blow) -> None:
    scene, history = run(play(point, blow, readers=1, kind=Kind.RESUME))  # judged by the invariants
    (row,) = history.rows.values()
    assert row.status is (Status.FAILED if point.fails else Status.COMPLETED)
    assert row.budget.life == point.charged + (1 if point.admission else 0)
    resumed = [each for each in history.of(CallResumed) if each.counted is not None]
    kept = sum(isinstance(step, Save) for step in point.steps or ())
    if point in CHECKPOINTS:
        reached = kept or point.moment is not Moment.BEFORE
        assert [each.counted for each in resumed] == ([len(resumed[0].kept)] if reached else [])
    assert len({call.number for call in scene.worker.calls}) == len(scene.worker.calls)


@pytest.mark.fault("X2")
@pytest.mark.behaviour("H10", "H11", "B13")
@pytest.mark.parametrize(
    ("leases", "longer"),
    [
        pytest.param(2, 6 * TTL, id="2 leases, others are at work"),
        pytest.param(5, 1.0, id="5 leases, others have finished"),
        pytest.param(5, 6 * TTL, id="5 leases, others are at work", marks=pytest.mark.long),
        pytest.param(2, 1.0, id="2 leases, others have finished", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("point", POINTS, ids=label)
def test_a_process_that_stands_still_says_nothing_more_once_another_holds_its_run(
    point: Point, leases: int, longer: float
) -> None:
    scene, history = run(play(point, Blow(seconds=leases * TTL + 1), readers=1, longer=longer))
    (row,) = history.rows.values()
    others = 1 if point.admission else 0
    assert row.budget.life == point.charged + others
    (stored,) = history.logs.values()
    epochs = [each.epoch for each in stored]
    assert epochs == sorted(epochs)
    assert scene.struck_at is not None
    woken_at = scene.struck_at + leases * TTL + 1
    overtaken = {each.before.epoch for each in history.of(Claimed) if each.at > scene.struck_at} - {0}
    for each in history.of(CallEnded):
        if each.epoch in overtaken and each.at > scene.struck_at:
            assert woken_at <= each.at <= woken_at + 1.0
    stood_down = [
        each for each in history.of(FactReported) if each.node == "a" and isinstance(each.fact, ControllerStoodDown)
    ]
    assert bool(stood_down) is bool(point.charged)
    assert all(each.at <= woken_at + 1.0 for each in stood_down)
