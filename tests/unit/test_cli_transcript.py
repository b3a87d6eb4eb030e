"""How each event is shown to a person, and to a program."""

import io
import json
from dataclasses import replace

import pytest

from outlast.cli.terminal import Plain, Style
from outlast.cli.transcript import COMPACT, Listing, Transcript, as_json, compact
from outlast.client.received import Received, ReceivedEvent, ReceivedGap
from outlast.log.cursor import Cursor
from outlast.log.event import JSON, Event, restore


class Recorder(Plain):
    """A plain screen that remembers where something was folded away, and how lines looked."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.styles: list[Style] = []
        self.asides = 0
        super().__init__(self.stream, io.StringIO())

    def line(self, text: str, style: Style = Style.PLAIN) -> None:
        self.styles.append(style)
        super().line(text, style)

    def aside(self, text: str) -> None:
        self.asides += 1
        super().aside(text)

    def fold(self) -> None:
        self.stream.write("<fold>")

    def keep(self) -> None:
        self.stream.write("<keep>")


def event(seq: int, type: str, data: JSON | bytes = None) -> ReceivedEvent:
    return ReceivedEvent(cursor=Cursor(seq, None), event=Event(type, data))


def told(*received: Received) -> str:
    screen = Recorder()
    transcript = Transcript(screen)
    for each in received:
        transcript.take(each)
    return screen.stream.getvalue()


def test_text_flows_and_the_start_is_not_worth_a_line() -> None:
    assert told(event(1, "run.started", {}), event(2, "text", "one"), event(3, "text", " two")) == "one two"


def test_a_takeover_folds_away_what_came_before_and_is_a_line_that_stays() -> None:
    restarted = event(3, "run.restarted", {"epoch": 2, "attempt": 2, "cause": "crash", "keep": 0})
    assert told(event(2, "text", "half"), restarted) == "half<fold>\n— taken over: attempt 2 (crash) —\n<keep>"


def test_a_takeover_that_keeps_something_folds_nothing_away() -> None:
    restarted = event(9, "run.restarted", {"epoch": 2, "attempt": 2, "cause": "crash", "keep": 7})
    assert told(restarted) == "— taken over: attempt 2 (crash) —\n<keep>"


@pytest.mark.parametrize(
    ("type", "data", "line"),
    [
        ("run.completed", {}, "— completed —"),
        ("run.cancelled", {"reason": "enough"}, "— stopped: enough —"),
        ("run.cancelled", {"reason": None}, "— stopped —"),
        ("run.failed", {"code": "worker_error", "message": "It raised."}, "— failed: worker_error: It raised. —"),
        ("run.failed", [], "— failed: ?: ? —"),
    ],
)
def test_the_outcome_is_the_last_line(type: str, data: JSON, line: str) -> None:
    assert told(event(2, "text", "end."), event(3, type, data)) == f"end.\n{line}\n<keep>"


def test_a_tool_takes_one_line_of_little_importance() -> None:
    screen = Recorder()
    transcript = Transcript(screen)
    transcript.take(event(1, "tool.call", {"id": "1", "tool": "read_docs", "arguments": {"module": "heapq"}}))
    transcript.take(event(2, "tool.result", {"id": "1", "tool": "read_docs", "result": {"text": "a\nb" * 999}}))
    call, answer = screen.stream.getvalue().splitlines()
    assert call == 'tool.call read_docs {"module":"heapq"}'
    assert answer.startswith('tool.result read_docs {"text":"a\\nba')
    assert len(answer) == COMPACT
    assert screen.asides == 2


@pytest.mark.parametrize(
    ("received", "line"),
    [
        (event(1, "data", {"a": [1, None]}), 'data {"a":[1,null]}'),
        (event(1, "text", {"not": "text"}), 'text {"not":"text"}'),
        (event(1, "audio", b"\x00" * 12), "audio (12 bytes)"),
        (ReceivedEvent(cursor=Cursor(1, None), event=restore("x", b"{", "application/json")), "x (1 bytes)"),
    ],
)
def test_any_other_event_takes_one_line(received: Received, line: str) -> None:
    assert told(received) == line + "\n"


def test_a_tool_cannot_act_on_a_terminal_through_its_line() -> None:
    assert compact("x", {"tool": "a\x1b[2J\nb", "result": "\u202e\x9b"}) == 'x a␛[2J␊b "\\u202e\\u009b"'


def test_a_gap_is_a_line_and_what_comes_anew_is_folded_away() -> None:
    gap = ReceivedGap(reason="mismatch", requested=Cursor(5, None), first=1, cursor=Cursor(0, None))
    line = "— gap: the log has another past than this reader has read —"
    assert told(gap) == f"{line}\n<keep>"
    assert told(event(5, "text", "five"), gap) == f"five<fold>\n{line}\n<keep>"
    left = ReceivedEvent(cursor=Cursor(2, None), event=Event("text", "left"))
    assert told(event(5, "text", "five"), replace(gap, snapshot=(left,))) == f"five<fold>\n{line}\n<keep>left"


# ---- for programs -------------------------------------------------------------------------------


def test_a_listing_is_one_json_object_a_line_in_ascii() -> None:
    screen = Recorder()
    listing = Listing(screen)
    listing.take(event(1, "text", "é\x1b\n\u2028"))
    listing.take(event(2, "audio", b"\x00\x01"))
    first, second = screen.stream.getvalue().splitlines()
    assert first.isascii()
    assert json.loads(first) == {"cursor": "1", "seq": 1, "type": "text", "data": "é\x1b\n\u2028"}
    assert json.loads(second) == {
        "cursor": "2",
        "seq": 2,
        "type": "audio",
        "data_base64": "AAE=",
        "content_type": "application/octet-stream",
    }


def test_a_gap_is_an_object_of_its_own() -> None:
    gap = ReceivedGap(reason="ahead", requested=Cursor(9, None), first=1, cursor=Cursor(0, None))
    told = {"reason": "ahead", "requested": "9", "cursor": "0", "first": 1, "snapshot": []}
    assert json.loads(as_json(gap)) == {"gap": told}
    event = ReceivedEvent(cursor=Cursor(2, None), event=Event("text", "left"))
    said = json.loads(as_json(replace(gap, snapshot=(event,))))["gap"]["snapshot"]
    assert said == [json.loads(as_json(event))]
