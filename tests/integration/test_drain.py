"""A server process that is told to stop: the host's own uvicorn, in code and from the command line, and ours."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import pytest

from outlast import ReceivedEvent, follow
from tests.disk import opened
from tests.integration.programs import Program, free_port, outlast, program

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

APP = """
import asyncio, pathlib, sys, threading
import uvicorn
from fastapi import FastAPI
from outlast import Outlast

outlast = Outlast("sqlite:///runs.db", heartbeat=1.0)

@outlast.worker("chat")
async def chat(run):
    for number in range(int(run.input)):
        yield {"n": number}
        await asyncio.sleep(0.05)

@outlast.worker("endless")
async def endless(run):
    while True:
        yield "more "
        await asyncio.sleep(0.05)

@outlast.worker("gated")
async def gated(run):
    number = 0
    while number < 20 or not pathlib.Path("gate").exists():
        yield {"n": number}
        number += 1
        await asyncio.sleep(0.1)

app = FastAPI(lifespan=outlast.lifespan)
app.mount("/agents", outlast.app)

class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print("ready", flush=True)

def server(port):
    return Server(uvicorn.Config(app, port=port, log_level="warning"))

if __name__ == "__main__":
    if sys.argv[1] == "code":
        server(int(sys.argv[2])).run()
    else:
        embedded = server(int(sys.argv[2]))
        thread = threading.Thread(target=embedded.run)
        thread.start()
        sys.stdin.readline()
        asyncio.run(outlast.close())
        print("closed", flush=True)
        embedded.should_exit = True
        thread.join()
        print("ended", flush=True)
"""

Report: TypeAlias = Callable[[str, object], None]
"""Where a test leaves a number that it does not judge: real processes share their machine with others."""

KINDS = ["serve", "uvicorn", "code"]
READY = {"serve": "Outlast serves", "uvicorn": "Uvicorn running", "code": "ready", "thread": "ready"}
"""What a process says once it answers."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "application.py").write_text(APP)
    return tmp_path


@asynccontextmanager
async def serving(folder: Path, kind: str, port: int, *, grace: float) -> AsyncIterator[tuple[Program, str]]:
    """Serve the application in one of the ways there are, and yield the process and where its routes are."""
    environ = {"OUTLAST_GRACE": str(grace)}
    url = f"http://127.0.0.1:{port}"
    async with AsyncExitStack() as stack:
        if kind == "serve":
            command = outlast(folder, "serve", "application:outlast", "--port", str(port), "--verbose", environ=environ)
        elif kind == "uvicorn":
            command = program(
                folder,
                *("-m", "uvicorn", "application:app", "--port", str(port)),
                environ=environ,
                stderr=asyncio.subprocess.STDOUT,
            )
        else:
            command = program(folder, "application.py", kind, str(port), environ=environ, stdin=asyncio.subprocess.PIPE)
        process = await stack.enter_async_context(command)
        where = url if kind == "serve" else f"{url}/agents"
        await process.until(READY[kind])
        yield process, where


async def start(url: str, worker: str, run: str, input: Any = None) -> None:
    async with httpx2.AsyncClient() as client:
        answer = await client.post(f"{url}/runs", json={"worker": worker, "input": input, "id": run})
    assert answer.status_code == 201, answer.text


async def document(url: str, run: str) -> dict[str, Any]:
    async with httpx2.AsyncClient() as client:
        return dict((await client.get(f"{url}/runs/{run}")).json())


async def until_said(url: str, run: str, seq: int) -> None:
    stream = follow(url, run)
    async for each in stream:
        if each.cursor.seq >= seq:
            break
    await stream.aclose()


@pytest.mark.behaviour("D1", "D2", "F15")
@pytest.mark.case(19, 101, 153)
@pytest.mark.parametrize("kind", KINDS)
async def test_sigterm_lets_a_short_run_finish_and_hands_a_long_one_off_whoever_serves(folder: Path, kind: str) -> None:
    port = free_port()
    async with serving(folder, kind, port, grace=4) as (server, url), httpx2.AsyncClient(timeout=None) as client:
        await start(url, "endless", "long")
        await start(url, "chat", "short", 20)
        await until_said(url, "long", 3)
        await until_said(url, "short", 3)
        headers = {"accept": "text/event-stream"}
        async with client.stream("GET", f"{url}/runs/long/events", headers=headers) as stream:
            body = stream.aiter_bytes()
            await anext(body)
            server.signal(signal.SIGTERM)
            rest = b"".join([chunk async for chunk in body])  # a clean end: no reset, no cut chunk
        assert b"event: outlast.drain" in rest
        code = await server.end()
        assert code in {0, -signal.SIGTERM}
        assert "Traceback" not in server.said + server.errors
        assert "ERROR" not in server.said + server.errors
    async with serving(folder, kind, port, grace=0) as (server, url):
        await until_said(url, "long", 5)
        short, long = await document(url, "short"), await document(url, "long")
        assert (short["status"], short["epoch"]) == ("completed", 1)
        budget = long["budget"]
        assert (budget["takeovers"]["used"], budget["life"]["used"], budget["handoffs"]["used"]) == (0, 0, 1)


