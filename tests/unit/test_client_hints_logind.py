"""Waking as logind tells it, over a scripted bus on the virtual clock, and over a real one."""

import asyncio
import gc
import logging
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from outlast.client import discretion
from outlast.client.hints.logind import PATIENCE, RULE, listening
from outlast.client.hints.path import Hint
from outlast.client.hints.sleep import NOTICED, Clocks
from outlast.client.hints.watch import LOOK_EVERY, watching
from outlast.supervision.inputs import Woken
from outlast.supervision.phase import Wakeup

pytest.importorskip("dbus_fast", reason="logind's bus: the package is Linux's")

from dbus_fast import Message, MessageType
from dbus_fast.aio import MessageBus

from tests.bus import HANGS, HANGS_UP, Says, ScriptedBus, Step, scripted_bus, signal

pytestmark = [pytest.mark.anyio]
virtual = pytest.mark.virtual

WOKE, ASLEEP = signal("PrepareForSleep", False), signal("PrepareForSleep", True)
LONG = 100.0


class Machine:
    """Two clocks that a sleep moves apart, and what was told of it, each with its moment."""

    def __init__(self) -> None:
        self.asleep = 0.0
        self.told: list[tuple[float, Hint]] = []
        self.looked = asyncio.Event()

    def tell(self, hint: Hint) -> None:
        self.told.append((now(), hint))

    def clocks(self) -> Clocks:
        return Clocks(awake=now, always=self.always, noticed=NOTICED, is_exact=True)

    def always(self) -> float:
        self.looked.set()
        return now() + self.asleep

    @asynccontextmanager
    async def watched(self, bus: ScriptedBus) -> AsyncIterator[None]:
        """Watch this machine over a bus."""
        where = partial(listening, address=bus.address)
        async with watching(self.tell, subscribe=lambda: None, clocks=self.clocks, listening=where):
            yield

    async def look(self) -> None:
        """Return when the clocks have been looked at once more."""
        self.looked.clear()
        await self.looked.wait()


def now() -> float:
    return asyncio.get_running_loop().time()


def nothing() -> None:
    pass


