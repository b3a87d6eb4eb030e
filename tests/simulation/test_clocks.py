"""Wrong clocks: whatever a machine believes the time to be, the same calls are made and the same waits are kept."""

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from outlast.run import FailureCode
from outlast.stores.sqlite import SQLiteStore
from outlast.testing.clock import run
from outlast.testing.cluster import Cluster, LoopClock
from outlast.testing.invariants import check
from outlast.testing.observation import CallBegan, Claimed
from outlast.testing.worker import Call, Die, Emit, Raise, Return, ScriptedWorker, Step, Work

HOUR = 3600.0


def flapping(call: Call) -> Iterable[Step]:
    """Die at once, twice; then work for a while and come to the end."""
    yield Emit("a")
    if call.number < 4:
        yield Raise(MemoryError())
    yield Work(20)
    yield Return("done")


async def calls_with(steps: Iterable[float]) -> list[float]:
    """Run to the end while the wall clock steps every half second, and return when the worker was called."""
    async with Cluster({"chat": ScriptedWorker(flapping)}, seed=1) as cluster:
        await cluster.join("a")
        await cluster.join("b")
        await cluster.start("chat", "r1")

        async def step() -> None:
            for wrong in steps:
                cluster.clock.step = wrong
                await asyncio.sleep(0.5)

        stepping = asyncio.create_task(step())
        await cluster.outcome("r1", within=60)
        stepping.cancel()
        history = await cluster.finish()
        check(history)
        return [each.at for each in history.of(CallBegan)]


@pytest.mark.fault("X8")
@pytest.mark.behaviour("H19")
@pytest.mark.invariant("one-clock")
@pytest.mark.parametrize("steps", [[HOUR], [-HOUR], [-300.0], [HOUR, -HOUR, 0.0, -300.0] * 10])
def test_a_wall_clock_that_steps_changes_no_call_and_no_wait(steps: list[float]) -> None:
    expected = run(calls_with([]))
    assert len(expected) == 4
    assert run(calls_with(steps)) == expected


@pytest.mark.fault("X8")
@pytest.mark.behaviour("H19", "B4", "H2")
@pytest.mark.parametrize("rate", [0.9, 1.1])
def test_a_clock_that_drifts_by_a_tenth_loses_no_run_and_keeps_the_waits_by_its_own_time(rate: float) -> None:
    async def scenario() -> None:
        clock = LoopClock(rate=rate)
        async with Cluster({"chat": ScriptedWorker(flapping)}, seed=1, clock=clock) as cluster:
            await cluster.join("a")
            await cluster.join("b")
            await cluster.start("chat", "r1")
            row = await cluster.outcome("r1", within=60)
            history = await cluster.finish()
            check(history)  # no claim before its time, by the store's clock
            assert row.budget.life == 3  # what the worker asked for, and no takeover of the one that worked
            gaps = [later.at - earlier.at for earlier, later in pairwise(history.of(Claimed))]
            assert [gap >= floor / rate - 1e-6 for gap, floor in zip(gaps, [0.0, 0.8, 1.6], strict=True)] == [True] * 3

    run(scenario())


# ---- several machines' views of one file --------------------------------------------------------


async def takeover_with(path: Path, skews: tuple[float, float]) -> tuple[list[float], int]:
    """Let two nodes over one file, whose wall clocks are wrong, drive a run whose first node dies."""

    def dying(call: Call) -> Iterable[Step]:
        yield Emit("a")
        if call.number == 1:
            yield Die()
        yield Raise(ValueError())

    async with AsyncExitStack() as stack:
        stores = []
        for skew in skews:
            store = SQLiteStore(path, clock=LoopClock(step=skew))
            await store.open()
            stack.push_async_callback(store.close)
            stores.append(store)
        worker = ScriptedWorker(dying)
        first = await stack.enter_async_context(Cluster({"chat": worker}, store=stores[0], seed=1))
        second = await stack.enter_async_context(Cluster({"chat": worker}, store=stores[1], seed=2, prefix="other"))
        await first.join("a")
        await first.start("chat", "r1")
        await first.until("r1", lambda row: row.budget.calls == 1, within=10)
        await second.join("b")
        row = await second.outcome("r1", within=60)
        assert getattr(row.outcome, "code", None) is FailureCode.WORKER_ERROR
        return [call.began_at for call in worker.calls], row.budget.life


@pytest.mark.fault("X8")
@pytest.mark.behaviour("H19")
@pytest.mark.invariant("one-clock")
@pytest.mark.parametrize("skews", [(HOUR, -HOUR), (-HOUR, HOUR), (0.0, HOUR), (HOUR, 0.0)])
def test_nodes_whose_wall_clocks_are_hours_apart_take_over_as_if_they_were_not(
    tmp_path: Path, skews: tuple[float, float]
) -> None:
    expected = run(takeover_with(tmp_path / "right.db", (0.0, 0.0)))
    assert len(expected[0]) == 2
    assert run(takeover_with(tmp_path / "wrong.db", skews)) == expected
