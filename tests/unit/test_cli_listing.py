"""`outlast runs`: pages put together, filtered, and fitted to the terminal."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from outlast.cli.listing import state, table
from outlast.cli.program import run
from tests.peer import Peer, served
from tests.unit.test_cli_runs import STATUS

NOW = datetime(2026, 1, 2, 4, 4, 5, tzinfo=UTC)


def page(*names: str, next: str | None = None, **changes: Any) -> tuple[int, Any]:
    return 200, {"runs": [{**STATUS, "id": name, **changes} for name in names], "next": next}


def test_runs_are_listed_over_as_many_pages_as_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    with served(Peer(page("a", "b", next="b"), page("c", "d", next="d"))) as peer:
        assert run(["runs", "--limit", "3", "--status", "active", "--url", peer.url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["run", "a", "b", "c"]
    assert [path for _, path, _ in peer.asked] == [
        "/agents/runs?limit=3&status=active",
        "/agents/runs?limit=1&after=b&status=active",
    ]


def test_the_runs_of_a_thread_are_asked_for_by_its_id(capsys: pytest.CaptureFixture[str]) -> None:
    with served(Peer(page("a", "b", thread="t"))) as peer:
        assert run(["runs", "--thread", "t", "--json", "--url", peer.url]) == 0
    assert [each["id"] for each in json.loads(capsys.readouterr().out)] == ["a", "b"]
    assert [path for _, path, _ in peer.asked] == ["/agents/runs?limit=20&thread=t"]


def test_where_there_is_no_run_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with served(Peer(page())) as peer:
        assert run(["runs", "--url", peer.url]) == 0
        assert run(["runs", "--status", "failed", "--url", peer.url]) == 0
    assert capsys.readouterr().out == "No run yet.\nNo run is like that.\n"


def test_a_row_fits_the_terminal_whatever_the_run_is_called() -> None:
    lines = table([{**STATUS, "id": "x" * 128, "worker": "\x1b[2Jw" * 40}], now=NOW, width=60)
    assert all(len(line) <= 60 for line in lines)
    assert "\x1b" not in "".join(lines)
    assert table([STATUS], now=NOW, width=80)[1].split() == ["r1", "chat", "active", "1", "2", "59", "min", "ago"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "active"),
        ({"recovering": {"takeover": 1}}, "recovering"),
        ({"stop_requested": True, "recovering": {"takeover": 1}}, "stopping"),
        ({"status": "failed", "outcome": {"code": "log_full"}}, "failed (log_full)"),
        ({"status": "cancelled", "outcome": {"code": "cancelled"}, "stop_requested": True}, "cancelled"),
    ],
)
def test_how_a_run_stands_is_one_word(changes: dict[str, Any], said: str) -> None:
    assert state({**STATUS, **changes}) == said
