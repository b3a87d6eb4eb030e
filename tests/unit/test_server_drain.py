"""How a node leaves: what it waits for, what it hands off, and that nobody pays for it."""

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from math import ceil

import pytest

from outlast.facts import NodeDraining, NodeStopped, RunReleased
from outlast.recovery import RecoveryPolicy
from outlast.run import Cause, Status
from outlast.server.drain import GRACE, HURRY, Drain, timetable
from outlast.server.relief import LOOK_EVERY
from outlast.testing.cluster import Cluster, Member
from outlast.testing.history import History
from outlast.testing.invariants import check
from outlast.testing.observation import CallBegan, EventTaken, FactReported
from outlast.testing.reader import ModelReader
from outlast.testing.worker import Call, Deaf, Emit, Hang, Return, Save, Say, ScriptedWorker, Work
from outlast.workers.base import Kind

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


PAUSE = 1.0
"""Seconds from a hand-off to the next call of the run's worker, on another node."""


def now() -> float:
    return asyncio.get_running_loop().time()


# ---- the timetable ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grace", "stop_grace", "moments"),
    [
        (25.0, 5.0, (13.0, 18.0, 23.0, 25.0)),
        (25.0, 2.0, (19.0, 21.0, 23.0, 25.0)),
        (5.0, 5.0, (2.0, 3.0, 4.0, 5.0)),
        (3.0, 5.0, (0.0, 1.0, 2.0, 3.0)),
        (1.0, 5.0, (0.0, 0.0, 1.0, 2.0)),
        (0.0, 5.0, (0.0, 0.0, 0.0, 1.0)),
    ],
)
def test_a_grace_is_divided(grace: float, stop_grace: float, moments: tuple[float, float, float, float]) -> None:
    times = timetable(grace, stop_grace=stop_grace)
    assert (times.checkpoint, times.hand_off, times.leave_behind, times.gone) == moments


async def test_of_several_ends_the_earliest_counts() -> None:
    drain = Drain(stop_grace=5.0)
    drain.begin(25.0)
    await asyncio.sleep(2)
    drain.begin(HURRY)
    await drain.hand_off.wait()
    assert now() == 2.0
    drain.begin(25.0)
    await drain.gone.wait()
    assert now() == 4.0
    drain.end()


async def test_an_ended_drain_leaves_no_timer_behind() -> None:
    drain = Drain(stop_grace=5.0)
    drain.begin(25.0)
    drain.end()
    await drain.gone.wait()
    drain.end()
    assert now() == 0.0


# ---- a node -------------------------------------------------------------------------------------


@pytest.mark.behaviour("D2")
async def test_a_run_that_can_finish_within_the_grace_finishes_where_it_is() -> None:
    worker = ScriptedWorker(lambda _call: [Say("hello"), Work(10), Return("done")])
    async with Cluster({"chat": worker}) as cluster:
        first = await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        await cluster.join("b")
        await first.drain()
        assert now() == 10.0  # and no longer: nothing was left to wait for
        row = await cluster.row("r1")
        check(await cluster.finish())
    assert (row.status, row.epoch, row.budget.handoffs, len(worker.calls)) == (Status.COMPLETED, 1, 0, 1)
    left = [fact for fact in first.facts if isinstance(fact, NodeDraining | NodeStopped)]
    assert left == [
        NodeDraining(node=first.node.id, runs=1),
        NodeStopped(node=first.node.id, finished=1, handed_off=0),
    ]


async def test_a_node_without_runs_leaves_at_once() -> None:
    async with Cluster({"chat": ScriptedWorker(lambda _call: [Hang()])}) as cluster:
        member = await cluster.join("a")
        await member.drain()
        assert now() == 0.0
        assert await cluster.store.runs.nodes() == []


