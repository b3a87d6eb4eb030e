"""A beacon: where it listens, what it runs in, and that it is lit for as long as its process beats."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from outlast.errors import PortTaken, SettingsError
from outlast.facts import BeaconLost, Fact
from outlast.server.beacon import RELIGHT_AFTER, Address, Beacon, listen
from tests.beacon import PATIENCE, ask, is_refused, lamps, wait_for_end

KINDS = pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
linux = pytest.mark.skipif(sys.platform != "linux", reason="the processes of a parent are known on Linux alone")


def ignore(_fact: Fact) -> None:
    pass


def beacon(port: int = 0, *, process: bool = False, report: Callable[[Fact], None] = ignore) -> Beacon:
    return Beacon(Address(host=None, port=port), "b00t", process=process, report=report)


def port_of(lit: Beacon) -> int:
    assert lit.port is not None
    return lit.port


def lamp_of(lit: Beacon) -> int:
    """Return the process that answers for ours."""
    ask(port_of(lit))  # so it has begun
    (lamp,) = lamps(os.getpid())
    return lamp


def now() -> float:
    return time.monotonic()


# ---- its address --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("8401", None, 8401),
        ("0", None, 0),
        ("0.0.0.0:65535", "0.0.0.0", 65535),
        ("pod-3.example:8401", "pod-3.example", 8401),
        ("[::1]:8401", "::1", 8401),
    ],
)
def test_an_address_is_a_port_or_a_host_with_one(text: str, host: str | None, port: int) -> None:
    address = Address.parse(text)
    assert address == Address(host=host, port=port)
    assert str(address) == text


@pytest.mark.behaviour("B23")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "True",
        "65536",
        "-1",
        "8401.0",
        ":8401",
        "127.0.0.1",
        "127.0.0.1:",
        "::1:8401",
        "[]:x",
        "٣",
        "9" * 5000,
    ],
)
def test_what_is_no_address_is_refused_with_how_one_looks(text: str) -> None:
    with pytest.raises(SettingsError, match="8401"):
        Address.parse(text)


def test_a_port_that_is_taken_is_told_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTaken, match=f"Port {port}, the beacon's, is in use: .*beacon=0") as caught:
            beacon(port).__enter__()
    assert caught.value.code == "port_taken"


@pytest.mark.parametrize(("host", "told"), [("192.0.2.1", "of this machine"), ("a\0b", "known"), ("x" * 300, "known")])
def test_an_address_that_is_not_here_is_refused(host: str, told: str) -> None:
    with pytest.raises(SettingsError, match=f"beacon names no address.*{told}"):
        listen(host, 0)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="this user may listen on any port")
def test_a_port_that_needs_rights_is_refused() -> None:
    with pytest.raises(SettingsError, match="needs more rights"):
        listen("127.0.0.1", 1)


@linux
@pytest.mark.attack("Z16")
def test_it_listens_where_it_is_told_and_without_a_host_for_this_machine_alone() -> None:
    for host, refused in ((None, True), ("127.0.0.1", True), ("0.0.0.0", False)):
        with Beacon(Address(host=host, port=0), "b00t", process=False, report=ignore) as lit:
            assert ask(port_of(lit))["boot_id"] == "b00t"
            assert is_refused(port_of(lit), host="127.0.0.2") is refused, "an address of its own, as others' would be"


# ---- its light ----------------------------------------------------------------------------------


@KINDS
@pytest.mark.attack("Z16")
def test_it_answers_while_it_is_lit_and_its_port_is_free_afterwards(*, process: bool) -> None:
    before = beacon(process=process)
    assert before.port is None
    with before as lit:
        port = port_of(lit)
        lit.beat(now())
        assert ask(port) == {"boot_id": "b00t", "loop_lag": 0.0}
    assert lit.port is None
    assert is_refused(port)
    lit.beat(now())
    assert is_refused(port), "a beat that comes late lights nothing"
    with beacon(port, process=process):
        assert ask(port)["boot_id"] == "b00t"
    lit.put_out()


@KINDS
def test_its_lag_grows_from_when_a_beat_is_missed(*, process: bool) -> None:
    with beacon(process=process) as lit:
        lit.beat(now() - 100)
        assert ask(port_of(lit))["loop_lag"] >= 99
        lit.beat(now())
        assert ask(port_of(lit))["loop_lag"] < 99


@linux
def test_a_lamp_that_was_killed_is_told_and_another_is_lit_with_the_next_beat() -> None:
    facts: list[Fact] = []
    with beacon(process=True, report=facts.append) as lit:
        port = port_of(lit)
        lamp = lamp_of(lit)
        os.kill(lamp, signal.SIGKILL)
        wait_for_end(lamp)
        assert is_refused(port)
        lit.beat(now())
        assert facts == [BeaconLost(node="b00t")]
        assert lit.port == port
        assert ask(port)["boot_id"] == "b00t"
        assert lamps(os.getpid()) != [lamp]


@linux
def test_a_lamp_that_cannot_be_lit_again_is_tried_now_and_then_and_named_to_nobody_meanwhile() -> None:
    with beacon(process=True) as lit:
        port = port_of(lit)
        lamp = lamp_of(lit)
        os.kill(lamp, signal.SIGKILL)
        wait_for_end(lamp)
        with socket.create_server(("127.0.0.1", port)):
            lit.beat(0.0)
            assert lit.port is None
        lit.beat(RELIGHT_AFTER - 1)
        assert lit.port is None, "not with every beat"
        lit.beat(RELIGHT_AFTER)
        assert lit.port == port
        assert ask(port)["boot_id"] == "b00t"


@linux
def test_signals_for_a_whole_group_leave_a_process_lit() -> None:
    with beacon(process=True) as lit:
        lamp = lamp_of(lit)
        assert os.getpgid(lamp) == lamp
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(lamp, number)
        assert ask(port_of(lit))["boot_id"] == "b00t"


@linux
def test_a_lamp_that_stands_still_holds_nothing_up() -> None:
    facts: list[Fact] = []
    with beacon(process=True, report=facts.append) as lit:
        lamp = lamp_of(lit)
        os.kill(lamp, signal.SIGSTOP)
        for _ in range(2000):
            lit.beat(now())
        assert facts == []
    assert lamps(os.getpid()) == []


def test_without_a_python_to_start_a_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(SettingsError, match="leave it out, for a thread"):
        beacon(process=True).__enter__()


@linux
def test_a_process_holds_nothing_of_its_parent_open(tmp_path: Path) -> None:
    with (tmp_path / "runs.db").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        with beacon(process=True) as lit:
            held: set[str] = set()
            for each in Path(f"/proc/{lamp_of(lit)}/fd").iterdir():
                with suppress(FileNotFoundError):  # the connection that asked, closed by now
                    held.add(str(each.readlink()))
    assert {name.partition(":")[0] for name in held} == {"/dev/null", "anon_inode", "socket"}


FORKING = """
import os, sys
from outlast.server.beacon import Beacon, Address

with Beacon(Address(host=None, port=0), "b00t", process=True, report=print) as lit:
    if os.fork():
        print(lit.port, flush=True)
    sys.stdin.read()
"""
"""Lights a beacon and forks, as multiprocessing does; both wait until nobody writes to them any more."""


@linux
def test_a_lamp_ends_with_its_parent_also_where_a_fork_of_that_lives_on() -> None:
    with subprocess.Popen([sys.executable, "-c", FORKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        port = int(parent.stdout.readline())
        assert ask(port)["boot_id"] == "b00t"
        parent.kill()
        parent.wait()
        deadline = now() + PATIENCE
        while not is_refused(port):
            assert now() < deadline