@pytest.mark.behaviour("D1")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_second_signal_ends_the_server_and_its_runs_are_still_handed_off(folder: Path, kind: str) -> None:
    port = free_port()
    async with serving(folder, kind, port, grace=600) as (server, url):
        await start(url, "endless", "long")
        await until_said(url, "long", 3)
        server.signal(signal.SIGTERM)
        async with httpx2.AsyncClient() as client:
            while (await client.post(f"{url}/runs", json={"worker": "chat", "input": 1})).status_code == 201:
                pass
        assert server.process.returncode is None
        server.signal(signal.SIGTERM)
        assert await server.end() in {0, -signal.SIGTERM}
        assert "Traceback" not in server.said + server.errors
    async with serving(folder, kind, port, grace=0) as (server, url):
        await until_said(url, "long", 5)
        assert (await document(url, "long"))["budget"]["life"]["used"] == 0


@pytest.mark.behaviour("D3")
@pytest.mark.case(21)
async def test_a_server_in_a_thread_is_closed_from_outside_and_prints_nothing(folder: Path) -> None:
    async with serving(folder, "thread", free_port(), grace=2) as (server, url), httpx2.AsyncClient() as client:
        await start(url, "endless", "long")
        headers = {"accept": "text/event-stream"}
        async with client.stream("GET", f"{url}/runs/long/events", headers=headers, timeout=None) as stream:
            body = stream.aiter_bytes()
            await anext(body)
            assert server.process.stdin is not None
            server.process.stdin.write(b"close\n")
            await server.process.stdin.drain()
            rest = b"".join([chunk async for chunk in body])
        assert b"event: outlast.drain" in rest
        await server.until("ended")
        assert await server.end() == 0
        assert server.said == "ready\nclosed\nended\n"
        assert server.errors == ""


async def rolled(folder: Path, report: Report, *, nodes: int, runs: int, readers: int, rounds: int) -> None:
    """Restart every server in turn under live runs, and hold what each reader saw against the logs.

    Reported are the seconds from each signal to the end of its process, and between the events around a hand-off.
    """
    ports = [free_port() for _ in range(nodes)]
    urls = [f"http://127.0.0.1:{port}/agents" for port in ports]
    grace = 5
    seen: dict[int, list[ReceivedEvent]] = {}
    left_within: list[float] = []

    async def read(number: int) -> None:
        seen[number] = [
            each async for each in follow(urls[number % nodes], f"r{number % runs}") if isinstance(each, ReceivedEvent)
        ]

    async with AsyncExitStack() as stack:
        lives: list[AsyncExitStack] = []
        servers: list[Program] = []
        for port in ports:
            life = await stack.enter_async_context(AsyncExitStack())
            lives.append(life)
            servers.append((await life.enter_async_context(serving(folder, "uvicorn", port, grace=grace)))[0])
        for number in range(runs):
            await start(urls[number % nodes], "gated", f"r{number}")
        reading = [asyncio.create_task(read(number)) for number in range(readers)]
        await until_said(urls[0], "r0", 3)
        for _ in range(rounds):
            for number, port in enumerate(ports):
                told_at = time.monotonic()
                servers[number].signal(signal.SIGTERM)
                assert await servers[number].end() in {0, -signal.SIGTERM}  # by itself: nobody killed it
                left_within.append(time.monotonic() - told_at)
                assert "Traceback" not in servers[number].said
                await lives[number].aclose()
                servers[number], _ = await lives[number].enter_async_context(
                    serving(folder, "uvicorn", port, grace=grace)
                )
        (folder / "gate").touch()
        await asyncio.gather(*reading)  # a reader that saw an error raises it here
        handed_off = 0
        for run in range(runs):
            told = await document(urls[0], f"r{run}")
            assert told["status"] == "completed"
            assert (told["budget"]["takeovers"]["used"], told["budget"]["life"]["used"]) == (0, 0)
            handed_off += told["budget"]["handoffs"]["used"]
            whole = [each async for each in follow(urls[0], f"r{run}") if isinstance(each, ReceivedEvent)]
            assert [each.seq for each in whole] == list(range(1, len(whole) + 1))
            for number in range(run, readers, runs):
                assert seen[number] == whole
        assert handed_off >= runs  # each was driven by some node, and each node was restarted
    pauses = await pauses_in(folder / "runs.db")
    assert len(pauses) == handed_off
    report("grace", grace)
    report("left within", [round(seconds, 2) for seconds in left_within])
    report("pause p99", round(pauses[ceil(0.99 * len(pauses)) - 1], 3))


async def pauses_in(path: Path) -> list[float]:
    """Return the seconds from the last event before each hand-off to the first one after it, the shortest first."""
    pauses: list[float] = []
    async with opened(path) as store:
        for each in await store.runs.list("", status=None, before=None, limit=1000):
            log = await store.logs.read(each.run.log, after=0, limit=1_000_000, max_bytes=1 << 40)
            pauses += [
                later.time - earlier.time for earlier, later in pairwise(log) if later.event.type == "run.restarted"
            ]
    return sorted(pauses)


@pytest.mark.behaviour("D1", "F15")
@pytest.mark.fault("X3")
@pytest.mark.case(101)
async def test_a_rolling_deploy_of_real_servers_charges_nothing_and_no_reader_sees_an_error(
    folder: Path, record_testsuite_property: Report
) -> None:
    await rolled(folder, record_testsuite_property, nodes=2, runs=30, readers=60, rounds=1)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.behaviour("D1", "F15")
@pytest.mark.fault("X3")
@pytest.mark.case(101)
async def test_a_rolling_deploy_of_three_servers_under_two_hundred_runs_and_five_hundred_readers(
    folder: Path, record_testsuite_property: Report
) -> None:
    await rolled(folder, record_testsuite_property, nodes=3, runs=200, readers=500, rounds=1)
