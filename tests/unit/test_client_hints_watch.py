"""What is told of the network and of sleep, on the virtual clock: from scripted sources, and from a kernel's own."""

import asyncio
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from outlast.client.hints.path import Address, Hint, Path
from outlast.client.hints.sleep import NOTICED, Clocks
from outlast.client.hints.watch import LOOK_EVERY, SETTLE, Source, watching
from outlast.supervision.inputs import WentOffline, Woken
from outlast.supervision.phase import Wakeup
from outlast.testing.leaks import check_leaks

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

HOME = Path(addresses=frozenset({Address(interface=2, packed=b"\x01")}), routes=frozenset())
AWAY = replace(HOME, addresses=frozenset({Address(interface=2, packed=b"\x02")}))
NOWHERE = Path(addresses=frozenset(), routes=frozenset())
ONLINE, CHANGED, OFFLINE = Woken(wakeup=Wakeup.ONLINE), Woken(wakeup=Wakeup.PATH_CHANGED), WentOffline()


class Script:
    """A subscription whose reports and readings are set by a test; None is a reading that came too late."""

    def __init__(self) -> None:
        self.path: Path | OSError | None = HOME
        self.read_at: list[float] = []
        self.broken = False
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)

    def report(self, path: Path | OSError | None) -> None:
        """Let the network be another, and say that something changed."""
        self.path = path
        self._theirs.send(b"!")

    def fileno(self) -> int:
        return self._ours.fileno()

    def heard(self) -> bool:
        if self.broken:
            raise OSError("gone")
        return bool(self._ours.recv(100))

    def read(self) -> Path | None:
        self.read_at.append(now())
        if isinstance(self.path, OSError):
            raise self.path
        return self.path

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


class Hands:
    """The two clocks of a machine that sleeps when a test says so."""

    def __init__(self) -> None:
        self.asleep = 0.0

    def __call__(self) -> Clocks:
        return Clocks(awake=now, always=lambda: now() + self.asleep, noticed=NOTICED, is_exact=True)


def now() -> float:
    return asyncio.get_running_loop().time()


def no_clocks() -> Clocks | None:
    return None


def no_network() -> None:
    return None


@pytest.fixture
def script() -> Iterator[Script]:
    script = Script()
    yield script
    script.close()


@pytest.fixture
def told() -> list[Hint]:
    return []


# ---- the network ----------------------------------------------------------------------------------


@pytest.mark.behaviour("N5", "N6")
async def test_offline_online_and_another_path_are_told_when_they_change(script: Script, told: list[Hint]) -> None:
    async with watching(told.append, subscribe=lambda: script, clocks=no_clocks) as sources:
        assert sources == {Source.NETWORK}
        for path in (NOWHERE, NOWHERE, HOME, HOME, AWAY, AWAY, HOME):
            script.report(path)
            await asyncio.sleep(2 * SETTLE)
    assert told == [OFFLINE, ONLINE, CHANGED, CHANGED]


@pytest.mark.behaviour("N5")
async def test_a_burst_of_reports_is_read_once_half_a_second_after_the_first(script: Script, told: list[Hint]) -> None:
    async with watching(told.append, subscribe=lambda: script, clocks=no_clocks):
        begun = now()
        script.report(NOWHERE)
        for _ in range(4):
            await asyncio.sleep(0.1)
            script.report(AWAY)
        await asyncio.sleep(1)
        assert script.read_at[1:] == [pytest.approx(begun + SETTLE, abs=0.001)]
    assert told == [CHANGED]


@pytest.mark.behaviour("N5")
async def test_reports_without_end_are_read_twice_in_a_second(script: Script, told: list[Hint]) -> None:
    async with watching(told.append, subscribe=lambda: script, clocks=no_clocks):
        for turn in range(100):
            script.report(AWAY if turn % 2 else HOME)
            await asyncio.sleep(0.1)
        gaps = [later - earlier for earlier, later in zip(script.read_at, script.read_at[1:], strict=False)]
    assert min(gaps) >= SETTLE
    assert len(gaps) >= 15


