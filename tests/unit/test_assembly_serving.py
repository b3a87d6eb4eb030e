"""One life of an `Outlast`: what is left of it when its beginning is cut short."""

import asyncio
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from outlast import Outlast
from outlast.assembly.metrics import FAMILIES, PREFIX
from outlast.client.asgi import StreamingTransport
from outlast.errors import PortTaken
from outlast.wire import native
from outlast.wire.session import Closing
from outlast.wire.sse import Parser
from tests.beacon import ask, is_refused
from tests.session import connected

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("turns", range(12))
async def test_a_start_that_is_cancelled_leaves_nothing_running(tmp_path: Path, turns: int) -> None:
    outlast = Outlast(f"sqlite:///{tmp_path}/runs.db")
    before = asyncio.all_tasks()

    async def live() -> None:
        async with outlast:
            await asyncio.Event().wait()

    starting = asyncio.create_task(live())
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert asyncio.all_tasks() == before
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("outlast")] == []
    async with outlast:  # and it can begin again
        pass


def client(outlast: Outlast) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=StreamingTransport(outlast.app), base_url="http://localhost")


@pytest.fixture
def told() -> Iterator[asyncio.Event]:
    """Stand for the server, and tell when a signal has come to it."""
    heard = asyncio.Event()
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: heard.set())
    yield heard
    signal.signal(signal.SIGTERM, before)


async def test_a_node_is_ready_from_its_start_until_it_drains(told: asyncio.Event) -> None:
    outlast = Outlast("sqlite://")
    async with client(outlast) as http:
        assert (await http.get("/readyz")).json()["code"] == "not_started"
        async with outlast:
            assert (await http.get("/readyz")).status_code == 200
            signal.raise_signal(signal.SIGTERM)
            await told.wait()  # the drain is over, and the application still there
            refused = await http.get("/readyz")
            assert (refused.status_code, refused.json()["code"]) == (503, "draining")
            assert (await http.get("/healthz")).status_code == 200


@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
async def test_a_beacon_is_lit_with_the_node_told_to_readers_and_out_with_the_node(
    told: asyncio.Event, *, process: bool
) -> None:
    outlast = Outlast("sqlite://", beacon=0, beacon_process=process)
    outlast.worker("never")(lambda _run: None)
    assert outlast.beacon is None
    async with client(outlast) as http, outlast:
        port = outlast.beacon
        assert port is not None
        health = (await http.get("/healthz")).json()
        assert health["beacon"] == port
        assert ask(port)["boot_id"] == health["boot_id"]
        await outlast.start("never", id="r1")
        async with http.stream("GET", "/runs/r1/events", headers={"accept": "text/event-stream"}) as stream:
            (hello, *_) = Parser().feed(await anext(stream.aiter_bytes()))
        said = native.control_from_frame(hello)
        assert said is not None
        assert (said.said["beacon"], said.said["boot_id"]) == (port, health["boot_id"])
        signal.raise_signal(signal.SIGTERM)
        await told.wait()  # the node has left, and the application is still there
        assert is_refused(port)
        assert "beacon" not in (await http.get("/healthz")).json()
    assert outlast.beacon is None


async def test_without_being_asked_for_there_is_no_beacon() -> None:
    outlast = Outlast("sqlite://")
    async with outlast, client(outlast) as http:
        assert outlast.beacon is None
        assert "beacon" not in (await http.get("/healthz")).json()


async def test_a_session_is_open_where_it_was_asked_for_and_ends_with_the_node(told: asyncio.Event) -> None:
    outlast = Outlast("sqlite://", websocket=True)
    outlast.worker("never")(lambda _run: None)
    async with client(outlast) as http, outlast:
        assert (await http.get("/session")).json()["websocket"] is True
        async with connected(outlast.app) as quiet, connected(outlast.app) as line:
            assert (await line.ask("/session")).said["websocket"] is True
            await outlast.start("never", id="r1")
            stream = line.stream("/runs/r1/events")
            await stream.until("outlast.caught-up")
            signal.raise_signal(signal.SIGTERM)
            assert (await quiet.end())[0] == Closing.DRAINED
            await stream.rest()
            assert stream.is_whole
            assert (await line.end())[0] == Closing.DRAINED
            await told.wait()
        async with connected(outlast.app) as line:
            assert line.refused is not None
            assert line.refused.said["code"] == "draining"


async def test_what_is_open_in_a_session_is_answered_until_the_object_is_closed() -> None:
    outlast = Outlast("sqlite://", websocket=True)
    async with outlast:
        async with connected(outlast.app) as line:
            assert (await line.ask("/readyz")).status == 200
            await outlast.close()
            assert (await line.end())[0] == Closing.DRAINED
        async with connected(outlast.app) as line:
            assert line.refused is not None
            assert (line.refused.status, line.refused.said["code"]) == (503, "not_started")


async def test_a_beacon_whose_port_is_taken_keeps_it_from_starting_and_leaves_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        outlast = Outlast("sqlite://", beacon=other.getsockname()[1])
        with pytest.raises(PortTaken):
            await outlast.__aenter__()
    async with outlast:
        assert outlast.beacon == int(outlast.settings.beacon)


async def test_without_being_asked_for_there_are_no_numbers() -> None:
    outlast = Outlast("sqlite://")
    async with outlast, client(outlast) as http:
        assert (await http.get("/metrics")).status_code == 404


async def test_every_gauge_there_is_is_asked_of_the_running_node() -> None:
    outlast = Outlast("sqlite://", metrics=True)
    async with outlast, client(outlast) as http:
        await http.get("/healthz")
        text = (await http.get("/metrics")).text
    gauges = {name for name in FAMILIES if f"# TYPE {PREFIX}{name} gauge" in text}
    assert gauges == {"runs_held", "readers", "sessions", "feeds", "loop_lag_seconds", "lease_left_seconds"}
    lease_left = float(text.split(f"\n{PREFIX}lease_left_seconds ")[1].split("\n")[0])
    assert 0 < lease_left <= 15
