"""Hundreds of runs at once: a dead worker's load is not multiplied, and what is held back costs next to nothing."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from outlast.errors import Retry
from outlast.facts import RunClaimed
from outlast.fleet import FLOOR, SHARE, SPAN
from outlast.recovery import TRIES, RecoveryPolicy
from outlast.run import FailureCode, Run, Status
from outlast.server.claim import HELD_BACK_FOR
from outlast.server.node import LOOK_EVERY, STARTS_AT_ONCE
from outlast.testing.cluster import Cluster, Member
from outlast.testing.faults import Gate, Script
from outlast.testing.invariants import check
from outlast.testing.observation import FactReported
from outlast.testing.worker import Call, Hang, Raise, Return, ScriptedWorker, Step

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

MANY = 500
LOOKS = 4
"""Looks tried: at some of them what is held back is read, at the others not."""


class Sick:
    """A worker's script: whatever is called is released and taken over, until the worker is `well`."""

    well = False

    def __call__(self, call: Call) -> list[Step]:
        return [Return(call.number)] if self.well else [Raise(MemoryError())]


async def begin(cluster: Cluster, name: str, many: int) -> Member:
    """Accept many runs, and only then bring a node up."""
    for number in range(many):
        await cluster.start("chat", f"r{number}")
    return await cluster.join(name)


def claims(cluster: Cluster) -> list[tuple[float, RunClaimed]]:
    """Return every claim with its time, without those that found nothing left to claim with."""
    told = [each for each in cluster.history.observations if isinstance(each, FactReported)]
    return [(each.at, each.fact) for each in told if isinstance(each.fact, RunClaimed) and not each.fact.exhausted]


def check_every_minute(claimed: Sequence[tuple[float, RunClaimed]]) -> None:
    """Hold the fleet's limit against every span that ends with a later takeover."""
    for end, latest in claimed:
        if latest.takeovers < 2:
            continue
        starts = [fact for at, fact in claimed if end - SPAN < at <= end]
        later = [fact for fact in starts if fact.takeovers > 1]
        assert len(later) <= FLOOR + SHARE * len(starts)


async def rows(cluster: Cluster, many: int = MANY) -> Sequence[Run]:
    """Return the row of every run."""
    return [each.run for each in await cluster.store.runs.list("", status=None, before=None, limit=many)]


async def waiting(cluster: Cluster) -> list[Run]:
    """Return what is due and held back, the oldest first."""
    now = await cluster.store.runs.now()
    due = [row for row in await rows(cluster) if row.status is Status.ACTIVE and row.not_before <= now]
    return sorted(due, key=lambda row: row.not_before)


@pytest.mark.behaviour("B24")
async def test_a_dead_workers_five_hundred_runs_are_taken_over_again_in_their_order_and_within_the_limit() -> None:
    async with Cluster({"chat": ScriptedWorker(Sick())}) as cluster:
        await begin(cluster, "a", MANY)
        await asyncio.sleep(5)
        queue, before = await waiting(cluster), len(claims(cluster))
        await asyncio.sleep(SPAN + 5)
        again = [fact.run for _, fact in claims(cluster)[before:]]
        assert len(again) >= FLOOR
        assert set(again) == {run.log for run in queue[: len(again)]}
        check_every_minute(claims(cluster))


@pytest.mark.behaviour("B24")
async def test_nothing_that_is_held_back_starves_while_the_worker_is_dead_or_when_it_is_well_again() -> None:
    script, recovery = Sick(), RecoveryPolicy(takeovers=2, window=3600)
    async with Cluster({"chat": ScriptedWorker(script)}, recovery=recovery) as cluster:
        await begin(cluster, "a", 4 * FLOOR)
        await asyncio.sleep(SPAN)
        assert {row.status for row in await rows(cluster)} == {Status.ACTIVE, Status.FAILED}
        script.well = True
        await asyncio.sleep(2 * SPAN + HELD_BACK_FOR)
        assert {row.status for row in await rows(cluster)} == {Status.COMPLETED, Status.FAILED}
        check_every_minute(claims(cluster))


