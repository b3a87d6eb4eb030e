"""The demonstration does what it promises: killed in the middle and started again, everything goes on."""

import io
import json
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from outlast.cli.terminal import Plain
from outlast.cli.transcript import Transcript
from outlast.client.received import ReceivedEvent
from outlast.log.cursor import Cursor
from outlast.log.event import Event
from tests.integration.programs import Program, free_port, outlast

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]


@asynccontextmanager
async def demo(folder: Path, port: int) -> AsyncIterator[Program]:
    # With leases of an hour, a takeover that waited for one would never come.
    environ = {"OUTLAST_LEASE_TTL": "3600"}
    async with outlast(folder, "demo", "heapq", "--pace", "0.02", "--port", str(port), environ=environ) as program:
        await program.until("Ctrl-C stops the demo")
        yield program


def transcript(events: list[dict[str, Any]]) -> str:
    """Return how a plain stream shows a log."""
    stream = io.StringIO()
    screen = Plain(stream, io.StringIO())
    shown = Transcript(screen)
    for event in events:
        shown.take(ReceivedEvent(cursor=Cursor.parse(event["cursor"]), event=Event(event["type"], event["data"])))
    screen.close()
    return stream.getvalue()


@pytest.mark.behaviour("O3", "B1", "F1")
async def test_the_demo_killed_in_the_middle_and_started_again_goes_on_for_whoever_reads(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}"
    async with demo(tmp_path, port) as first:
        run = re.findall(r"Run (heapq-\w+) has begun", first.said)[0]
        assert f"{url}/#{run}" in first.said
        assert f"tail {run} --url {url}" in first.said
        assert f"kill -9 {first.process.pid}" in first.said
        async with (
            outlast(tmp_path, "tail", run, "--url", url) as reading,
            outlast(tmp_path, "tail", run, "--json", "--url", url) as listing,
        ):
            await listing.until('"seq":60,')
            await reading.until("tool.call")
            first.signal(signal.SIGKILL)
            assert await first.end() == -signal.SIGKILL
            async with demo(tmp_path, port) as second:
                assert f"Going on with run {run}" in second.said
                assert await listing.end() == 0
                assert await reading.end() == 0
                async with httpx2.AsyncClient() as client:
                    events = (await client.get(f"{url}/runs/{run}/events?limit=1000")).json()["events"]
                    status = (await client.get(f"{url}/runs/{run}")).json()
                    page = await client.get(f"{url}/")
                second.signal(signal.SIGINT)
                assert await second.end() == 130
    printed = [json.loads(line) for line in listing.said.splitlines()]
    assert printed == [{name: event[name] for name in ("cursor", "seq", "type", "data")} for event in events]
    restarted = [event for event in events if event["type"] == "run.restarted"]
    assert [(event["data"]["attempt"], event["data"]["cause"]) for event in restarted] == [(2, "crash")]
    assert [event["seq"] for event in events if event["type"] == "run.completed"] == [len(events)]
    assert reading.said == transcript(events)
    assert reading.said.count("— taken over: attempt 2 (crash) —") == 1
    assert reading.said.endswith("\n— completed —\n")
    assert status["budget"]["calls"]["used"] == 2
    assert page.headers["content-type"].startswith("text/html")
