"""A copy with other members, as `dataclasses.replace` makes it."""

from dataclasses import dataclass, replace

import pytest

from outlast.supervision.change import changed
from outlast.supervision.link import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    left: int
    right: str = "here"


def test_a_copy_differs_in_what_is_named_and_the_original_stays() -> None:
    pair = Pair(left=1)
    assert changed(pair, left=2) == replace(pair, left=2) == Pair(left=2)
    assert pair == Pair(left=1)


def test_a_copy_of_a_link_is_what_replace_makes_of_it() -> None:
    link = Link()
    assert changed(link, online=False, since=3.0) == replace(link, online=False, since=3.0)
    assert changed(link) == link


def test_a_copy_is_frozen() -> None:
    with pytest.raises(AttributeError):
        changed(Pair(left=1)).left = 2  # pyright: ignore[reportAttributeAccessIssue]
