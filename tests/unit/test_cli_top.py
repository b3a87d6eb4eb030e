"""`outlast top`: one look in lines, and how fast a run grows between two."""

import json
from typing import Any

import pytest

from outlast.cli.program import run
from outlast.cli.remote import Remote
from outlast.cli.top import events, look, rates, view
from tests.peer import Peer, served
from tests.unit.test_cli_runs import STATUS

NODE = {"id": "n1", "live": True, "lease_left": 12.0, "stalled": False, "loop_lag": 0.004}
GONE = {"id": "n2", "live": False, "lease_left": None, "lapsed_for": 61.0, "stalled": True, "loop_lag": 130.0}
NODES = (200, {"nodes": [NODE, GONE]})
STILL = {**STATUS, "id": "r2", "status": "queued", "standstill": {"code": "waiting", "message": "It has been due."}}
NONE = (200, {"runs": [], "next": None})


def answers(*found: Any) -> list[Any]:
    return [NODES, (200, {"runs": list(found), "next": None}), NONE, NONE, *((200, each) for each in found)]


def test_where_no_terminal_shows_it_one_look_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with served(Peer(*answers(STATUS, STILL))) as peer:
        assert run(["top", "--url", peer.url]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    lines = out.splitlines()
    assert lines[0] == "node n1: lease ends in 12.0 s, loop lag 4 ms"
    assert lines[1] == "node n2: stalled and gave its runs up 1 min ago"
    assert lines[2].startswith("2 runs: 1 active, 0 recovering, 0 stopping, 1 queued, 0 parked; 2 takeovers")
    assert lines[5].split()[:5] == ["r1", "chat", "active", "57", "1"]
    assert lines[7] == "  It has been due."


def test_a_look_as_json_has_the_node_and_its_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with served(Peer(*answers(STATUS))) as peer:
        assert run(["top", "--json", "--url", peer.url]) == 0
    said = json.loads(capsys.readouterr().out)
    assert ([node["id"] for node in said["nodes"]], [each["id"] for each in said["runs"]]) == (["n1", "n2"], ["r1"])


def test_the_speed_of_a_run_is_what_came_since_the_look_before() -> None:
    seen = {"nodes": [NODE], "runs": [STATUS, STILL]}
    assert rates(seen, {"r1": (10.0, 37)}, at=12.0) == {"r1": 10.0}
    assert "10" in view(seen, {"r1": 10.0}, width=100)[4].split()
    assert rates(seen, {"r1": (12.0, 37)}, at=12.0) == {}
    assert events({}) == 0


def test_a_server_without_runs_has_nothing_to_do_and_every_line_fits() -> None:
    assert view({"nodes": [NODE], "runs": []}, {}, width=80)[-1] == "Nothing to do."
    long = {**STILL, "id": "x" * 128, "standstill": {"message": "\x1b[2J" + "y" * 300}}
    lines = view({"nodes": [NODE], "runs": [long]}, {}, width=60)
    assert all(len(line) <= 60 for line in lines)
    assert "\x1b" not in "".join(lines)


def test_only_the_first_runs_are_asked_for_their_heads() -> None:
    found = [{**STATUS, "id": f"r{number}"} for number in range(30)]
    peer = Peer(NODES, (200, {"runs": found, "next": None}), NONE, NONE, (200, STATUS))
    with served(peer), Remote(peer.url, None) as remote:
        assert len(look(remote)["runs"]) == 30
    assert len(peer.asked) == 4 + 20


def test_many_nodes_leave_room_for_the_runs() -> None:
    lines = view({"nodes": [NODE] * 11, "runs": []}, {}, width=80)
    assert lines[7:9] == ["node n1: lease ends in 12.0 s, loop lag 4 ms", "and 3 nodes more"]
    assert view({"nodes": [], "runs": []}, {}, width=80)[0] == "no node"
