"""A node: whom it takes runs from, whom it leaves alone, and what ends it."""

import asyncio
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from outlast.errors import StoreUnavailable, ThreadBusy
from outlast.facts import CallLeftBehind, ControllerStoodDown, NodeStarted, NodeStopped, RunClaimed, RunReleased
from outlast.lease import LeasePolicy
from outlast.log.cursor import Cursor
from outlast.run import Cause, Completed, Run, Status
from outlast.server.node import LOOK_EVERY, STARTS_AT_ONCE
from outlast.testing.cluster import Cluster
from outlast.testing.faults import ErrorBefore, Gate, Script
from outlast.testing.invariants import check
from outlast.testing.worker import Chatter, Deaf, Die, Emit, Hang, Raise, Return, Say, ScriptedWorker, Work
from tests.stage import Wire, events

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

TTL = LeasePolicy().ttl


def claims(*facts: object) -> list[RunClaimed]:
    return [fact for told in facts for fact in told if isinstance(fact, RunClaimed)]  # type: ignore[attr-defined]


@pytest.mark.behaviour("B1", "O3")
async def test_the_first_takeover_comes_within_a_second_of_the_leases_end() -> None:
    worker = ScriptedWorker(lambda call: [Emit("hello"), Die()] if call.number == 1 else [Return(1)])
    async with Cluster({"chat": worker}) as cluster:
        first = await cluster.join("a")
        await cluster.start("chat", "r1")
        await first.process.gone()
        (lease,) = [node.until for node in await cluster.store.runs.nodes() if node.id == first.node.id]
        await cluster.join("b")
        row = await cluster.outcome("r1", within=TTL + 2)
        check(await cluster.finish())
    takeover_at = worker.calls[1].began_at + 1_800_000_000.0
    assert lease <= takeover_at < lease + 1
    assert (row.budget.takeovers, len(worker.calls)) == (1, 2)


@pytest.mark.behaviour("H2", "F12")
async def test_a_live_controller_is_never_taken_over_however_many_read() -> None:
    worker = ScriptedWorker(lambda _call: [Say("one"), Work(3 * TTL), Return(1)])
    async with Cluster({"chat": worker}) as cluster:
        members = [await cluster.join(name) for name in "abc"]
        run = await cluster.start("chat", "r1")
        reading = [
            asyncio.create_task(cluster.reader(f"reader-{n}", run).follow_log(cluster.store.logs)) for n in range(3)
        ]
        row = await cluster.outcome("r1", within=3 * TTL + 1)
        await asyncio.gather(*reading)
        check(await cluster.finish())
    assert (row.epoch, row.budget.life, row.budget.calls, len(worker.calls)) == (1, 0, 1, 1)
    assert len(claims(*(member.facts for member in members))) == 1


class Timed(Wire):
    """A client that knows when it was sent something."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    async def send(self, message: Any) -> None:
        self.times.append(asyncio.get_running_loop().time())
        await super().send(message)


PROXY = 30.0
"""Seconds of silence that proxies between a server and its readers bear at the least."""


@pytest.mark.behaviour("A4", "F5", "F10")
@pytest.mark.case(17)
async def test_a_run_that_everybody_left_goes_on_to_its_end_and_is_told_whole_to_who_comes_back() -> None:
    worker = ScriptedWorker(lambda _call: [Emit("before"), Work(600), Emit("after"), Return(1)])
    async with Cluster({"chat": worker}) as cluster:
        member = await cluster.join("a")
        run = await cluster.start("chat", "r1")
        wires = [Timed() for _ in range(3)]
        readers = [member.response(run, Cursor(0, None))({"type": "http"}, wire.receive, wire.send) for wire in wires]
        reading = asyncio.gather(*readers)
        await asyncio.sleep(300)  # the worker is silent, the stream is not
        for wire in wires:
            assert max(later - earlier for earlier, later in pairwise(wire.times)) < PROXY
            wire.left.set()
        await reading
        assert member.hub.readers == 0
        row = await cluster.outcome("r1", within=600)
        late = Wire()
        await member.response(run, Cursor(0, None))({"type": "http"}, late.receive, late.send)
        log = [(stored.cursor, stored.event) for stored in await cluster.log(run)]
        check(await cluster.finish())
    assert (row.outcome, row.epoch, len(worker.calls)) == (Completed(result=b"1"), 1, 1)
    assert [event.type for _, event in log] == ["run.started", "text", "text", "run.completed"]
    assert events(late.messages) == log
    assert late.complete


class Asked:
    """Faults that never happen: they only count what a store is asked."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def draw(self, operation: str) -> None:
        self.calls[operation] += 1


