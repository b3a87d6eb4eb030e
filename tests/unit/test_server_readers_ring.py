from typing import Any

import pytest

from outlast.log.cursor import advance, origin
from outlast.log.event import JSON_TYPE, Event, StoredEvent
from outlast.server.readers.ring import JOINED, Entry, Ring
from outlast.server.readers.view import WHOLE, View
from outlast.wire import native


class Plain:
    """An entry whose frame is short, so that its place can be read in it."""

    type = "text"

    def __init__(self, frame: bytes) -> None:
        self.frame = frame

    def dressed(self, _view: View) -> bytes:
        return self.frame


def plain(*said: bytes) -> list[Any]:
    return [Plain(frame) for frame in said]


def frames(first: int, last: int) -> list[Any]:
    return plain(*(b"%d;" % seq for seq in range(first, last + 1)))


def joined(entries: list[Any]) -> bytes:
    return b"".join(entry.frame for entry in entries)


def test_a_ring_gives_what_follows_a_place_and_where_that_leads() -> None:
    ring = Ring(4)
    ring.push(frames(5, 8))
    assert ring.after(4) == (b"5;6;7;8;", 8)
    assert ring.after(7) == (b"8;", 8)


def test_at_its_tail_and_beyond_there_is_nothing_newer() -> None:
    ring = Ring(4)
    assert ring.after(4) == (b"", 4)
    ring.push(frames(5, 6))
    assert ring.after(6) == (b"", 6)
    assert ring.after(9) == (b"", 9), "a reader that asked the log itself may be ahead"


def test_it_does_not_reach_back_before_its_base() -> None:
    ring = Ring(4)
    ring.push(frames(5, 6))
    assert ring.after(3) is None


def test_the_oldest_frames_go_beyond_its_limit() -> None:
    ring = Ring(0, limit=8)
    ring.push(frames(1, 4))
    assert (ring.base, ring.tail) == (0, 4)
    ring.push(frames(5, 6))
    assert (ring.base, ring.tail) == (2, 6)
    assert ring.after(1) is None
    assert ring.after(2) == (b"3;4;5;6;", 6)


def test_the_newest_frame_stays_whatever_its_size() -> None:
    ring = Ring(0, limit=8)
    ring.push(plain(b"a", b"b" * 100))
    assert (ring.base, ring.tail) == (1, 2)
    assert ring.after(1) == (b"b" * 100, 2)
    ring.push(plain(b"c"))
    assert (ring.base, ring.tail) == (2, 3)


def test_it_gives_at_most_a_chunk_but_at_least_one_frame() -> None:
    ring = Ring(0, chunk=5)
    ring.push([*frames(1, 4), *plain(b"x" * 9)])
    assert ring.after(0) == (b"1;2;", 2)
    assert ring.after(2) == (b"3;4;", 4)
    assert ring.after(4) == (b"x" * 9, 5)


def test_readers_at_one_place_share_one_copy() -> None:
    ring = Ring(0)
    ring.push(frames(1, 3))
    first, second = ring.after(0), ring.after(0)
    assert first is not None
    assert first is second
    ring.push(frames(4, 4))
    assert ring.after(0) == (b"1;2;3;4;", 4)


@pytest.mark.parametrize("chunk", [1, 3, 7, 100])
def test_going_on_from_where_it_led_gives_everything_once(chunk: int) -> None:
    ring = Ring(10, chunk=chunk)
    ring.push(frames(11, 40))
    seq, said = 10, b""
    while (given := ring.after(seq)) and given[0]:
        said += given[0]
        assert given[1] > seq
        seq = given[1]
    assert (seq, said) == (40, joined(frames(11, 40)))


# ---- views --------------------------------------------------------------------------------------


def stored(*said: Event) -> list[StoredEvent]:
    cursor, found = origin("f00d"), []
    for event in said:
        cursor = advance(cursor, event)
        found.append(StoredEvent(cursor=cursor, event=event, epoch=3, time=7.25))
    return found


LOG = stored(
    Event("run.started", {}),
    Event("text", "a\u2028\ud83d"),
    Event("tool", b"{ }\r\n", content_type=JSON_TYPE),
    Event("bytes", bytes(range(256))),
    Event("text", "b"),
    Event("run.completed", {}),
)
TEXT = View(types=frozenset({"text"}))


def of_log(count: int = len(LOG), **options: int) -> Ring:
    ring = Ring(0, **options)
    ring.push([Entry(each) for each in LOG[:count]])
    return ring


@pytest.mark.behaviour("F1")
def test_a_view_gets_the_frames_it_shows_and_moves_behind_the_others() -> None:
    shown = [native.event_frame(each) for each in LOG if each.event.type in {"text", "run.completed"}]
    assert of_log().after(0, TEXT) == (b"".join(shown), 6)
    assert of_log(4).after(2, TEXT) == (b"", 4)
    assert of_log(4).after(4, TEXT) == (b"", 4)


def test_a_view_that_fills_a_chunk_goes_on_where_it_stopped() -> None:
    ring = of_log(chunk=1)
    seq, said, steps = 0, b"", 0
    while seq < ring.tail:
        given = ring.after(seq, TEXT)
        assert given is not None
        said, seq, steps = said + given[0], given[1], steps + 1
    assert said == b"".join(native.event_frame(LOG[index]) for index in (1, 4, 5))
    assert steps == 3


@pytest.mark.behaviour("F1")
def test_an_envelope_is_the_whole_event_and_is_made_once() -> None:
    for each in LOG:
        entry = Entry(each)
        assert entry.envelope == native.envelope_frame(each)
        assert native.line_in(entry.envelope) == native.event_json(each)
        assert entry.envelope is entry.envelope
        assert entry.stored == each


def test_a_ring_knows_the_cursor_of_what_it_holds() -> None:
    ring = of_log()
    assert [ring.cursor(seq) for seq in range(1, 7)] == [each.cursor for each in LOG]
    assert [entry.type for entry in ring.entries(4)] == ["text", "run.completed"]


def test_views_at_one_place_share_one_copy_each_and_few_are_remembered() -> None:
    ring = of_log()
    assert ring.after(0, TEXT) is ring.after(0, TEXT)
    assert ring.after(0, WHOLE) is ring.after(0, WHOLE)
    for number in range(3 * JOINED):
        ring.after(0, View(types=frozenset({str(number)})))
        assert len(ring._joined) <= JOINED
