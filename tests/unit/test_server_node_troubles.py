"""A node in trouble: what its store, its machine and its own close may do to it, and to whose runs."""

import asyncio
from typing import Any

import pytest

from outlast.errors import StoreError, StoreUnavailable
from outlast.facts import (
    ControllerPaused,
    ControllerResumed,
    ControllerStoodDown,
    RunClaimed,
    RunCorrupt,
    RunReleased,
    StoreTroubled,
)
from outlast.lease import LeasePolicy
from outlast.recovery import RecoveryPolicy
from outlast.run import Cause, Status
from outlast.server.node import ANSWERED_WITHIN, LOOK_EVERY
from outlast.server.renewal import Renewed
from outlast.stores.sqlite import SQLiteStore
from outlast.testing.cluster import Cluster, Member
from outlast.testing.faults import ErrorAfter, ErrorBefore, Gate, LateAnswer, Moment, Script, Standstill
from outlast.testing.invariants import check
from outlast.testing.worker import Chatter, Emit, Hang, Raise, Return, ScriptedWorker, Work
from tests.disk import ground

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

TTL = LeasePolicy().ttl
OPERATIONS = ("renew", "due", "bury", "stops", "append", "take_aborts")


def working() -> ScriptedWorker:
    return ScriptedWorker(lambda _call: [Chatter(1.0)])


async def held_by_one_of_two(cluster: Cluster) -> tuple[Member, Member]:
    """Let node `a` hold a run, and node `b` be there."""
    holder = await cluster.join("a")
    await cluster.start("chat", "r1")
    await asyncio.sleep(1)
    return holder, await cluster.join("b")


async def judged(cluster: Cluster) -> None:
    """Stop the run, and hold everything against the promises."""
    await cluster.intake.stop(owner="", id="r1")
    await cluster.outcome("r1", within=20)
    await asyncio.sleep(5)
    check(await cluster.finish())


# ---- holders renew first (rule 3) ---------------------------------------------------------------


@pytest.mark.behaviour("H18")
async def test_after_a_store_that_answered_nothing_for_half_a_minute_the_holder_still_holds() -> None:
    async with Cluster({"chat": working()}) as cluster:
        holder, other = await held_by_one_of_two(cluster)
        gates: list[Gate] = []
        for member in (holder, other):
            away = member.store.faults = Script()
            gates += [away.add(operation, Gate(), times=None) for operation in OPERATIONS if operation != "renew"]
            if member is holder:
                away.add("renew", ErrorBefore(StoreUnavailable("away")), times=31)
        await asyncio.sleep(30)
        for gate in gates:
            gate.open()
        await asyncio.sleep(30)
        row = await cluster.row("r1")
        await judged(cluster)
    assert (row.epoch, row.budget.life) == (1, 0)


@pytest.mark.behaviour("H18")
async def test_a_machine_that_slept_wakes_up_with_every_run_where_it_was() -> None:
    async with Cluster({"chat": working()}) as cluster:
        holder, other = await held_by_one_of_two(cluster)
        for member in (holder, other):
            member.process.pause()
        await asyncio.sleep(3600)
        other.process.resume()  # it looks before the other one renews
        await asyncio.sleep(1)
        holder.process.resume()
        await asyncio.sleep(30)
        row = await cluster.row("r1")
        await judged(cluster)
    assert (row.epoch, row.budget.life) == (1, 0)


@pytest.mark.behaviour("H18", "O3")
async def test_the_runs_of_a_node_that_died_in_the_outage_are_taken_over_one_lease_after_it() -> None:
    async with Cluster({"chat": working()}) as cluster:
        holder, other = await held_by_one_of_two(cluster)
        away = other.store.faults = Script()
        for operation in OPERATIONS:
            away.add(operation, ErrorBefore(StoreUnavailable("away")), times=None)
        holder.process.kill()
        await asyncio.sleep(30)
        away.clear()
        await cluster.until("r1", lambda row: row.epoch == 2, within=TTL + 2)
        await judged(cluster)