async def test_a_draining_node_claims_nothing_and_still_hears_stops() -> None:
    worker = ScriptedWorker(lambda _call: [Hang()])
    async with Cluster({"chat": worker}) as cluster:
        member = await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        leaving = asyncio.create_task(member.drain())
        await asyncio.sleep(1)
        await cluster.start("chat", "r2")
        await asyncio.sleep(1)
        await cluster.intake.stop(owner="", id="r1")
        await leaving
        assert now() == pytest.approx(3.0, abs=0.6)
        assert (await cluster.row("r1")).status is Status.CANCELLED
        assert (await cluster.row("r2")).status is Status.QUEUED
    assert member.facts[-1] == NodeStopped(node=member.node.id, finished=1, handed_off=0)


async def test_a_deaf_worker_is_left_behind_within_the_grace_and_costs_its_run_nothing() -> None:
    worker = ScriptedWorker(lambda call: [Emit("x"), Deaf(1000)] if call.number == 1 else [Return(2)])
    async with Cluster({"chat": worker}) as cluster:
        first = await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        await cluster.join("b")
        await first.drain()
        assert now() <= 1 + GRACE
        row = await cluster.outcome("r1", within=2)
    assert (row.status, row.budget.life, row.budget.handoffs) == (Status.COMPLETED, 0, 1)


async def test_a_drain_that_is_asked_to_hurry_does() -> None:
    worker = ScriptedWorker(lambda _call: [Deaf(1000)])
    async with Cluster({"chat": worker}) as cluster:
        member = await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        leaving = asyncio.create_task(member.drain())
        await asyncio.sleep(20)  # its worker was told to end
        member.node.drain(HURRY)
        await leaving
        assert now() == 22.0
        assert [fact.cause for fact in member.facts if isinstance(fact, RunReleased)] == [Cause.HANDOFF]


@pytest.mark.behaviour("D1")
async def test_a_resume_worker_goes_on_elsewhere_from_its_next_checkpoint_and_says_nothing_twice() -> None:
    worker = ScriptedWorker(counting, kind=Kind.RESUME)
    async with Cluster({"chat": worker}) as cluster:
        first = await cluster.join("a")
        run = await cluster.start("chat", "r1")
        await asyncio.sleep(4.5)
        await cluster.join("b")
        await first.drain()
        assert now() == 5.0  # the very next checkpoint, and not in the middle of saying something
        row = await cluster.outcome("r1", within=60)
        log = await cluster.log(run)
        history = await cluster.finish()
        check(history)
    (pause,) = pauses_of(history, {run.log: run.id})
    assert pause <= PAUSE
    assert [each.event.data for each in log if each.event.type == "text"] == list(map(str, range(40)))
    (restarted,) = [each for each in log if each.event.type == "run.restarted"]
    assert restarted.event.data == {"epoch": 2, "attempt": 2, "cause": "handoff", "keep": restarted.seq - 1}
    assert (row.status, row.budget.life, row.budget.handoffs) == (Status.COMPLETED, 0, 1)


async def test_a_resume_worker_that_can_finish_is_not_sent_away_at_a_checkpoint() -> None:
    worker = ScriptedWorker(lambda _call: [Say("a"), Save(), Work(5), Save(), Work(5), Return(1)], kind=Kind.RESUME)
    async with Cluster({"chat": worker}) as cluster:
        member = await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        await member.drain()
        assert now() == 10.0
        assert (await cluster.row("r1")).status is Status.COMPLETED


@pytest.mark.parametrize("others", ["none", "without it", "leaving"])
async def test_a_resume_run_that_no_node_which_stays_has_the_worker_for_goes_on_until_the_last_stretch(
    others: str,
) -> None:
    worker = ScriptedWorker(counting, kind=Kind.RESUME)
    async with Cluster({"chat": worker, "fax": ScriptedWorker(lambda _call: [Hang()])}) as cluster:
        first = await cluster.join("a", workers={"chat": worker})
        await cluster.start("chat", "r1")
        await cluster.start("fax", "r2")
        await asyncio.sleep(4.5)
        if others == "without it":
            await cluster.join("b", workers={"fax": cluster.workers["fax"]})
        leaving = None
        if others == "leaving":
            second = await cluster.join("b")
            await asyncio.sleep(0.1)
            leaving = asyncio.create_task(second.drain())  # its own run keeps it for as long as its grace lasts
            await asyncio.sleep(0)
        await first.drain()
        assert now() == 18.0  # the first checkpoint when 13 s of the grace are over
        assert (await cluster.row("r1")).budget.life == 0
        if leaving is not None:
            await leaving