def slept(seconds: float) -> Woken:
    return Woken(wakeup=Wakeup.RESUMED, seconds=seconds)


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail when anything is logged above debug, by the loop and the package too."""
    caplog.set_level(logging.DEBUG)
    gc.freeze()  # what was there before need not be looked through
    yield
    gc.collect()  # what was raised into a future that nobody asked is told when it goes
    gc.unfreeze()
    records = [*caplog.get_records("call"), *caplog.get_records("teardown")]
    assert [record.getMessage() for record in records if record.levelno > logging.DEBUG] == []


# ---- waking ---------------------------------------------------------------------------------------


@virtual
@pytest.mark.behaviour("N6")
async def test_on_waking_the_sleep_is_told_there_and_then_and_once(tmp_path: Path, quiet: None) -> None:
    async with scripted_bus(tmp_path) as bus:
        machine = Machine()
        async with machine.watched(bus):
            await bus.subscribed.wait()
            await asyncio.sleep(10 * LOOK_EVERY + 0.25)
            await bus.say(ASLEEP)
            machine.asleep += 42.5
            woken_at = now()
            await bus.say(WOKE, WOKE)
            await machine.look()
            await asyncio.sleep(LONG)
            await bus.say(WOKE)
            await asyncio.sleep(LONG)
        assert machine.told == [(woken_at, slept(42.5))]
        assert bus.rules == [RULE]
        await bus.left.wait()


@virtual
@pytest.mark.behaviour("N6")
async def test_a_sleep_that_was_told_already_is_not_told_again(tmp_path: Path, quiet: None) -> None:
    async with scripted_bus(tmp_path) as bus:
        machine = Machine()
        async with machine.watched(bus):
            await bus.subscribed.wait()
            machine.asleep += 60
            await machine.look()  # by the clock's own turn
            await bus.say(WOKE)
            await machine.look()
            assert [hint for _, hint in machine.told] == [slept(60)]


@virtual
@pytest.mark.behaviour("N6")
async def test_where_the_clocks_did_not_move_apart_logind_is_not_believed(tmp_path: Path, quiet: None) -> None:
    async with scripted_bus(tmp_path) as bus:
        machine = Machine()
        async with machine.watched(bus):
            await bus.subscribed.wait()
            for _ in range(3):
                before = now()
                await bus.say(WOKE)
                await machine.look()
                assert now() == before, "it was looked at because logind said so"
        assert machine.told == []


@virtual
async def test_nothing_but_waking_is_a_reason_to_look(tmp_path: Path, quiet: None) -> None:
    woke = asyncio.Queue[float]()
    async with scripted_bus(tmp_path) as bus, listening(lambda: woke.put_nowait(now()), address=bus.address):
        await bus.subscribed.wait()
        await bus.say(
            ASLEEP,
            signal("PrepareForSleep"),
            signal("PrepareForSleep", False, False),
            signal("PrepareForShutdown", False),
            signal("PrepareForSleep", False, interface="org.example.Manager"),
        )
        await asyncio.sleep(LONG)
        assert woke.empty()
        await bus.say(WOKE)
        await woke.get()
        assert woke.empty()


@virtual
async def test_an_error_of_the_listeners_own_is_the_loops_to_report(tmp_path: Path) -> None:
    problems = asyncio.Queue[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.put_nowait(context["exception"]))

    def woke() -> None:
        raise LookupError

    async with scripted_bus(tmp_path) as bus, listening(woke, address=bus.address):
        await bus.subscribed.wait()
        for _ in range(2):
            await bus.say(WOKE)
            assert isinstance(await problems.get(), LookupError)


@virtual
async def test_nothing_is_called_after_the_end(tmp_path: Path, quiet: None) -> None:
    woke: list[float] = []
    async with scripted_bus(tmp_path) as bus:
        async with listening(lambda: woke.append(now()), address=bus.address):
            await bus.subscribed.wait()
            said = asyncio.create_task(bus.say(*[WOKE] * 100))
        called = len(woke)
        await said
        await bus.left.wait()
        await asyncio.sleep(1)
        assert len(woke) == called


# ---- a bus in trouble -----------------------------------------------------------------------------

NONSENSE = b"\xff\xfe\r\n" * 40
ERROR = bytes(
    Message(
        message_type=MessageType.ERROR,
        reply_serial=1,
        error_name="org.freedesktop.DBus.Error.AccessDenied",
        signature="s",
        body=["No."],
        serial=1,
    )._marshall(False)
)
NAMELESS = bytes(Message(message_type=MessageType.METHOD_RETURN, reply_serial=1, serial=1)._marshall(False))
SPOILED = bytes(
    Message(
        message_type=MessageType.SIGNAL,
        path="/org/freedesktop/DBus",
        interface="org.freedesktop.DBus",
        member="NameOwnerChanged",
        sender="org.freedesktop.DBus",
        serial=2,
    )._marshall(False)
)
TROUBLES: dict[str, tuple[Step, Says]] = {
    "hangs before it lets anybody in": (Step.AUTH, HANGS),
    "hangs up on everybody": (Step.AUTH, HANGS_UP),
    "refuses": (Step.AUTH, b"REJECTED EXTERNAL\r\n"),
    "talks nonsense at once": (Step.AUTH, NONSENSE),
    "never ends its first line": (Step.AUTH, b"O" * 100_000),
    "hangs at the greeting": (Step.HELLO, HANGS),
    "hangs up at the greeting": (Step.HELLO, HANGS_UP),
    "refuses the greeting": (Step.HELLO, ERROR),
    "gives no name": (Step.HELLO, NAMELESS),
    "talks nonsense at the greeting": (Step.HELLO, NONSENSE),
    "hangs up later": (Step.SUBSCRIBED, HANGS_UP),
    "talks nonsense later": (Step.SUBSCRIBED, NONSENSE),
    "is cut off in a message": (Step.SUBSCRIBED, WOKE[:-3]),
    "spoils a message": (Step.SUBSCRIBED, SPOILED),
}


@virtual
@pytest.mark.behaviour("N6")
@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
async def test_a_bus_in_trouble_leaves_a_sleep_to_the_next_look(
    tmp_path: Path, quiet: None, trouble: tuple[Step, Says]
) -> None:
    async with scripted_bus(tmp_path, dict([trouble])) as bus:
        machine = Machine()
        async with machine.watched(bus):
            for _ in range(3):
                await asyncio.sleep(LONG)
                machine.asleep += 60
            await asyncio.sleep(LOOK_EVERY)
            assert [hint for _, hint in machine.told] == [slept(60)] * 3
            assert bus.connections == 1, "nothing is tried again"
        await bus.left.wait()


@virtual
@pytest.mark.parametrize("step", [Step.AUTH, Step.HELLO])
async def test_a_bus_that_hangs_is_let_go_after_five_seconds(tmp_path: Path, quiet: None, step: Step) -> None:
    async with scripted_bus(tmp_path, {step: HANGS}) as bus, listening(nothing, address=bus.address):
        begun = now()
        await bus.left.wait()
        assert now() - begun == PATIENCE


@virtual
@pytest.mark.parametrize("turns", range(12))
async def test_the_end_may_come_at_any_moment_of_connecting(tmp_path: Path, quiet: None, turns: int) -> None:
    async with scripted_bus(tmp_path) as bus:
        async with listening(nothing, address=bus.address):
            while turns and not bus.connections:  # the package is imported by a thread, which takes no count of turns
                await asyncio.sleep(0)
            for _ in range(turns):
                await asyncio.sleep(0)
        assert not bus.connections or await bus.left.wait()


def test_every_logger_of_the_package_is_kept_quiet() -> None:
    loggers = logging.Logger.manager.loggerDict.items()
    heard = {name for name, each in loggers if name.startswith("dbus_fast") and isinstance(each, logging.Logger)}
    assert heard
    assert heard <= set(discretion.BELOW)


# ---- what is missing ------------------------------------------------------------------------------


@virtual
@pytest.mark.behaviour("N6")
async def test_without_the_package_there_is_no_listening(
    tmp_path: Path, quiet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dbus_fast", None)  # as Python does where it finds none
    async with scripted_bus(tmp_path) as bus:
        machine = Machine()
        alone = len(asyncio.all_tasks())
        async with machine.watched(bus):
            assert len(asyncio.all_tasks()) == alone
            await asyncio.sleep(LONG)
            machine.asleep += 60
            await asyncio.sleep(LOOK_EVERY)
        assert [hint for _, hint in machine.told] == [slept(60)]
        assert bus.connections == 0


@virtual
async def test_a_package_that_cannot_be_imported_is_done_without(
    tmp_path: Path, quiet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dbus_fast.aio", None)
    async with scripted_bus(tmp_path) as bus:
        async with listening(nothing, address=bus.address):
            await asyncio.sleep(LONG)
        assert bus.connections == 0


@virtual
@pytest.mark.parametrize(
    "address",
    [
        "unix:path=/nowhere/bus",
        "unix:path=/nowhere/bus,guid=1;unix:path=/nowhere/else",
        "unix:path=/" + "x" * 5000,
        "unix:abstract=outlast-nowhere",
        "tcp:host=127.0.0.1,port=x",
        "carrier-pigeon:",
        "nonsense",
    ],
)
async def test_an_address_that_leads_nowhere_is_nothing(quiet: None, address: str) -> None:
    async with listening(nothing, address=address):
        await asyncio.sleep(LONG)


@virtual
async def test_the_environment_tells_where_the_bus_is(
    tmp_path: Path, quiet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted_bus(tmp_path) as bus:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path=/nowhere/bus;{bus.address},guid=1")
        async with listening(nothing):
            await bus.subscribed.wait()
        await bus.left.wait()


PROGRAM = """
import asyncio, sys

