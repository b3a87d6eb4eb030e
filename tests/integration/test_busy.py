"""Clients of a server that stands still or is stopped, whose handlers hang, or that are stopped: busy is not gone."""

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from outlast.supervision.phase import Grade, Phase, Wakeup
from outlast.supervision.profile import DESKTOP, SILENT_BEATS, STANDARD, Profile
from tests.integration.busy import (
    BRISK,
    SOCKETED,
    STRANGE,
    TRUE,
    Watch,
    hindrance,
    judge,
    midst,
    pause,
    stop,
    stop_for,
    tell,
    watching,
)
from tests.integration.programs import house, program
from tests.integration.readers import log, numbers, runs, start, whole

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
    transport: str = "sse"

    @property
    def name(self) -> str:
        return f"{self.way}, {self.beacon or 'no beacon'}, {self.transport}"

    @property
    def grade(self) -> Grade:
        return Grade.BEACON if self.beacon else Grade.KERNEL

    @property
    def environ(self) -> dict[str, str]:
        process = "1" if self.beacon == "process" else "0"
        return SOCKETED | {"OUTLAST_BEACON": "0" if self.beacon else "", "OUTLAST_BEACON_PROCESS": process}


EVERY = [
    *(Hindered(way=way, beacon="thread") for way in ("sleep", "loop")),
    *(Hindered(way=way, beacon="process") for way in ("call", "stopped")),
    *(Hindered(way=way, beacon="", transport="websocket") for way in ("sleep", "call", "stopped")),
    Hindered(way="stopped", beacon="process", transport="websocket"),
    *(Hindered(way=way, beacon="") for way in ("sleep", "call", "stopped")),
]
"""Every way, with each witness that can speak while it lasts; a second loop in Python would only starve the first."""
BEGUN = 8
"""Lines of an onlooker by which it is in the midst of its run: three phases, and events."""
SENT = 3
"""Numbers of the run that is started while its server stands still."""
SHORT = [
    *(Hindered(way=way, beacon="") for way in ("sleep", "stopped")),
    *(Hindered(way=way, beacon=beacon) for way, beacon in (("loop", "thread"), ("call", "process"))),
    Hindered(way="sleep", beacon="", transport="websocket"),
]


async def hinder(hindered: Hindered, folder: Path, *, seconds: float, profile: Profile, **environ: str) -> Watch:
    """Keep a server from its work for so long, with a client watching, and hold what came against the log."""
    async with house(folder, **hindered.environ, **environ) as servers:
        server = await servers.serve()
        run = await start(server, "hindered", hindrance(hindered.way, seconds))
        async with watching([server.url], run, profile=profile, transports=[hindered.transport]) as watch:
            await watch.begun()
            sending = asyncio.create_task(send(watch, folder, after=seconds / 2))
            if hindered.way == "stopped":
                await stop_for(server, folder, seconds)
            tell(folder)
            sent = await sending
        await judge(server, watch)
        assert [each["n"] for each in numbers(await whole(server, sent))] == list(range(SENT))
        assert sorted(each["id"] for each in await runs(server)) == sorted([run, sent])
    return watch


async def send(watch: Watch, folder: Path, *, after: float) -> str:
    """Start another run in the midst of the standstill, and return its id; the answer comes after that."""
    await midst(folder, after)
    sent = await watch.client.start("paced", SENT)
    assert (folder / "free").exists(), "nobody could have answered before"
    return str(sent["id"])


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


@pytest.mark.behaviour("P14", "P15", "R11")
async def test_a_server_that_stands_still_is_shown_as_busy_nothing_is_torn_down_and_what_is_sent_is_answered_once(
    tmp_path: Path,
) -> None:
    await prove(SHORT, tmp_path, seconds=6.0, profile=BRISK)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.behaviour("P14", "P15")
@pytest.mark.parametrize("seconds", [5.0, 20.0, 60.0, 100.0])
async def test_in_its_true_length_as_well(tmp_path: Path, seconds: float) -> None:
    await prove(EVERY, tmp_path, seconds=seconds, profile=STANDARD, **TRUE)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.behaviour("P14")