@pytest.mark.behaviour("F12")
@pytest.mark.parametrize("runs", [0, 1, 50])
async def test_a_node_whose_runs_wait_asks_its_store_less_than_twice_a_second(runs: int) -> None:
    asked = Asked()
    async with Cluster({"chat": ScriptedWorker(lambda _call: [Work(100), Return(1)])}) as cluster:
        await cluster.join("a", faults=asked)
        for number in range(runs):
            await cluster.start("chat", f"r{number}")
        await asyncio.sleep(10)
        asked.calls.clear()
        await asyncio.sleep(60)
        assert asked.calls.total() < 2 * 60
        assert asked.calls["due"] >= 60 / LOOK_EVERY - 1
        for number in range(runs):
            await cluster.outcome(f"r{number}", within=60)
        check(await cluster.finish())


@pytest.mark.behaviour("H3")
async def test_a_run_without_a_worker_here_is_left_to_another_node_and_a_settled_one_to_nobody() -> None:
    worker = ScriptedWorker(lambda _call: [Return(1)])
    async with Cluster({"chat": worker}) as cluster:
        without = await cluster.join("a", workers={"other": worker})
        await cluster.start("chat", "r1")
        await asyncio.sleep(60)
        assert (await cluster.row("r1")).status is Status.QUEUED
        assert claims(without.facts) == []
        with_it = await cluster.join("b")
        await cluster.outcome("r1", within=2)
        settled = await cluster.row("r1")
        await asyncio.sleep(600)
        assert await cluster.row("r1") == settled
        assert len(claims(with_it.facts)) == 1
        check(await cluster.finish())


@pytest.mark.behaviour("H7")
async def test_a_lease_that_keeps_vanishing_stops_nobody_who_works_alone() -> None:
    worker = ScriptedWorker(lambda _call: [Chatter(1.0)])
    async with Cluster({"chat": worker}) as cluster:
        member = await cluster.join("a", workers={"chat": worker})
        run = await cluster.start("chat", "r1")
        for _ in range(20):
            await asyncio.sleep(4)
            await cluster.store.runs.leave(member.node.id)
        said = len(await cluster.log(run))
        await asyncio.sleep(5)
        row = await cluster.row("r1")
        assert len(await cluster.log(run)) > said
        await cluster.intake.stop(owner="", id="r1")
        await cluster.outcome("r1", within=20)
        await asyncio.sleep(5)
        history = await cluster.finish()
    check(history)
    assert row.budget.life <= 5


@pytest.mark.behaviour("H5", "H6", "B21")
@pytest.mark.parametrize("skip", [0, 1, 2])
async def test_an_append_that_fails_for_ever_is_bounded_and_the_log_does_not_grow(skip: int) -> None:
    worker = ScriptedWorker(lambda _call: [Emit("hello"), Emit("again"), Emit("and again"), Return(1)])
    script = Script()
    script.add("append", ErrorBefore(ValueError("unclassified")), skip=skip, times=None)
    async with Cluster({"chat": worker}) as cluster:
        await cluster.join("a", faults=script)
        run = await cluster.start("chat", "r1")
        row = await cluster.outcome("r1", within=120)
        await asyncio.sleep(5)
        log = await cluster.log(run)
        check(await cluster.finish())
    assert (len(worker.calls), row.budget.takeovers, len(worker.aborts)) == (6, 5, 1)
    assert len(log) <= 1 + skip + 1  # a first append carries `run.started` and a word
    assert [each.event.type for each in log[-1:]] == ["run.failed"]
    assert "run.restarted" not in [each.event.type for each in log]