@pytest.mark.behaviour("N5")
async def test_a_reading_that_came_too_late_is_read_again(script: Script, told: list[Hint]) -> None:
    script.path = None
    async with watching(told.append, subscribe=lambda: script, clocks=no_clocks):
        await asyncio.sleep(3 * SETTLE + 0.1)
        assert len(script.read_at) == 4
        assert told == []
        script.path = NOWHERE  # nothing is reported: the reading itself was still to be had
        await asyncio.sleep(SETTLE)
    assert told == [OFFLINE]


async def test_offline_from_the_beginning_is_told_before_anything_is_tried(script: Script, told: list[Hint]) -> None:
    script.path = NOWHERE
    async with watching(told.append, subscribe=lambda: script, clocks=no_clocks):
        assert told == [OFFLINE]


# ---- sleep ----------------------------------------------------------------------------------------


@pytest.mark.behaviour("N6")
async def test_a_sleep_is_told_within_a_second_and_once(told: list[Hint]) -> None:
    hands = Hands()
    async with watching(told.append, subscribe=no_network, clocks=hands) as sources:
        assert sources == {Source.BOOT_CLOCK}
        await asyncio.sleep(100.5)
        hands.asleep += 42.5
        await asyncio.sleep(LOOK_EVERY / 2)
        assert told == [Woken(wakeup=Wakeup.RESUMED, seconds=42.5)]
        await asyncio.sleep(100)
    assert len(told) == 1


@pytest.mark.behaviour("N6")
async def test_on_waking_the_sleep_is_told_before_what_the_network_has_become(script: Script, told: list[Hint]) -> None:
    hands = Hands()
    async with watching(told.append, subscribe=lambda: script, clocks=hands):
        await asyncio.sleep(0.1)
        hands.asleep += 60
        script.report(AWAY)
        await asyncio.sleep(0.001)
        assert told == [Woken(wakeup=Wakeup.RESUMED, seconds=60)]
        await asyncio.sleep(SETTLE)
    assert told == [Woken(wakeup=Wakeup.RESUMED, seconds=60), CHANGED]


async def test_a_wall_clock_is_another_source(told: list[Hint]) -> None:
    clocks = replace(Hands()(), is_exact=False)
    async with watching(told.append, subscribe=no_network, clocks=lambda: clocks) as sources:
        assert sources == {Source.WALL_CLOCK}


# ---- what is missing, and the end -----------------------------------------------------------------


@pytest.mark.behaviour("N6")
async def test_without_any_source_there_is_nothing_to_tell_and_no_error(told: list[Hint]) -> None:
    async with watching(told.append, subscribe=no_network, clocks=no_clocks) as sources:
        assert sources == set()
        await asyncio.sleep(100)
    assert told == []


@pytest.mark.behaviour("N6")
@pytest.mark.parametrize("broken", [False, True], ids=["while reading", "while hearing"])
async def test_a_source_that_breaks_is_done_without_and_leaves_nobody_offline(
    script: Script, told: list[Hint], broken: bool
) -> None:
    async with check_leaks(), watching(told.append, subscribe=lambda: script, clocks=no_clocks):
        script.report(NOWHERE)
        await asyncio.sleep(1)
        script.broken = broken
        script.report(OSError("gone"))
        await asyncio.sleep(1)
        assert told == [OFFLINE, ONLINE]
        assert script.fileno() == -1
        await asyncio.sleep(10)
    assert told == [OFFLINE, ONLINE]


@pytest.mark.behaviour("N6")
async def test_a_source_that_cannot_be_read_at_all_is_none(script: Script, told: list[Hint]) -> None:
    script.path = PermissionError("no")
    async with watching(told.append, subscribe=lambda: script, clocks=no_clocks) as sources:
        assert sources == set()
    assert told == []