async def test_a_node_that_joins_while_another_leaves_gets_its_resume_runs_and_its_readers() -> None:
    worker = ScriptedWorker(counting, kind=Kind.RESUME)
    async with Cluster({"chat": worker}) as cluster:
        first = await cluster.join("a")
        run = await cluster.start("chat", "r1")
        await asyncio.sleep(1.5)
        leaving = asyncio.create_task(first.drain())
        reader = cluster.reader("reader", run)
        reading = asyncio.create_task(reader.follow_stream(first.process, first.response(run, reader.cursor)))
        await asyncio.sleep(3)
        assert not reading.done()
        await cluster.join("b")
        await leaving
        assert now() <= 4.5 + LOOK_EVERY + 1
        await reading
        await cluster.outcome("r1", within=60)
        check(await cluster.finish())


@pytest.mark.behaviour("F15")
async def test_a_node_that_leaves_nobody_behind_keeps_its_readers_until_their_run_is_over() -> None:
    worker = ScriptedWorker(lambda _call: [Say("hello"), Work(10), Say("bye"), Return("done")])
    async with Cluster({"chat": worker}) as cluster:
        only = await cluster.join("a")
        run = await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        leaving = asyncio.create_task(only.drain())
        await asyncio.sleep(1)  # who comes while it leaves is read to as well
        reader = cluster.reader("reader", run)
        await reader.follow_stream(only.process, only.response(run, reader.cursor))
        assert (reader.ended, now()) == (True, 10.0)
        await leaving
        check(await cluster.finish())


@pytest.mark.behaviour("F15")
async def test_a_node_that_leaves_nobody_behind_sends_its_readers_away_when_it_hands_its_runs_off() -> None:
    async with Cluster({"chat": ScriptedWorker(lambda _call: [Say("hello"), Hang()])}) as cluster:
        only = await cluster.join("a")
        run = await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        reader = cluster.reader("reader", run)
        reading = asyncio.create_task(reader.follow_stream(only.process, only.response(run, reader.cursor)))
        leaving = asyncio.create_task(only.drain())
        await reading
        assert (reader.ended, now()) == (False, 1 + timetable(GRACE, stop_grace=5.0).hand_off)
        await leaving


@pytest.mark.behaviour("F15")
async def test_a_node_whose_relief_is_there_sends_its_readers_away_at_once() -> None:
    worker = ScriptedWorker(lambda _call: [Say("hello"), Work(10), Return("done")])
    async with Cluster({"chat": worker}) as cluster:
        first = await cluster.join("a")
        run = await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        await cluster.join("b")
        reader = cluster.reader("reader", run)
        reading = asyncio.create_task(reader.follow_stream(first.process, first.response(run, reader.cursor)))
        await asyncio.sleep(1)
        leaving = asyncio.create_task(first.drain())
        await reading
        assert (reader.ended, now()) == (False, 2.0)
        await leaving


def counting(call: Call) -> list[Say | Work | Save | Return]:
    """Say forty numbers, a second and a checkpoint behind each, and go on behind the last one that was kept."""
    steps = [step for number in range(40) for step in (Say(str(number)), Work(1), Save())]
    return [*steps[3 * (call.counted or 0) :], Return("done")]


