"""A diary writes down what an application did, in its order, and keeps its cursor."""

from collections.abc import AsyncIterator

import pytest

from outlast.client.received import Received, ReceivedEvent
from outlast.log.cursor import Cursor, chain, origin
from outlast.log.event import Event
from outlast.testing.diary import START, Diary
from outlast.testing.observation import CursorKept, Delivered, FollowBegan, FollowEnded, Observation

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

SAID = [Event("text", "a"), Event("run.completed", {})]
RECEIVED = [
    ReceivedEvent(cursor=cursor, event=event) for cursor, event in zip(chain(origin("log"), SAID), SAID, strict=True)
]


async def stream(*received: Received) -> AsyncIterator[Received]:
    for each in received:
        yield each


async def test_it_writes_down_what_was_done_and_comes_back_with_what_was_kept() -> None:
    noted: list[Observation] = []
    diary = Diary("tab", "log", note=noted.append)
    first, second = RECEIVED
    assert diary.begin() == START
    diary.take(first)
    diary.keep(first.cursor)
    diary.take(second)
    assert diary.begin() == diary.cursor == first.cursor
    await diary.read(stream(second))
    assert diary.begin(Cursor(0, None)) == START
    assert [type(each) for each in noted] == [
        *(FollowBegan, Delivered, CursorKept, Delivered),
        *(FollowBegan, Delivered, CursorKept, FollowEnded),
        FollowBegan,
    ]
    assert noted[5] == Delivered(at=0.0, reader="tab", log="log", received=second)
    assert noted[6] == CursorKept(at=0.0, reader="tab", log="log", cursor=second.cursor)
