"""A server whose event loop stands still: its beacon says that it lives, for as long as it does and no longer."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from outlast.wire import native
from outlast.wire.sse import Parser
from tests.beacon import ask, is_refused, lamps
from tests.integration.programs import PATIENCE, House, Program, house, outlast
from tests.integration.readers import start, status, whole

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

SILENCE = 1.0
"""Seconds without an answer that count as one that does not come: what is tested holds for years."""


@pytest.fixture
async def servers(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[House]:
    process = "1" if request.node.get_closest_marker("parametrize") is None else request.getfixturevalue("process")
    async with house(tmp_path, OUTLAST_BEACON="0", OUTLAST_BEACON_PROCESS=process) as built:
        yield built


async def hello(server: Program, run: str) -> dict[str, Any]:
    """Return what the first frame of a stream tells."""
    async with httpx2.AsyncClient() as client:
        headers = {"accept": "text/event-stream"}
        async with client.stream("GET", f"{server.url}/runs/{run}/events", headers=headers) as stream:
            (message, *_) = Parser().feed(await anext(stream.aiter_bytes()))
    control = native.control_from_frame(message)
    assert control is not None
    return dict(control.said)


async def standstill(server: Program, folder: Path, way: str) -> tuple[str, dict[str, Any]]:
    """Block the loop of a server in this way; return the run that does, and the `hello` of a reader before it."""
    first = await start(server, "paced", 1)
    said = await hello(server, first)
    (folder / "begun").unlink(missing_ok=True)
    run = await start(server, "standstill", way)
    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread((folder / "begun").exists):
            with suppress(TimeoutError):
                await asyncio.to_thread(ask, said["beacon"], timeout=SILENCE)
    return run, said


def prove_busy(said: dict[str, Any]) -> None:
    """Ask until the beacon has told of a lag that grows, each time under the name that `hello` told."""
    lags: list[float] = []
    while len(lags) < 3:
        answer = ask(said["beacon"])
        assert answer.keys() == {"boot_id", "loop_lag"}
        assert answer["boot_id"] == said["boot_id"]
        if answer["loop_lag"] > (lags[-1] if lags else 0):
            lags.append(answer["loop_lag"])


def prove_silent(port: int) -> None:
    """Ask until no answer comes any more."""
    while True:
        try:
            ask(port, timeout=SILENCE)
        except TimeoutError:
            return


@pytest.mark.fault("X16")
@pytest.mark.parametrize("way", ["sleep", "loop"])
@pytest.mark.parametrize("process", ["0", "1"], ids=["thread", "process"])
async def test_while_python_blocks_its_loop_a_server_says_that_it_lives_and_then_goes_on(
    servers: House, process: str, way: str
) -> None:
    server = await servers.serve()
    assert len(lamps(server.process.pid)) == int(process)
    run, said = await standstill(server, servers.folder, way)
    async with httpx2.AsyncClient(timeout=PATIENCE) as client:
        asking = asyncio.create_task(client.get(f"{server.url}/healthz"))
        await asyncio.to_thread(prove_busy, said)
        assert not asking.done(), "the loop itself answers nobody"
        (servers.folder / "go").touch()
        assert (await asking).json()["boot_id"] == said["boot_id"]
    received = await whole(server, run)
    assert [each.data for each in received if each.type == "text"] == ["before", "after"]
    assert (await status(server, run))["budget"]["takeovers"]["used"] == 0
    server.signal(signal.SIGTERM)
    assert await server.end() == 0
    assert is_refused(said["beacon"])


@pytest.mark.fault("X16")
async def test_a_process_says_so_also_while_one_call_keeps_the_interpreter_and_while_its_parent_is_stopped(
    servers: House,
) -> None:
    server = await servers.serve()
    said = await hello(server, await start(server, "paced", 1))
    server.signal(signal.SIGSTOP)
    await asyncio.to_thread(prove_busy, said)
    server.signal(signal.SIGCONT)
    await standstill(server, servers.folder, "call")
    await asyncio.to_thread(prove_busy, said)
    await server.kill()
    async with asyncio.timeout(PATIENCE):
        while not is_refused(said["beacon"]):  # it hears of the end at once, and takes a moment for its own
            await asyncio.sleep(0)


@pytest.mark.fault("X16")
@pytest.mark.parametrize("process", ["0"], ids=["thread"])
async def test_a_thread_is_silent_while_one_call_keeps_the_interpreter_and_gone_with_its_process(
    servers: House, process: str
) -> None:
    server = await servers.serve()
    assert len(lamps(server.process.pid)) == int(process)
    _, said = await standstill(server, servers.folder, "call")
    await asyncio.to_thread(prove_silent, said["beacon"])
    await server.kill()
    assert is_refused(said["beacon"])


async def test_a_server_whose_beacon_has_no_port_does_not_start_and_says_why(servers: House, tmp_path: Path) -> None:
    server = await servers.serve()
    document = await asyncio.to_thread(lambda: httpx2.get(f"{server.url}/healthz").json())
    arguments = ("serve", "tests.integration.application:outlast", "--port", "0", "--beacon", str(document["beacon"]))
    async with outlast(tmp_path, *arguments, environ={"OUTLAST_STORE": "sqlite://"}) as other:
        assert await other.end() == 2
        assert f"outlast: Port {document['beacon']}, the beacon's, is in use" in other.errors
