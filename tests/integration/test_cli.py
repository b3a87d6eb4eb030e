"""The command line as people use it: real processes, real signals, a real terminal."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.console import COLUMNS, LINES, Console
from tests.integration.programs import Program, free_port, outlast
from tests.integration.readers import start
from tests.peer import Peer, served

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

APP = """
import asyncio, pathlib, time
from outlast import Event, Outlast

outlast = Outlast("sqlite:///runs.db", heartbeat=1.0)

@outlast.worker("gated")
async def gated(run):
    for number in range(100):
        yield Event("number", number)
        while number == 50 and not pathlib.Path("gate").exists():
            await asyncio.sleep(0.01)

@outlast.worker("chat")
async def chat(run):
    yield f"You said {run.input}."

@outlast.worker("endless")
async def endless(run):
    while True:
        yield "more "
        await asyncio.sleep(0.01)

@outlast.worker("deaf")
def deaf(run):
    while True:
        time.sleep(1)

@outlast.worker("stubborn")
async def stubborn(run):
    while True:
        try:
            await asyncio.sleep(0.01)
        except BaseException:
            pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "application.py").write_text(APP)
    return tmp_path


@asynccontextmanager
async def serving(
    folder: Path, port: int, *, environ: dict[str, str] | None = None, grace: float = 0
) -> AsyncIterator[Program]:
    target = "tests.integration.application:outlast" if environ else "application:outlast"
    given = {"OUTLAST_GRACE": str(grace), **(environ or {})}
    async with outlast(folder, "serve", target, "--port", str(port), environ=given) as server:
        await server.until("Outlast serves")
        yield server


async def log(url: str, run: str) -> list[dict[str, Any]]:
    """Return the whole log of a short run."""
    async with httpx2.AsyncClient() as client:
        page = (await client.get(f"{url}/runs/{run}/events?limit=1000")).json()
    assert page["ended"]
    return list(page["events"])


async def said(folder: Path, *arguments: str, code: int = 0) -> str:
    """Run a command to its end, and return what it said."""
    async with outlast(folder, *arguments) as program:
        assert await program.end() == code, program.errors
    return program.said


# ---- the whole way ------------------------------------------------------------------------------


async def test_a_run_is_started_read_shown_and_stopped_from_a_shell(folder: Path) -> None:
    url = ["--url", f"http://127.0.0.1:{(port := free_port())}"]
    async with serving(folder, port) as server:
        assert f"{url[1]} " in server.said
        assert str(folder / "runs.db") in server.said
        assert await said(folder, "start", "chat", '"hello"', "--id", "greeting", *url) == "greeting\n"
        assert await said(folder, "tail", "greeting", *url) == "You said hello.\n— completed —\n"
        assert await said(folder, "tail", "greeting", "--after", "900", *url) == (
            "— gap: the log does not reach as far as this reader had read —\nYou said hello.\n— completed —\n"
        )
        assert "status       completed" in await said(folder, "show", "greeting", *url)
        await said(folder, "start", "endless", "--id", "e", *url)
        async with outlast(folder, "tail", "e", *url) as reader:
            assert await said(folder, "stop", "e", "--reason", "enough", *url) == "accepted: the run is being stopped\n"
            assert await reader.end() == 1
        assert reader.said.endswith("— stopped: enough —\n")
        assert "no run has this id yet" in await said(folder, "stop", "nope", *url)
        assert await said(folder, "stop", "e", *url) == "it had ended before: stopped: enough\n"


async def test_an_ended_run_is_erased_once_it_is_meant_and_a_live_one_never(folder: Path) -> None:
    url = ["--url", f"http://127.0.0.1:{(port := free_port())}"]
    async with serving(folder, port) as server:
        await said(folder, "start", "chat", '"hello"', "--id", "ended", "--follow", *url)
        async with outlast(folder, "erase", "ended", *url, stdin=asyncio.subprocess.DEVNULL) as program:
            assert await program.end() == 2
        assert "--yes" in program.errors
        assert await said(folder, "erase", "ended", "--yes", *url) == "deleted\n"
        assert await said(folder, "erase", "ended", "--yes", *url) == "gone already\n"
        await start(server, "endless", id="live")
        async with outlast(folder, "erase", "live", "--yes", *url) as program:
            assert await program.end() == 2
        assert "stop it first" in program.errors
        async with httpx2.AsyncClient() as client:
            for path in ("runs/ended", "runs/ended/events", "runs/live"):
                answer = await client.get(f"{url[1]}/{path}")
                assert answer.status_code == (200 if path == "runs/live" else 410)


@pytest.mark.behaviour("R8")
async def test_a_run_that_is_not_there_is_refused_and_not_waited_for(folder: Path) -> None:
    port = free_port()
    async with serving(folder, port):
        for command in ("tail", "show"):
            async with outlast(folder, command, "nothing", "--url", f"http://127.0.0.1:{port}") as program:
                assert await program.end() == 2
            assert (program.said, program.errors) == ("", "outlast: There is no such run.\n")
        async with outlast(folder, "show", "nothing", "--url", f"http://127.0.0.1:{port}/wrong") as program:
            assert await program.end() == 2
        assert "where its routes are mounted" in program.errors


# ---- servers that die ---------------------------------------------------------------------------