@pytest.mark.behaviour("H18")
async def test_a_run_that_nobody_holds_need_not_wait_after_an_outage() -> None:
    async with Cluster({"chat": working()}) as cluster:
        member = await cluster.join("a")
        member.store.faults = away = Script()
        for operation in OPERATIONS:
            away.add(operation, ErrorBefore(StoreUnavailable("away")), times=None)
        await asyncio.sleep(30)
        away.clear()
        await cluster.start("chat", "r1")
        await cluster.until("r1", lambda row: row.epoch == 1, within=2)
        await judged(cluster)


@pytest.mark.behaviour("B24", "O1")
async def test_runs_that_are_passed_over_hide_none_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.server.node.LOOK_AT", 2)
    async with Cluster({"chat": working()}) as cluster:
        holder = await cluster.join("a")
        for id in ("r1", "r2", "r3"):
            await cluster.start("chat", id)
        await asyncio.sleep(1)
        other = await cluster.join("b")
        other.store.faults = away = Script()
        for operation in OPERATIONS:
            away.add(operation, ErrorBefore(StoreUnavailable("away")), times=None)
        holder.process.kill()
        await asyncio.sleep(30)
        away.clear()  # from here on the three wait for their holder
        await cluster.start("chat", "r4")
        await cluster.until("r4", lambda row: row.epoch == 1, within=3)


async def test_a_stumble_shorter_than_a_renewal_postpones_nothing() -> None:
    async with Cluster({"chat": working()}) as cluster:
        holder, other = await held_by_one_of_two(cluster)
        holder.process.kill()
        await asyncio.sleep(10)
        other.store.faults = stumble = Script()
        stumble.add("due", ErrorBefore(StoreUnavailable("away")), times=3)
        await cluster.until("r1", lambda row: row.epoch == 2, within=7)
        await judged(cluster)


async def test_a_node_whose_store_is_away_says_so_after_a_while_and_until_it_is_back() -> None:
    async with Cluster({"chat": working()}) as cluster:
        script = Script()
        member = await cluster.join("a", faults=script)
        await asyncio.sleep(ANSWERED_WITHIN + 1)
        assert member.node.is_answered
        script.add("due", ErrorBefore(StoreUnavailable("away")), times=20)
        await asyncio.sleep(ANSWERED_WITHIN - LOOK_EVERY - 0.5)
        assert member.node.is_answered
        await asyncio.sleep(LOOK_EVERY + 1)
        assert not member.node.is_answered
        await asyncio.sleep(20)
        assert member.node.is_answered


async def test_a_node_tells_what_it_holds_and_what_is_left_of_its_lease() -> None:
    async with Cluster({"chat": working()}) as cluster:
        member = await cluster.join("a")
        assert member.node.held == 0
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        assert member.node.held == 1
        assert TTL - LeasePolicy().renew_every - 1 < member.node.lease_left <= TTL
        await judged(cluster)
        assert member.node.held == 0


# ---- what it holds and does not know of (rule 4) ------------------------------------------------


@pytest.mark.behaviour("O1", "H21", "B16")
@pytest.mark.parametrize("fault", [ErrorAfter(StoreError("odd")), ErrorAfter(ValueError("odd"))])
async def test_a_claim_whose_answer_nobody_can_read_is_released(fault: ErrorAfter) -> None:
    worker = ScriptedWorker(lambda _call: [Return(1)])
    script = Script()
    script.add("claim", fault)
    async with Cluster({"chat": worker}) as cluster:
        member = await cluster.join("a", faults=script)
        await cluster.start("chat", "r1")
        row = await cluster.outcome("r1", within=3)
        check(await cluster.finish())
    claims = [fact for fact in member.facts if isinstance(fact, RunClaimed)]
    assert [(fact.epoch, fact.attempt, fact.cause) for fact in claims] == [(1, 1, None), (2, 2, Cause.STORE)]
    assert [fact.cause for fact in member.facts if isinstance(fact, RunReleased)] == [Cause.STORE]
    assert (row.status, row.budget.life, row.budget.calls, len(worker.calls)) == (Status.COMPLETED, 1, 1, 1)


