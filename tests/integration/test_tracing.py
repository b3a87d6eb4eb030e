"""The trace of a request goes on when the process that served it is killed."""

from pathlib import Path

import httpx2
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from outlast import ActiveRun, Outlast
from outlast.assembly.instruments import Instruments
from outlast.assembly.tracing import ATTEMPT, Tracing
from outlast.client.asgi import StreamingTransport
from outlast.wire.trace import ids
from tests.integration.programs import house
from tests.integration.readers import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_the_process_that_takes_over_after_kill_9_goes_on_with_the_trace_of_the_request(
    tmp_path: Path,
) -> None:
    async with house(tmp_path, OUTLAST_TRACING="1") as servers:
        dead = await servers.serve()
        async with httpx2.AsyncClient() as client:
            said = {"worker": "endless", "input": None, "id": "r1"}
            answer = await client.post(f"{dead.url}/runs", json=said, headers={"traceparent": CALLER})
            assert answer.status_code == 201
        await until(dead, "r1", seq=5)
        await dead.kill()
        exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        outlast = Outlast(f"sqlite:///{tmp_path}/runs.db", tracing=True)
        outlast._instruments = Instruments(tracing=Tracing(provider.get_tracer("test")))
        passed_on: list[str | None] = []

        @outlast.worker("endless")
        async def endless(run: ActiveRun) -> None:
            passed_on.append(run.traceparent)
            await run.emit("the end")

        async with (
            outlast,
            httpx2.AsyncClient(transport=StreamingTransport(outlast.app), base_url="http://localhost") as client,
        ):
            await client.get("/runs/r1/events", headers={"accept": "text/event-stream"})  # to its end
            assert (await outlast.status("r1"))["status"] == "completed"
        (attempt,) = [span for span in exporter.get_finished_spans() if span.name == ATTEMPT]
        provider.shutdown()
    assert attempt.context is not None
    trace, span, _ = ids(passed_on[0] or "")
    assert (trace, span) == (attempt.context.trace_id, attempt.context.span_id)
    assert trace == ids(CALLER)[0]
    assert attempt.attributes is not None
    assert attempt.attributes["outlast.attempt"] == 2
