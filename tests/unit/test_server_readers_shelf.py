"""The shelf: pages of logs are kept within a bound of bytes, the one that was used longest ago goes first."""

import pytest

from outlast.server.readers.shelf import OVERHEAD, FramedPage, Shelf
from outlast.server.readers.view import WHOLE, View

OTHER = View(types=frozenset({"text"}))


def page(size: int, seq: int = 1) -> FramedPage:
    """Return a page that is as heavy as so many pages of nothing."""
    return FramedPage(chunk=b"x" * (size * OVERHEAD - OVERHEAD), seq=seq)


def test_a_page_is_found_where_it_begins_and_for_its_view_alone() -> None:
    shelf, kept = Shelf(), page(10)
    shelf.keep(("l1", 0, WHOLE), kept)
    assert shelf.find(("l1", 0, WHOLE)) is kept
    for spot in [("l2", 0, WHOLE), ("l1", 1, WHOLE), ("l1", 0, OTHER)]:
        assert shelf.find(spot) is None


@pytest.mark.behaviour("F13")
def test_the_page_used_longest_ago_makes_room_for_another() -> None:
    shelf = Shelf(limit=30 * OVERHEAD)
    for seq in range(3):
        shelf.keep(("l", seq, WHOLE), page(10))
    assert shelf.find(("l", 0, WHOLE)) is not None
    shelf.keep(("l", 3, WHOLE), page(10))
    assert [seq for seq in range(4) if shelf.find(("l", seq, WHOLE))] == [0, 2, 3]
    assert shelf.bytes == 30 * OVERHEAD
    shelf.keep(("l", 4, WHOLE), page(25))
    assert [seq for seq in range(5) if shelf.find(("l", seq, WHOLE))] == [4]
    assert shelf.bytes == 25 * OVERHEAD


def test_a_page_that_is_kept_again_counts_once() -> None:
    shelf = Shelf(limit=30 * OVERHEAD)
    shelf.keep(("l", 0, WHOLE), page(10))
    shelf.keep(("l", 0, WHOLE), page(20, seq=2))
    found = shelf.find(("l", 0, WHOLE))
    assert found is not None
    assert (found.seq, shelf.bytes) == (2, 20 * OVERHEAD)


@pytest.mark.behaviour("F13")
def test_a_page_larger_than_the_whole_shelf_is_there_as_long_as_somebody_sends_it_and_costs_no_other_its_place() -> (
    None
):
    shelf, huge = Shelf(limit=30 * OVERHEAD), page(31)
    shelf.keep(("l", 0, WHOLE), page(10))
    shelf.keep(("l", 1, WHOLE), huge)
    assert shelf.find(("l", 1, WHOLE)) is huge
    del huge
    assert shelf.find(("l", 1, WHOLE)) is None
    assert shelf.find(("l", 0, WHOLE)) is not None
    assert shelf.bytes == 10 * OVERHEAD


@pytest.mark.behaviour("F13")
def test_pages_that_show_nothing_are_not_kept_without_end() -> None:
    shelf = Shelf(limit=30 * OVERHEAD)
    for seq in range(100):
        shelf.keep(("l", seq, OTHER), page(1))
    assert sum(shelf.find(("l", seq, OTHER)) is not None for seq in range(100)) == 30
