"""What is shown while a run is followed, and with which code the program ends."""

import io
from typing import Any

import pytest

from outlast.cli.program import run
from outlast.cli.tail import View
from outlast.cli.terminal import Plain
from outlast.cli.transcript import Transcript
from outlast.client.received import ReceivedEvent
from outlast.client.record import ClientRecord, RunRecord
from outlast.log.cursor import Cursor
from outlast.log.event import JSON, Event
from outlast.supervision.phase import Phase, Trouble
from outlast.supervision.record import LinkRecord
from tests.peer import Peer, served

LEAVING = "Ctrl-C leaves, the run goes on"
URL = "http://127.0.0.1:1"


class Watched(Plain):
    """A plain screen that remembers its status lines."""

    def __init__(self) -> None:
        self.stream, self.errors = io.StringIO(), io.StringIO()
        self.statuses: list[str] = []
        super().__init__(self.stream, self.errors)

    def status(self, text: str) -> None:
        self.statuses.append(text)


def told(phase: Phase, **told: Any) -> ClientRecord:
    """How things stand with a link in this phase, and a run that recovers where one is named."""
    recovering = told.pop("recovering", None)
    link: dict[str, Any] = {
        "since": 0.0,
        "generation": 1,
        "last_heard": 0.0,
        "attempt": None,
        "retry_at": None,
        "trouble": None,
        "evidence": None,
        "can_send": phase is Phase.LIVE,
    }
    run = RunRecord(run="r1", place=Cursor(0, None), recovering=recovering)
    return ClientRecord(link=LinkRecord(phase=phase, **{**link, **told}), runs={"r1": run})


CONNECTING = told(Phase.CONNECTING, attempt=1)
LIVE = told(Phase.LIVE)
LOST = told(Phase.BACKOFF, trouble=Trouble.UNREACHABLE, attempt=3, retry_at=104.0)


def view_of(screen: Watched, *, now: float = 100.0) -> View:
    return View(screen, Transcript(screen), URL, clock=lambda: now)


def event(seq: int, type: str, data: JSON = None) -> ReceivedEvent:
    return ReceivedEvent(cursor=Cursor(seq, None), event=Event(type, data))


def frames(*events: Event) -> bytes:
    return b"".join(
        b"event: %b\nid: %d\ndata: %b\n\n" % (each.type.encode(), seq, each.payload)
        for seq, each in enumerate(events, start=1)
    )


# ---- the view -----------------------------------------------------------------------------------


def test_the_status_line_tells_the_link_the_place_and_the_takeovers_but_no_hand_offs() -> None:
    screen = Watched()
    view = view_of(screen)
    view.show(CONNECTING)
    view.show(LIVE)
    view.take(event(1, "text", "a"))
    view.take(event(2, "run.restarted", {"attempt": 2, "cause": "crash"}))
    view.take(event(3, "run.restarted", {"attempt": 3, "cause": "handoff"}))
    view.refresh()
    assert screen.statuses == [
        f"○ connecting · event 0 · {LEAVING}",
        f"● connected · event 0 · {LEAVING}",
        f"● connected · event 3 · 1 takeover · {LEAVING}",
    ]


def test_a_wait_is_counted_down() -> None:
    now = [100.0]
    screen = Watched()
    view = View(screen, Transcript(screen), URL, clock=lambda: now[0])
    view.show(LOST)
    for now[0] in (101.0, 102.2, 110.0):
        view.refresh()
    assert [status.split(":")[0] for status in screen.statuses] == [
        f"○ lost, retrying in {left} s" for left in (4, 3, 2, 0)
    ]


def test_a_run_that_recovers_is_told_beside_the_link() -> None:
    screen = Watched()
    view = view_of(screen)
    view.show(told(Phase.LIVE, recovering={"takeover": 2, "next_try_in": 3.2, "cause": "store"}))
    assert screen.statuses == [f"● connected · recovering: takeover 2 in 3.2 s (store) · event 0 · {LEAVING}"]


def test_a_lost_connection_and_its_return_are_told_to_those_without_a_status_line() -> None:
    screen = Watched()
    view = view_of(screen)
    for record in (CONNECTING, LIVE, LOST, LOST, told(Phase.CONNECTING, attempt=3), LIVE, LIVE):
        view.show(record)
    assert screen.errors.getvalue().splitlines() == [
        "outlast: lost, retrying in 4 s: the server cannot be reached (attempt 3)",
        "outlast: connected again",
    ]


def test_the_address_is_told_once_where_nobody_was_ever_reached_there() -> None:
    screen = Watched()
    view = view_of(screen)
    for record in (CONNECTING, LOST, told(Phase.BACKOFF, trouble=Trouble.UNREACHABLE, attempt=4, retry_at=108.0)):
        view.show(record)
    assert screen.errors.getvalue().splitlines() == [
        f"outlast: lost, retrying in 4 s: the server cannot be reached (attempt 3) ({URL})",
        "outlast: lost, retrying in 8 s: the server cannot be reached (attempt 4)",
    ]


# ---- the command --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "code", "line"),
    [
        (Event("run.completed", {}), 0, "— completed —"),
        (
            Event("run.failed", {"code": "worker_error", "message": "It raised."}),
            1,
            "— failed: worker_error: It raised. —",
        ),
        (Event("run.cancelled", {"reason": None}), 1, "— stopped —"),
    ],
)
def test_the_exit_code_tells_the_outcome(
    outcome: Event, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(Peer((200, frames(Event("text", "hello"), outcome)))) as peer:
        assert run(["tail", "r1", "--url", peer.url]) == code
    assert capsys.readouterr() == (f"hello\n{line}\n", "")


def test_a_refused_run_is_one_sentence_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with served(Peer((404, {"code": "run_not_found", "detail": "There is no such run."}))) as peer:
        assert run(["tail", "r1", "--url", peer.url]) == 2
    assert capsys.readouterr() == ("", "outlast: There is no such run.\n")


def test_a_tail_may_begin_in_the_middle_and_send_a_token(capsys: pytest.CaptureFixture[str]) -> None:
    log = frames(Event("text", "one"), Event("text", "two"), Event("run.completed", {}))
    with served(Peer((200, log))) as peer:
        assert run(["tail", "r1", "--after", "1", "--url", peer.url, "--token", "secret"]) == 0
    assert capsys.readouterr().out == "two\n— completed —\n"
    assert peer.headers[0]["last-event-id"] == "1"
    assert peer.headers[0]["authorization"] == "Bearer secret"


def test_a_run_that_was_read_to_its_end_is_looked_up_for_its_code() -> None:
    with served(Peer((204, b""), (200, {"status": "failed"}))) as peer:
        assert run(["tail", "r1", "--after", "9", "--url", peer.url]) == 1