@pytest.mark.behaviour("H21")
async def test_a_claim_that_was_made_and_not_answered_is_neither_lost_nor_charged_twice() -> None:
    worker = ScriptedWorker(lambda call: [Raise(MemoryError())] if call.number == 1 else [Return(1)])
    script = Script()
    script.add("claim", ErrorAfter(StoreUnavailable("away")), times=3)
    script.add("charge", ErrorAfter(StoreUnavailable("away")), times=3)
    async with Cluster({"chat": worker}) as cluster:
        await cluster.join("a", faults=script)
        await cluster.start("chat", "r1")
        row = await cluster.outcome("r1", within=5)
        check(await cluster.finish())
    assert (row.epoch, row.budget.life, row.budget.calls, len(worker.calls)) == (2, 1, 2, 2)


@pytest.mark.behaviour("O1")
async def test_a_run_that_cannot_be_released_keeps_no_other_from_being_driven() -> None:
    worker = ScriptedWorker(lambda call: [Raise(MemoryError())] if call.run == "r1" else [Work(1), Return(1)])
    script = Script()
    script.add("release", ErrorBefore(ValueError("odd")), times=100)
    async with Cluster({"chat": worker}) as cluster:
        member = await cluster.join("a", faults=script)
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        await cluster.start("chat", "r2")
        await cluster.outcome("r2", within=3)
        script.clear()
        await cluster.outcome("r1", within=60)
        await asyncio.sleep(5)
        check(await cluster.finish())
    troubles = [fact for fact in member.facts if isinstance(fact, StoreTroubled)]
    assert len(troubles) == 1  # told once, and not at every look


# ---- what a renewal tells -----------------------------------------------------------------------


@pytest.mark.behaviour("H7", "H10")
@pytest.mark.parametrize(("sent", "lost"), [("before the claim", False), ("after the claim", True)])
async def test_only_a_renewal_sent_after_the_claim_can_tell_that_a_run_is_lost(sent: str, lost: bool) -> None:
    async with Cluster({"chat": working()}) as cluster:
        member = await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        (controller,) = member.node._controllers.values()
        sent_at = controller.claimed_at + (0.1 if sent == "after the claim" else -0.1)
        member.node._renewed(Renewed(sent_at=sent_at, held={}))
        await asyncio.sleep(0.1)
        assert bool([fact for fact in member.facts if isinstance(fact, ControllerStoodDown)]) is lost


@pytest.mark.behaviour("H9")
async def test_a_renewal_alone_ends_the_pause_of_a_controller_with_nothing_under_way() -> None:
    worker = ScriptedWorker(lambda _call: [Emit("a"), Work(20), Emit("b"), Return(1)])
    script = Script()
    script.add("renew", ErrorBefore(StoreUnavailable("away")), skip=1, times=25)
    async with Cluster({"chat": worker}) as cluster:
        member = await cluster.join("a", faults=script)
        await cluster.start("chat", "r1")
        row = await cluster.outcome("r1", within=40)
    assert row.budget.life == 0
    (paused,) = [fact for fact in member.facts if isinstance(fact, ControllerPaused)]
    (resumed,) = [fact for fact in member.facts if isinstance(fact, ControllerResumed)]
    assert paused.run == resumed.run
    assert resumed.paused_for > 5


# ---- waiting ------------------------------------------------------------------------------------


@pytest.mark.behaviour("B5", "B15", "B4")
async def test_the_wait_that_one_node_wrote_is_kept_by_another_and_waiting_writes_nothing() -> None:
    worker = ScriptedWorker(lambda call: [Raise(MemoryError())] if call.number < 3 else [Return(3)])
    async with Cluster({"chat": worker}, recovery=RecoveryPolicy(base=3.0)) as cluster:
        first = await cluster.join("a")
        await cluster.start("chat", "r1")
        row = await cluster.until("r1", lambda row: row.budget.calls == 2 and row.holder is None, within=2)
        first.process.kill()
        second = await cluster.join("b")
        written_at, wait = asyncio.get_running_loop().time(), row.not_before - row.updated_at
        assert 2.4 - 0.1 < wait < 3.6
        await asyncio.sleep(wait - 0.05)
        assert await cluster.row("r1") == row
        await cluster.outcome("r1", within=2)
        check(await cluster.finish())
    assert [fact.attempt for fact in second.facts if isinstance(fact, RunClaimed)] == [3]
    assert worker.calls[2].began_at >= written_at + wait - 0.02


