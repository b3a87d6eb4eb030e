"""A cluster of nodes for tests: they join, die and come back over one store, and all of it is written down."""

import asyncio

import pytest

from outlast.errors import StoreUnavailable
from outlast.facts import NodeStarted, NodeStopped, RunClaimed
from outlast.lease import LeasePolicy
from outlast.run import Status
from outlast.stores.sqlite import SQLiteStore
from outlast.testing.cluster import EPOCH, Cluster, LoopClock
from outlast.testing.faults import Death, ErrorBefore, Gate, Moment, Script
from outlast.testing.invariants import check
from outlast.testing.observation import AbortTold, CallBegan, CallEnded, FactReported, FaultMet
from outlast.testing.worker import Hang, Raise, Return, Say, ScriptedWorker, Work

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


def working() -> ScriptedWorker:
    return ScriptedWorker(lambda _call: [Say("hello"), Work(10), Return("done")])


async def test_runs_are_driven_and_everything_is_written_down() -> None:
    async with Cluster({"chat": working()}) as cluster:
        member = await cluster.join("a")
        run = await cluster.start("chat", "r1", input={"n": 1}, thread="t1")
        assert (run.input, run.thread) == (b'{"n":1}', "t1")
        row = await cluster.outcome("r1", within=11)
        assert row.status is Status.COMPLETED
        assert [each.event.type for each in await cluster.log(run)] == ["run.started", "text", "run.completed"]
        history = await cluster.finish()
        check(history)
        assert (history.rows[run.log], len(history.logs[run.log])) == (row, 3)
        assert [each.at for each in history.of(CallBegan)] + [each.at for each in history.of(CallEnded)] == [0.0, 10.0]
        assert any(isinstance(fact, RunClaimed) for fact in member.facts)
        assert {each.node for each in history.of(FactReported)} == {"a"}


async def test_what_does_not_come_in_time_is_an_error_that_shows_the_row() -> None:
    async with Cluster({"chat": working()}) as cluster:
        await cluster.start("chat", "r1")
        with pytest.raises(TimeoutError, match="run r1 is queued after 7 s"):
            await cluster.outcome("r1", within=7)
        assert asyncio.get_running_loop().time() == 7.0


async def test_a_dead_node_reports_nothing_and_another_goes_on() -> None:
    async with Cluster({"chat": working()}) as cluster:
        first = await cluster.join("a")
        await cluster.start("chat", "r1")
        await cluster.until("r1", lambda row: row.budget.calls == 1, within=5)
        await asyncio.sleep(1)
        first.process.kill()
        told = len(first.facts)
        await cluster.join("b")
        row = await cluster.outcome("r1", within=30)
        assert (row.status, row.budget.life, len(first.facts)) == (Status.COMPLETED, 1, told)
        check(await cluster.finish())


async def test_a_closed_node_lets_go_of_its_runs() -> None:
    async with Cluster({"chat": working()}) as cluster:
        first = await cluster.join("a")
        await cluster.start("chat", "r1")
        await cluster.until("r1", lambda row: row.budget.calls == 1, within=5)
        await first.close()
        assert (await cluster.row("r1")).holder is None
        assert isinstance(first.facts[0], NodeStarted)
        assert isinstance(first.facts[-1], NodeStopped)


async def test_a_store_that_fails_keeps_a_node_from_joining_and_a_death_ends_it_at_once() -> None:
    async with Cluster({"chat": working()}) as cluster:
        script = Script()
        script.add("join", ErrorBefore(StoreUnavailable("away")))
        with pytest.raises(StoreUnavailable):
            await cluster.join("a", faults=script)
        script.add("join", Death(Moment.UNANSWERED))
        member = await cluster.join("b", faults=script)
        assert not member.process.alive
        assert member.crash is None
        assert [each.kind for each in cluster.history.of(FaultMet)] == ["ErrorBefore", "Death"]


async def test_what_ends_a_serving_node_is_told() -> None:
    async with Cluster({"chat": working()}) as cluster:
        member = await cluster.join("a")
        member.node._keeper = object()  # type: ignore[assignment]  # its next beat fails, which nothing expects
        await asyncio.sleep(1)
        assert isinstance(member.crash, ExceptionGroup)


async def test_the_worker_of_one_node_may_be_another() -> None:
    common, own = working(), ScriptedWorker(lambda _call: [Return("own")])
    async with Cluster({"chat": common}) as cluster:
        await cluster.join("a", workers={"chat": own})
        await cluster.start("chat", "r1")
        await cluster.outcome("r1", within=5)
        assert (len(common.calls), len(own.calls)) == (0, 1)


async def test_aborts_are_written_down() -> None:
    worker = ScriptedWorker(lambda _call: [Raise(ValueError())])
    async with Cluster({"chat": worker}) as cluster:
        await cluster.join("a")
        await cluster.start("chat", "r1")
        await cluster.outcome("r1", within=5)
        await asyncio.sleep(3)
        assert [(each.run, each.epoch) for each in cluster.history.of(AbortTold)] == [("r1", 1)]


async def test_the_clock_of_a_machine_may_drift_and_its_wall_clock_step() -> None:
    clock = LoopClock(rate=1.5)
    await asyncio.sleep(10)
    assert (clock.elapsed(), clock.wall(), clock.boot_id()) == (15.0, EPOCH + 15.0, "boot")
    clock.step = -300.0
    assert (clock.elapsed(), clock.wall()) == (15.0, EPOCH - 285.0)


async def test_a_store_of_ones_own_is_left_open() -> None:
    store = SQLiteStore(None, clock=LoopClock())
    await store.open()
    async with Cluster({"chat": working()}, store=store, lease=LeasePolicy(ttl=30.0)) as cluster:
        await cluster.join("a")
        (node,) = await store.runs.nodes()
        assert node.until == EPOCH + 30.0
    assert await store.runs.now() == EPOCH
    await store.close()


async def test_a_cluster_that_ends_leaves_nothing_alive_whatever_its_nodes_were_doing() -> None:
    worker = ScriptedWorker(lambda _call: [Hang()])
    async with Cluster({"chat": worker}) as cluster:
        script = Script()
        script.add("renew", ErrorBefore(StoreUnavailable("away")), times=None)
        script.add("due", Gate(), skip=3)
        await cluster.join("a", faults=script)
        frozen = await cluster.join("b")
        await cluster.start("chat", "r1")
        await asyncio.sleep(5)
        frozen.process.pause()
    assert all(call.ended_at is not None for call in worker.calls)
