"""Clients of a server that stands still, is stopped, dies or is cut off: busy is not gone, and gone is not busy."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from outlast.supervision.phase import Grade, Phase
from outlast.supervision.profile import SILENT_BEATS, STANDARD, Profile
from outlast.testing.network import BlackHole
from outlast.testing.proxy import FaultProxy
from tests.integration.busy import BRISK, STRANGE, Watch, hindrance, judge, stop, stop_for, tell, watching
from tests.integration.programs import house
from tests.integration.readers import start

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(180),
    pytest.mark.fault("X16"),
    pytest.mark.skipif(sys.platform != "linux", reason="a kernel's word is part of it"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindered:
    """A server that is kept from its work in this `way`, and what speaks for it; a beacon of its own, or its kernel."""

    way: str
    beacon: str

    @property
    def name(self) -> str:
        return f"{self.way}, {self.beacon or 'no beacon'}"

    @property
    def grade(self) -> Grade:
        return Grade.BEACON if self.beacon else Grade.KERNEL

    @property
    def environ(self) -> dict[str, str]:
        process = "1" if self.beacon == "process" else "0"
        return {"OUTLAST_BEACON": "0" if self.beacon else "", "OUTLAST_BEACON_PROCESS": process}


EVERY = [
    *(Hindered(way=way, beacon="thread") for way in ("sleep", "loop")),
    *(Hindered(way=way, beacon="process") for way in ("call", "stopped")),
    *(Hindered(way=way, beacon="") for way in ("sleep", "call", "stopped")),
]
"""Every way, with each witness that can speak while it lasts; a second loop in Python would only starve the first."""
SHORT = [
    each for each in EVERY if each.name in {"sleep, no beacon", "loop, thread", "call, process", "stopped, no beacon"}
]


async def hinder(hindered: Hindered, folder: Path, *, seconds: float, profile: Profile, **environ: str) -> Watch:
    """Keep a server from its work for so long, with a client watching, and hold what came against the log."""
    async with house(folder, **hindered.environ, **environ) as servers:
        server = await servers.serve()
        run = await start(server, "hindered", hindrance(hindered.way, seconds))
        async with watching([server.url], run, profile=profile) as watch:
            await watch.begun()
            if hindered.way == "stopped":
                await stop_for(server, folder, seconds)
            tell(folder)
        await judge(server, watch)
    return watch


async def prove(forms: Sequence[Hindered], folder: Path, *, seconds: float, profile: Profile, **environ: str) -> None:
    """Hinder servers side by side, and see each shown as busy and kept."""
    for form in forms:
        (folder / form.name).mkdir()
    async with asyncio.TaskGroup() as tasks:
        watches = [
            tasks.create_task(hinder(form, folder / form.name, seconds=seconds, profile=profile, **environ))
            for form in forms
        ]
    for form, task in zip(forms, watches, strict=True):
        watch = task.result()
        sys.stdout.write(f"{form.name} for {seconds:g} s: {watch.summary}\n")
        assert STRANGE.isdisjoint(watch.phases), form
        assert (watch.generations, watch.mute) == (1, 0.0), form
        if seconds > SILENT_BEATS * profile.heartbeat + profile.probe:
            busy = watch.phases.index(Phase.BUSY)
            assert watch.phases[busy - 1 : busy + 2] == [Phase.SLOW, Phase.BUSY, Phase.LIVE], form
            assert form.grade in watch.evidence, form


# ---- busy is not gone ---------------------------------------------------------------------------


@pytest.mark.behaviour("P14", "P15")
async def test_a_server_that_stands_still_is_shown_as_busy_and_nothing_is_torn_down(tmp_path: Path) -> None:
    await prove(SHORT, tmp_path, seconds=6.0, profile=BRISK)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.behaviour("P14", "P15")
@pytest.mark.parametrize("seconds", [5.0, 20.0, 60.0, 100.0])
async def test_in_its_true_length_as_well(tmp_path: Path, seconds: float) -> None:
    await prove(EVERY, tmp_path, seconds=seconds, profile=STANDARD, TEST_HEARTBEAT="10", TEST_LEASE="15")


# ---- and gone is not busy -----------------------------------------------------------------------


@pytest.mark.behaviour("P16")
async def test_a_server_that_is_killed_is_tried_again_at_once_and_the_run_goes_on_over_its_next_life(
    tmp_path: Path,
) -> None:
    async with house(tmp_path, OUTLAST_BEACON="0") as servers:
        server = await servers.serve()
        run = await start(server, "hindered", hindrance())
        async with watching([server.url], run) as watch:
            await watch.begun()
            tell(tmp_path)
            await server.kill()
            await watch.until(lambda watch: Phase.CONNECTING in watch.phases)
            server = await servers.serve(port=int(server.url.rpartition(":")[2]))
        await judge(server, watch)
    sys.stdout.write(f"killed: {watch.summary}\n")
    assert watch.phases[:2] == [Phase.LIVE, Phase.CONNECTING]
    assert Phase.BUSY not in watch.phases
    assert watch.generations >= 2


@pytest.mark.behaviour("P16")
async def test_a_black_hole_is_left_although_a_kernel_on_this_side_of_it_acknowledges(tmp_path: Path) -> None:
    async with house(tmp_path) as servers:
        server = await servers.serve()
        run = await start(server, "hindered", hindrance())
        async with (
            FaultProxy("127.0.0.1", int(server.url.rpartition(":")[2])) as proxy,
            watching([proxy.url], run) as watch,
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


@pytest.mark.behaviour("R7")
async def test_of_two_nodes_one_is_stopped_and_the_stream_goes_on_through_the_other(tmp_path: Path) -> None:
    async with house(tmp_path) as servers:
        stopped, other = [await servers.serve() for _ in range(2)]
        run = await start(stopped, "hindered", hindrance())
        async with watching([stopped.url, other.url], run) as watch:
            await watch.begun()
            await stop(stopped, tmp_path)
            await watch.until(lambda watch: watch.generations == 2 and "run.restarted" in watch.types)
            stopped.signal(signal.SIGCONT)  # what it says now is nobody's any more
            tell(tmp_path)
        await judge(other, watch)
    sys.stdout.write(f"one of two stopped: {watch.summary}\n")
    assert Phase.SWITCHING in watch.phases
    assert watch.generations >= 2
    assert watch.mute == 0.0
