"""A worker that lies: each lie ends typed, and harms neither its node nor another run."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from outlast.errors import CallMisused, Fenced, Retry
from outlast.log.event import Event
from outlast.run import Cancelled, Completed, Failed, FailureCode, Run, Status
from outlast.server.appender import AHEAD_BYTES, AHEAD_EVENTS
from outlast.testing.cluster import Cluster
from outlast.testing.faults import Gate, Script
from outlast.testing.invariants import INVARIANTS, check
from outlast.workers.base import ActiveRun, Kind
from outlast.workers.function import Function, FunctionWorker

pytestmark = [pytest.mark.anyio, pytest.mark.fault("X13")]


OTHERS = {name: one for name, one in INVARIANTS.items() if name != "aborts-follow-the-outcome"}
"""All but the one that has to see aborts arrive: what is told of them goes past these functions."""


class Unusual(BaseException):
    """What some libraries raise past everyone's `except Exception`."""


async def honest(run: ActiveRun) -> str:
    """Work beside the liar, longer than it."""
    for word in ("a", "b", "c"):
        await run.emit(word)
        await asyncio.sleep(0.05)
    return "done"


async def beside(function: Function, *, stop: bool = False, kind: Kind = Kind.RESTART) -> tuple[Run, list[Any]]:
    """Drive a liar beside an honest worker on one node; return its row and what its log says."""
    async with Cluster({"liar": FunctionWorker(function, kind=kind), "honest": FunctionWorker(honest)}) as cluster:
        member = await cluster.join("a")
        lying = await cluster.start("liar", "lying")
        await cluster.start("honest", "r1")
        if stop:
            await cluster.until("lying", lambda row: row.budget.calls == 1, within=5)
            await cluster.intake.stop(owner="", id="lying")
        row = await cluster.outcome("lying", within=30)
        other = await cluster.outcome("r1", within=30)
        assert other.outcome == Completed(result=b'"done"')
        assert (other.budget.life, member.crash, member.process.alive) == (0, None, True)
        await asyncio.sleep(5 if stop else 0)  # what comes after a stop's grace is judged as well
        check(await cluster.finish(), OTHERS)
        return row, [each.event.data for each in await cluster.log(lying) if not each.event.type.startswith("run.")]


def circle() -> list[Any]:
    """Return a list that holds itself."""
    found: list[Any] = []
    found.append(found)
    return found


def deep() -> list[Any]:
    """Return a list nested deeper than anything can be written down."""
    found: list[Any] = []
    for _ in range(sys.getrecursionlimit() * 2):
        found = [found]
    return found


NOT_JSON = {
    "nan": float("nan"),
    "infinity": [float("inf")],
    "object": object(),
    "set": {1},
    "circle": circle(),
    "deep": deep(),
    "keys": {(1, 2): 3},
    "huge number": 10**5000,
}


@pytest.mark.parametrize("name", NOT_JSON)
@pytest.mark.parametrize("way", ["yields", "returns", "keeps"])
async def test_what_is_not_json_is_the_workers_failure(name: str, way: str) -> None:
    async def work(run: ActiveRun) -> Any:
        await run.say("before")
        if way == "yields":
            await run.say([NOT_JSON[name]])
        if way == "keeps":
            await run.checkpoint(NOT_JSON[name])
        return NOT_JSON[name]

    row, said = await beside(work, kind=Kind.RESUME)
    assert row.outcome == Failed(code=FailureCode.WORKER_ERROR, message="The worker raised InputInvalid.")
    assert said == ["before"]


@pytest.mark.parametrize(
    "failure",
    [SystemExit(3), Unusual("x"), BaseExceptionGroup("x", [Unusual()]), asyncio.CancelledError(), StopAsyncIteration()],
    ids=lambda failure: type(failure).__name__,
)
async def test_whatever_a_worker_raises_fails_its_run_alone(failure: BaseException) -> None:
    async def work(run: ActiveRun) -> None:
        await run.say("before")
        raise failure

    row, said = await beside(work)
    assert isinstance(row.outcome, Failed)
    assert (row.outcome.code, row.budget.calls, said) == (FailureCode.WORKER_ERROR, 1, ["before"])


async def test_an_input_that_is_changed_is_changed_for_that_call_alone() -> None:
    seen: list[Any] = []

    async def work(run: ActiveRun) -> None:
        seen.append(dict(run.input))  # type: ignore[call-overload]
        run.input.clear()  # type: ignore[union-attr]
        run.id = run.thread = "another"
        if len(seen) < 2:
            raise Retry("again")

    async with Cluster({"chat": FunctionWorker(work)}) as cluster:
        await cluster.join("a")
        await cluster.start("chat", "r1", input={"n": 1})
        row = await cluster.outcome("r1", within=10)
    assert (seen, row.input, row.status) == ([{"n": 1}, {"n": 1}], b'{"n":1}', Status.COMPLETED)


