"""Driving one run: what each way of ending means, and that the first one decides."""

import asyncio
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from outlast.errors import Retry, StoreUnavailable
from outlast.facts import (
    ControllerPaused,
    ControllerStoodDown,
    RunReleased,
    RunSettled,
    StoreTroubled,
    WorkerFailed,
)
from outlast.log.event import JSON, Event
from outlast.log.limits import LogLimits
from outlast.recovery import RecoveryPolicy
from outlast.run import Cancelled, Cause, Completed, Failed, FailureCode, Run, Status
from outlast.stores.base import StopAnswer
from outlast.testing.cluster import Cluster, Member
from outlast.testing.faults import ErrorAfter, ErrorBefore, Gate, Script
from outlast.testing.invariants import check
from outlast.testing.worker import (
    Chatter,
    Deaf,
    Die,
    Emit,
    Hang,
    Raise,
    Return,
    Say,
    ScriptedWorker,
    Step,
    Work,
)
from outlast.workers.base import ActiveRun

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


class Unclassified(Exception):
    """An error that nobody named."""


def playing(*attempts: Iterable[Step]) -> ScriptedWorker:
    """Return a worker that plays one list of steps per call, the last one again and again."""
    scripts = [list(steps) for steps in attempts]
    return ScriptedWorker(lambda call: scripts[min(call.number, len(scripts)) - 1])


def script(**faults: Any) -> Script:
    """Return a script with one fault per operation."""
    written = Script()
    for operation, fault in faults.items():
        written.add(operation, fault)
    return written


async def drive(worker: ScriptedWorker, *, faults: Script | None = None, **options: Any) -> "Ended":
    """Start one run on one node, wait for its outcome, and let the checker judge everything."""
    async with Cluster({"chat": worker}, **options) as cluster:
        member = await cluster.join("a", faults=faults)
        await cluster.start("chat", "r1")
        row = await cluster.outcome("r1", within=600)
        await asyncio.sleep(10)  # what comes after the outcome is part of what is judged
        history = await cluster.finish()
        check(history)
        return Ended(row, member, [(each.event.type, each.event.data) for each in history.logs[row.log]])


class Ended:
    """A run with its outcome, its log, and the facts of the node that drove it."""

    def __init__(self, row: Run, member: Member, log: list[tuple[str, Any]]) -> None:
        self.row = row
        self.log = log
        self.facts = member.facts

    def types(self) -> list[str]:
        return [type for type, _ in self.log]

    def told(self, kind: type) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind)]


# ---- the worker's end ---------------------------------------------------------------------------


async def test_a_worker_that_comes_to_its_end_completes_the_run_with_its_result() -> None:
    ended = await drive(playing([Say("hello"), Return({"n": 1})]))
    assert ended.row.outcome == Completed(result=b'{"n":1}')
    assert ended.log == [
        ("run.started", {"epoch": 1, "attempt": 1}),
        ("text", "hello"),
        ("run.completed", {"result": {"n": 1}}),
    ]


@pytest.mark.behaviour("W15")
async def test_a_step_of_three_leases_without_a_word_is_executed_once() -> None:
    worker = playing([Work(45), Say("done")])
    ended = await drive(worker)
    assert (ended.row.status, len(worker.calls), ended.row.budget.life) == (Status.COMPLETED, 1, 0)


@pytest.mark.behaviour("L3")
async def test_a_result_larger_than_an_event_may_be_fails_the_run_and_is_not_stored() -> None:
    limits = LogLimits(event_bytes=100)
    ended = await drive(playing([Return("x" * 98)]), limits=limits)
    assert ended.row.status is Status.COMPLETED
    ended = await drive(playing([Say("before"), Return("x" * 99)]), limits=limits)
    assert isinstance(ended.row.outcome, Failed)
    assert ended.row.outcome.code is FailureCode.EVENT_TOO_LARGE
    assert ended.types() == ["run.started", "text", "run.failed"]


@pytest.mark.parametrize("error", [GeneratorExit(), BaseExceptionGroup("s3cret", [GeneratorExit()])])
async def test_a_call_that_ends_by_no_ordinary_exception_ends_no_node(error: BaseException) -> None:
    class Rough(ScriptedWorker):
        async def call(self, run: ActiveRun) -> bytes | None:
            if run.attempt == 1:
                raise error
            return await ScriptedWorker.call(self, run)

    ended = await drive(Rough(lambda _call: [Return(1)]))
    assert (ended.row.status, ended.row.budget.causes) == (Status.COMPLETED, (Cause.WORKER,))


