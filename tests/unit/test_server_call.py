"""One call of a worker: what it comes back to, and what is kept for the next."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from outlast.errors import CallMisused, InputInvalid, Retry, StoreUnavailable, TooLarge
from outlast.log.event import JSON, Event, Said
from outlast.log.fold import fold
from outlast.log.limits import LogLimits
from outlast.run import Completed, Failed, FailureCode, Run, Status
from outlast.server import call
from outlast.testing.cluster import Cluster
from outlast.testing.faults import ErrorAfter, ErrorBefore, Fault, Script
from outlast.testing.invariants import INVARIANTS, check
from outlast.testing.process import Process
from outlast.workers.base import ActiveRun, EarlierRun, Kind
from outlast.workers.function import Function, FunctionWorker

OTHERS = {name: one for name, one in INVARIANTS.items() if name != "aborts-follow-the-outcome"}
"""All but the one that has to see aborts arrive: what is told of them goes past these functions."""

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


async def drive(function: Function, *, kind: Kind = Kind.RESUME, faults: Script | None = None, **options: Any) -> Run:
    """Drive one run to its outcome; a node comes up for each that dies. `Ended` is what is left of it."""
    async with Cluster({"chat": FunctionWorker(function, kind=kind)}, **options) as cluster:
        member = await cluster.join("a", faults=faults)
        run = await cluster.start("chat", "r1")
        while not (row := await cluster.row("r1")).status.is_terminal:
            await asyncio.sleep(0.5)
            if not member.process.alive:
                member = await cluster.join(f"node-{len(cluster.members)}")
        drive.log = [(each.seq, each.event.type, each.event.data) for each in await cluster.log(run)]  # type: ignore[attr-defined]
        drive.folded = [  # type: ignore[attr-defined]
            each.event.data for each in fold(await cluster.log(run)) if not each.event.type.startswith("run.")
        ]
        check(await cluster.finish(), OTHERS)
        return row


def folded() -> list[Any]:
    """Return what readers of the last run that was driven are left with."""
    return drive.folded  # type: ignore[attr-defined, no-any-return]


async def die() -> None:
    """Take the process along."""
    process = Process.current()
    assert process is not None
    process.kill()
    await asyncio.sleep(3600)


@pytest.mark.behaviour("W14")
@pytest.mark.parametrize("fault", [None, ErrorBefore(StoreUnavailable("x")), ErrorAfter(StoreUnavailable("x"))])
async def test_a_takeover_goes_on_from_the_checkpoint_with_what_was_kept(fault: Fault | None) -> None:
    got: list[tuple[JSON, list[JSON | bytes]]] = []

    async def work(run: ActiveRun) -> AsyncIterator[Said]:
        state = run.state or {"step": 0}
        got.append((run.state, [event.data async for event in run.events()]))
        for step in range(state["step"], 4):  # type: ignore[call-overload, index]
            yield f"{step} "
            await run.checkpoint({"step": step + 1})
            yield {"lost": step}
            if step == 1 and run.attempt == 1:
                await run.emit("lost")
                await die()

    faults = Script()
    if fault is not None:
        faults.add("checkpoint", fault, times=2)
    row = await drive(work, faults=faults)
    assert row.status is Status.COMPLETED
    assert got == [(None, []), ({"step": 2}, ["0 ", {"lost": 0}, "1 "])]
    assert folded() == ["0 ", {"lost": 0}, "1 ", "2 ", {"lost": 2}, "3 ", {"lost": 3}]


@pytest.mark.behaviour("W14")
async def test_readers_are_told_what_is_kept_by_the_seq_of_the_checkpoint() -> None:
    async def work(run: ActiveRun) -> None:
        if run.attempt == 1:
            await run.say("kept")
            await run.checkpoint(None)
            await run.emit("lost")
            await die()

    await drive(work)
    log: list[Any] = drive.log  # type: ignore[attr-defined]
    assert log[:4] == [
        (1, "run.started", {"epoch": 1, "attempt": 1}),
        (2, "text", "kept"),
        (3, "run.checkpoint", {}),
        (4, "text", "lost"),
    ]
    assert (log[4][1], log[4][2]["keep"]) == ("run.restarted", 3)


@pytest.mark.behaviour("W14", "W16")
async def test_a_call_that_asks_for_another_keeps_its_checkpoint() -> None:
    states: list[JSON] = []

    async def work(run: ActiveRun) -> AsyncIterator[Said]:
        states.append(run.state)
        yield f"{len(states)} "
        await run.checkpoint(len(states))
        yield "lost "
        if len(states) < 6:  # more often than there are tries: each made progress
            raise Retry("again")

    row = await drive(work)
    assert (row.status, states, row.budget.calls, row.budget.life) == (Status.COMPLETED, [None, 1, 2, 3, 4, 5], 6, 0)
    assert folded() == ["1 ", "2 ", "3 ", "4 ", "5 ", "6 ", "lost "]


async def test_a_call_goes_on_from_a_checkpoint_whose_row_was_not_yet_written_when_it_asked_for_another() -> None:
    states: list[JSON] = []

    async def work(run: ActiveRun) -> None:
        states.append(run.state)
        if run.state is None:
            await run.say("kept")
            keeping = asyncio.create_task(run.checkpoint("soon"))
            await asyncio.sleep(0)
            keeping.cancel()
            raise Retry("again")

    await drive(work)
    assert states == [None, "soon"]
    assert folded() == ["kept"]


@pytest.mark.behaviour("W14")
async def test_what_an_earlier_takeover_took_back_does_not_come_back_and_long_logs_are_read_in_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call, "PAGE_EVENTS", 3)
    got: list[list[JSON | bytes]] = []

    async def work(run: ActiveRun) -> AsyncIterator[Said]:
        got.append([event.data async for event in run.events()])
        for number in range(5):
            yield [run.attempt, number]
        if run.attempt < 4:
            if run.attempt != 2:
                await run.checkpoint(run.attempt)
            await run.emit("lost")
            await die()

    await drive(work)
    first, third = [[1, number] for number in range(5)], [[3, number] for number in range(5)]
    assert got == [[], first, first, first + third]
    assert folded() == [*first, *third, *([4, number] for number in range(5))]


async def test_a_state_is_written_down_as_it_was_when_the_checkpoint_was_asked_for() -> None:
    got: list[JSON] = []

    async def work(run: ActiveRun) -> None:
        got.append(run.state)
        state = {"n": 1}
        if run.attempt == 1:
            keeping = asyncio.create_task(run.checkpoint(state))
            await asyncio.sleep(0)
            state["n"] = 2
            await keeping
            await die()

    await drive(work)
    assert got == [None, {"n": 1}]


@pytest.mark.parametrize(
    ("state", "refusal"),
    [("x" * 99, TooLarge), (float("nan"), InputInvalid), (object(), InputInvalid), ({1: {2}}, InputInvalid)],
)
async def test_a_state_that_cannot_be_kept_is_refused_and_nothing_is_changed(
    state: Any, refusal: type[Exception]
) -> None:
    async def work(run: ActiveRun) -> None:
        await run.checkpoint("x" * 98)
        with pytest.raises(refusal):
            await run.checkpoint(state)

    row = await drive(work, limits=LogLimits(checkpoint_bytes=100))
    assert row.status is Status.COMPLETED
    assert [type for _, type, _ in drive.log] == ["run.started", "run.checkpoint", "run.completed"]  # type: ignore[attr-defined]


@pytest.mark.behaviour("L4")
async def test_checkpoints_count_towards_the_limit_of_the_log() -> None:
    async def work(run: ActiveRun) -> None:
        while True:
            await run.checkpoint(None)

    row = await drive(work, limits=LogLimits(events=5))
    assert isinstance(row.outcome, Failed)
    assert row.outcome.code is FailureCode.LOG_FULL
    assert len(drive.log) == 7  # type: ignore[attr-defined]


@pytest.mark.behaviour("L4")
async def test_a_run_that_was_taken_over_may_say_as_much_as_one_that_was_not() -> None:
    async def work(run: ActiveRun) -> None:
        if run.attempt <= 3:
            await run.emit("x")
            await die()
        with suppress(Exception):
            while True:
                await run.emit("y")

    await drive(work, limits=LogLimits(events=10))
    assert sum(type == "text" for _, type, _ in drive.log) == 10  # type: ignore[attr-defined]


# ---- who may not --------------------------------------------------------------------------------


async def test_a_restart_worker_is_told_which_kind_to_declare() -> None:
    async def work(run: ActiveRun) -> None:
        for ask in (lambda: run.state, run.events):
            with pytest.raises(CallMisused, match='kind="resume"'):
                ask()
        with pytest.raises(CallMisused, match='kind="resume"'):
            await run.checkpoint(None)

    assert (await drive(work, kind=Kind.RESTART)).status is Status.COMPLETED


async def test_a_worker_that_has_become_a_restart_worker_starts_from_the_beginning() -> None:
    async def work(run: ActiveRun) -> None:
        await run.say("kept")
        await run.checkpoint(1)
        await die()

    async def anew(run: ActiveRun) -> None:
        await run.say("anew")

    async with Cluster({"chat": FunctionWorker(work, kind=Kind.RESUME)}) as cluster:
        member = await cluster.join("a")
        run = await cluster.start("chat", "r1")
        await member.process.gone()
        await cluster.join("b", workers={"chat": FunctionWorker(anew)})
        await cluster.outcome("r1", within=60)
        log = [each.event.data for each in fold(await cluster.log(run)) if each.event.type == "text"]
    assert log == ["anew"]


# ---- the thread ---------------------------------------------------------------------------------


async def test_a_run_reads_what_was_said_on_its_thread_before_it() -> None:
    told: list[EarlierRun] = []
    texts: list[str] = []

    async def work(run: ActiveRun) -> JSON:
        if run.id != "last":
            await run.say(f"{run.input}-")
            await run.say({"n": 1})
            await run.say("said")
            if run.input == "bad":
                raise ValueError
            if run.id == "again" and not texts:
                texts.append("once")
                raise Retry("again")
            return [run.input]
        texts.clear()
        async for earlier in run.history(limit=3):
            told.append(earlier)
            texts.append(await earlier.text())
        assert [event.type async for event in told[0].events()] == ["text", "data", "text"]
        assert [one.id async for one in run.history(limit=1)] == ["bad"]
        for limit in (0, 201):
            with pytest.raises(InputInvalid):
                run.history(limit=limit)
        return None

    async with Cluster({"chat": FunctionWorker(work)}) as cluster:
        await cluster.join("a")
        for name in ("forgotten", "good", "again", "bad", "last"):
            await cluster.start("chat", name, input=name, thread="t1")
            await cluster.start("chat", f"other-{name}", input=name, thread="t2")
            row = await cluster.outcome(name, within=60)
            await cluster.outcome(f"other-{name}", within=60)
        assert row.outcome == Completed()
    assert [(one.id, one.input, one.status) for one in told] == [
        ("good", "good", Status.COMPLETED),
        ("again", "again", Status.COMPLETED),
        ("bad", "bad", Status.FAILED),
    ]
    assert (told[0].result, told[2].result) == (["good"], None)
    assert texts == ["good-said", "again-said", "bad-said"]


async def test_a_run_without_a_thread_has_no_history() -> None:
    async def work(run: ActiveRun) -> int:
        return len([one async for one in run.history()])

    assert (await drive(work)).outcome == Completed(result=b"0")


async def test_a_long_log_is_read_without_keeping_the_loop_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "PAGE_EVENTS", 5)
    turns: list[int] = []

    async def work(run: ActiveRun) -> None:
        if run.attempt == 1:
            for number in range(100):
                await run.say(Event("n", number))
            await run.checkpoint(None)
            await die()
        count = 0

        async def others() -> None:
            while True:
                turns.append(count)
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        async for _ in run.events():
            count += 1
        task.cancel()

    await drive(work)
    assert len(set(turns)) > 10