# ---- after its end ------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["returns", "raises", "asks for another call"])
async def test_what_a_call_left_running_says_nothing_more_not_even_into_the_next_call(end: str) -> None:
    refused: list[type[BaseException]] = []
    left: list[asyncio.Task[None]] = []

    async def work(run: ActiveRun) -> None:
        async def haunt() -> None:
            while True:
                await asyncio.sleep(0)
                for say in (lambda: run.say("ghost"), lambda: run.emit("ghost"), lambda: run.checkpoint("ghost")):
                    try:
                        await say()
                    except Fenced as error:
                        refused.append(type(error))
                        if len(refused) > 9:
                            return

        if not left:
            await run.say("first")
            left.append(asyncio.create_task(haunt()))
            if end == "asks for another call":
                raise Retry("again")
            if end == "raises":
                raise ValueError
            return
        assert run.state is None
        await run.say("second")
        await asyncio.wait(left)

    row, said = await beside(work, kind=Kind.RESUME)
    await asyncio.wait(left)
    assert len(refused) > 9
    assert said == (["first", "second"] if end == "asks for another call" else ["first"])
    assert row.status is (Status.FAILED if end == "raises" else Status.COMPLETED)


@pytest.mark.virtual
async def test_a_generator_that_swallows_its_cancellation_is_left_behind_and_says_nothing_more() -> None:
    swallowed: list[bool] = []

    async def work(run: ActiveRun) -> AsyncIterator[str]:
        while len(swallowed) < 2:  # once when it is stopped, once when it is left behind
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                swallowed.append(run.stopping)
        yield "after the end"

    row, said = await beside(work, stop=True)
    assert (row.outcome, said, swallowed) == (Cancelled(reason=None), [], [True, True])


async def test_a_thread_that_hears_nothing_says_nothing_more() -> None:
    release, refused = threading.Event(), threading.Event()

    def work(run: ActiveRun) -> Iterator[str]:
        try:
            release.wait(30)
            yield "last words"
            yield "never said"
        finally:
            refused.set()

    async with Cluster({"chat": FunctionWorker(work)}) as cluster:
        cluster.conditions = type(cluster.conditions)(
            report=lambda _fact: None,
            mint=cluster.conditions.mint,
            jitter=cluster.conditions.jitter,
            stop_grace=0.05,
        )
        await cluster.join("a")
        run = await cluster.start("chat", "r1")
        await cluster.until("r1", lambda row: row.budget.calls == 1, within=5)
        await cluster.intake.stop(owner="", id="r1")
        row = await cluster.outcome("r1", within=10)
        release.set()
        while not refused.is_set():
            await asyncio.sleep(0)
        types = [each.event.type for each in await cluster.log(run)]
    assert (row.status, types) == (Status.CANCELLED, ["run.started", "run.cancelled"])


@pytest.mark.parametrize("ask", ["say", "emit", "checkpoint", "events", "history"])
async def test_a_run_that_is_used_from_another_loop_says_what_to_do_instead(ask: str) -> None:
    def work(run: ActiveRun) -> str:
        async def elsewhere() -> None:
            if ask in {"events", "history"}:
                [one async for one in getattr(run, ask)()]
            else:
                await getattr(run, ask)("x")

        try:
            asyncio.run(elsewhere())
        except CallMisused as error:
            return error.code
        return "taken"

    row, said = await beside(work, kind=Kind.RESUME)
    assert (row.outcome, said) == (Completed(result=b'"call_misused"'), [])


# ---- too much -----------------------------------------------------------------------------------


async def say_from_many_tasks(run: ActiveRun) -> None:
    """Say things from a hundred tasks at once."""
    await asyncio.gather(*(run.say(Event("blob", bytes(40_000))) for _ in range(100)))


async def yield_on_the_loop(run: ActiveRun) -> AsyncIterator[Event]:
    """Yield as fast as the loop goes."""
    for _ in range(100):
        yield Event("blob", bytes(40_000))


def yield_in_a_thread(run: ActiveRun) -> Iterator[Event]:
    """Yield as fast as a thread goes."""
    for _ in range(100):
        yield Event("blob", bytes(40_000))


def yield_small(run: ActiveRun) -> Iterator[Event]:
    """Yield many small events from a thread."""
    for _ in range(200):
        yield Event("blob", b"x")


@pytest.mark.parametrize("function", [say_from_many_tasks, yield_on_the_loop, yield_in_a_thread, yield_small])
async def test_a_worker_is_never_further_ahead_of_its_store_than_the_bound(function: Function) -> None:
    async with Cluster({"chat": FunctionWorker(function)}) as cluster:
        faults = Script()
        member = await cluster.join("a", faults=faults)
        gates = [faults.add("append", Gate(), skip=number) for number in (1, 2)]
        await cluster.start("chat", "r1")
        for gate in gates:
            await gate.entered.wait()
            (controller,) = member.node._controllers.values()
            appender = controller._appender
            assert appender is not None
            most = 0
            for _ in range(2000):
                await asyncio.sleep(0)
                most = max(most, len(appender._queue))
                assert len(appender._queue) <= AHEAD_EVENTS
                assert appender._queued_bytes <= AHEAD_BYTES
            gate.open()
        row = await cluster.outcome("r1", within=60)
    assert row.status is Status.COMPLETED
