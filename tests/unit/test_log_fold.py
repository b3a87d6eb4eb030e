"""What is left of a log for someone who reads it only now."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.log.cursor import chain, origin
from outlast.log.event import Event, StoredEvent
from outlast.log.fold import MERGED, fold, kept_seq, rewind

Seen: TypeAlias = tuple[int, str, Any]


def log_of(events: Sequence[Event]) -> list[StoredEvent]:
    cursors = chain(origin("log1"), events)
    return [
        StoredEvent(cursor=cursor, event=event, epoch=1, time=float(cursor.seq))
        for cursor, event in zip(cursors, events, strict=True)
    ]


def seen(events: Iterable[StoredEvent]) -> list[Seen]:
    return [(stored.seq, stored.event.type, stored.event.data) for stored in events]


def text(said: str) -> Event:
    return Event("text", said)


def restarted(keep: int) -> Event:
    return Event("run.restarted", {"keep": keep})


STARTED = Event("run.started", {})
TOOL = Event("tool", 1)


# ---- rewinding ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "kept"),
    [
        ([], []),
        ([STARTED, text("a"), TOOL], [1, 2, 3]),
        ([STARTED, text("a"), TOOL, restarted(0)], [1, 4]),
        ([STARTED, text("a"), TOOL, restarted(2)], [1, 2, 4]),
        ([STARTED, text("a"), TOOL, restarted(3)], [1, 2, 3, 4]),
        ([STARTED, text("a"), restarted(0), text("b"), restarted(0), text("c")], [1, 3, 5, 6]),
        ([STARTED, text("a"), restarted(2), text("b"), restarted(2), text("c")], [1, 2, 3, 5, 6]),
        ([restarted(0), text("a")], [1, 2]),
    ],
)
def test_a_restart_takes_back_what_came_after_its_mark_but_not_our_own_events(
    events: list[Event], kept: list[int]
) -> None:
    assert [stored.seq for stored in rewind(log_of(events))] == kept


@pytest.mark.parametrize(
    ("data", "keep"),
    [({"keep": 7}, 7), ({"keep": 0}, 0), ({}, 0), ({"keep": "7"}, 0), ({"keep": None}, 0), ([7], 0), (7, 0), (b"7", 0)],
)
def test_a_restart_that_does_not_tell_keeps_nothing(data: Any, keep: int) -> None:
    assert kept_seq(Event("run.restarted", data)) == keep


# ---- merging --------------------------------------------------------------------------------


def test_adjacent_texts_become_one_at_the_place_of_the_last() -> None:
    events = log_of([text("a"), text("b"), TOOL, text("c"), text(""), text("d")])
    assert seen(fold(events)) == [(2, "text", "ab"), (3, "tool", 1), (6, "text", "cd")]


def test_a_merged_text_keeps_the_cursor_the_epoch_and_the_time_of_its_last_part() -> None:
    events = log_of([text("a"), text("b")])
    merged = fold(events)[0]
    assert (merged.cursor, merged.epoch, merged.time) == (events[1].cursor, events[1].epoch, events[1].time)


@pytest.mark.parametrize(
    "other", [Event("note", "n"), Event("text", b"a", content_type="text/plain"), Event("text", {"a": 1})]
)
def test_what_is_no_text_or_no_string_stands_alone(other: Event) -> None:
    assert seen(fold(log_of([text("a"), other, text("b")]))) == [
        (1, "text", "a"),
        (2, other.type, other.data),
        (3, "text", "b"),
    ]


def test_texts_are_merged_after_the_rewinds() -> None:
    events = log_of([STARTED, text("a"), text("b"), restarted(0), text("c"), text("d")])
    assert seen(fold(events)) == [(1, "run.started", {}), (4, "run.restarted", {"keep": 0}), (6, "text", "cd")]


# ---- a prefix and the rest ------------------------------------------------------------------

said = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3).map(text), st.just(TOOL), st.just(STARTED)
)


MARK = Event("run.checkpoint", {})


@st.composite
def logs_with_checkpoints(draw: st.DrawFn) -> list[Event]:
    """A log as controllers write it: each restart keeps nothing, or what came up to one of the run's checkpoints."""
    events: list[Event] = []
    for part in draw(st.lists(said | st.just(MARK) | st.just(None), max_size=16)):
        marks = [seq for seq, event in enumerate(events, 1) if event is MARK]
        events.append(restarted(draw(st.sampled_from([0, *marks]))) if part is None else part)
    return events


@pytest.mark.behaviour("F8")
@given(logs_with_checkpoints())
def test_folding_a_prefix_and_going_on_from_its_end_is_folding_the_whole_at_every_place(said: list[Event]) -> None:
    events = log_of(said)
    whole = seen(fold(events))
    for cut in range(len(events) + 1):
        assert seen(fold([*fold(events[:cut]), *events[cut:]])) == whole


@pytest.mark.behaviour("F8")
@given(logs_with_checkpoints())
def test_that_holds_where_merged_texts_are_full_too(said: list[Event]) -> None:
    events = log_of(said)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("outlast.log.fold.MERGED", 4)
        whole = fold(events)
        assert fold(whole) == whole
        for cut in range(len(events) + 1):
            assert fold([*fold(events[:cut]), *events[cut:]]) == whole
    assert all(len(str(stored.event.data)) < 4 + 3 for stored in whole if stored.event.type == "text")


@pytest.mark.fault("X14")
def test_a_text_is_never_merged_into_a_giant() -> None:
    folded = fold(log_of([text("x" * 1000)] * 1000))
    assert sum(len(str(stored.event.data)) for stored in folded) == 1_000_000
    assert [len(str(stored.event.data)) - MERGED < 1000 for stored in folded] == [True] * 4
    assert folded[0].seq == -(-MERGED // 1000)


@pytest.mark.behaviour("F8")
def test_a_checkpoint_keeps_texts_apart_that_a_later_restart_divides() -> None:
    events = log_of([text("a"), text("b"), MARK, text("c"), restarted(3), text("d")])
    assert seen(fold(events[:4])) == [(2, "text", "ab"), (3, "run.checkpoint", {}), (4, "text", "c")]
    assert [stored.event.data for stored in fold(events) if stored.event.type == "text"] == ["ab", "d"]


@given(st.lists(said | st.integers(0, 12).map(restarted), max_size=12))
def test_folding_twice_is_folding_once(events: list[Event]) -> None:
    once = fold(log_of(events))
    assert fold(once) == once


@given(st.lists(said | st.integers(0, 12).map(restarted), max_size=12))
def test_a_fold_loses_no_text_that_was_not_taken_back(events: list[Event]) -> None:
    log = log_of(events)
    whole = "".join(str(stored.event.data) for stored in rewind(log) if stored.event.type == "text")
    assert "".join(str(stored.event.data) for stored in fold(log) if stored.event.type == "text") == whole
