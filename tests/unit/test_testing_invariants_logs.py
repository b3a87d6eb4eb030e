"""The promises about logs and their readers, each with histories that break it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from outlast.log.cursor import Cursor, Gap, GapReason
from outlast.log.event import Event, StoredEvent
from outlast.testing.history import History
from outlast.testing.invariants import logs
from outlast.testing.observation import Appended, EventTaken, GapTold, ReadingEnded
from tests.chronicle import FAILED, TAKEN_OVER, edit, log_of, place, repeat, sentences

Breaks = Callable[[History], None]


def log(history: History, id: str = TAKEN_OVER) -> list[StoredEvent]:
    stored = history.logs[log_of(history, id)]
    assert isinstance(stored, list)
    return stored


def said(stored: StoredEvent, text: str) -> StoredEvent:
    return replace(stored, event=Event("text", text))


# ---- what is stored -----------------------------------------------------------------------------


def hole(history: History) -> None:
    del log(history)[1]


def doubled(history: History) -> None:
    log(history).insert(1, log(history)[1])


def altered(history: History) -> None:
    log(history)[1] = said(log(history)[1], "another")


def swapped(history: History) -> None:
    stored = log(history)
    stored[1], stored[2] = stored[2], stored[1]


@pytest.mark.invariant("dense-chain")
@pytest.mark.parametrize("breaks", [hole, doubled, altered, swapped])
def test_a_log_that_is_not_dense_or_not_chained_is_found(breaks: Breaks) -> None:
    (sentence,) = sentences(logs.dense_chain, breaks)
    assert "belongs" in sentence


def unterminated(history: History) -> None:
    log(history).pop()


def twice_terminated(history: History) -> None:
    log(history).append(log(history)[-1])


def continued(history: History) -> None:
    log(history).append(said(log(history)[-1], "after the end"))


def contradicted(history: History) -> None:
    failed = log(history, FAILED)[-1].event
    log(history)[-1] = replace(log(history)[-1], event=failed)


def terminated_without_an_outcome(history: History) -> None:
    key = log_of(history, TAKEN_OVER)
    history.rows[key] = replace(history.rows[key], outcome=None)


@pytest.mark.invariant("one-terminal")
@pytest.mark.behaviour("W12")
@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        (unterminated, "has 0 terminal events"),
        (twice_terminated, "has 2 terminal events"),
        (continued, "or something behind one"),
        (contradicted, "says completed, its last event run.failed"),
        (terminated_without_an_outcome, "and its run no outcome"),
    ],
)
def test_a_log_without_exactly_one_terminal_at_its_end_is_found(breaks: Breaks, words: str) -> None:
    (sentence,) = sentences(logs.one_terminal, breaks)
    assert words in sentence


def answered_too_far(history: History) -> None:
    edit(history, Appended, lambda each: replace(each, previous=Cursor(each.previous.seq + 1, None)))


def answered_what_is_not_there(history: History) -> None:
    edit(history, Appended, lambda each: replace(each, head=Cursor(each.head.seq, bytes(8))))


def told_what_is_not_there(history: History) -> None:
    cursor = Cursor(99, bytes(8))
    repeat(history, EventTaken, lambda each: replace(each, stored=replace(each.stored, cursor=cursor)))


@pytest.mark.invariant("no-invented-seq")
@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        (answered_too_far, "moved log"),
        (answered_what_is_not_there, "an append was answered"),
        (told_what_is_not_there, "reader reader was told 99"),
    ],
)
def test_a_place_that_the_log_does_not_hold_is_found(breaks: Breaks, words: str) -> None:
    (sentence,) = sentences(logs.no_invented_seq, breaks)
    assert words in sentence


@pytest.mark.behaviour("F8")
def test_a_log_whose_snapshot_does_not_go_on_to_the_whole_is_found() -> None:
    def taken_back_inside_a_text(history: History) -> None:
        first = log(history)[1]
        texts = [replace(first, cursor=Cursor(seq, bytes(8))) for seq in range(1, 5)]
        back = Event("run.restarted", {"keep": 1})  # inside what a fold has merged by then
        stored = [*texts, replace(first, cursor=Cursor(5, bytes(8)), event=back)]
        history.logs[log_of(history, TAKEN_OVER)] = stored

    assert any(
        "does not go on to the whole" in each for each in sentences(logs.snapshot_of_the_log, taken_back_inside_a_text)
    )


# ---- what was taken of it -----------------------------------------------------------------------


def missed(history: History) -> None:
    del history.observations[place(history, EventTaken, which=1)]


def taken_twice(history: History) -> None:
    repeat(history, EventTaken, which=1)


def another_event(history: History) -> None:
    edit(
        history,
        EventTaken,
        lambda each: replace(each, stored=replace(each.stored, cursor=Cursor(each.stored.seq, bytes(8)))),
        which=1,
    )


@pytest.mark.invariant("one-log")
@pytest.mark.behaviour("F3")
@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        (missed, "took 3 where 2 was next"),
        (taken_twice, "took 2 where 3 was next"),
        (another_event, "another event there"),
    ],
)
def test_a_reader_with_a_hole_a_double_or_another_log_is_found(breaks: Breaks, words: str) -> None:
    assert any(words in sentence for sentence in sentences(logs.one_log, breaks))


def gap(history: History, first: int) -> GapTold:
    told = Gap(reason=GapReason.TRIMMED, requested=Cursor(1, None), first=first)
    return GapTold(at=0.0, reader="reader", log=log_of(history, TAKEN_OVER), gap=told)


def test_a_hole_that_was_told_is_none() -> None:
    def told(history: History) -> None:
        at = place(history, EventTaken, which=1)
        history.observations[at] = gap(history, 3)

    assert not sentences(logs.one_log, told)
    assert not sentences(logs.reader_saw_the_log, told)


def other_bytes(history: History) -> None:
    edit(history, EventTaken, lambda each: replace(each, stored=said(each.stored, "bent")), which=1)


def ended_early(history: History) -> None:
    at = place(history, ReadingEnded)
    history.observations.insert(place(history, EventTaken, which=2), history.observations.pop(at))


@pytest.mark.invariant("reader-saw-the-log")
@pytest.mark.parametrize("breaks", [missed, taken_twice, other_bytes, ended_early])
def test_a_reader_that_came_to_the_end_with_something_else_is_found(breaks: Breaks) -> None:
    (sentence,) = sentences(logs.reader_saw_the_log, breaks)
    assert "was told the end" in sentence


@pytest.mark.invariant("durable-before-visible")
@pytest.mark.behaviour("F2")
def test_an_event_taken_before_the_store_had_it_is_found() -> None:
    def early(history: History) -> None:
        edit(history, EventTaken, lambda each: replace(each, durable=False))

    (sentence,) = sentences(logs.durable_before_visible, early)
    assert "before the store had it" in sentence
