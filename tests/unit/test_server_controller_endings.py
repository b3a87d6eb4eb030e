"""What decides how a run ends when its worker was told to end and has something to say about it."""

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

import pytest

from outlast.errors import LogRefused, Retry
from outlast.facts import ControllerStoodDown, RunReleased, StoreTroubled
from outlast.log.cursor import Cursor
from outlast.log.event import Event
from outlast.log.limits import LogLimits
from outlast.run import Cancelled, Cause, Completed, Failed, FailureCode, Run, Status, Token
from outlast.server.drain import HURRY
from outlast.testing.cluster import Cluster
from outlast.testing.faults import ErrorBefore, Gate, Script
from outlast.testing.invariants import check
from outlast.testing.worker import Deaf, Hang, Raise, Return, Say, ScriptedWorker
from outlast.workers.base import ActiveRun
from outlast.workers.function import Function, FunctionWorker
from tests.stage import Wire

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


async def obedient(run: ActiveRun) -> str:
    """Come to an early end when told, as many workers do, and return what there is by then."""
    await run.say("half")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        await asyncio.sleep(1)  # cleaning up
        return "half an answer"
    return "a whole answer"


async def ended_by(function: Function, end: str) -> tuple[Run, list[str]]:
    """Let a run be driven for a while by the function, and end it; return its row then, and its log's types."""
    async with Cluster({"chat": FunctionWorker(function)}) as cluster:
        member = await cluster.join("a")
        run = await cluster.start("chat", "r1")
        await asyncio.sleep(10)
        if end == "stop":
            await cluster.intake.stop(owner="", id="r1", reason="enough")
            row = await cluster.outcome("r1", within=10)
        else:
            await member.close()
            row = await cluster.row("r1")
        return row, [stored.event.type for stored in await cluster.log(run)]


@pytest.mark.behaviour("S5", "H14")
async def test_a_worker_that_ends_early_because_it_was_stopped_has_not_completed_its_run() -> None:
    row, types = await ended_by(obedient, "stop")
    assert row.outcome == Cancelled(reason="enough")
    assert types == ["run.started", "text", "run.cancelled"]


STEP = 0.2
"""Seconds that a source takes for one piece."""


class Source:
    """What a worker draws its words from, piece by piece, and what became of it."""

    def __init__(self) -> None:
        self.pulls = 0
        self.closed_at: float | None = None

    async def __call__(self) -> AsyncGenerator[str, None]:
        try:
            for number in range(1000):
                self.pulls += 1
                await asyncio.sleep(STEP)
                yield f"{number} "
        finally:
            self.closed_at = asyncio.get_running_loop().time()


@pytest.mark.behaviour("S2", "S6")
@pytest.mark.case(55)
@pytest.mark.parametrize("busy", [0.0, 10.0], ids=["between two pieces", "busy with one"])
async def test_a_stop_closes_the_generator_keeps_what_it_said_and_draws_no_more_of_its_source(busy: float) -> None:
    source = Source()

    async def relay(run: ActiveRun) -> AsyncIterator[str]:
        async with aclosing(source()) as pieces:
            async for piece in pieces:
                yield piece
                await asyncio.sleep(busy)

    async with Cluster({"chat": FunctionWorker(relay)}) as cluster:
        await cluster.join("a")
        run = await cluster.start("chat", "r1")
        await cluster.until("r1", lambda row: row.budget.calls == 1, within=5)
        await asyncio.sleep(5 * STEP + 0.12)
        pulls, stopped_at = source.pulls, asyncio.get_running_loop().time()
        await cluster.intake.stop(owner="", id="r1", reason="enough")
        row = await cluster.outcome("r1", within=2)
        log = [(stored.event.type, stored.event.data) for stored in await cluster.log(run)]
        await asyncio.sleep(60)
        assert [(stored.event.type, stored.event.data) for stored in await cluster.log(run)] == log
    said = [data for type, data in log if type == "text"]
    assert row.outcome == Cancelled(reason="enough")
    assert log[0][0] == "run.started"
    assert log[-1] == ("run.cancelled", {"reason": "enough"})
    assert said == [f"{number} " for number in range(pulls - (not busy))]
    assert len(said) == len(log) - 2 >= 1
    assert source.pulls <= pulls + 1
    assert source.closed_at is not None
    assert source.closed_at - stopped_at <= 1


class Agent:
    """Streams from a model while a tool is at work that is not to be cut off; the model may hang up meanwhile."""

    def __init__(self, *, hangs_up: bool, asks_again: bool) -> None:
        self.tool_began = asyncio.Event()
        self.tool_ended: str | None = None
        self.hangs_up = hangs_up
        self.asks_again = asks_again

    async def __call__(self, run: ActiveRun) -> str:
        if self.tool_ended is not None:
            return "from another call"
        using = asyncio.create_task(self.tool())
        try:
            with suppress(ConnectionResetError):
                async for token in self.model():
                    await run.emit(token)
            await run.emit(Event("tool.result", await using))
        finally:
            using.cancel()
        if self.asks_again:
            raise Retry("the model is gone")
        return "done"

    async def tool(self) -> str:
        self.tool_began.set()
        self.tool_ended = "cut off"
        await asyncio.sleep(30)
        self.tool_ended = "whole"
        return "the file is written"

    async def model(self) -> AsyncIterator[str]:
        yield "I write it down. "
        await self.tool_began.wait()
        if self.hangs_up:
            raise ConnectionResetError
        yield "Wait. "


