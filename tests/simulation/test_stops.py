"""Stops at any moment, twice, from any node, before the run is known: told within a second, and never two outcomes."""

import asyncio
import functools
import random
from collections.abc import Iterable

import pytest

from outlast.run import Cancelled, Completed
from outlast.stores.base import StopAnswer
from outlast.testing.clock import run
from outlast.testing.cluster import Cluster
from outlast.testing.history import History
from outlast.testing.invariants import INVARIANTS, budget, check, rows
from outlast.testing.observation import CallBegan, CallEnded, StopAnswered
from outlast.testing.worker import Call, Chatter, Emit, Return, Say, ScriptedWorker, Step, Work

TOLD_WITHIN = 1.0
QUIET = {
    **INVARIANTS,
    "quiet": rows.quiet,
    "told-once": rows.told_once,
    "calls-end-with-their-run": budget.calls_end_with_their_run,
}
"""What also holds where nothing fails."""


@functools.cache
def history_of(seed: int) -> History:
    return run(stopped_at_random(seed))


async def stopped_at_random(seed: int) -> History:
    """Start runs one after another on three nodes, and stop each at a random moment, some twice."""
    dice = random.Random(f"stops {seed}")

    def script(call: Call) -> Iterable[Step]:
        roll = random.Random(f"{seed}/{call.run}")
        yield Say("a")
        yield Work(roll.choice([0.0, 0.5, roll.uniform(0, 3)]))
        yield Emit("b")
        if roll.random() < 0.5:
            yield Chatter(0.2)
        yield Return("done")

    async with Cluster({"chat": ScriptedWorker(script)}, seed=seed) as cluster:
        members = [await cluster.join(name) for name in "abc"]

        async def stop(id: str, after: float) -> None:
            await asyncio.sleep(after)
            await dice.choice(members).intake.stop(owner="", id=id, reason=f"after {after}")

        async with asyncio.TaskGroup() as stops:
            for number in range(20):
                id = f"r{number}"
                moment = dice.choice([0.0, 0.0005, dice.uniform(0, 2.5), dice.uniform(0, 10)])
                stops.create_task(stop(id, moment))
                if dice.random() < 0.5:
                    stops.create_task(stop(id, moment + dice.choice([0.0, 0.001, dice.uniform(0, 2)])))
                await asyncio.sleep(dice.choice([0.0, 0.001]))
                await cluster.start("chat", id)
                await asyncio.sleep(dice.uniform(0, 0.5))
        for number in range(20):
            await cluster.outcome(f"r{number}", within=5)
        await asyncio.sleep(10)
        return await cluster.finish()


@pytest.mark.fault("X11")
@pytest.mark.behaviour("S1", "S2", "S3", "S4", "S5")
@pytest.mark.invariant("stop-wins-once", "typed-refusals")
@pytest.mark.parametrize("seed", range(10))
def test_a_stop_at_any_moment_is_told_within_a_second_and_wins_once(seed: int) -> None:
    history = history_of(seed)
    check(history, QUIET)
    asked: dict[str, float] = {}
    for stop in history.of(StopAnswered):
        if stop.known and stop.answer is not StopAnswer.ALREADY:
            asked.setdefault(stop.run, stop.at)
    assert asked
    for call in history.of(CallEnded):
        if call.run in asked:
            assert call.at <= asked[call.run] + TOLD_WITHIN
    for call in history.of(CallBegan):
        assert call.at <= asked.get(call.run, float("inf"))
    for row in history.rows.values():
        assert row.stop is None or isinstance(row.outcome, Cancelled | Completed)


def test_the_seeds_stop_runs_at_every_stage() -> None:
    stages: set[str] = set()
    for seed in range(10):
        history = history_of(seed)
        for each in history.of(StopAnswered):
            stages.add(f"{each.answer} {'known' if each.known else 'unknown'}")
    assert stages == {"accepted known", "accepted unknown", "settled known", "already known"}