@pytest.mark.behaviour("W16", "H13", "W17")
@pytest.mark.parametrize("error", [ValueError("s3cret"), SystemExit("s3cret")])
async def test_a_worker_that_raises_is_called_once_and_its_text_reaches_nobody(error: BaseException) -> None:
    worker = playing([Say("before"), Raise(error)])
    ended = await drive(worker)
    assert isinstance(ended.row.outcome, Failed)
    assert ended.row.outcome.code is FailureCode.WORKER_ERROR
    assert (len(worker.calls), len(worker.aborts), ended.row.budget.life) == (1, 1, 0)
    assert ended.types() == ["run.started", "text", "run.failed"]
    (failure,) = ended.told(WorkerFailed)
    assert failure.error == type(error).__name__
    assert any(frame.endswith(" _steps") for frame in failure.frames)
    assert "s3cret" not in repr(ended.facts) + repr(ended.log) + repr(ended.row.outcome)


async def test_running_out_of_memory_is_no_verdict_and_costs_a_takeover_of_that_cause() -> None:
    worker = playing([Raise(MemoryError())], [Say("ok")])
    ended = await drive(worker)
    assert (ended.row.status, ended.row.budget.causes) == (Status.COMPLETED, (Cause.MEMORY,))
    assert ended.log[1] == ("run.restarted", {"epoch": 2, "attempt": 2, "cause": "memory", "keep": 0})


async def test_a_worker_that_cancels_itself_has_failed() -> None:
    ended = await drive(playing([Raise(asyncio.CancelledError())]))
    assert isinstance(ended.row.outcome, Failed)
    assert ended.row.outcome.message == "The worker raised CancelledError."


# ---- asking for another call --------------------------------------------------------------------


@pytest.mark.behaviour("W16")
async def test_a_worker_that_keeps_asking_is_called_four_times() -> None:
    worker = playing([Raise(Retry("again"))])
    ended = await drive(worker)
    assert isinstance(ended.row.outcome, Failed)
    assert ended.row.outcome.code is FailureCode.WORKER_FAILED
    assert (len(worker.calls), ended.row.budget.calls, ended.row.budget.life) == (4, 4, 0)
    gaps = [later.began_at - earlier.began_at for earlier, later in pairwise(worker.calls)]
    assert gaps >= [0.8, 1.6, 3.2]
    assert all(gap <= most for gap, most in zip(gaps, [1.3, 2.5, 4.9], strict=True))


@pytest.mark.behaviour("W4", "B20")
async def test_a_new_event_resets_the_tries_and_the_calls_of_a_life_bound_them_all_the_same() -> None:
    worker = playing([Emit("a word"), Raise(Retry("again"))])
    ended = await drive(worker)
    assert isinstance(ended.row.outcome, Failed)
    assert (ended.row.outcome.code, ended.row.outcome.limit) == (FailureCode.RECOVERY_EXHAUSTED, "calls")
    assert (len(worker.calls), ended.row.budget.calls) == (64, 64)


@pytest.mark.behaviour("W5", "W14")
async def test_a_retried_try_does_not_colour_the_outcome_and_readers_fold_it_away() -> None:
    worker = playing([Say("half a"), Raise(Retry("again"))], [Say("whole"), Return(1)])
    ended = await drive(worker)
    assert ended.row.outcome == Completed(result=b"1")
    assert ended.log[1:] == [
        ("text", "half a"),
        ("run.restarted", {"epoch": 1, "attempt": 1, "cause": "worker", "keep": 0}),
        ("text", "whole"),
        ("run.completed", {"result": 1}),
    ]
    assert ended.row.budget.life == 0


@pytest.mark.behaviour("W6", "S4")
async def test_a_stop_during_the_wait_before_another_call_prevents_it() -> None:
    worker = playing([Raise(Retry("again"))])
    async with Cluster({"chat": worker}) as cluster:
        await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1.5)  # the second call was a second after the first, the third is two after that
        await cluster.intake.stop(owner="", id="r1", reason="enough")
        row = await cluster.outcome("r1", within=1)
        await asyncio.sleep(60)
        check(await cluster.finish())
    assert (row.outcome, len(worker.calls)) == (Cancelled(reason="enough"), 2)


# ---- the store ----------------------------------------------------------------------------------


@pytest.mark.behaviour("H4")
async def test_one_append_that_fails_for_no_known_reason_costs_a_takeover_and_nothing_else() -> None:
    worker = playing([Say("hello"), Work(1)])
    ended = await drive(worker, faults=script(append=ErrorBefore(Unclassified())))
    assert (ended.row.status, len(worker.calls), len(worker.aborts)) == (Status.COMPLETED, 2, 0)
    assert [fact.cause for fact in ended.told(RunReleased)] == [Cause.WORKER]