@pytest.mark.case(87)
async def test_a_tail_goes_on_across_kill_9_and_prints_exactly_the_log(folder: Path) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}"
    async with serving(folder, port) as server:
        await start(server, "gated", id="g")
        async with outlast(folder, "tail", "g", "--json", "--url", url) as reader:
            await reader.until('"data":50')  # where the worker stands and waits
            server.signal(signal.SIGKILL)
            assert await server.end() == -signal.SIGKILL
            (folder / "gate").touch()
            async with serving(folder, port):
                assert await reader.end() == 0
                stored = await log(url, "g")
    printed = [json.loads(line) for line in reader.said.splitlines()]
    assert printed == [{name: event[name] for name in ("cursor", "seq", "type", "data")} for event in stored]
    restarted = [event for event in stored if event["type"] == "run.restarted"]
    assert [event["data"]["cause"] for event in restarted] == ["crash"]
    assert [event["data"] for event in stored[restarted[0]["seq"] : -1]] == list(range(100))
    assert "outlast: connected again" in reader.errors


@pytest.mark.behaviour("A3")
@pytest.mark.case(75)
async def test_a_start_cut_off_before_its_answer_is_asked_again_and_is_one_run_and_one_call(folder: Path) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}"
    store = {"OUTLAST_STORE": f"sqlite:///{folder}/runs.db"}
    async with (
        serving(folder, port, environ={**store, "TEST_DEATH": "start:after:1"}) as doomed,
        outlast(folder, "start", "paced", "5", "--url", url) as starting,
    ):
        assert await doomed.end() == -signal.SIGKILL
        async with serving(folder, port, environ=store):
            assert await starting.end() == 0, starting.errors
            run = starting.said.strip()
            await said(folder, "tail", run, "--url", url)
            async with httpx2.AsyncClient() as client:
                runs = (await client.get(f"{url}/runs")).json()["runs"]
    assert [(each["id"], each["status"]) for each in runs] == [(run, "completed")]
    assert runs[0]["budget"]["calls"]["used"] == 1


# ---- signals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_a_signal_sends_the_readers_away_and_ends_the_server(
    folder: Path, number: signal.Signals, code: int
) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}"
    async with serving(folder, port) as server:
        await start(server, "endless", id="e")
        async with outlast(folder, "tail", "e", "--json", "--url", url) as reader:
            await reader.until('"seq":5,')
            server.signal(number)
            assert await server.end() == code, server.errors
            async with serving(folder, port), httpx2.AsyncClient() as client:
                await client.post(f"{url}/runs/e/stop", json={})
                assert await reader.end() == 1
    assert "ERROR" not in server.errors
    assert "Traceback" not in server.errors
    seqs = [json.loads(line)["seq"] for line in reader.said.splitlines()]
    assert seqs == list(range(1, len(seqs) + 1))
    assert "the server closes and sends its readers away" in reader.errors


async def test_a_server_says_what_it_waits_for_and_a_second_signal_ends_the_waiting(folder: Path) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}"
    async with serving(folder, port, grace=600) as server:
        await start(server, "deaf", id="d")
        async with httpx2.AsyncClient() as client:
            while (await client.get(f"{url}/runs/d")).json()["status"] != "active":
                pass
            server.signal(signal.SIGTERM)
            while (await client.post(f"{url}/runs", json={"worker": "deaf", "input": 1})).status_code == 201:
                pass
        assert "Waiting up to 593 s for " in server.errors  # the rest is for its worker to end and its row to be let go
        assert server.process.returncode is None
        server.signal(signal.SIGTERM)
        assert await server.end() == 0


async def test_a_task_that_will_not_end_keeps_no_server_alive(folder: Path) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}"
    async with serving(folder, port) as server:
        await start(server, "stubborn", id="s")
        async with httpx2.AsyncClient() as client:
            while (await client.get(f"{url}/runs/s")).json()["status"] != "active":
                pass
        server.signal(signal.SIGTERM)
        assert await server.end() == 0


async def test_ctrl_c_leaves_a_tail_with_code_130_and_the_run_alone(folder: Path) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}"
    async with serving(folder, port) as server:
        await start(server, "endless", id="e")
        async with outlast(folder, "tail", "e", "--json", "--url", url) as reader:
            await reader.until('"seq":5,')
            reader.signal(signal.SIGINT)
            assert await reader.end() == 130
        assert "Traceback" not in reader.errors
        assert "status       active" in await said(folder, "show", "e", "--url", url)


# ---- a terminal ---------------------------------------------------------------------------------


def frame(seq: int, type: str, data: Any) -> bytes:
    return f"event: {type}\nid: {seq}\ndata: {json.dumps(data)}\n\n".encode()


async def on_a_terminal(folder: Path, *arguments: str) -> tuple[int, Console]:
    """Run a command on a terminal of its own; return its exit code and what stands on the screen."""
    master, slave = os.openpty()
    console, raw = Console(), b""
    environ = {"COLUMNS": str(COLUMNS), "LINES": str(LINES), "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    async with outlast(folder, *arguments, environ=environ, stdout=slave) as program:
        os.close(slave)
        try:
            while part := await asyncio.to_thread(os.read, master, 65536):
                raw += part
        except OSError:  # how Linux tells that nobody writes any more
            pass
        finally:
            os.close(master)
        code = await program.process.wait()
    console.write(raw.decode())
    return code, console


async def test_on_a_terminal_a_takeover_folds_away_what_came_before_and_payloads_act_on_nothing(folder: Path) -> None:
    log = [
        frame(1, "run.started", {"epoch": 1, "attempt": 1}),
        frame(2, "text", "This will be said once more."),
        frame(3, "tool.call", {"tool": "look", "arguments": {}}),
        frame(4, "run.restarted", {"epoch": 2, "attempt": 2, "cause": "crash", "keep": 0}),
        frame(5, "text", "Said \x1b[2J\x1b[Hagain."),
        frame(6, "run.completed", {}),
    ]
    with served(Peer((200, b"".join(log)))) as peer:
        code, console = await on_a_terminal(folder, "tail", "r1", "--url", peer.url)
    assert code == 0
    assert console.shown.rstrip() == ("— taken over:\nattempt 2 (crash) —\nSaid ␛[2J␛[Hagain.\n— completed —")