@pytest.mark.behaviour("F11", "W5")
@pytest.mark.case(95)
@pytest.mark.parametrize("lost", ["readers", "model", "model, and it asks for another call", "run"])
async def test_of_readers_model_and_run_only_the_loss_of_the_run_cuts_a_tool_off(lost: str) -> None:
    agent = Agent(hangs_up=lost.startswith("model"), asks_again=lost.endswith("call"))
    async with Cluster({"chat": FunctionWorker(agent)}) as cluster:
        member = await cluster.join("a")
        run = await cluster.start("chat", "r1")
        wires = [Wire() for _ in range(3)]
        readers = [member.response(run, Cursor(0, None))({"type": "http"}, wire.receive, wire.send) for wire in wires]
        reading = asyncio.gather(*readers)
        await agent.tool_began.wait()
        await asyncio.sleep(1)
        assert member.hub.readers == len(wires)
        for wire in wires if lost == "readers" else ():
            wire.left.set()
        if lost == "run":
            await cluster.intake.stop(owner="", id="r1")
        row = await cluster.outcome("r1", within=60)
        await reading
        results = [stored.event.data for stored in await cluster.log(run) if stored.event.type == "tool.result"]
    kept = lost != "run"
    assert agent.tool_ended == ("whole" if kept else "cut off")
    assert results == ["the file is written"] * kept
    assert row.status is (Status.COMPLETED if kept else Status.CANCELLED)
    assert (row.budget.life, row.budget.calls) == (0, 2 if agent.asks_again else 1)


@pytest.mark.behaviour("H14")
async def test_a_worker_that_ends_early_because_its_node_closes_has_not_completed_its_run() -> None:
    row, types = await ended_by(obedient, "close")
    assert (row.status, row.cause, row.holder) == (Status.ACTIVE, Cause.HANDOFF, None)
    assert types == ["run.started", "text"]


@pytest.mark.behaviour("H13", "L4")
@pytest.mark.parametrize("afterwards", ["returns", "raises", "goes on"])
@pytest.mark.case(65)
async def test_a_worker_that_does_not_care_about_the_limit_of_its_log_still_fails_by_it(afterwards: str) -> None:
    async def careless(run: ActiveRun) -> str:
        await run.say("fits")
        with suppress(LogRefused):
            await run.say("does not")
        if afterwards == "raises":
            raise ValueError("something else")
        if afterwards == "goes on":
            await asyncio.sleep(60)
        return "done"

    async with Cluster({"chat": FunctionWorker(careless)}, limits=LogLimits(events=1)) as cluster:
        await cluster.join("a")
        run = await cluster.start("chat", "r1")
        row = await cluster.outcome("r1", within=10)
        types = [stored.event.type for stored in await cluster.log(run)]
    assert isinstance(row.outcome, Failed)
    assert row.outcome.code is FailureCode.LOG_FULL
    assert types == ["run.started", "text", "run.failed"]


@pytest.mark.behaviour("H14")
async def test_a_worker_that_comes_to_its_end_in_the_moment_of_the_stop_has_completed_its_run() -> None:
    done = asyncio.Event()

    async def just_ending(run: ActiveRun) -> str:
        await done.wait()
        return "whole"

    async with Cluster({"chat": FunctionWorker(just_ending)}) as cluster:
        member = await cluster.join("a")
        await cluster.start("chat", "r1")
        await cluster.until("r1", lambda row: row.budget.calls == 1, within=5)
        await asyncio.sleep(0.1)
        (controller,) = member.node._controllers.values()
        done.set()
        await asyncio.sleep(0)  # the worker has returned, and its controller does not know yet
        controller.stop("enough")
        row = await cluster.outcome("r1", within=5)
    assert row.outcome == Completed(result=b'"whole"')


@pytest.mark.behaviour("H14")
@pytest.mark.parametrize(("order", "status"), [("stop first", Status.CANCELLED), ("close first", Status.ACTIVE)])
async def test_of_two_endings_the_first_decides(order: str, status: Status) -> None:
    worker = ScriptedWorker(lambda _call: [Deaf(3)])
    async with Cluster({"chat": worker}) as cluster:
        member = await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        (controller,) = member.node._controllers.values()
        endings = [lambda: controller.stop("enough"), lambda: member.node.drain(HURRY)]
        for end in endings if order == "stop first" else reversed(endings):
            end()
            await asyncio.sleep(0.1)
        await asyncio.sleep(5)
        row = await cluster.row("r1")
    assert (row.status, row.cause) == (status, None if status is Status.CANCELLED else Cause.HANDOFF)


