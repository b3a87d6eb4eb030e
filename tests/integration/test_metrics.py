"""Numbers of real processes equal what happened to their runs, and nothing that anybody sends shows in them."""

import logging
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from outlast import ActiveRun, Outlast
from outlast.client.asgi import StreamingTransport
from tests.integration.programs import House, Program, house
from tests.integration.readers import start, until, whole

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

MARKER = "m4rk3r"
HOSTILE = f'{MARKER}\n\x1b[31m"}} 1\noutlast_forged_total 1\n'
"""A text that would forge a line, colour a terminal and end a label."""


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path, OUTLAST_METRICS="1") as built:
        yield built


def counts(families: list[Metric], name: str) -> dict[tuple[str, ...], float]:
    """Return one counter as label values, in the order of the labels' names, → value; zeros left out."""
    found = next(family for family in families if family.name == f"outlast_{name}")
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for sample in found.samples
        if sample.value
    }


async def scrape(server: Program) -> list[Metric]:
    async with httpx2.AsyncClient() as client:
        answer = await client.get(f"{server.url}/metrics")
    assert answer.status_code == 200
    return list(text_string_to_metric_families(answer.text))


@pytest.mark.behaviour("B16")
async def test_the_numbers_of_a_server_are_what_happened_there(servers: House) -> None:
    dead = await servers.serve()
    run = await start(dead, "endless")
    await until(dead, run, seq=5)
    await dead.kill()
    server = await servers.serve()
    seen = await until(server, run, seq=200)
    assert [each.type for each in seen].count("run.restarted") == 1
    async with httpx2.AsyncClient() as client:
        await client.post(f"{server.url}/runs/{run}/stop", json={})
    await whole(server, run)
    await whole(server, await start(server, "forgetful"))
    families = await scrape(server)
    assert counts(families, "claims") == {
        ("crash", "takeover"): 1,
        ("none", "first"): 1,
        ("memory", "takeover"): 5,
        ("memory", "exhausted"): 1,
    }
    assert counts(families, "released") == {("memory",): 6}
    assert counts(families, "exhausted") == {("window",): 1}
    assert counts(families, "settled") == {("none", "cancelled"): 1, ("recovery_exhausted", "failed"): 1}
    assert counts(families, "calls") == {(): 7}
    (opened,) = counts(families, "readers_opened").values()
    assert opened == sum(counts(families, "readers_closed").values()) == 3
    (first_calls,) = (
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "outlast_first_call_seconds_count"
    )
    assert first_calls == 7
    lines = Counter(line.split(" run=")[0].rsplit(" ", 1)[-1] for line in server.errors.splitlines())
    assert (lines["RunClaimed"], lines["RunSettled"], lines["RunReleased"]) == (8, 2, 6)


@pytest.mark.attack("Z3")
async def test_nothing_that_is_sent_shows_in_a_number_or_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "outlast")
    outlast = Outlast("sqlite://", metrics=True)

    @outlast.worker("chat")
    async def chat(run: ActiveRun) -> None:
        await run.emit(str(run.input))
        raise ValueError(str(run.input))

    quoted = "m4rk3r%0A%1B%22"
    said: dict[str, Any] = {"worker": "chat", "input": HOSTILE, "metadata": {HOSTILE: HOSTILE}}
    names: list[str] = ["traceparent", "last-event-id", "user-agent", "origin", "x-request-id"]
    headers = dict.fromkeys(names, MARKER)
    async with (
        outlast,
        httpx2.AsyncClient(transport=StreamingTransport(outlast.app), base_url="http://localhost") as client,
    ):
        for number in range(300):
            run = {**said, "id": f"{MARKER}-{number}", "thread": f"{MARKER}-{number}"}
            assert (await client.post("/runs", json=run)).status_code == 201
        await client.get(f"/runs/{MARKER}-299/events", headers={"accept": "text/event-stream"})
        for name in ("id", "thread", "worker", "owner", HOSTILE):
            assert (await client.post("/runs", json={**said, name: HOSTILE})).status_code in {400, 422}
        await client.post(f"/runs/{MARKER}-1/stop", json={"reason": HOSTILE})
        for path in ("/runs", f"/runs/{MARKER}-2", f"/runs/{quoted}/events", f"/{quoted}", "/healthz", "/metrics"):
            for method in ("GET", "POST", MARKER):
                await client.request(method, path, params={"after": HOSTILE, "limit": HOSTILE}, headers=headers)
        text = (await client.get("/metrics")).text
    assert MARKER not in text
    assert "forged" not in text
    series = Counter(line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#"))
    assert max(series.values()) <= 200
    lines = [caplog.handler.format(entry) for entry in caplog.records if entry.name.startswith("outlast")]
    assert [line for line in lines if "RunClaimed" in line]
    assert not [line for line in lines if MARKER in line]
