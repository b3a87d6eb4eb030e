import pytest

from outlast.server.ring import Ring


def frames(first: int, last: int) -> list[bytes]:
    return [b"%d;" % seq for seq in range(first, last + 1)]


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
    ring.push([b"a", b"b" * 100])
    assert (ring.base, ring.tail) == (1, 2)
    assert ring.after(1) == (b"b" * 100, 2)
    ring.push([b"c"])
    assert (ring.base, ring.tail) == (2, 3)


def test_it_gives_at_most_a_chunk_but_at_least_one_frame() -> None:
    ring = Ring(0, chunk=5)
    ring.push([*frames(1, 4), b"x" * 9])
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
    assert (seq, said) == (40, b"".join(frames(11, 40)))
