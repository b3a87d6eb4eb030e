"""The promises about what an application receives, each with histories that break it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import pytest

from outlast.client.received import Received, ReceivedEvent, ReceivedGap
from outlast.log.cursor import Cursor, chain, origin
from outlast.log.event import Event, StoredEvent
from outlast.log.fold import fold
from outlast.testing.history import History
from outlast.testing.invariants import CLIENTS, Violation, check
from outlast.testing.observation import CursorKept, Delivered, FollowBegan, FollowEnded

pytestmark = pytest.mark.invariant("client-exactly-once")

START = Cursor(0, None)
SAID = [
    Event("run.started", {"epoch": 1}),
    Event("text", "a"),
    Event("text", "b"),
    Event("run.restarted", {"keep": 0}),
    Event("text", "c"),
    Event("text", "d"),
    Event("tool", {"name": "e", "input": 1}),
    Event("run.completed", {}),
]
PLACES = chain(origin("log"), SAID)
LOG = [StoredEvent(cursor=place, event=event, epoch=1, time=0.0) for place, event in zip(PLACES, SAID, strict=True)]
OTHER = chain(origin("log"), [Event("text", "lost"), *SAID[1:]])

Done: TypeAlias = Received | Cursor | str
"""Took something, kept a cursor, `began` again at the one kept, `ended`."""


def took(seq: int) -> ReceivedEvent:
    return ReceivedEvent(cursor=PLACES[seq - 1], event=SAID[seq - 1])


def received(events: Sequence[StoredEvent]) -> tuple[ReceivedEvent, ...]:
    return tuple(ReceivedEvent(cursor=each.cursor, event=each.event) for each in events)


def gap(upto: int, *, first: int = 1, reason: str = "trimmed") -> ReceivedGap:
    left = [each for each in LOG if first <= each.seq <= upto]
    return ReceivedGap(
        reason=reason, requested=PLACES[0], first=first, cursor=PLACES[upto - 1], snapshot=received(fold(left))
    )


def kept(seq: int) -> Cursor:
    return PLACES[seq - 1]


def chronicle(*done: Done, log: Sequence[StoredEvent] = LOG, after: Cursor = START) -> History:
    history, cursor = History(), after
    history.note(FollowBegan(at=0.0, reader="tab", log="log", after=after))
    for each in done:
        match each:
            case Cursor():
                cursor = each
                history.note(CursorKept(at=0.0, reader="tab", log="log", cursor=each))
            case "began":
                history.note(FollowBegan(at=0.0, reader="tab", log="log", after=cursor))
            case "ended":
                history.note(FollowEnded(at=0.0, reader="tab", log="log"))
            case ReceivedEvent() | ReceivedGap():
                history.note(Delivered(at=0.0, reader="tab", log="log", received=each))
            case _:
                raise AssertionError(each)
    history.finish([], {"log": log})
    return history


def all_from(seq: int) -> list[Done]:
    return [took(each) for each in range(seq, len(SAID) + 1)]


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(chronicle(*all_from(1), "ended"), id="the whole log"),
        pytest.param(chronicle(took(1), took(2)), id="a part of it"),
        pytest.param(chronicle(*all_from(4), "ended", after=kept(3)), id="from a cursor on"),
        pytest.param(
            chronicle(took(1), kept(1), took(2), "began", *all_from(2), "ended"), id="again what was not kept"
        ),
        pytest.param(chronicle(*all_from(1), kept(8), "ended", "began", "ended"), id="again at the end"),
        pytest.param(chronicle(took(1), gap(6, first=3), *all_from(7), "ended"), id="over a gap"),
        pytest.param(chronicle(took(1), gap(6, first=3), kept(6), "began", *all_from(7), "ended"), id="back behind it"),
        pytest.param(chronicle(took(1), gap(8, first=3), "ended"), id="a gap up to the end"),
        pytest.param(chronicle(took(1), took(2), log=LOG[2:]), id="what was trimmed since"),
        pytest.param(
            chronicle(replace(took(1), cursor=OTHER[0], event=Event("text", "lost")), gap(6, reason="mismatch")),
            id="another log before a gap",
        ),
        pytest.param(chronicle(took(1), replace(gap(6), cursor=START, first=1, snapshot=()), took(1)), id="all anew"),
    ],
)
def test_what_keeps_the_promises_is_let_pass(history: History) -> None:
    check(history, CLIENTS)


@pytest.mark.parametrize(
    ("history", "words"),
    [
        (chronicle(took(1), took(1)), f"exactly-once: reader tab took {PLACES[0]} where 2 was next"),
        (chronicle(took(1), took(2), took(1)), f"took {PLACES[0]} where 3 was next"),
        (chronicle(took(1), took(3)), f"took {PLACES[2]} where 2 was next"),
        (chronicle(took(2)), f"took {PLACES[1]} where 1 was next"),
        (chronicle(took(1), gap(5, first=3), took(7)), f"took {PLACES[6]} where 6 was next"),
        (chronicle(took(1), kept(2)), f"kept {PLACES[1]} and had taken up to {PLACES[0]}"),
        (chronicle(took(1), OTHER[0]), f"kept {OTHER[0]} and had taken up to {PLACES[0]}"),
        (chronicle(took(1), kept(4), "began"), f"came back with {PLACES[3]} and had taken up to {PLACES[0]}"),
        (chronicle(took(1), replace(took(2), event=SAID[2])), f"same-bytes: reader tab took {PLACES[1]}, and log"),
        (chronicle(replace(took(1), cursor=OTHER[0])), f"took {OTHER[0]}, and log log has another event there"),
        (chronicle(took(1), took(2), log=LOG[:1]), f"took {PLACES[1]}, which log log does not hold"),
        (chronicle(took(1), log=[]), f"took {PLACES[0]}, which log log does not hold"),
        (chronicle(replace(gap(6), snapshot=gap(6).snapshot[:-1])), f"up to {PLACES[5]}, with what followed, is not"),
        (chronicle(replace(gap(6), snapshot=(*gap(6).snapshot, took(7)))), "with what followed, is not log"),
        (chronicle(replace(gap(6), cursor=OTHER[5])), f"was told a gap up to {OTHER[5]}, which log log does not hold"),
        (chronicle(replace(gap(6), snapshot=()), gap(8)), "gaps-are-bridged: the snapshot of reader tab"),
        (chronicle(gap(6, first=2), log=LOG[3:]), "log log begins at 4, and the gap of reader tab at 2"),
        (chronicle(*all_from(1), gap(8)), f"terminal-is-last: reader tab took {PLACES[7]} behind the terminal event"),
        (chronicle(gap(8), kept(8), "began", gap(8)), f"took {PLACES[7]} behind the terminal event"),
        (chronicle(took(1), "ended"), f"was told the end of log log at {PLACES[0]}"),
        (chronicle(*all_from(1)[:-1], "ended", log=LOG[:-1]), f"was told the end of log log at {PLACES[6]}"),
        (chronicle("ended", log=[]), "was told the end of log log at 0"),
    ],
)
def test_what_breaks_a_promise_is_found(history: History, words: str) -> None:
    with pytest.raises(Violation) as caught:
        check(history, CLIENTS)
    assert words in str(caught.value)


def test_readers_are_judged_one_by_one() -> None:
    history = chronicle(took(1), took(2))
    history.note(FollowBegan(at=0.0, reader="phone", log="log", after=START))
    history.note(Delivered(at=0.0, reader="phone", log="log", received=took(1)))
    check(history, CLIENTS)
    history.note(Delivered(at=0.0, reader="phone", log="log", received=took(1)))
    with pytest.raises(Violation, match="exactly-once: reader phone took"):
        check(history, CLIENTS)
