"""`outlast doctor`: each thing it looks at, well and not, and that it changes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from outlast.assembly.stores import migrate_store
from outlast.cli.doctor import Check, Health, lines, machine, nodes_check, still, stored
from outlast.cli.doctor import served as ask_server
from outlast.cli.program import run
from outlast.stores.base import Node
from outlast.stores.sqlite.migration import APPLICATION_ID, MIGRATIONS
from tests.disk import behind
from tests.peer import Peer, served
from tests.unit.test_cli_runs import STATUS

NONE = (200, {"runs": [], "next": None})


def by_name(checks: Any) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_this_machine_is_well() -> None:
    checks = by_name(machine())
    assert (checks["python"].health, checks["sqlite"].health) == (Health.OK, Health.OK)
    assert "boot" in checks["clock"].found or checks["clock"].health is Health.WARN


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    assert run(["doctor", "--store", url, "--no-server"]) == 0
    out = capsys.readouterr().out
    assert "not there yet" in out
    assert "All is well." not in out
    assert not list(tmp_path.iterdir())


def test_the_server_may_use_another_store_than_the_one_that_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with served(Peer((401, {"code": "unauthorized", "detail": "Who are you?"}))) as peer:
        told = []
        for given in ([], ["--no-server"], ["--store", "sqlite:///runs.db"]):
            run(["doctor", "--url", peer.url, *given, "--json"])
            told.append(by_name(Check(**check) for check in json.loads(capsys.readouterr().out))["store"])
    assert str(tmp_path) in told[0].found
    assert ["another" in check.advice for check in told] == [True, False, False]


def test_a_folder_that_is_missing_fails_and_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--store", f"sqlite:///{tmp_path}/no/runs.db", "--no-server", "--json"]) == 1
    (failed,) = [check for check in json.loads(capsys.readouterr().out) if check["health"] == "fail"]
    assert (failed["name"], failed["advice"]) == ("folder", f"Make it: mkdir -p {tmp_path}/no")


def test_a_store_is_told_with_its_schema_and_nodes(tmp_path: Path) -> None:
    url, old = f"sqlite:///{tmp_path}/runs.db", tmp_path / "old.db"
    migrate_store(url)
    checks = by_name(stored(url))
    assert checks["file"].health is Health.OK
    assert checks["nodes"].found == "0 live leases of 0 nodes"
    assert (checks["wal"].health, checks["locks"].health, checks["power loss"].health) == (Health.OK,) * 3
    with behind(old) as connection:
        connection.executescript(MIGRATIONS[0].sql)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 1")
    assert "outlast migrate" in by_name(stored(f"sqlite:///{old}"))["file"].advice
    (tmp_path / "garbage.db").write_bytes(b"This is no database." * 100)
    assert by_name(stored(f"sqlite:///{tmp_path}/garbage.db"))["file"].health is Health.FAIL
    assert by_name(stored("sqlite://"))["file"].health is Health.OK


@pytest.mark.parametrize(
    ("nodes", "health", "part"),
    [
        ([], Health.WARN, "0 live leases of 0 nodes"),
        ([Node(id="a", until=9.0, stalled=False)], Health.WARN, "0 live leases of 1 node"),
        ([Node(id="a", until=11.0, stalled=False)], Health.OK, "1 live lease of 1 node"),
        ([Node(id="a", until=11.0, stalled=False, draining=True)], Health.OK, "1 live lease of 1 node, 1 draining"),
        ([Node(id="a", until=11.0, stalled=False), Node(id="b", until=9.0, stalled=True)], Health.WARN, "1 stalled"),
    ],
)
def test_leases_are_judged_by_the_stores_clock(nodes: list[Node], health: Health, part: str) -> None:
    check = nodes_check(nodes, now=10.0)
    assert (check.health, part in check.found) == (health, True)


def test_a_server_that_is_away_is_a_warning() -> None:
    (check,) = ask_server("http://127.0.0.1:9", None)
    assert (check.name, check.health) == ("server", Health.WARN)


def test_runs_that_do_not_move_are_told_with_their_reason() -> None:
    stuck = {**STATUS, "id": "\x1b[2Jr2", "standstill": {"code": "no_worker", "message": "Nobody has it."}}
    peer = Peer((200, {"nodes": []}), (200, {"runs": [STATUS, stuck], "next": None}), NONE)
    with served(peer):
        checks = list(ask_server(peer.url, None))
    assert [(check.name, check.health.value) for check in checks] == [
        ("server", "ok"),
        ("runs", "warn"),
        ("run", "warn"),
    ]
    assert checks[2].advice == "Nobody has it."
    assert "\x1b" not in "".join(lines(checks))
    assert [check.health for check in still([STATUS])] == [Health.OK]


def test_every_node_of_the_server_is_told_and_a_late_or_stalled_one_is_a_warning() -> None:
    well = {"id": "n1", "live": True, "lease_left": 12.0, "stalled": False, "loop_lag": 0.004}
    late = {**well, "id": "n2", "loop_lag": 2.0}
    gone = {**well, "id": "n3", "live": False, "lease_left": None, "lapsed_for": 42.0}
    stalled = {**gone, "id": "n4", "stalled": True, "loop_lag": 130.0}
    peer = Peer((200, {"nodes": [well, late, {**gone, "loop_lag": 2.0}, stalled]}), NONE)
    with served(peer):
        server, *nodes, _ = ask_server(peer.url, None)
    assert server.found == "answers, 4 nodes"
    assert [(node.name, node.health) for node in nodes] == [
        ("node", Health.OK),
        ("node", Health.WARN),
        ("node", Health.OK),
        ("node", Health.WARN),
    ]
    assert "lease ends in 12.0 s, loop lag 4 ms" in nodes[0].found
    assert "blocks its event loop" in nodes[1].advice
    assert "stall_limit" in nodes[3].advice


def test_a_server_that_refuses_is_asked_with_a_token() -> None:
    with served(Peer((401, {"code": "unauthorized", "detail": "Who are you?"}))) as peer:
        (check,) = ask_server(peer.url, None)
    assert (check.name, check.health) == ("server", Health.WARN)
    assert "--token" in check.advice


def test_settings_that_cannot_work_fail_and_secrets_stay_unsaid(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("OUTLAST_TOKEN", "hunter2")
    monkeypatch.setenv("OUTLAST_STORE", f"sqlite:///{tmp_path}/runs.db")
    monkeypatch.setenv("OUTLAST_LEASE_TTL", "30")
    assert run(["doctor", "--no-server"]) == 0
    out = capsys.readouterr().out
    assert "hunter2" not in out
    assert "(from OUTLAST_STORE)" in out
    assert "lease_ttl=30" in out
    monkeypatch.setenv("OUTLAST_LEASE_TTL", "soon")
    assert run(["doctor", "--no-server"]) == 1
    assert "OUTLAST_LEASE_TTL must be a number" in capsys.readouterr().out
