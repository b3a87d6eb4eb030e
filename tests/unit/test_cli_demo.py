"""The demonstration's own decisions: which port, which run, and what is said of them."""

import os
import sys
from pathlib import Path

import pytest

from outlast.assembly.outlast import Outlast
from outlast.cli.demo import first_free, greeting, pick, program
from outlast.cli.listener import listen, resolve
from outlast.errors import PortTaken
from tests.peer import Peer, served


def test_the_first_free_port_is_taken() -> None:
    with listen(resolve("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with first_free([taken, 0]) as listener:
            assert listener.getsockname()[1] not in {0, taken}
        with pytest.raises(PortTaken, match=f"Port {taken} is in use"):
            first_free([taken])


def test_an_unfinished_run_is_gone_on_with() -> None:
    with served(Peer((200, {"runs": []}), (200, {"runs": [{"id": "json-1a2b"}]}))) as peer:
        assert pick(peer.url, {"module": "heapq"}) == ("json-1a2b", True)
    assert [method for method, *_ in peer.asked] == ["GET"] * 3


def test_a_run_is_started_where_none_is_unfinished() -> None:
    nothing = (200, {"runs": []})
    with served(Peer(nothing, nothing, nothing, (201, {"id": "heapq-1a2b"}))) as peer:
        assert pick(peer.url, {"module": "heapq", "pace": 0.1}) == ("heapq-1a2b", False)
    method, path, body = peer.asked[-1]
    assert (method, path) == ("POST", "/agents/runs")
    assert (body["worker"], body["input"]) == ("explain", {"module": "heapq", "pace": 0.1})
    assert body["id"].startswith("heapq-")


def test_what_is_said_can_be_copied_as_it_stands() -> None:
    said = greeting(Outlast("sqlite://"), "http://127.0.0.1:8401", "heapq-1a2b", resumed=False)
    assert "http://127.0.0.1:8401/#heapq-1a2b" in said
    assert "tail heapq-1a2b --url http://127.0.0.1:8401" in said
    assert f"kill -9 {os.getpid()}" in said
    assert "Run heapq-1a2b has begun. Runs are kept in memory and end with this process." in said


def test_what_a_kill_does_to_this_worker_is_said_and_which_kind_goes_on() -> None:
    said = greeting(Outlast("sqlite://"), "http://127.0.0.1:8400", "heapq-1a2b", resumed=False)
    assert "This worker begins anew, and readers fold away" in said
    assert 'kind="resume" goes on from its last checkpoint' in said


def test_the_usual_address_is_not_spelt_out_and_a_run_that_goes_on_is_said_to() -> None:
    said = greeting(Outlast("sqlite://"), "http://127.0.0.1:8400", "heapq-1a2b", resumed=True)
    assert "--url" not in said
    assert said.startswith("Going on with run heapq-1a2b")


def test_the_program_is_named_as_it_can_be_called_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", [str(Path.cwd() / "bin" / "outlast")])
    assert program() == str(Path("bin", "outlast"))
    monkeypatch.setattr(sys, "argv", [str(Path("outlast", "__main__.py"))])
    assert program() == f"{sys.executable} -m outlast"