@pytest.mark.behaviour("H18")
async def test_a_node_that_regains_its_store_lets_the_holders_renew_first() -> None:
    worker = ScriptedWorker(lambda _call: [Hang()])
    async with Cluster({"chat": worker}) as cluster:
        holder = await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        other = await cluster.join("b")
        for member in (holder, other):
            away = Script()
            for operation in ("renew", "due", "bury", "stops", "append", "take_aborts"):
                away.add(operation, ErrorBefore(StoreUnavailable("away")), times=None)
            member.store.faults = away
        await asyncio.sleep(30)
        other.store.faults = Script()  # the other is back first, and finds a lease that ran out
        await asyncio.sleep(TTL - 1)
        holder.store.faults = Script()
        await asyncio.sleep(30)
        row = await cluster.row("r1")
    assert (row.epoch, row.budget.life, len(worker.calls)) == (1, 0, 1)


@pytest.mark.behaviour("H10")
async def test_a_controller_whose_run_was_claimed_by_another_learns_it_from_the_renewal() -> None:
    worker = ScriptedWorker(lambda _call: [Hang()])
    async with Cluster({"chat": worker}) as cluster:
        first = await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        await cluster.store.runs.leave(first.node.id)
        second = await cluster.join("b")
        await asyncio.sleep(7)
        assert len(claims(second.facts)) == 1
        assert [fact for fact in first.facts if isinstance(fact, ControllerStoodDown)]
        assert worker.calls[0].ended_at is not None
        await cluster.intake.stop(owner="", id="r1")
        await cluster.outcome("r1", within=5)
        await asyncio.sleep(5)
        check(await cluster.finish())


async def test_claims_are_made_sixty_four_at_a_time() -> None:
    worker = ScriptedWorker(lambda _call: [Return(1)])
    gate, script = Gate(), Script()
    script.add("claim", gate, times=None)
    begun: list[str] = []
    async with Cluster({"chat": worker}) as cluster:
        for number in range(STARTS_AT_ONCE + 20):
            await cluster.start("chat", f"r{number}")
        member = cluster.prepare("a")
        member.store.faults = script
        member.store.on_operation = lambda operation, _arguments: begun.append(operation)
        await member.begin()
        await asyncio.sleep(5)
        assert begun.count("claim") == STARTS_AT_ONCE
        gate.open()
        for number in range(STARTS_AT_ONCE + 20):
            await cluster.outcome(f"r{number}", within=5)


@pytest.mark.behaviour("O3")
@pytest.mark.case(33)
async def test_what_a_dead_process_was_doing_takes_no_place_after_the_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.server.node.STARTS_AT_ONCE", 1)
    worker = ScriptedWorker(lambda call: [Hang()] if call.process == "a" else [Return(2)])
    async with Cluster({"chat": worker}) as cluster:
        first = await cluster.join("a")
        for id in ("r1", "r2", "r3"):
            await cluster.start("chat", id, thread=f"thread-of-{id}")
        await asyncio.sleep(1)
        first.process.kill()
        await cluster.join("b")
        await cluster.start("chat", "new")
        await cluster.outcome("new", within=1)  # the three are still held, by the rows
        with pytest.raises(ThreadBusy):
            await cluster.start("chat", "next", thread="thread-of-r1")
        for id in ("r1", "r2", "r3"):
            row = await cluster.outcome(id, within=TTL + 2)
            assert (row.status, row.budget.takeovers) == (Status.COMPLETED, 1)
        await cluster.start("chat", "next", thread="thread-of-r1")
        await cluster.outcome("next", within=1)
        check(await cluster.finish())


