"""Real server processes of the test application, and what their readers see."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx2

from outlast import ReceivedEvent, follow

ROOT = Path(__file__).parents[2]


@dataclass(kw_only=True)
class Server:
    """One `outlast serve` process; `url` is where it answers."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    def kill(self) -> None:
        """End the process as the kernel's out-of-memory killer would."""
        self.process.kill()
        self.process.wait(10)

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self.process.send_signal(number)

    def facts(self, name: str) -> list[str]:
        """Return the lines the process logged about one kind of fact."""
        return [line for line in self.log.read_text().splitlines() if f": {name} " in line]


@dataclass
class House:
    """Server processes over one SQLite file."""

    folder: Path
    servers: list[Server] = field(default_factory=list[Server])

    def serve(self, *, death: str | None = None) -> Server:
        """Start one more process and return it when it answers."""
        log = self.folder / f"server-{len(self.servers)}.log"
        environ = {**os.environ, "OUTLAST_STORE": f"sqlite:///{self.folder}/runs.db", "TEST_DEATH": death or ""}
        command = [sys.executable, "-m", "outlast", "serve", "tests.integration.application:outlast"]
        with log.open("w") as stderr:
            process = subprocess.Popen(
                [*command, "--port", "0", "--verbose"],
                cwd=ROOT,
                env=environ,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        assert process.stdout is not None
        greeting = process.stdout.readline()  # the line comes when requests are answered
        assert "http://" in greeting, log.read_text()
        server = Server(
            process=process, url=next(word for word in greeting.split() if word.startswith("http")), log=log
        )
        self.servers.append(server)
        return server


@contextmanager
def house(folder: Path) -> Iterator[House]:
    """Yield a house, and leave no process of it behind."""
    built = House(folder)
    try:
        yield built
    finally:
        for server in built.servers:
            server.process.kill()
            server.process.wait(10)
            assert server.process.stdout is not None
            server.process.stdout.close()


async def start(server: Server, worker: str, input: Any = None, **more: Any) -> str:
    """Start a run and return its id."""
    async with httpx2.AsyncClient() as client:
        answer = await client.post(f"{server.url}/runs", json={"worker": worker, "input": input, **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def status(server: Server, run: str) -> dict[str, Any]:
    """Return the run's status document."""
    async with httpx2.AsyncClient() as client:
        return dict((await client.get(f"{server.url}/runs/{run}")).json())


async def log(server: Server, run: str) -> list[dict[str, Any]]:
    """Return the run's whole log, page by page."""
    events: list[dict[str, Any]] = []
    async with httpx2.AsyncClient() as client:
        while True:
            after = events[-1]["cursor"] if events else "0"
            page = (await client.get(f"{server.url}/runs/{run}/events", params={"after": after})).json()
            events += page["events"]
            if page["up_to_date"]:
                return events


async def until(server: Server, run: str, *, seq: int) -> list[ReceivedEvent]:
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


async def whole(server: Server, run: str) -> list[ReceivedEvent]:
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
