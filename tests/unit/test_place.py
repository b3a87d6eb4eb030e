"""A place is one run's, one owner's, one view's."""

from dataclasses import FrozenInstanceError, replace

import pytest

from outlast.log.cursor import Cursor
from outlast.place import Place

PLACE = Place(run="r1", owner=None, types=None, cursor=Cursor(3, None))


def test_another_view_of_the_same_run_is_another_place() -> None:
    assert replace(PLACE, types="text") != PLACE
    assert replace(PLACE, owner="ann") != PLACE


def test_a_place_is_over_only_when_that_is_said_and_never_changes() -> None:
    assert not PLACE.over
    with pytest.raises(FrozenInstanceError):
        PLACE.over = True  # type: ignore[misc]