async def test_a_node_that_closes_hands_its_runs_off_and_nothing_is_charged() -> None:
    worker = ScriptedWorker(lambda call: [Emit("hello"), Hang()] if call.number == 1 else [Return(2)])
    async with Cluster({"chat": worker}) as cluster:
        first = await cluster.join("a")
        run = await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        await first.close()
        second = await cluster.join("b")
        row = await cluster.outcome("r1", within=2)
        log = await cluster.log(run)
        check(await cluster.finish())
    assert (row.budget.takeovers, row.budget.life, row.budget.handoffs) == (0, 0, 1)
    assert [fact.cause for fact in first.facts if isinstance(fact, RunReleased)] == [Cause.HANDOFF]
    assert [type(fact) for fact in first.facts if isinstance(fact, NodeStarted | NodeStopped)] == [
        NodeStarted,
        NodeStopped,
    ]
    assert claims(second.facts)[0].cause is Cause.HANDOFF
    assert log[2].event.data == {"epoch": 2, "attempt": 2, "cause": "handoff", "keep": 0}


async def test_a_deaf_worker_does_not_keep_a_node_from_closing() -> None:
    worker = ScriptedWorker(lambda call: [Deaf(100)] if call.number == 1 else [Return(2)])
    async with Cluster({"chat": worker}) as cluster:
        first = await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        began_at = asyncio.get_running_loop().time()
        await first.close()
        assert asyncio.get_running_loop().time() - began_at <= 10
        await cluster.join("b")
        await cluster.outcome("r1", within=2)


@pytest.mark.behaviour("O1", "H17")
@pytest.mark.parametrize("operation", ["due", "bury", "stops", "load", "claim", "refuse", "release"])
async def test_no_error_of_the_store_ends_a_node(operation: str) -> None:
    async def refuse_once(run: Run) -> None:
        if run.epoch == 1:
            raise ValueError

    worker = ScriptedWorker(lambda call: [Raise(MemoryError())] if call.number == 1 else [Work(5), Return(1)])
    script = Script()
    script.add(operation, ErrorBefore(ValueError("unclassified")), times=2)
    async with Cluster({"chat": worker}, admit=refuse_once if operation == "refuse" else None) as cluster:
        member = await cluster.join("a", faults=script)
        await cluster.start("chat", "r1")
        await asyncio.sleep(120)
        row = await cluster.row("r1")
        assert member.process.alive
        assert member.crash is None
        assert row.status.is_terminal or operation == "refuse"


@pytest.mark.behaviour("B1", "O1")
@pytest.mark.parametrize("ttl", [0.3, 1.5, 15.0, 60.0])
async def test_a_dead_nodes_run_is_taken_over_whatever_the_lease(ttl: float) -> None:
    worker = ScriptedWorker(lambda call: [Emit("hello"), Die()] if call.number == 1 else [Return(1)])
    lease = LeasePolicy(ttl=ttl, renew_every=ttl / 3, margin=ttl / 5)
    async with Cluster({"chat": worker}, lease=lease) as cluster:
        await cluster.join("a")
        await cluster.join("b")
        await cluster.start("chat", "r1")
        row = await cluster.outcome("r1", within=ttl + 2)
        check(await cluster.finish())
    assert row.budget.takeovers == 1


async def test_calls_that_do_not_end_when_they_are_told_to_are_counted_for_as_long_as_they_go_on() -> None:
    async with Cluster({"chat": ScriptedWorker(lambda _call: [Say("hello"), Deaf(20), Say("late")])}) as cluster:
        member = await cluster.join("a")
        left: list[int] = []
        for ids in (["r1", "r2"], ["r3"]):
            for id in ids:
                await cluster.start("chat", id)
            await asyncio.sleep(1)
            for id in ids:
                await cluster.intake.stop(owner="", id=id)
            await asyncio.sleep(30)
            left += [fact.left for fact in member.facts if isinstance(fact, CallLeftBehind)][len(left) :]
        assert left == [1, 2, 1], "those of before have ended meanwhile"
        check(await cluster.finish())
