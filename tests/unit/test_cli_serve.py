"""How an object is served: what uvicorn is told, and what a signal does."""

import signal
from pathlib import Path

import pytest

from outlast.assembly.outlast import Outlast
from outlast.cli.serve import Server, Waiting, bind_beacon, check_websocket, kept
from outlast.errors import SettingsError


async def greet() -> None:
    pass


def test_where_the_runs_are_is_told_as_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert kept(Outlast("sqlite:///runs.db")) == f"kept in {tmp_path / 'runs.db'}"
    assert kept(Outlast("sqlite:////var/lib/runs.db")) == "kept in /var/lib/runs.db"
    assert kept(Outlast("sqlite://")) == "kept in memory and end with this process"


def test_a_beacon_listens_where_the_server_does_unless_it_has_an_address_of_its_own() -> None:
    for given, host, bound in (
        ("8401", "0.0.0.0", "0.0.0.0:8401"),
        ("8401", "::1", "[::1]:8401"),
        ("127.0.0.1:0", "0.0.0.0", "127.0.0.1:0"),
        ("", "0.0.0.0", ""),
    ):
        outlast = Outlast("sqlite://", beacon=given)
        bind_beacon(outlast, host)
        assert outlast.settings.beacon == bound


def test_a_websocket_without_what_speaks_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    check_websocket(Outlast("sqlite://", websocket=True))
    monkeypatch.setattr("outlast.cli.serve.find_spec", lambda _name: None)
    check_websocket(Outlast("sqlite://"))
    with pytest.raises(SettingsError, match=r"install outlast\[websocket\]"):
        check_websocket(Outlast("sqlite://", websocket=True))


@pytest.mark.attack("Z16")
def test_nobody_is_believed_who_forwards() -> None:
    config = Server(Outlast("sqlite://"), greet).config
    assert not config.proxy_headers
    assert not config.server_header


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_the_first_signal_asks_uvicorn_to_stop_and_decides_the_exit_code(number: int, code: int) -> None:
    server = Server(Outlast("sqlite://"), greet)
    with server.signals():
        signal.raise_signal(number)
    assert server.should_exit
    assert server.exit_code == code


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Server(Outlast("sqlite://"), greet).signals():
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] != before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_what_a_server_waits_for_is_said_once_and_only_where_there_is_something(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Waiting().tell(0, 25.0)
    waiting = Waiting()
    waiting.tell(2, 3.0)
    waiting.tell(2, 1.0)
    Waiting().tell(1, 2.5)
    Waiting().tell(1, 0.0)
    assert capsys.readouterr().err == (
        "Waiting up to 3 s for 2 runs to finish; a second signal stops now: they go on at the next start.\n"
        "Waiting up to 2.5 s for 1 run to finish; a second signal stops now: it goes on at the next start.\n"
        "Handing off 1 run; a second signal stops now: it goes on at the next start.\n"
    )
