"""What a node does with whoever traces it: spans begin and end with attempts, and workers work inside of them."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import replace

import pytest

from outlast.run import Cause, Run, Status
from outlast.server.tracing import Span
from outlast.testing.cluster import Cluster
from outlast.testing.worker import Raise, Return, ScriptedWorker
from outlast.workers.base import ActiveRun, Kind

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
HERE: ContextVar[str] = ContextVar("HERE", default="nowhere")


class Noted:
    """A span that is written down."""

    def __init__(self, name: str, run: Run, cause: Cause | None) -> None:
        self.name = name
        self.run = run
        self.cause = cause
        self.ended = False
        self.context: Context = copy_context()
        self.context.run(HERE.set, name)
        self.traceparent: str | None = f"{(run.traceparent or '')[:-5]}{run.attempt:02x}-01"

    def end(self) -> None:
        assert not self.ended
        self.ended = True


class Notes:
    """A tracing that writes down what it is asked for."""

    def __init__(self) -> None:
        self.spans: list[Noted] = []

    @contextmanager
    def starting(self, given: str | None) -> Generator[str | None, None, None]:
        yield given

    def begin(self, run: Run, cause: Cause | None) -> Span:
        self.spans.append(Noted(f"attempt {run.attempt}", run, cause))
        return self.spans[-1]


class Curious:
    """A worker that looks around, in its task and in a task of its own."""

    kind = Kind.RESTART

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str | None]] = []

    async def call(self, run: ActiveRun) -> bytes | None:
        async def deeper() -> str:
            return HERE.get()

        self.seen.append((HERE.get(), await asyncio.create_task(deeper()), run.traceparent))
        HERE.set("changed by the worker")
        if len(self.seen) == 1:
            raise MemoryError
        return None

    async def abort(self, run: Run) -> None:
        pass


async def test_a_worker_works_inside_the_span_of_its_attempt_and_is_told_its_name() -> None:
    notes, worker = Notes(), Curious()
    async with Cluster({"chat": worker}) as cluster:
        cluster.conditions = replace(cluster.conditions, tracing=notes)
        await cluster.join("a")
        await cluster.intake.start(owner="", worker="chat", input=1, id="r1", traceparent=CALLER)
        row = await cluster.outcome("r1", within=5)
    assert row.traceparent == CALLER
    assert [(span.run.traceparent, span.cause, span.ended) for span in notes.spans] == [
        (CALLER, None, True),
        (CALLER, Cause.MEMORY, True),
    ]
    names = [span.traceparent for span in notes.spans]
    assert worker.seen == [("attempt 1", "attempt 1", names[0]), ("attempt 2", "attempt 2", names[1])]
    assert HERE.get() == "nowhere"


async def test_without_tracing_a_worker_is_told_the_trace_of_whoever_started_the_run() -> None:
    worker = Curious()
    async with Cluster({"chat": worker}) as cluster:
        await cluster.join("a")
        await cluster.intake.start(owner="", worker="chat", input=1, id="r1", traceparent=CALLER)
        await cluster.outcome("r1", within=5)
    assert worker.seen == [("nowhere", "nowhere", CALLER)] * 2


@pytest.mark.parametrize("given", [None, "", CALLER.upper(), f"{CALLER}\r\nx: y", "0" * 1_000_000])
async def test_what_names_no_trace_is_none_and_harms_no_start(given: str | None) -> None:
    worker = ScriptedWorker(lambda call: [Raise(MemoryError())] if call.number == 1 else [Return(1)])
    async with Cluster({"chat": worker}) as cluster:
        await cluster.join("a")
        await cluster.intake.start(owner="", worker="chat", input=1, id="r1", traceparent=given)
        row = await cluster.outcome("r1", within=5)
    assert (row.status, row.traceparent) == (Status.COMPLETED, None)
