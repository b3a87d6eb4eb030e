"""`outlast audit`: over HTTP and on a store itself, sound and wrong."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from outlast.cli.audit import Audited, account_of, as_document, audit_store, entry_of, lines
from outlast.cli.program import run
from outlast.errors import RunNotFound
from outlast.log.cursor import chain, origin
from outlast.log.event import Event
from outlast.run import Cause, Completed, terminal
from outlast.stores.sqlite import SQLiteStore
from outlast.testing.contract.scene import ANN, A, drive, join, load, say, take
from tests.disk import behind
from tests.peer import Peer, served
from tests.unit.test_cli_runs import STATUS

EVENTS = [Event("run.started", {"epoch": 1}), Event("text", "hello"), terminal(Completed())]
CURSORS = chain(origin("log-1"), EVENTS)
STREAM = "".join(
    f"event: {event.type}\nid: {cursor}\ndata: {event.payload.decode()}\n\n"
    for cursor, event in zip(CURSORS, EVENTS, strict=True)
).encode()
ENTRY: dict[str, Any] = {
    "epoch": 1,
    "claim": "c",
    "node": "n1",
    "at": "2026-01-02T03:04:05.678Z",
    "cause": None,
    "calls": 0,
}
LINEAGE: dict[str, Any] = {
    "id": "r1",
    "log": "log-1",
    "epoch": 2,
    "lineage": [{**ENTRY, "kind": "claim"}, {**ENTRY, "epoch": 2, "kind": "takeover", "cause": "crash"}],
}
DONE = {**STATUS, "status": "completed", "head": str(CURSORS[-1])}


def test_a_sound_run_is_told_claim_by_claim(capsys: pytest.CaptureFixture[str]) -> None:
    with served(Peer((200, DONE), (200, LINEAGE), (200, STREAM))) as peer:
        assert run(["audit", "r1", "--url", peer.url]) == 0
    out = capsys.readouterr().out
    name, _, *claims = out.splitlines()
    assert name == "log log-1"
    assert all(claim.endswith(" 2026-01-02T03:04:05.678Z") for claim in claims[1:3])
    assert [line.split()[:3] for line in claims[:3]] == [
        ["epoch", "what", "cause"],
        ["1", "claim", "n1"],
        ["2", "takeover", "crash"],
    ]
    assert "sound: 3 events" in out
    assert [path for _, path, _ in peer.asked] == [
        "/agents/runs/r1",
        "/agents/runs/r1/lineage",
        "/agents/runs/r1/events",
    ]


def test_a_run_whose_log_was_changed_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    with served(Peer((200, DONE), (200, LINEAGE), (200, STREAM.replace(b"hello", b"hullo")))) as peer:
        assert run(["audit", "r1", "--url", peer.url, "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["sound"] is False
    assert (said["log"], said["lineage"][0]["at"]) == ("log-1", "2026-01-02T03:04:05.678Z")
    assert "Event 2 does not continue the chain" in said["findings"][0]


def test_a_run_that_nobody_claimed_reads_no_log(capsys: pytest.CaptureFixture[str]) -> None:
    queued = {**STATUS, "status": "queued", "epoch": 0, "head": "0"}
    budget = {**STATUS["budget"], "life": {"used": 0, "limit": 20}}
    empty = {"id": "r1", "log": "log-1", "epoch": 0, "lineage": []}
    with served(Peer((200, {**queued, "budget": budget}), (200, empty))) as peer:
        assert run(["audit", "r1", "--url", peer.url]) == 0
        assert len(peer.asked) == 2
    assert "Nobody has claimed this run yet." in capsys.readouterr().out


async def _driven(path: Path) -> None:
    store = SQLiteStore(path)
    await store.open()
    try:
        await join(store, A)
        held = await drive(store, "r1")
        await say(store, held, "one", "two")
        await store.runs.release(held, held.token, Cause.STORE)
        held = await take(store, await load(store, held), A)
        await say(store, held, "three")
        await store.runs.settle(held, held.token, Completed())
    finally:
        await store.close()


@pytest.mark.behaviour("L1")
def test_a_store_is_audited_while_no_server_runs_and_a_changed_byte_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.db"
    asyncio.run(_driven(path))
    audited = audit_store("r1", f"sqlite:///{path}", owner=ANN)
    assert (audited.findings, audited.events, len(audited.lineage)) == ([], 4, 2)
    assert as_document(audited)["sound"] is True
    with pytest.raises(RunNotFound):
        audit_store("r1", f"sqlite:///{path}", owner="")
    with behind(path) as connection:
        connection.execute("DROP TRIGGER events_stay")
        connection.execute("UPDATE events SET data = x'22212122' WHERE type = 'text' AND data = x'2274776f22'")
    assert run(["audit", "r1", "--store", f"sqlite:///{path}", "--owner", ANN]) == 1
    assert "wrong: " in capsys.readouterr().out


def test_what_a_server_tells_is_read_as_it_was_meant() -> None:
    account = account_of(STATUS)
    assert (account.epoch, account.takeovers, account.calls, account.head.seq) == (2, 1, 2, 57)
    entry = entry_of(LINEAGE["lineage"][1])
    assert (entry.epoch, entry.kind, entry.cause, round(entry.at, 3)) == (2, "takeover", "crash", 1767323045.678)


def test_a_node_cannot_act_on_the_terminal() -> None:
    entry = entry_of({**ENTRY, "kind": "claim", "node": "\x1b[2J"})
    account = account_of(DONE)
    told = lines(Audited(run="r1", log="\x1b", account=account, lineage=[entry], findings=["x"], notes=["y"], events=3))
    assert "\x1b" not in "".join(told)
    assert told[-2:] == ["  x", "  note: y"]