@pytest.mark.behaviour("H15")
async def test_a_controller_whose_settle_fails_for_no_known_reason_lets_go_by_itself() -> None:
    script = Script()
    script.add("settle", ErrorBefore(ValueError("odd")))
    async with Cluster({"chat": ScriptedWorker(lambda call: [Return(call.number)])}) as cluster:
        member = await cluster.join("a", faults=script)
        await cluster.start("chat", "r1")
        row = await cluster.outcome("r1", within=5)
    assert row.outcome == Completed(result=b"2")
    assert len([fact for fact in member.facts if isinstance(fact, RunReleased)]) == 1
    assert not [fact for fact in member.facts if isinstance(fact, StoreTroubled)]


@pytest.mark.behaviour("F2")
async def test_a_worker_whose_last_words_cannot_be_stored_has_not_completed_its_run() -> None:
    worker = ScriptedWorker(lambda _call: [Say("last words"), Return(1)])
    script = Script()
    gate = script.add("append", Gate(), skip=1)
    async with Cluster({"chat": worker}) as cluster:
        await cluster.join("a", faults=script)
        run = await cluster.start("chat", "r1")
        await gate.entered.wait()
        await asyncio.sleep(1)
        assert worker.calls[0].ended_at is not None
        row, head = await cluster.row("r1"), await cluster.store.logs.head(run.log)
        await cluster.store.logs.append(run.log, row.token, head.cursor, [Event("text", "in its place")])
        gate.open()
        row = await cluster.outcome("r1", within=5)
        said = [stored.event.data for stored in await cluster.log(run) if stored.event.type == "text"]
    assert (row.budget.life, row.budget.causes, len(worker.calls)) == (1, (Cause.STORE,), 2)
    assert said == ["in its place", "last words"]


@pytest.mark.behaviour("H10")
async def test_a_stopped_controller_whose_words_meet_a_higher_fence_does_not_even_try_to_settle() -> None:
    script, tried = Script(), list[str]()
    gate = script.add("append", Gate(), skip=1)
    async with Cluster({"chat": ScriptedWorker(lambda _call: [Say("hello"), Hang()])}) as cluster:
        member = await cluster.join("a", faults=script)
        member.store.on_operation = lambda operation, _arguments: tried.append(operation)
        run = await cluster.start("chat", "r1")
        await gate.entered.wait()
        await cluster.store.logs.fence(run.log, Token(epoch=9, claim="another"))
        (controller,) = member.node._controllers.values()
        controller.stop("enough")
        await asyncio.sleep(0)
        gate.open()
        await asyncio.sleep(1)
        assert [type(fact) for fact in member.facts][-1] is ControllerStoodDown
    assert "settle" not in tried
    assert "release" not in tried


@pytest.mark.behaviour("H10")
async def test_a_controller_that_lost_its_run_goes_away_though_its_append_is_not_answered() -> None:
    script = Script()
    script.add("append", Gate(), skip=1)
    async with Cluster({"chat": ScriptedWorker(lambda _call: [Say("hello"), Hang()])}) as cluster:
        member = await cluster.join("a", faults=script)
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        await cluster.store.runs.leave(member.node.id)
        await cluster.join("b")
        await asyncio.sleep(10)
        assert [fact for fact in member.facts if isinstance(fact, ControllerStoodDown)]
        assert not member.node._controllers


@pytest.mark.behaviour("W17")
@pytest.mark.parametrize("last", [Raise(ValueError("s3cret")), Say("s3cret"), Return("s3cret")])
async def test_what_a_worker_left_behind_says_at_last_is_in_nobodys_log(
    last: Any, caplog: pytest.LogCaptureFixture
) -> None:
    worker = ScriptedWorker(lambda _call: [Deaf(20), last])
    with caplog.at_level(logging.DEBUG):
        async with Cluster({"chat": worker}) as cluster:
            await cluster.join("a")
            await cluster.start("chat", "r1")
            await asyncio.sleep(1)
            await cluster.intake.stop(owner="", id="r1")
            await cluster.outcome("r1", within=10)
            await asyncio.sleep(30)
            assert worker.calls[0].deaf
            assert worker.calls[0].ended_at == 20.0
            check(await cluster.finish())
    gc.collect()  # asyncio prints what nobody heard when it is collected
    assert "s3cret" not in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.behaviour("W17")
async def test_a_worker_left_behind_by_a_controller_that_was_cancelled_is_in_nobodys_log_either(
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = ScriptedWorker(lambda _call: [Deaf(40), Raise(ValueError("s3cret"))])
    async with Cluster({"chat": worker}) as cluster:
        member = await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        hosts = tuple(member.node._hosts)
        assert len(hosts) == 1
        hosts[0].cancel()
        del hosts  # nothing here may keep what is to be collected
        await asyncio.sleep(60)
        assert worker.calls[0].ended_at == 40.0
    gc.collect()
    assert "s3cret" not in caplog.text


async def test_a_worker_that_hangs_is_cancelled_with_its_controller() -> None:
    worker = ScriptedWorker(lambda _call: [Hang()])
    async with Cluster({"chat": worker}) as cluster:
        member = await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        (host,) = member.node._hosts
        host.cancel()
        await asyncio.wait({host})
        await asyncio.sleep(0)
        assert worker.calls[0].ended_at == 1.0
