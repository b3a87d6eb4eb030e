"""Stopping runs: a durable fact before anyone is told, from any handle and before the run is known."""

from typing import Final

import pytest

from outlast.run import Cancelled, Cause, Completed, Run, Status, StopIntent, terminal
from outlast.stores.base import EARLY_STOP_TTL, EARLY_STOPS, StopAnswer, Stopped, Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import (
    ANN,
    BOB,
    CHAT,
    MANY,
    TTL,
    A,
    B,
    drive,
    events,
    join,
    load,
    new_run,
    said,
    say,
    start,
    take,
)

ENOUGH: Final = Cancelled(reason="enough")


class Stopping(Contract):
    """`RunStore.stop` and `stops`, and what a start finds of an earlier stop."""

    # ---- a run that nobody holds ----

    @pytest.mark.behaviour("S6")
    async def test_a_queued_run_is_cancelled_at_once(self, store: Store) -> None:
        run = await start(store)
        stopped = await store.runs.stop(ANN, "r1", reason="enough")
        assert stopped.answer is StopAnswer.SETTLED
        assert stopped.run is not None
        assert (stopped.run.status, stopped.run.outcome, stopped.run.epoch) == (Status.CANCELLED, ENOUGH, 1)
        await _check_cancelled(store, run, stopped)

    @pytest.mark.behaviour("S6")
    async def test_a_run_whose_holder_is_gone_is_cancelled_at_once_and_keeps_what_it_said(
        self, store: Store, bench: Workbench
    ) -> None:
        await join(store, A)
        run = await drive(store)
        await say(store, run, "a", "b")
        await bench.age(TTL + 1)
        stopped = await store.runs.stop(ANN, "r1", reason="enough")
        assert stopped.answer is StopAnswer.SETTLED
        await _check_cancelled(store, run, stopped)
        assert await said(store, run) == ["a", "b", "run.cancelled"]

    async def test_a_released_run_is_cancelled_at_once(self, store: Store) -> None:
        await join(store, A)
        run = await take(store, await start(store), A, not_before=await store.runs.now() + 1000)
        await store.runs.release(run, run.token, Cause.STORE)
        stopped = await store.runs.stop(ANN, "r1", reason="enough")
        assert stopped.answer is StopAnswer.SETTLED
        await _check_cancelled(store, run, stopped)

    @pytest.mark.behaviour("S5")
    async def test_a_parked_run_is_cancelled_at_once(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        run = await drive(store)
        await bench.park(run, wake_at=None)
        stopped = await store.runs.stop(ANN, "r1", reason="enough")
        assert stopped.answer is StopAnswer.SETTLED
        await _check_cancelled(store, run, stopped)

    # ---- a run that somebody holds ----

    @pytest.mark.behaviour("S1")
    async def test_the_stop_of_a_held_run_is_written_for_its_holder(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        run = await drive(store)
        await bench.age(5)
        before = await store.runs.now()
        stopped = await store.runs.stop(ANN, "r1", reason="enough")
        assert stopped.answer is StopAnswer.ACCEPTED
        stopping = await load(store, run)
        assert stopping.stop is not None
        assert (stopping.stop.reason, stopping.status, stopping.token) == ("enough", Status.ACTIVE, run.token)
        assert before <= stopping.stop.at <= await store.runs.now()
        assert stopped.run == stopping
        assert await said(store, run) == []

    @pytest.mark.behaviour("S1")
    async def test_a_second_stop_keeps_the_first_ones_reason(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        await drive(store)
        first = await store.runs.stop(ANN, "r1", reason=None)
        await bench.age(1)
        second = await store.runs.stop(ANN, "r1", reason="second")
        assert second.answer is StopAnswer.ACCEPTED
        assert first.run is not None
        assert second.run is not None
        assert second.run.stop == first.run.stop == StopIntent(at=_at(first), reason=None)

    async def test_a_node_finds_the_stops_of_the_runs_it_holds(self, store: Store) -> None:
        await join(store, A, B)
        for id, node in (("r1", A), ("r2", A), ("r3", B), ("r4", A)):
            await drive(store, id, node)
        for id in ("r1", "r3", "r4"):
            await store.runs.stop(ANN, id, reason=None)
        ended = await store.runs.load(ANN, "r4")
        await store.runs.settle(ended.run, ended.run.token, Cancelled())
        assert list(await store.runs.stops(A)) == [(await store.runs.load(ANN, "r1")).run]
        assert list(await store.runs.stops(B)) == [(await store.runs.load(ANN, "r3")).run]

    # ---- a run that is over ----

    async def test_a_settled_run_is_already_over(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        settled = await store.runs.settle(run, run.token, Completed())
        assert await store.runs.stop(ANN, "r1", reason=None) == Stopped(answer=StopAnswer.ALREADY, run=settled)
        assert await load(store, run) == settled

    # ---- a run that is not known yet ----

    @pytest.mark.behaviour("S1")
    async def test_a_stop_that_came_first_lets_its_run_be_born_cancelled(self, store: Store) -> None:
        await _stop_early(store, "r1")
        started = await store.runs.start(new_run(thread="t1"))
        assert started.created
        assert (started.run.status, started.run.outcome) == (Status.CANCELLED, ENOUGH)
        assert await load(store, started.run) == started.run
        log = await events(store, started.run)
        assert [(stored.seq, stored.event) for stored in log] == [(1, terminal(ENOUGH))]
        assert (await store.logs.head(started.run.log)).sealed
        assert list((await store.runs.due([CHAT], limit=MANY)).runs) == []
        assert (await store.runs.start(new_run("r2", thread="t1"))).created

    @pytest.mark.behaviour("S1")
    @pytest.mark.parametrize(("aged", "status"), [(-10, Status.CANCELLED), (10, Status.QUEUED)])
    async def test_an_early_stop_is_kept_for_ten_minutes(
        self, store: Store, bench: Workbench, aged: float, status: Status
    ) -> None:
        await _stop_early(store, "r1")
        await bench.age(EARLY_STOP_TTL + aged)
        assert (await start(store)).status is status

    @pytest.mark.behaviour("S1")
    async def test_a_hundred_early_stops_are_kept_and_the_oldest_forgotten_first(
        self, store: Store, bench: Workbench
    ) -> None:
        for number in range(EARLY_STOPS + 1):
            await _stop_early(store, f"r{number}")
            await bench.age(1)
        assert await _born(store, "r0") is Status.QUEUED
        assert await _born(store, "r1") is Status.CANCELLED
        assert await _born(store, f"r{EARLY_STOPS}") is Status.CANCELLED

    async def test_early_stops_are_counted_per_owner_and_belong_to_their_owner(self, store: Store) -> None:
        await _stop_early(store, "r1")
        for number in range(EARLY_STOPS + 1):
            await store.runs.stop(BOB, f"b{number}", reason=None)
        assert (await start(store, "b100", owner=ANN)).status is Status.QUEUED
        assert await _born(store, "r1") is Status.CANCELLED

    async def test_the_same_early_stop_again_takes_no_other_ones_place(self, store: Store, bench: Workbench) -> None:
        for number in range(EARLY_STOPS):
            await _stop_early(store, f"r{number}")
            await _stop_early(store, f"r{number}")
            await bench.age(1)
        assert await _born(store, "r0") is Status.CANCELLED

    async def test_an_early_stop_is_forgotten_once_its_run_is_born(self, store: Store, bench: Workbench) -> None:
        for number in range(EARLY_STOPS):
            await _stop_early(store, f"r{number}")
            await bench.age(1)
        newest = f"r{EARLY_STOPS - 1}"
        assert await _born(store, newest) is Status.CANCELLED
        await _stop_early(store, "another")
        assert await _born(store, "r0") is Status.CANCELLED

    @pytest.mark.behaviour("A5")
    async def test_another_owners_run_is_not_stopped_and_answers_like_one_that_never_was(self, store: Store) -> None:
        run = await start(store, "r1", owner=ANN)
        foreign = await store.runs.stop(BOB, "r1", reason=None)
        absent = await store.runs.stop(BOB, "r2", reason=None)
        assert foreign == absent == Stopped(answer=StopAnswer.ACCEPTED, run=None)
        assert await load(store, run) == run


def _at(stopped: Stopped) -> float:
    assert stopped.run is not None
    assert stopped.run.stop is not None
    return stopped.run.stop.at


async def _stop_early(store: Store, id: str) -> None:
    assert await store.runs.stop(ANN, id, reason="enough") == Stopped(answer=StopAnswer.ACCEPTED, run=None)


async def _born(store: Store, id: str) -> Status:
    return (await start(store, id)).status


async def _check_cancelled(store: Store, before: Run, stopped: Stopped) -> None:
    """Check that a stop settled a run as `settle_unheld` does: a new epoch, a terminal event, a seal, an abort."""
    run = await load(store, before)
    assert stopped.run == run
    assert (run.status, run.outcome, run.epoch, run.holder) == (Status.CANCELLED, ENOUGH, before.epoch + 1, None)
    last = (await events(store, run))[-1]
    assert (last.event, last.epoch) == (terminal(ENOUGH), run.epoch)
    assert (await store.logs.head(run.log)).sealed
    aborts = await store.runs.take_aborts([CHAT], hold=TTL, limit=MANY)
    assert [(abort.run, abort.tries) for abort in aborts] == [(run, 0)]