@pytest.mark.behaviour("H4", "H8")
@pytest.mark.parametrize("fault", [ErrorBefore, ErrorAfter])
@pytest.mark.parametrize("operation", ["claim", "fence", "head", "charge", "append", "settle"])
async def test_an_operation_that_is_not_answered_is_asked_again_by_the_same_controller(
    operation: str, fault: type[ErrorBefore] | type[ErrorAfter]
) -> None:
    worker = playing([Say("hello"), Return(1)])
    ended = await drive(worker, faults=script(**{operation: fault(StoreUnavailable("away"))}))
    assert ended.row.outcome == Completed(result=b"1")
    assert (len(worker.calls), ended.row.budget.calls, ended.row.epoch) == (1, 1, 1)
    assert ended.types() == ["run.started", "text", "run.completed"]
    assert [fact.during for fact in ended.told(StoreTroubled)] == [operation]


@pytest.mark.behaviour("H15")
async def test_a_failure_is_settled_even_if_its_last_words_could_not_be_stored() -> None:
    worker = playing([Emit("kept"), Say("lost"), Raise(ValueError())])
    written = Script()
    written.add("append", ErrorBefore(Unclassified()), skip=1)
    ended = await drive(worker, faults=written)
    assert isinstance(ended.row.outcome, Failed)
    assert ended.types()[-1] == "run.failed"
    assert len(worker.calls) in {1, 2}


async def test_a_settle_that_fails_for_no_known_reason_is_a_takeover() -> None:
    worker = playing([Return(1)])
    ended = await drive(worker, faults=script(settle=ErrorBefore(Unclassified())))
    assert (ended.row.outcome, len(worker.calls)) == (Completed(result=b"1"), 2)
    assert len(ended.row.budget.causes) == 1


@pytest.mark.behaviour("O1")
async def test_a_run_that_could_not_even_be_released_is_released_by_the_look_loop() -> None:
    worker = playing([Raise(MemoryError())], [Return(1)])
    ended = await drive(worker, faults=script(release=ErrorBefore(Unclassified())))
    assert (ended.row.outcome, ended.row.budget.causes) == (Completed(result=b"1"), (Cause.MEMORY,))
    assert StoreTroubled(during="release", error="Unclassified") in ended.facts


@pytest.mark.behaviour("L4", "L5", "H13")
@pytest.mark.parametrize(
    "limits",
    [LogLimits(events=2), LogLimits(bytes=7, event_bytes=7), LogLimits(age=60.0)],
    ids=["events", "bytes", "age"],
)
async def test_a_run_at_its_limit_ends_typed_with_its_prefix(limits: LogLimits) -> None:
    worker = playing([Say("a"), Say("b"), Work(61.0), Say("c"), Hang()])
    ended = await drive(worker, limits=limits)
    assert isinstance(ended.row.outcome, Failed)
    assert ended.row.outcome.code is FailureCode.LOG_FULL
    assert ended.types() == ["run.started", "text", "text", "run.failed"]
    assert (len(worker.calls), len(worker.aborts), ended.row.budget.life) == (1, 1, 0)


@pytest.mark.behaviour("L5")
async def test_an_event_larger_than_any_may_be_is_refused_as_that() -> None:
    worker = playing([Say("a"), Say(Event("blob", bytes(101))), Hang()])
    ended = await drive(worker, limits=LogLimits(event_bytes=100))
    assert isinstance(ended.row.outcome, Failed)
    assert ended.row.outcome.code is FailureCode.EVENT_TOO_LARGE
    assert ended.types() == ["run.started", "text", "run.failed"]


@pytest.mark.behaviour("L5")
@pytest.mark.fault("X14")
async def test_an_event_of_eight_mebibytes_is_taken_and_a_byte_more_is_refused() -> None:
    largest = Event("blob", bytes(8 * 1024 * 1024))
    worker = playing([Say("x" * 1024 * 1024), Say(largest), Say(Event("blob", bytes(8 * 1024 * 1024 + 1))), Hang()])
    ended = await drive(worker)
    assert isinstance(ended.row.outcome, Failed)
    assert ended.row.outcome.code is FailureCode.EVENT_TOO_LARGE
    assert ended.types() == ["run.started", "text", "blob", "run.failed"]
    assert len(worker.calls) == 1


# ---- stops --------------------------------------------------------------------------------------