async def test_nothing_is_told_after_the_end_and_nothing_is_left(script: Script, told: list[Hint]) -> None:
    hands, watched = Hands(), script.fileno()
    async with watching(told.append, subscribe=lambda: script, clocks=hands):
        script.report(AWAY)
        await asyncio.sleep(0.1)  # it settles
    assert not asyncio.get_running_loop().remove_reader(watched), "it was let go"
    hands.asleep += 60
    await asyncio.sleep(10)
    assert told == []
    assert script.fileno() == -1


async def test_an_error_of_the_listeners_own_does_not_end_the_watching(script: Script, told: list[Hint]) -> None:
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context["exception"]))
    hands = Hands()

    def tell(hint: Hint) -> None:
        told.append(hint)
        raise LookupError

    async with watching(tell, subscribe=lambda: script, clocks=hands):
        hands.asleep += 60
        script.report(AWAY)
        await asyncio.sleep(2)
        hands.asleep += 60
        script.report(NOWHERE)
        await asyncio.sleep(2)
    assert told == [
        Woken(wakeup=Wakeup.RESUMED, seconds=60),
        CHANGED,
        Woken(wakeup=Wakeup.RESUMED, seconds=60),
        OFFLINE,
    ]
    assert len(problems) == 4


async def test_this_machines_own_sources_are_opened_and_closed(told: list[Hint]) -> None:
    async with check_leaks(), watching(told.append) as sources:
        await asyncio.sleep(10)
    assert sources if sys.platform == "linux" else True


# ---- a kernel whose network we may change ------------------------------------------------------------

PROGRAM = """
import asyncio, subprocess

from outlast.client.hints.network import Network
from outlast.client.hints.watch import watching

told, readings = asyncio.Queue(), asyncio.Queue()


class Observed(Network):
    def read(self):
        path = super().read()
        readings.put_nowait(path)
        return path


def do(*commands):
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True)


async def after(*commands):
    do(*commands)
    async with asyncio.timeout(60):
        hint = await told.get()
    print(type(hint).__name__, *([hint.wakeup] if hasattr(hint, "wakeup") else []), flush=True)


async def unnoticed(*commands):
    while not readings.empty():
        readings.get_nowait()
    do(*commands)
    async with asyncio.timeout(60):
        await readings.get()
    assert told.empty(), told


async def main():
    async with watching(told.put_nowait, subscribe=Observed.subscribe, clocks=lambda: None) as sources:
        print(*sources, flush=True)
        await after("link set lo up")
        await unnoticed(
            "link add bridge type bridge",
            "link add one type veth peer name other",
            "link set one master bridge",
            "link set bridge up",
            "link set one up",
            "link set other up",
            "addr add 172.17.0.1/16 dev bridge",
        )
        do("link add v0 type veth peer name v1")
        await after("link set v1 up", "link set v0 up", "addr add 192.0.2.2/24 dev v0")
        await unnoticed("link set lo mtu 9000")
        await after("addr add 192.0.2.3/24 dev v0")
        await after("route add default via 192.0.2.1")
        await after("link set v1 down")
        await after("link set v1 up")
        await after("link del v0")
    assert told.empty()


asyncio.run(main())
"""
EXPECTED = """
network
WentOffline
Woken online
Woken path-changed
Woken path-changed
WentOffline
Woken online
WentOffline
"""


@pytest.mark.skipif(sys.platform != "linux", reason="netlink is Linux's")
@pytest.mark.behaviour("N5", "N6")
def test_a_real_kernel_reports_what_happens_to_its_network() -> None:
    if not (shutil.which("unshare") and shutil.which("ip")):
        pytest.skip("a real kernel's reports: util-linux or iproute2 is missing")
    inside = ["unshare", "--user", "--net", "--map-root-user"]
    trial = "ip link add v0 type veth peer name v1 && ip link add bridge type bridge"
    if subprocess.run([*inside, "sh", "-c", trial], capture_output=True, check=False).returncode:
        pytest.skip("a real kernel's reports: no network of our own is allowed here")
    done = subprocess.run([*inside, sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (EXPECTED.lstrip(), "")
