"""The commands that ask one question, from their arguments to what they print."""

import io
import json
from typing import Any

import pytest

from outlast.cli.program import run
from outlast.cli.runs import described
from tests.peer import Peer, served

STATUS: dict[str, Any] = {
    "id": "r1",
    "thread": None,
    "worker": "chat",
    "status": "active",
    "epoch": 2,
    "head": "57-8f1c2d3e4a5b6c7d",
    "first": 1,
    "budget": {
        "takeovers": {"used": 1, "limit": 5, "window_left": 287.1},
        "life": {"used": 1, "limit": 20},
        "handoffs": {"used": 0, "limit": 50},
        "calls": {"used": 2, "limit": 64},
    },
    "recovering": None,
    "lease_left": 12.4,
    "waits": [],
    "stop_requested": False,
    "degraded": False,
    "outcome": None,
    "created_at": "2026-01-02T03:04:05.678Z",
    "updated_at": "2026-01-02T03:04:05.678Z",
    "settled_at": None,
}
LINEAGE: dict[str, Any] = {"id": "r1", "log": "log-1", "epoch": 2, "lineage": []}
COMPLETED_LOG = b'event: text\nid: 1\ndata: "hello"\n\nevent: run.completed\nid: 2\ndata: {}\n\n'


# ---- start --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "stdin", "input"),
    [
        ([], "", None),
        (['{"a": [1, "é"]}'], "", {"a": [1, "é"]}),
        (["null"], "", None),
        (["-"], '"from a pipe"\n', "from a pipe"),
    ],
)
def test_a_run_is_started_and_its_id_alone_printed(
    given: list[str], stdin: str, input: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
    with served(Peer((201, STATUS))) as peer:
        assert run(["start", "chat", *given, "--id", "r1", "--thread", "t", "--url", peer.url]) == 0
    assert capsys.readouterr() == ("r1\n", "")
    assert peer.asked == [("POST", "/agents/runs", {"worker": "chat", "input": input, "id": "r1", "thread": "t"})]


@pytest.mark.parametrize("input", ["hello", "{", "NaN", "Infinity", "[" * 5000, ""])
def test_input_that_is_no_json_is_refused_before_anything_is_asked(
    input: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(Peer((201, STATUS))) as peer:
        assert run(["start", "chat", input, "--url", peer.url]) == 2
    assert "JSON" in capsys.readouterr().err
    assert not peer.asked


def test_a_started_run_is_followed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with served(Peer((201, STATUS), (200, COMPLETED_LOG))) as peer:
        assert run(["start", "chat", "--follow", "--url", peer.url]) == 0
    assert capsys.readouterr() == ("hello\n— completed —\n", "outlast: run r1\n")


# ---- show ---------------------------------------------------------------------------------------


def test_a_run_is_shown_without_what_has_nothing_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    with served(Peer((200, STATUS), (200, LINEAGE))) as peer:
        assert run(["show", "r1", "--url", peer.url]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "id           r1",
        "log          log-1",
        "worker       chat",
        "status       active",
        "events       57",
        "takeovers    1 of 5",
        "in its life  1 of 20",
        "hand-offs    0 of 50",
        "calls        2 of 64",
        "created      2026-01-02T03:04:05.678Z",
    ]


def test_the_document_is_printed_as_it_was_told_with_the_name_the_run_has_in_log_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with served(Peer((200, STATUS), (200, LINEAGE))) as peer:
        assert run(["show", "r1", "--json", "--url", peer.url]) == 0
    assert json.loads(capsys.readouterr().out) == {**STATUS, "log": "log-1"}


def test_recovery_a_stop_and_an_outcome_are_shown() -> None:
    recovering = {"takeover": 2, "next_try_in": 3.2, "cause": "store"}
    going = dict(described({**STATUS, "recovering": recovering, "stop_requested": True, "thread": "t"}))
    assert going["recovering"] == "recovering: takeover 2 in 3.2 s (store)"
    assert (going["stop"], going["thread"]) == ("asked for", "t")
    ended = dict(described({**STATUS, "status": "cancelled", "outcome": {"reason": "enough"}, "stop_requested": True}))
    assert ended["outcome"] == "stopped: enough"
    assert "stop" not in ended


def test_nothing_a_server_says_acts_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = {**STATUS, "id": "a\x1b[2J\nb", "worker": "\x9b", "status": "\r", "outcome": {"code": "\x1b"}}
    with served(Peer((200, evil))) as peer:
        run(["show", "r1", "--url", peer.url])
        run(["show", "r1", "--json", "--url", peer.url])
    assert all(line.isprintable() for line in capsys.readouterr().out.splitlines())


# ---- stop ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"answer": "accepted", "status": "active", "outcome": None}, "accepted: the run is being stopped"),
        (
            {"answer": "accepted", "status": None, "outcome": None},
            "no run has this id yet: the stop is remembered for ten minutes, and stops one that is started by then",
        ),
        ({"answer": "settled", "status": "cancelled", "outcome": {"reason": "enough"}}, "stopped"),
        ({"answer": "already", "status": "completed", "outcome": {}}, "it had ended before: completed"),
        ({"answer": "from tomorrow"}, "from tomorrow"),
    ],
)
def test_a_stop_says_what_is_true_now(
    answer: dict[str, Any], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(Peer((200, answer))) as peer:
        assert run(["stop", "r1", "--reason", "enough", "--url", peer.url]) == 0
    assert capsys.readouterr().out == sentence + "\n"
    assert peer.asked == [("POST", "/agents/runs/r1/stop", {"reason": "enough"})]


# ---- erase --------------------------------------------------------------------------------------

GONE = (410, {"code": "run_gone", "title": "Gone", "status": 410, "detail": "This run was erased."})
LIVE = (409, {"code": "run_live", "title": "Conflict", "status": 409, "detail": "This run has not ended: stop it."})


@pytest.mark.parametrize(("answer", "said"), [((204, b""), "deleted\n"), (GONE, "gone already\n")])
def test_an_ended_run_is_deleted_once_and_for_all(answer: Any, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with served(Peer(answer)) as peer:
        assert run(["erase", "r~1", "--yes", "--url", peer.url]) == 0
    assert capsys.readouterr() == (said, "")
    assert peer.asked == [("DELETE", "/agents/runs/r~1", None)]


def test_a_deletion_whose_answer_was_lost_is_asked_for_again(capsys: pytest.CaptureFixture[str]) -> None:
    with served(Peer(None, GONE)) as peer:
        assert run(["erase", "r1", "--yes", "--url", peer.url]) == 0
    assert capsys.readouterr().out == "gone already\n"
    assert len(peer.asked) == 2


def test_a_run_that_has_not_ended_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    with served(Peer(LIVE)) as peer:
        assert run(["erase", "r1", "--yes", "--url", peer.url]) == 2
    assert "has not ended" in capsys.readouterr().err


class Keyboard(io.StringIO):
    """What a person types at a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "code", "asked"), [("y\n", 0, 2), ("n\n", 130, 1), ("", 130, 1)])
def test_a_deletion_is_asked_about_first(
    typed: str, code: int, asked: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Keyboard(typed))
    with served(Peer((200, STATUS), (204, b""))) as peer:
        assert run(["erase", "r1", "--url", peer.url]) == code
    assert "r1 (active): delete it?" in capsys.readouterr().err
    assert len(peer.asked) == asked


@pytest.mark.parametrize("piped", ["", "y\n"])
def test_where_no_person_can_be_asked_a_deletion_is_refused_until_it_is_said_outright(
    piped: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(piped))
    with served(Peer((200, STATUS), (204, b""))) as peer:
        assert run(["erase", "r1", "--url", peer.url]) == 2
    assert "say --yes." in capsys.readouterr().err
    assert not peer.asked