async def stopped(worker: ScriptedWorker, *, after: float = 1.0) -> tuple[Run, list[tuple[str, JSON | bytes]], float]:
    """Stop a run while it is driven; return its row, its log, and how long the worker's call went on."""
    async with Cluster({"chat": worker}) as cluster:
        await cluster.join("a")
        run = await cluster.start("chat", "r1")
        await asyncio.sleep(after)
        asked_at = asyncio.get_running_loop().time()
        answer = await cluster.intake.stop(owner="", id="r1", reason="enough")
        assert answer.answer is StopAnswer.ACCEPTED
        row = await cluster.outcome("r1", within=30)
        await asyncio.sleep(30)
        check(await cluster.finish())
        ended_at = worker.calls[0].ended_at or asyncio.get_running_loop().time()
        return row, [(each.event.type, each.event.data) for each in await cluster.log(run)], ended_at - asked_at


@pytest.mark.behaviour("S2", "S6", "H14")
async def test_a_stop_cancels_the_worker_within_a_second_and_keeps_what_was_said() -> None:
    row, log, took = await stopped(playing([Chatter(0.3)]))
    assert row.outcome == Cancelled(reason="enough")
    assert took <= 1
    assert [type for type, _ in log] == ["run.started", "text", "text", "text", "text", "run.cancelled"]
    assert log[-1] == ("run.cancelled", {"reason": "enough"})


@pytest.mark.behaviour("H14")
async def test_a_failure_after_a_stop_stays_a_stop() -> None:
    class Angry(ScriptedWorker):
        async def call(self, run: Any) -> bytes | None:
            try:
                return await super().call(run)
            except asyncio.CancelledError:
                raise ValueError("not me") from None

    row, _, _ = await stopped(Angry(lambda _call: [Hang()]))
    assert row.outcome == Cancelled(reason="enough")


@pytest.mark.behaviour("H14", "S5")
async def test_a_completed_run_beats_a_late_stop() -> None:
    worker = playing([Return(1)])
    gate = Gate()
    async with Cluster({"chat": worker}) as cluster:
        await cluster.join("a", faults=script(settle=gate))
        await cluster.start("chat", "r1")
        await gate.entered.wait()
        answer = await cluster.intake.stop(owner="", id="r1")
        assert answer.answer is StopAnswer.ACCEPTED
        gate.open()
        row = await cluster.outcome("r1", within=5)
        check(await cluster.finish())
    assert row.outcome == Completed(result=b"1")


@pytest.mark.behaviour("S5")
async def test_a_failure_that_meets_a_stop_in_the_row_is_cancelled() -> None:
    worker = playing([Raise(ValueError())])
    gate = Gate()
    async with Cluster({"chat": worker}) as cluster:
        await cluster.join("a", faults=script(settle=gate))
        await cluster.start("chat", "r1")
        await gate.entered.wait()
        await cluster.intake.stop(owner="", id="r1", reason="enough")
        gate.open()
        row = await cluster.outcome("r1", within=5)
    assert row.outcome == Cancelled(reason="enough")


async def test_a_deaf_worker_is_left_behind_after_the_grace_and_what_it_says_is_refused() -> None:
    worker = playing([Say("before"), Deaf(20), Say("late"), Say("later")])
    row, log, took = await stopped(worker)
    assert row.outcome == Cancelled(reason="enough")
    assert row.settled_at is not None
    assert [data for type, data in log if type == "text"] == ["before"]
    assert took > 5
    assert (len(worker.calls), len(worker.aborts)) == (1, 1)


@pytest.mark.behaviour("S4")
async def test_a_stop_before_the_charge_prevents_the_call() -> None:
    worker = playing([Say("hello")])
    gate = Gate()
    async with Cluster({"chat": worker}) as cluster:
        await cluster.join("a", faults=script(charge=gate))
        await cluster.start("chat", "r1")
        await gate.entered.wait()
        await cluster.intake.stop(owner="", id="r1", reason="enough")
        gate.open()
        row = await cluster.outcome("r1", within=5)
        await asyncio.sleep(5)
        check(await cluster.finish())
    assert (row.outcome, row.budget.calls, worker.calls) == (Cancelled(reason="enough"), 0, [])


# ---- ownership ----------------------------------------------------------------------------------


