"""What clients of a real server start there, and what they see of it."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import httpx2

from outlast import ReceivedEvent, follow
from outlast.cli.audit import audit_remote, audit_store
from outlast.lineage import Lineage
from tests.integration.programs import Program


async def start(server: Program, worker: str, input: Any = None, **more: Any) -> str:
    """Start a run and return its id."""
    async with httpx2.AsyncClient() as client:
        answer = await client.post(f"{server.url}/runs", json={"worker": worker, "input": input, **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def status(server: Program, run: str) -> dict[str, Any]:
    """Return the run's status document."""
    async with httpx2.AsyncClient() as client:
        return dict((await client.get(f"{server.url}/runs/{run}")).json())


async def runs(server: Program) -> list[dict[str, Any]]:
    """Return the newest runs of a server, as many as a page holds."""
    async with httpx2.AsyncClient() as client:
        return list((await client.get(f"{server.url}/runs")).json()["runs"])


async def log(server: Program, run: str) -> list[dict[str, Any]]:
    """Return the run's whole log, page by page."""
    events: list[dict[str, Any]] = []
    async with httpx2.AsyncClient() as client:
        while True:
            after = events[-1]["cursor"] if events else "0"
            page = (await client.get(f"{server.url}/runs/{run}/events", params={"after": after})).json()
            events += page["events"]
            if page["up_to_date"]:
                return events


async def until(server: Program, run: str, *, seq: int) -> list[ReceivedEvent]:
    """Follow the run until it has reached `seq`, and return what was received."""
    received: list[ReceivedEvent] = []
    stream = follow(server.url, run)
    async for each in stream:
        assert isinstance(each, ReceivedEvent)
        received.append(each)
        if each.seq >= seq:
            break
    await stream.aclose()
    return received


async def whole(server: Program, run: str) -> list[ReceivedEvent]:
    """Follow the run to its end."""
    return await until(server, run, seq=sys.maxsize)


def numbers(received: Sequence[ReceivedEvent]) -> list[dict[str, int]]:
    """Return what a paced worker said."""
    return [dict(cast("dict[str, int]", each.data)) for each in received if each.type == "number"]


def agree(received: Sequence[ReceivedEvent], stored: Sequence[dict[str, Any]]) -> None:
    """Assert that a reader saw the log exactly: every event, once, in order, and one terminal, last."""
    assert [str(each.cursor) for each in received] == [event["cursor"] for event in stored]
    assert [each.seq for each in received] == list(range(1, len(stored) + 1))
    assert [(each.type, each.data) for each in received] == [(event["type"], event["data"]) for event in stored]
    terminals = {"run.completed", "run.failed", "run.cancelled"}
    assert [index for index, event in enumerate(stored, 1) if event["type"] in terminals] == [len(stored)]


async def audited(server: Program, folder: Path, run: str) -> Lineage:
    """Audit the run over HTTP and on its file, assert that both find the same sound run, and return its lineage."""
    found = await asyncio.to_thread(audit_remote, run, url=server.url, token=None)
    on_file = await asyncio.to_thread(audit_store, run, f"sqlite:///{folder}/runs.db", owner="")
    assert (found.findings, found.notes) == (on_file.findings, on_file.notes) == ([], [])
    assert (found.account, found.events) == (on_file.account, on_file.events)
    assert found.events == found.account.head.seq
    epochs = [[(entry.epoch, entry.claim, entry.node) for entry in each.lineage] for each in (found, on_file)]
    assert epochs[0] == epochs[1]
    return found.lineage