@pytest.mark.behaviour("D1")
async def test_hand_offs_are_a_second_apart_and_the_one_after_the_last_free_one_is_charged() -> None:
    worker = ScriptedWorker(lambda call: [Hang()] if call.attempt < 5 else [Return("done")])
    async with Cluster({"chat": worker}, recovery=RecoveryPolicy(handoffs=3)) as cluster:
        await cluster.start("chat", "r1")
        for number in range(4):
            member = await cluster.join(f"node-{number}")
            await cluster.until("r1", lambda row, epoch=number + 1: row.epoch == epoch, within=5)
            await asyncio.sleep(0.1)
            await member.close()
        await cluster.join("last")
        row = await cluster.outcome("r1", within=5)
        check(await cluster.finish())
    begun = [call.began_at for call in worker.calls]
    assert len(begun) == 5
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(begun[1:]))
    assert (row.budget.handoffs, row.budget.life, row.budget.causes) == (3, 1, (Cause.HANDOFF,))


# ---- a deploy -----------------------------------------------------------------------------------


async def deploy(*, nodes: int, runs: int, readers: int, rounds: int) -> None:
    """Restart every node in turn under live runs and readers; what each of them saw and paid is checked."""

    def script(call: Call) -> list[Say | Work | Return]:
        return [step for beat in range(30) for step in (Say(str(beat)), Work(1.0 + 0.05 * (beat % 3)))] + [
            Return("done")
        ]

    worker = ScriptedWorker(script)
    async with Cluster({"chat": worker}) as cluster:
        members = [await cluster.join(f"{number}.0") for number in range(nodes)]
        started = [await cluster.start("chat", f"r{number}") for number in range(runs)]
        reading = [
            asyncio.create_task(follow(cluster.reader(f"reader-{number}", started[number % runs]), members))
            for number in range(readers)
        ]
        await asyncio.sleep(2)
        for turn in range(rounds):
            for number in range(nodes):
                began_at = now()
                leaving, members[number] = members[number], await cluster.join(f"{number}.{turn + 1}")
                await leaving.drain()
                assert now() - began_at <= GRACE
        rows = [await cluster.outcome(run.id, within=60 * rounds) for run in started]
        async with asyncio.timeout(60):
            await asyncio.gather(*reading)
        history = await cluster.finish()
        check(history)
    assert {row.status for row in rows} == {Status.COMPLETED}
    assert {(row.budget.takeovers, row.budget.life) for row in rows} == {(0, 0)}
    handed_off = sum(row.budget.handoffs for row in rows)
    stopped = [each.fact for each in history.of(FactReported) if isinstance(each.fact, NodeStopped)]
    assert handed_off == sum(fact.handed_off for fact in stopped) > 0
    pauses = pauses_of(history, {run.log: run.id for run in started})
    assert len(pauses) == handed_off
    assert pauses[ceil(0.99 * len(pauses)) - 1] <= 1.0
    assert len({each.reader for each in history.of(EventTaken)}) == readers


def pauses_of(history: History, ids: Mapping[str, str]) -> list[float]:
    """Return the seconds from each hand-off to the next call of that run's worker; `ids` are those of the logs."""
    calls = list(history.of(CallBegan))
    return sorted(
        min(call.at for call in calls if call.run == ids[each.fact.run] and call.at >= each.at) - each.at
        for each in history.of(FactReported)
        if isinstance(each.fact, RunReleased)
    )


async def follow(reader: ModelReader, members: list[Member]) -> None:
    """Read a run to its end; whoever sends the reader away, it comes back to the next node."""
    turn = 0
    while not reader.ended:
        member = members[turn % len(members)]
        if member.process.alive:
            await reader.follow_stream(member.process, member.response(reader.run, reader.cursor))
        turn += 1
        await asyncio.sleep(0.1)


@pytest.mark.behaviour("D1", "F15", "F3")
@pytest.mark.fault("X3")
@pytest.mark.case(101)
async def test_a_rolling_deploy_charges_nothing_and_no_reader_misses_anything() -> None:
    await deploy(nodes=3, runs=12, readers=30, rounds=1)


@pytest.mark.long
@pytest.mark.behaviour("D1", "F15")
@pytest.mark.fault("X3")
async def test_a_rolling_deploy_under_two_hundred_runs_and_five_hundred_readers() -> None:
    await deploy(nodes=3, runs=200, readers=500, rounds=1)
