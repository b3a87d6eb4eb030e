"""Questions to a server: asked again where that is safe, and answered in a sentence where there is no answer."""

import socket
import ssl
import threading
from contextlib import suppress

import pytest

from outlast.cli.remote import BASE, CAP, PAGE, TRIES, UNFINISHED, Remote
from outlast.errors import InputInvalid, Refusal, RunNotFound, ThreadBusy, Unanswered
from outlast.run import Status
from tests.peer import Answer, Peer, served
from tests.terminator import context


def remote_of(peer: Peer, token: str | None = None, *, pauses: list[float] | None = None) -> Remote:
    return Remote(peer.url, token, pause=([] if pauses is None else pauses).append)


def test_a_start_that_got_no_answer_is_asked_again_as_the_same_run() -> None:
    pauses: list[float] = []
    peer = Peer(None, (503, b"busy"), (201, {"id": "x"}))
    with served(peer), remote_of(peer, pauses=pauses) as remote:
        assert remote.start("chat", {"a": "é\ud83d"}, id=None, thread="t") == {"id": "x"}
    first, second, third = peer.asked
    assert first == second == third
    method, path, body = first
    assert (method, path) == ("POST", "/agents/runs")
    assert body == {"worker": "chat", "input": {"a": "é\ud83d"}, "id": body["id"], "thread": "t"}
    assert len(body["id"]) == 16
    assert len(pauses) == 2


def test_two_starts_are_two_runs_unless_their_id_is_given() -> None:
    with served(Peer((201, {"id": "x"}))) as peer, remote_of(peer) as remote:
        for id in (None, None, "mine"):
            remote.start("chat", None, id=id, thread=None)
    first, second, third = (body["id"] for _, _, body in peer.asked)
    assert first != second
    assert third == "mine"


def test_the_other_questions_and_the_token() -> None:
    with served(Peer((200, {"runs": [{"id": "x"}]}))) as peer, remote_of(peer, "secret") as remote:
        remote.status("a/b")
        remote.stop("x", reason="enough")
        assert [run["id"] for run in remote.unfinished()] == ["x"] * 3
    assert peer.asked[:2] == [
        ("GET", "/agents/runs/a%2Fb", None),
        ("POST", "/agents/runs/x/stop", {"reason": "enough"}),
    ]
    assert [path for _, path, _ in peer.asked[2:]] == [
        f"/agents/runs?limit={PAGE}&status={status}" for status in UNFINISHED
    ]
    assert {headers["authorization"] for headers in peer.headers} == {"Bearer secret"}


def test_every_status_that_is_not_terminal_is_unfinished() -> None:
    assert {each for each in Status if not each.is_terminal} == set(UNFINISHED)


def test_unfinished_runs_are_read_to_the_last_page() -> None:
    pages: list[Answer] = [
        (200, {"runs": [{"id": "a"}, {"id": "b"}], "next": "b"}),
        (200, {"runs": [{"id": "c"}], "next": None}),
        (200, {"runs": [], "next": None}),
    ]
    with served(Peer(*pages)) as peer, remote_of(peer) as remote:
        assert [run["id"] for run in remote.unfinished()] == ["a", "b", "c"]
    assert [path.partition("?")[2] for _, path, _ in peer.asked] == [
        f"limit={PAGE}&status=active",
        f"limit={PAGE}&after=b&status=active",
        f"limit={PAGE}&status=queued",
        f"limit={PAGE}&status=parked",
    ]


@pytest.mark.parametrize(
    ("answer", "error", "sentence"),
    [
        ((404, {"code": "run_not_found", "detail": "There is no such run."}), RunNotFound, "There is no such run."),
        ((409, {"code": "thread_busy", "detail": "Busy.", "live": "y"}), ThreadBusy, "Busy."),
        ((404, b"<html>"), Refusal, "not in the way of Outlast"),
        ((500, b""), Refusal, "500"),
        ((200, b"<html>"), Unanswered, "not as Outlast does"),
        ((200, [1]), Unanswered, "not as Outlast does"),
    ],
)
def test_what_is_no_answer_is_told_at_once(answer: Answer, error: type[Exception], sentence: str) -> None:
    with served(Peer(answer)) as peer, remote_of(peer) as remote:
        with pytest.raises(error, match=sentence):
            remote.status("x")
        assert len(peer.asked) == 1


def test_a_server_that_never_answers_is_asked_a_bounded_number_of_times() -> None:
    pauses: list[float] = []
    with served(Peer(None)) as peer, remote_of(peer, pauses=pauses) as remote:
        with pytest.raises(Unanswered, match="may have happened"):
            remote.status("x")
        assert len(peer.asked) == TRIES
    assert len(pauses) == TRIES - 1
    assert all(BASE * 0.8 <= pause <= CAP * 1.2 for pause in pauses)


def test_where_nobody_listens_nothing_is_asked_twice() -> None:
    with served(Peer(None)) as peer:
        pass
    pauses: list[float] = []
    with remote_of(peer, pauses=pauses) as remote, pytest.raises(Unanswered, match="does `outlast serve` run there"):
        remote.status("x")
    assert not pauses


@pytest.mark.parametrize("url", ["", "peer:80", "ftp://peer", "http://[::1", "http://\x00"])
def test_an_impossible_url_is_refused(url: str) -> None:
    with Remote(url, None) as remote, pytest.raises(InputInvalid, match="one looks like"):
        remote.status("x")


@pytest.mark.parametrize("token", ["a\nb", "a\x00", "schlüssel"])
def test_a_token_that_cannot_be_sent_is_refused_before_anything_is_asked(token: str) -> None:
    with pytest.raises(InputInvalid, match="The token"):
        Remote("http://127.0.0.1:1", token)


def test_a_certificate_that_cannot_be_trusted_is_told_as_that() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        refusing = threading.Thread(target=shake_hands, args=(listening,))
        refusing.start()
        remote = Remote(f"https://127.0.0.1:{listening.getsockname()[1]}", None, pause=list[float]().append)
        with remote, pytest.raises(Unanswered, match="certificate cannot be trusted"):
            remote.status("r1")
        refusing.join()


def shake_hands(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    with connection, suppress(ssl.SSLError, ConnectionError):
        context().wrap_socket(connection, server_side=True)
