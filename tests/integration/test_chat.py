"""The chat of examples/fastapi_chat as people run it: two turns over HTTP, a kill in the middle of the first."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from outlast import ReceivedEvent, follow
from outlast.log.event import Event, StoredEvent
from outlast.log.fold import rewind
from tests.integration.programs import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

APP = Path(__file__).parents[2] / "examples" / "fastapi_chat" / "app.py"
ANSWER = (
    "From {start} to {end} it is {far} as the crow flies. By road it is more, as roads go around hills and lakes and "
    "through towns; a train takes its own way. Name another city, and I tell how far it is to there from {end}. "
)


@asynccontextmanager
async def chat(folder: Path, port: int, *, pace: float) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the application until the end of the block."""
    environ = {**os.environ, "CHAT_PACE": str(pace), "OUTLAST_LEASE_TTL": "3600"}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # the agent's library is large, and compiled once
    with (folder / "log").open("a") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            APP,
            "--port",
            str(port),
            cwd=folder,
            env=environ,
            stdout=log,
            stderr=asyncio.subprocess.PIPE,
        )
    try:
        assert process.stderr
        while line := await process.stderr.readline():
            if b"running on" in line:
                break
        assert line, (folder / "log").read_text()
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ask(url: str, id: str, text: str) -> None:
    async with httpx2.AsyncClient() as client:
        said = {"id": id, "thread": "t", "worker": "chat", "input": {"text": text}}
        answer = await client.post(f"{url}/runs", json=said)
    assert answer.status_code == 201, answer.text


async def read(url: str, id: str) -> list[ReceivedEvent]:
    return [event async for event in follow(url, id) if isinstance(event, ReceivedEvent)]


def shown(received: list[ReceivedEvent]) -> tuple[str, list[tuple[str, Any]]]:
    """Return what is left for a reader: the text, and the tool's events."""
    stored = [
        StoredEvent(cursor=each.cursor, event=Event(each.type, each.data), epoch=0, time=0.0) for each in received
    ]
    kept = [each.event for each in rewind(stored)]
    text = "".join(str(event.data) for event in kept if event.type == "text")
    return text, [(event.type, event.data) for event in kept if event.type.startswith("tool.")]


async def test_a_conversation_goes_on_though_its_server_is_killed_in_the_middle_of_an_answer(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}/agents"
    async with chat(tmp_path, port, pace=0.1) as process:
        await ask(url, "one", "How far is it from Berlin to Rome?")
        middle = follow(url, "one")
        async for event in middle:
            if event.cursor.seq > 10:
                break
        await middle.aclose()
        reading = asyncio.create_task(read(url, "one"))
        process.send_signal(signal.SIGKILL)
        assert await process.wait() == -signal.SIGKILL
    async with chat(tmp_path, port, pace=0.0):
        received = await reading
        first, tools = shown(received)
        await ask(url, "two", "And to Madrid?")
        second, _ = shown(await read(url, "two"))
    assert [event.seq for event in received] == list(range(1, len(received) + 1))
    assert [event.type for event in received if event.type.startswith("run.")] == [
        "run.started",
        "run.restarted",
        "run.completed",
    ]
    assert first == ANSWER.format(start="Berlin", end="Rome", far="1183 km")
    assert tools == [
        ("tool.call", {"id": "call-1", "tool": "distance", "arguments": {"start": "Berlin", "end": "Rome"}}),
        ("tool.result", {"id": "call-1", "result": "1183 km"}),
    ]
    assert second == ANSWER.format(start="Rome", end="Madrid", far="1364 km")
