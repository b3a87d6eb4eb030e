"""Runs as spans: one trace from the request that started a run to its outcome, whoever drives it in between."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracer, StatusCode, Tracer, get_current_span

from outlast.assembly.tracing import ATTEMPT, START, Tracing
from outlast.facts import Fact
from outlast.run import Status
from outlast.server.intake import Door, Intake
from outlast.testing.cluster import Cluster, Member
from outlast.testing.worker import Call, Emit, Hang, Raise, Return, Say, ScriptedWorker
from outlast.wire.trace import ids, traceparent
from outlast.workers.base import ActiveRun
from outlast.workers.function import FunctionWorker

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Exported:
    """What one process exported, and the tracer that does it."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self._provider.get_tracer("test")

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def close(self) -> None:
        self._provider.shutdown()


@pytest.fixture
def exported() -> Iterator[Exported]:
    opened = Exported()
    yield opened
    opened.close()


async def join(cluster: Cluster, name: str, tracer: Tracer) -> Member:
    """Bring up a node that traces with `tracer`."""
    tracing = Tracing(tracer)
    before = cluster.conditions
    cluster.conditions = replace(before, tracing=tracing)
    member = cluster.prepare(name)
    cluster.conditions = before
    report = member.node._conditions.report

    def observed(fact: Fact) -> None:
        report(fact)
        tracing.observe(fact)

    observing = replace(member.node._conditions, report=observed)
    member.node._conditions = member.node._claimant._conditions = observing
    await member.begin()
    return member


def intake(cluster: Cluster, tracer: Tracer) -> Intake:
    """Return a way in that traces."""
    opened = Intake(cluster.store.runs, cluster.workers, replace(cluster.conditions, tracing=Tracing(tracer)))
    opened.door = Door.OPEN
    return opened


def parent(span: ReadableSpan) -> str:
    assert span.parent is not None
    return traceparent(span.parent.trace_id, span.parent.span_id, span.parent.trace_flags)


def name(span: ReadableSpan) -> str:
    assert span.context is not None
    return traceparent(span.context.trace_id, span.context.span_id, span.context.trace_flags)


async def test_the_trace_of_a_request_goes_on_in_the_node_that_takes_its_run_over(exported: Exported) -> None:
    dying = Exported()
    worker = ScriptedWorker(lambda call: [Emit("a"), Hang()] if call.number == 1 else [Say("b"), Return(1)])
    async with Cluster({"chat": worker}) as cluster:
        first = await join(cluster, "a", dying.tracer)
        await intake(cluster, dying.tracer).start(owner="", worker="chat", input=1, id="r1", traceparent=CALLER)
        await asyncio.sleep(1)
        first.process.kill()
        await first.process.gone()
        await join(cluster, "b", exported.tracer)
        row = await cluster.outcome("r1", within=30)
        await asyncio.sleep(1)
    (start,) = dying.spans(START)
    (attempt,) = exported.spans(ATTEMPT)
    assert parent(start) == CALLER
    assert parent(attempt) == name(start) == row.traceparent
    assert ids(name(attempt))[0] == ids(CALLER)[0]
    assert attempt.attributes is not None
    said = {key.removeprefix("outlast."): value for key, value in attempt.attributes.items()}
    assert said == {
        "run": row.log,
        "epoch": 2,
        "attempt": 2,
        "cause": "crash",
        "ending": "RunSettled",
        "status": "completed",
    }
    assert [event.name for event in attempt.events] == ["WorkerCalled"]
    dying.close()


async def test_what_a_worker_traces_lies_inside_its_attempt_and_it_can_pass_the_trace_on(exported: Exported) -> None:
    told: list[str | None] = []

    def threaded(run: ActiveRun) -> None:
        told.append(run.traceparent)
        with exported.tracer.start_as_current_span("call a model"):
            pass

    async with Cluster({"chat": FunctionWorker(threaded)}) as cluster:
        await join(cluster, "a", exported.tracer)
        with exported.tracer.start_as_current_span("a request"):
            await intake(cluster, exported.tracer).start(owner="", worker="chat", input=1, id="r1", traceparent=CALLER)
        for _ in range(1000):  # the worker has a thread, which virtual time does not wait for
            if exported.spans(ATTEMPT):
                break
            await asyncio.sleep(0.01)
    (request,), (start,) = exported.spans("a request"), exported.spans(START)
    (attempt,), (call,) = exported.spans(ATTEMPT), exported.spans("call a model")
    assert parent(start) == name(request)  # the application's own span lies nearer than the header
    assert (parent(attempt), parent(call)) == (name(start), name(attempt))
    assert told == [name(attempt)]
    assert not get_current_span().is_recording()


async def test_a_failed_run_is_an_error_and_its_words_are_not_told(exported: Exported) -> None:
    worker = ScriptedWorker(lambda _call: [Raise(ValueError("s3cret"))])
    async with Cluster({"chat": worker}) as cluster:
        await join(cluster, "a", exported.tracer)
        await intake(cluster, exported.tracer).start(owner="s3cret", worker="chat", input="s3cret", id="s3cret")
        await asyncio.sleep(2)
    (attempt,) = exported.spans(ATTEMPT)
    assert attempt.status.status_code is StatusCode.ERROR
    assert attempt.attributes is not None
    assert attempt.attributes["outlast.code"] == "worker_error"
    assert "s3cret" not in "".join(span.to_json() for each in (START, ATTEMPT) for span in exported.spans(each))


async def test_a_run_that_nobody_traces_is_a_trace_of_its_own(exported: Exported) -> None:
    def script(call: Call) -> list[object]:
        return [Raise(MemoryError())] if call.number == 1 else [Return(1)]

    async with Cluster({"chat": ScriptedWorker(script)}) as cluster:  # type: ignore[arg-type]
        await join(cluster, "a", exported.tracer)
        await intake(cluster, exported.tracer).start(owner="", worker="chat", input=1, id="r1")
        await cluster.outcome("r1", within=5)
        await asyncio.sleep(1)
    (start,), attempts = exported.spans(START), exported.spans(ATTEMPT)
    assert start.parent is None
    assert [parent(attempt) for attempt in attempts] == [name(start)] * 2
    assert [(attempt.attributes or {})["outlast.ending"] for attempt in attempts] == ["RunReleased", "RunSettled"]


async def test_without_an_sdk_the_callers_trace_is_passed_on() -> None:
    worker = ScriptedWorker(lambda _call: [Return(1)])
    async with Cluster({"chat": worker}) as cluster:
        await join(cluster, "a", NoOpTracer())
        await intake(cluster, NoOpTracer()).start(owner="", worker="chat", input=1, id="r1", traceparent=CALLER)
        row = await cluster.outcome("r1", within=5)
    assert (row.status, row.traceparent) == (Status.COMPLETED, CALLER)


async def test_a_refused_start_is_no_error_of_ours_in_the_trace(exported: Exported) -> None:
    async with Cluster({"chat": ScriptedWorker(lambda _call: [Hang()])}) as cluster:
        opened = intake(cluster, exported.tracer)
        await opened.start(owner="", worker="chat", input=1, id="r1")
        with pytest.raises(Exception, match="already names a run"):
            await opened.start(owner="", worker="chat", input=2, id="r1")
    assert [span.status.status_code for span in exported.spans(START)] == [StatusCode.UNSET] * 2
    assert not any(span.events for span in exported.spans(START))
