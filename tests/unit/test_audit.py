"""What an audit finds: nothing in a run that tells one story, and each way in which one does not."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.audit import MOST, Account, Audit
from outlast.lineage import Entry, Kind
from outlast.log.cursor import Cursor, chain, origin
from outlast.log.event import Event
from outlast.run import Cause, Status, terminal
from outlast.run import Completed as Done

EVENTS = [Event("run.started", {"epoch": 1}), Event("text", "a"), Event("text", "b"), terminal(Done())]
CURSORS = chain(origin("log"), EVENTS)
LOG = list(zip(CURSORS, EVENTS, strict=True))
FIRST = Entry(epoch=1, claim="c1", node="a", at=1.0, kind=Kind.CLAIM, cause=None, calls=0)
SECOND = Entry(epoch=2, claim="c2", node="b", at=2.0, kind=Kind.TAKEOVER, cause=Cause.CRASH, calls=1)
LINEAGE = [FIRST, SECOND]
ACCOUNT = Account(status=Status.COMPLETED, epoch=2, takeovers=1, handoffs=0, calls=2, head=CURSORS[-1], first=1)


def findings(
    log: list[tuple[Cursor, Event]] | None = None, lineage: list[Entry] | None = None, **changes: Any
) -> list[str]:
    account = replace(ACCOUNT, **changes)
    judge = Audit("log", first=account.first)
    for cursor, event in LOG if log is None else log:
        judge.take(cursor, event)
    return judge.close(account, LINEAGE if lineage is None else lineage)


@pytest.mark.behaviour("L1")
def test_a_run_that_tells_one_story_is_sound() -> None:
    assert findings() == []
    active = {"status": Status.ACTIVE, "head": CURSORS[1]}
    assert findings(LOG[:2], **active) == []
    assert findings([], [], status=Status.QUEUED, epoch=0, takeovers=0, calls=0, head=origin("log")) == []


@pytest.mark.behaviour("L1")
@pytest.mark.parametrize(
    ("log", "part"),
    [
        ([LOG[0], *LOG[2:]], "hole"),
        ([*LOG[:2], LOG[1], *LOG[2:]], "twice"),
        ([LOG[0], (CURSORS[1], Event("text", "x")), *LOG[2:]], "Event 2 does not continue the chain"),
        ([LOG[0], (CURSORS[1], Event("text", b'"a"', content_type="text/plain")), *LOG[2:]], "Event 2"),
        (LOG[:3], "ends at event 3"),
        ([*LOG[:3], (Cursor(4, None), Event("text", "c"))], "no terminal event"),
        ([*LOG, (Cursor(5, None), Event("text", "after"))], "Event 5 follows the terminal event"),
        ([(Cursor(cursor.seq, None), Event("text", "x")) for cursor in CURSORS], "chain is not the one"),
    ],
)
def test_a_log_that_is_not_what_was_said_is_found_out(log: list[tuple[Cursor, Event]], part: str) -> None:
    assert any(part in finding for finding in findings(log))


def test_a_log_of_another_run_is_found_out_at_its_first_event() -> None:
    judge = Audit("another")
    judge.take(*LOG[0])
    assert judge.findings == ["Event 1 does not continue the chain: it is not what was written."]


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"status": Status.FAILED}, "The run is failed, and its log says run.completed."),
        ({"status": Status.ACTIVE}, "The run is active, and its log says run.completed."),
        ({"epoch": 3}, "lineage ends at 2"),
        ({"calls": 0}, "counts 1 calls"),
        ({"takeovers": 2}, "counts 1 of kind takeover, and the row charged 2"),
        ({"handoffs": 1}, "counts 0 of kind handoff"),
    ],
)
def test_a_row_that_tells_another_story_is_found_out(changes: dict[str, Any], part: str) -> None:
    assert [finding for finding in findings(**changes) if part in finding]


@pytest.mark.parametrize(
    ("second", "part"),
    [
        (replace(SECOND, epoch=3), "Epoch 3 follows epoch 1"),
        (replace(SECOND, at=0.5), "earlier time"),
        (replace(SECOND, calls=-1), "fewer calls"),
    ],
)
def test_a_lineage_that_does_not_go_forwards_is_found_out(second: Entry, part: str) -> None:
    assert any(part in finding for finding in findings(lineage=[FIRST, second]))


def test_nothing_follows_a_settling_without_a_controller() -> None:
    settled = replace(FIRST, kind=Kind.SETTLE, node=None)
    assert "Epoch 2 follows the settling of the run." in findings(lineage=[settled, SECOND])


def test_what_was_not_kept_yet_is_a_note_and_nothing_wrong() -> None:
    judge = Audit("log", first=3)
    for cursor, event in LOG[2:]:
        judge.take(cursor, event)
    assert judge.close(replace(ACCOUNT, first=3), [SECOND]) == []
    assert [note.split(":")[0] for note in judge.notes] == [
        "The log begins at event 3",
        "Lineages were not kept before epoch 2 of this run.",
    ]
    old = Audit("log")
    for cursor, event in LOG:
        old.take(cursor, event)
    assert old.close(ACCOUNT, []) == []
    assert old.notes == ["The run was claimed before lineages were kept."]


def test_findings_are_bounded() -> None:
    found = findings([(Cursor(10 * seq, None), Event("text", "x")) for seq in range(1, 100)])
    assert len(found) == MOST + 1
    assert found[-1].startswith("And ")