# ---- closing ------------------------------------------------------------------------------------


async def test_a_node_that_closes_claims_nothing_more() -> None:
    worker = ScriptedWorker(lambda _call: [Hang()])
    async with Cluster({"chat": worker}) as cluster:
        script = Script()
        gate = script.add("claim", Gate())
        member = await cluster.join("a", faults=script)
        member.node._slots = asyncio.Semaphore(1)  # one at a time, so that the second waits for its turn
        await cluster.start("chat", "r1")
        await cluster.start("chat", "r2")
        await gate.entered.wait()
        closing = asyncio.create_task(member.close())
        await asyncio.sleep(0.1)
        gate.open()
        await closing
        rows = [await cluster.row(id) for id in ("r1", "r2")]
        assert await cluster.store.runs.nodes() == []  # its lease is gone at once
    assert [(row.epoch, row.budget.calls, row.holder) for row in rows] == [(1, 0, None), (0, 0, None)]
    assert not worker.calls


@pytest.mark.behaviour("H10", "H11")
async def test_an_append_that_raced_the_claim_of_another_reaches_nobody() -> None:
    worker = ScriptedWorker(lambda call: [Emit("a"), Emit("b"), Hang()] if call.number == 1 else [Return(2)])
    script = Script()
    late = script.add("append", Gate(), skip=2)
    async with Cluster({"chat": worker}) as cluster:
        first = await cluster.join("a", faults=script)
        run = await cluster.start("chat", "r1")
        await late.entered.wait()
        script.add("renew", ErrorBefore(StoreUnavailable("away")), times=None)
        await cluster.join("b")
        await cluster.outcome("r1", within=TTL + 2)
        late.open()
        await asyncio.sleep(5)
        assert [stored.event.data for stored in await cluster.log(run) if stored.event.type == "text"] == ["a"]
        assert first.process.alive
        check(await cluster.finish())


@pytest.mark.behaviour("H8", "H9")
@pytest.mark.parametrize("fault", [LateAnswer(4.0), ErrorAfter(StoreUnavailable("away"))])
@pytest.mark.case(103)
async def test_renewals_whose_answers_are_late_or_lost_cost_nothing_while_appends_are_accepted(fault: Any) -> None:
    async with Cluster({"chat": working()}) as cluster:
        holder, _ = await held_by_one_of_two(cluster)
        holder.store.faults = script = Script()
        script.add("renew", fault, times=None)
        await asyncio.sleep(4 * TTL)
        row = await cluster.row("r1")
        await judged(cluster)
    assert (row.epoch, row.budget.life) == (1, 0)


async def test_a_node_that_stands_still_while_it_joins_goes_on_afterwards() -> None:
    worker = ScriptedWorker(lambda _call: [Return(1)])
    async with Cluster({"chat": worker}) as cluster:
        member = cluster.prepare("a")
        member.store.faults = script = Script()
        script.add("join", Standstill(Moment.UNANSWERED, 2 * TTL))
        await member.begin()
        await cluster.start("chat", "r1")
        await cluster.outcome("r1", within=2)
        check(await cluster.finish())


# ---- rows that cannot be read -------------------------------------------------------------------


@pytest.mark.behaviour("L13")
async def test_a_run_that_cannot_be_read_is_reported_once_and_the_others_are_driven() -> None:
    async with Cluster({"chat": ScriptedWorker(lambda _call: [Return(1)])}) as cluster:
        lost = await cluster.start("chat", "lost")
        await cluster.start("chat", "r1")
        assert isinstance(cluster.store, SQLiteStore)
        ground(cluster.store).connection.execute("UPDATE runs SET cause = 'weather' WHERE id = 'lost'")
        member = await cluster.join("a")
        await cluster.outcome("r1", within=5)
        await asyncio.sleep(60)
        await cluster.start("chat", "r2")
        await cluster.outcome("r2", within=5)
        assert [fact for fact in member.facts if isinstance(fact, RunCorrupt)] == [RunCorrupt(run=lost.log)]