from outlast.client.hints.watch import watching


async def main():
    async with watching(print):
        print(len(asyncio.all_tasks()))


asyncio.run(main())
print("dbus_fast" in sys.modules)
"""


def test_where_no_bus_is_the_package_is_not_imported_and_nobody_waits_for_one() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["1", "False"], "")


# ---- a real bus -----------------------------------------------------------------------------------


@pytest.mark.behaviour("N6")
async def test_a_real_bus_passes_on_what_logind_says(tmp_path: Path, quiet: None) -> None:
    daemon = shutil.which("dbus-daemon")
    if daemon is None:
        pytest.skip("a real bus: dbus-daemon is missing")
    address, woke = f"unix:path={tmp_path / 'bus'}", asyncio.Event()
    command = [daemon, "--session", "--nofork", "--nosyslog", "--print-address=1", f"--address={address}"]
    bus = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert bus.stdout is not None
        if not await bus.stdout.readline():
            pytest.skip("a real bus: dbus-daemon does not start here")
        async with asyncio.timeout(60), listening(woke.set, address=address):
            logind = await MessageBus(address).connect()
            await logind.request_name("org.freedesktop.login1")
            while not woke.is_set():  # until the subscription is there, nothing is passed on
                await say_woken(logind)
            logind.disconnect()
            await logind.wait_for_disconnect()
    finally:
        if bus.returncode is None:
            bus.terminate()
        await bus.wait()


async def say_woken(bus: MessageBus) -> None:
    """Say that the machine woke, and return when the bus has passed it on."""
    await bus.send(
        Message.new_signal("/org/freedesktop/login1", "org.freedesktop.login1.Manager", "PrepareForSleep", "b", [False])
    )
    await bus.call(
        Message(
            destination="org.freedesktop.DBus",
            path="/org/freedesktop/DBus",
            interface="org.freedesktop.DBus.Peer",
            member="Ping",
        )
    )
