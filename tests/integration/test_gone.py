"""Clients of a server that dies, is cut off, or stops while another one lives: gone is not busy, and is left."""

import asyncio
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from outlast.supervision.phase import Phase
from outlast.supervision.profile import STANDARD, Profile
from outlast.testing.network import BlackHole
from outlast.testing.proxy import FaultProxy
from tests.integration.busy import (
    BRISK,
    SOCKETED,
    TRUE,
    by_claim,
    hindrance,
    judge,
    longest,
    noted,
    stop,
    tell,
    watching,
)
from tests.integration.programs import house
from tests.integration.readers import start, status

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180), pytest.mark.fault("X16")]


EVERY_WAY = pytest.mark.parametrize("way", ["sse", "websocket"])


async def end(reader: asyncio.StreamReader) -> float:
    """Return when a connection on which nothing is said has ended, by a FIN or a reset."""
    with suppress(ConnectionError):
        await reader.read()
    return asyncio.get_running_loop().time()


@pytest.mark.behaviour("P16")
@EVERY_WAY
async def test_a_server_that_is_killed_is_tried_again_at_once_and_the_run_goes_on_over_its_next_life(
    tmp_path: Path, way: str
) -> None:
    async with house(tmp_path, OUTLAST_BEACON="0", **SOCKETED) as servers:
        server = await servers.serve()
        run = await start(server, "hindered", hindrance())
        async with watching([server.url], run, transports=[way]) as watch:
            await watch.begun()
            port = int(server.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            ending = asyncio.create_task(end(reader))
            tell(tmp_path)
            await server.kill()
            await watch.until(lambda watch: Phase.CONNECTING in watch.phases)
            ended, tried = await ending, watch.shown[-1].at
            writer.close()
            server = await servers.serve(port=port)
        await judge(server, watch)
    sys.stdout.write(f"killed: tried again {tried - ended:.3f} s after another connection's end; {watch.summary}\n")
    assert watch.phases[:2] == [Phase.LIVE, Phase.CONNECTING]
    assert Phase.BUSY not in watch.phases
    assert watch.generations >= 2


@pytest.mark.behaviour("P16")
@EVERY_WAY
async def test_a_black_hole_is_left_although_a_kernel_on_this_side_of_it_acknowledges(tmp_path: Path, way: str) -> None:
    async with house(tmp_path, **SOCKETED) as servers:
        server = await servers.serve()
        run = await start(server, "hindered", hindrance())
        async with (
            FaultProxy("127.0.0.1", int(server.url.rpartition(":")[2])) as proxy,
            watching([proxy.url], run, transports=[way]) as watch,
        ):
            await watch.begun()
            swallowed = proxy.connections
            proxy.impose(BlackHole())
            await watch.until(lambda watch: Phase.SWITCHING in watch.phases)
            proxy.lift()
            for connection in swallowed:
                connection.impose(BlackHole())
            tell(tmp_path)
        await judge(server, watch)
    sys.stdout.write(f"black hole: {watch.summary}\n")
    assert watch.phases[:3] == [Phase.LIVE, Phase.SLOW, Phase.SWITCHING]
    assert Phase.BUSY not in watch.phases
    assert watch.generations >= 2


DENIED = replace(BRISK, triage=3600.0)
"""Waits an hour for what speaks for a server: whoever leaves one before has heard something against it."""


@pytest.mark.behaviour("R7")
@pytest.mark.parametrize(
    ("profile", "environ"),
    [
        pytest.param(DENIED, {}, id="brisk"),
        pytest.param(STANDARD, TRUE, id="in its true length", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("beacon", ["0", pytest.param("", marks=pytest.mark.long)], ids=["a lit beacon", "no beacon"])
async def test_of_two_nodes_one_is_stopped_and_the_stream_goes_on_through_the_other(
    tmp_path: Path, profile: Profile, environ: dict[str, str], beacon: str
) -> None:
    async with house(
        tmp_path, OUTLAST_BEACON=beacon, OUTLAST_BEACON_PROCESS="1" if beacon else "0", **environ
    ) as servers:
        nodes = [await servers.serve() for _ in range(2)]
        run = await start(nodes[0], "hindered", hindrance())
        stopped, other = await by_claim(nodes)
        async with watching([stopped.url, other.url], run, profile=profile) as watch:
            await watch.begun()
            await stop(stopped, tmp_path)
            await watch.until(lambda watch: watch.generations == 2 and "run.restarted" in watch.types)
            stopped.signal(signal.SIGCONT)
            await noted(stopped, "ControllerStoodDown")  # what it has said since is nobody's any more
            tell(tmp_path)
        await judge(other, watch)
    sys.stdout.write(f"one of two stopped: {watch.summary}; {longest(watch.taken_at):.1f} s without an event\n")
    assert Phase.SWITCHING in watch.phases
    assert (watch.generations, watch.mute) == (2, 0.0)


# ---- and what drains leads its clients to another -----------------------------------------------


@pytest.mark.behaviour("D1", "R1")
async def test_a_websocket_is_led_from_a_node_that_drains_to_the_next_and_its_client_is_never_without_a_link(
    tmp_path: Path,
) -> None:
    async with house(tmp_path, OUTLAST_GRACE="5", **SOCKETED) as servers:
        draining, other = [await servers.serve() for _ in range(2)]
        run = await start(draining, "hindered", hindrance())
        async with watching([draining.url, other.url], run, transports=["websocket"]) as watch:
            await watch.begun()
            draining.signal(signal.SIGTERM)
            await watch.until(lambda watch: watch.generations > 1)
            assert await draining.end() in {0, -signal.SIGTERM}
            tell(tmp_path)
        await judge(other, watch)
        takeovers = (await status(other, run))["budget"]["life"]["used"]
    sys.stdout.write(f"drained: {watch.summary}\n")
    assert (watch.mute, takeovers) == (0.0, 0)
    assert {Phase.BACKOFF, Phase.BUSY, Phase.SLOW}.isdisjoint(watch.phases)
    assert "ERROR" not in draining.errors