async def test_a_server_that_is_busy_for_longer_than_two_minutes_is_not_torn_down_either(tmp_path: Path) -> None:
    async with house(tmp_path, **EVERY[-1].environ, **TRUE) as servers:
        server = await servers.serve()
        run = await start(server, "hindered", hindrance())
        async with watching([server.url], run, profile=STANDARD) as watch:
            await watch.begun()
            await stop(server, tmp_path)
            await watch.until(lambda watch: Phase.SWITCHING in watch.phases)
            server.signal(signal.SIGCONT)
            await watch.until(lambda watch: watch.phases[-1] is Phase.LIVE)
            tell(tmp_path)
        await judge(server, watch)
    sys.stdout.write(f"stopped until the budget is spent: {watch.summary}\n")
    assert watch.phases[:4] == [Phase.LIVE, Phase.SLOW, Phase.BUSY, Phase.SWITCHING]
    assert watch.mute == 0.0


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.behaviour("P15")
async def test_desktop_makes_another_link_35_seconds_after_somebody_looked(tmp_path: Path) -> None:
    async with house(tmp_path, **TRUE) as servers:
        server = await servers.serve()
        run = await start(server, "hindered", hindrance())
        async with watching([server.url], run, profile=DESKTOP) as watch:
            await watch.begun()
            await stop(server, tmp_path)
            watch.client.wakeup(Wakeup.VISIBLE)
            looked = asyncio.get_running_loop().time()
            await watch.until(lambda watch: Phase.SWITCHING in watch.phases)
            left = watch.first(Phase.SWITCHING)
            server.signal(signal.SIGCONT)
            tell(tmp_path)
        await judge(server, watch)
    sys.stdout.write(f"desktop: another link after {(left or 0.0) - looked:.2f} s; {watch.summary}\n")
    assert watch.mute == 0.0


# ---- nor are handlers that hang, or we ourselves ------------------------------------------------


@pytest.mark.behaviour("P13")
async def test_handlers_that_hang_while_heartbeats_flow_are_shown_as_busy_until_they_answer(tmp_path: Path) -> None:
    async with house(tmp_path, TEST_AUTHORIZE="1") as servers:
        server = await servers.serve()
        run = await start(server, "quiet")
        async with watching([server.url], run) as watch:
            await watch.until(lambda watch: "text" in watch.types)
            (tmp_path / "deadlock").touch()
            asked = asyncio.get_running_loop().time()
            asking = asyncio.create_task(watch.client.status(run))
            await watch.until(lambda watch: Phase.BUSY in watch.phases)
            assert not asking.done()
            (tmp_path / "deadlock").unlink()
            assert (await asking)["id"] == run
            await watch.until(lambda watch: watch.phases[-1] is Phase.LIVE)
            tell(tmp_path)
        await judge(server, watch)
    sys.stdout.write(f"handlers hang: busy after {(watch.first(Phase.BUSY) or 0.0) - asked:.2f} s; {watch.summary}\n")
    assert watch.phases == [Phase.LIVE, Phase.SLOW, Phase.BUSY, Phase.LIVE]
    assert (watch.generations, watch.mute, watch.evidence) == (1, 0.0, {Grade.FRAMES})


@pytest.mark.behaviour("P17")
@pytest.mark.parametrize(
    ("profile", "seconds"),
    [
        pytest.param(BRISK, 7.0, id="brisk"),
        pytest.param(STANDARD, 40.0, id="in its true length", marks=pytest.mark.long),
    ],
)
async def test_a_client_that_was_stopped_blames_nobody(tmp_path: Path, profile: Profile, seconds: float) -> None:
    async with house(tmp_path, TEST_HEARTBEAT="10" if profile is STANDARD else "1") as servers:
        server = await servers.serve()
        run = await start(server, "hindered", hindrance())
        arguments = ("-m", "tests.integration.onlooker", server.url, run, profile.name)
        async with program(tmp_path, *arguments) as client:
            for _ in range(BEGUN):
                await client.line()
            await pause(client, seconds)
            tell(tmp_path)
            assert await client.end() == 0
        told = [json.loads(line) for line in client.said.splitlines()]
        places = [each["cursor"] for each in await log(server, run)]
    shown = [(each["phase"], each["generation"]) for each in told if "phase" in each]
    sys.stdout.write(f"the client stopped for {seconds:g} s: {shown}\n")
    assert [each["cursor"] for each in told if "cursor" in each] == places
    assert {phase for phase, _ in shown} <= {Phase.CONNECTING, Phase.LIVE, Phase.SLOW, Phase.CLOSED}
    assert max(generation for _, generation in shown) == 1