@pytest.mark.behaviour("H10", "H11")
@pytest.mark.fault("X2")
@pytest.mark.parametrize("operation", ["fence", "head", "charge", "append", "settle"])
async def test_a_controller_that_was_overtaken_in_any_operation_goes_away_in_silence(operation: str) -> None:
    worker = playing([Say("one"), Return(1)], [Say("two"), Return(2)])
    gate = Gate()
    async with Cluster({"chat": worker}) as cluster:
        zombie = await cluster.join("a", faults=script(**{operation: gate}))
        run = await cluster.start("chat", "r1")
        await gate.entered.wait()
        zombie.process.pause()
        await cluster.join("b")
        row = await cluster.outcome("r1", within=60)
        before = await cluster.log(run)
        zombie.process.resume()
        gate.open()
        await asyncio.sleep(60)
        assert await cluster.log(run) == before
        check(await cluster.finish())
    calls_by_b = [call for call in worker.calls if call.process == "b"]
    assert (row.status, len(calls_by_b)) == (Status.COMPLETED, 1)
    assert [type(fact) for fact in zombie.facts if isinstance(fact, RunSettled | RunReleased)] == []
    assert len([fact for fact in zombie.facts if isinstance(fact, ControllerStoodDown)]) == 1


@pytest.mark.behaviour("H10", "H11")
@pytest.mark.case(77)
@pytest.mark.parametrize("operation", ["claim", "fence", "head", "charge", "append", "settle", "release"])
async def test_what_was_about_to_be_written_before_a_takeover_leaves_the_run_to_its_new_holder(operation: str) -> None:
    """The first node stands still between what it has read and what it writes of it, and goes on in the next call."""
    slow = [Say("two"), Work(120), Return(2)]
    first = [Say("one"), Raise(MemoryError())] if operation == "release" else [Say("one"), Return(1)]
    worker = ScriptedWorker(lambda call: slow if call.process == "b" else first)
    gate = Gate()
    async with Cluster({"chat": worker}) as cluster:
        zombie = await cluster.join("a", faults=script(**{operation: gate}))
        await cluster.start("chat", "r1")
        await gate.entered.wait()
        zombie.process.pause()
        successor = await cluster.join("b")
        held = await cluster.until("r1", lambda row: row.holder == successor.node.id, within=60)
        await asyncio.sleep(5)
        zombie.process.resume()
        gate.open()
        await asyncio.sleep(60)
        row = await cluster.row("r1")
        lease = {node.id: node.until for node in await cluster.store.runs.nodes()}[successor.node.id]
        assert (row.holder, row.token, row.outcome) == (successor.node.id, held.token, None)
        assert lease > await cluster.store.runs.now()
        row = await cluster.outcome("r1", within=120)
        check(await cluster.finish())
    assert row.outcome == Completed(result=b"2")
    assert [type(fact) for fact in zombie.facts if isinstance(fact, RunSettled | RunReleased)] == []
    superseded = [fact for fact in zombie.facts if isinstance(fact, ControllerStoodDown)]
    assert len(superseded) == (operation != "claim"), "who never held it has nothing to lose"


@pytest.mark.behaviour("H9", "H18")
@pytest.mark.case(35)
async def test_a_store_outage_of_thirty_seconds_pauses_the_controller_and_costs_nothing() -> None:
    worker = playing([Chatter(0.5)])
    async with Cluster({"chat": worker}, recovery=RecoveryPolicy()) as cluster:
        member = await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(5)
        away = Script()
        for operation in ("append", "renew", "due", "bury", "stops", "take_aborts"):
            away.add(operation, ErrorBefore(StoreUnavailable("away")), times=None)
        member.store.faults = away
        await asyncio.sleep(30)
        said = worker.calls[0].doing
        away.clear()
        await asyncio.sleep(20)
        await cluster.intake.stop(owner="", id="r1")
        row = await cluster.outcome("r1", within=5)
        await asyncio.sleep(5)
        check(await cluster.finish())
    assert said == Chatter(0.5)
    assert (row.epoch, row.budget.life, len(worker.calls)) == (1, 0, 1)
    assert [fact for fact in member.facts if isinstance(fact, ControllerPaused)]


@pytest.mark.behaviour("B3", "B1", "B16")
async def test_a_run_whose_process_dies_shows_one_takeover_and_one_call_by_the_successor() -> None:
    worker = playing([Emit("one"), Die()], [Say("two"), Return(2)])
    async with Cluster({"chat": worker}) as cluster:
        first = await cluster.join("a")
        run = await cluster.start("chat", "r1")
        await cluster.join("b", workers={"chat": worker})
        row = await cluster.outcome("r1", within=30)
        log = await cluster.log(run)
        check(await cluster.finish())
    assert not first.process.alive or len(worker.calls) == 2
    assert (row.status, row.budget.takeovers, row.budget.causes) == (Status.COMPLETED, 1, (Cause.CRASH,))
    assert [call.number for call in worker.calls] == [1, 2]
    assert [each.event.type for each in log] == ["run.started", "text", "run.restarted", "text", "run.completed"]
    assert worker.calls[1].began_at - worker.calls[0].began_at <= 15 + 2