@pytest.mark.fault("X10")
@pytest.mark.parametrize("many", [150, pytest.param(2000, marks=pytest.mark.long)])
async def test_a_worker_that_is_down_for_five_minutes_is_not_stormed_and_all_its_runs_end(many: int) -> None:
    script = Sick()
    worker = ScriptedWorker(script)
    async with Cluster({"chat": worker}) as cluster:
        await begin(cluster, "a", many)
        await asyncio.sleep(5 * SPAN)
        script.well = True
        await asyncio.sleep(many / FLOOR * SPAN + 2 * SPAN)  # a minute for each portion of what is left
        assert {row.status for row in await rows(cluster, many)} <= {Status.COMPLETED, Status.FAILED}
        claimed = claims(cluster)
        check_every_minute(claimed)
        assert Counter(fact.takeovers for _, fact in claimed)[1] == many, (
            "waiting makes no first takeover of a later one"
        )
        check(await cluster.finish())


@pytest.mark.fault("X10")
async def test_runs_whose_worker_asks_for_another_call_in_vain_end_typed_within_their_tries() -> None:
    worker = ScriptedWorker(lambda _call: [Raise(Retry("down"))])
    async with Cluster({"chat": worker}) as cluster:
        await begin(cluster, "a", 100)
        await asyncio.sleep(SPAN)
        outcomes = {getattr(row.outcome, "code", None) for row in await rows(cluster)}
        assert outcomes == {FailureCode.WORKER_FAILED}
        assert len(worker.calls) == (1 + TRIES) * 100
        check(await cluster.finish())


@pytest.mark.behaviour("B24")
async def test_what_is_held_back_costs_no_operation_of_the_store_and_no_question() -> None:
    asked: list[str] = []

    async def admit(run: Run) -> None:
        asked.append(run.id)

    async with Cluster({"chat": ScriptedWorker(Sick())}, admit=admit) as cluster:
        member = await begin(cluster, "a", 2 * FLOOR)
        await asyncio.sleep(30)
        assert await waiting(cluster)
        done: list[str] = []
        member.store.on_operation = lambda operation, _arguments: done.append(operation)
        asked.clear()
        await asyncio.sleep(20)
        assert await waiting(cluster)
    assert not {"load", "claim", "refuse", "settle_unheld"} & set(done)
    assert done.count("due") < 20 * (1 / LOOK_EVERY + 2 / HELD_BACK_FOR)
    assert asked == []


@pytest.mark.behaviour("B24")
async def test_a_stop_of_a_run_that_is_held_back_is_carried_out_at_once() -> None:
    async with Cluster({"chat": ScriptedWorker(Sick())}) as cluster:
        await begin(cluster, "a", 2 * FLOOR)
        await asyncio.sleep(30)
        (held_back, *_) = await waiting(cluster)
        await cluster.intake.stop(owner="", id=held_back.id)
        assert (await cluster.outcome(held_back.id, within=1)).status is Status.CANCELLED


@pytest.mark.behaviour("B24")
async def test_a_page_of_what_is_held_back_hides_no_run_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.server.node.LOOK_AT", 4)
    workers = {"chat": ScriptedWorker(Sick()), "draw": ScriptedWorker(lambda _call: [Return(1)])}
    async with Cluster(workers) as cluster:
        await begin(cluster, "a", 2 * FLOOR)
        await asyncio.sleep(30)
        assert len(await waiting(cluster)) > 4
        for number in range(3 * LOOKS):
            await cluster.start("draw", f"well-{number}")
            await cluster.outcome(f"well-{number}", within=1)
            await asyncio.sleep(LOOK_EVERY)


@pytest.mark.behaviour("B24", "B1")
async def test_a_node_that_dies_with_five_hundred_runs_is_followed_by_first_takeovers_sixty_four_at_a_time() -> None:
    worker = ScriptedWorker(lambda call: [Hang()] if call.number == 1 else [Return(2)])
    gate, script = Gate(), Script()
    script.add("claim", gate, times=None)
    begun: list[str] = []
    async with Cluster({"chat": worker}) as cluster:
        holder = await begin(cluster, "a", MANY)
        await asyncio.sleep(1)
        assert holder.node.held == MANY
        successor = await cluster.join("b", faults=script)
        successor.store.on_operation = lambda operation, _arguments: begun.append(operation)
        holder.process.kill()
        await asyncio.sleep(20)
        assert begun.count("claim") == STARTS_AT_ONCE
        gate.open()
        await asyncio.sleep(1)
        assert {(row.status, row.budget.takeovers) for row in await rows(cluster)} == {(Status.COMPLETED, 1)}
