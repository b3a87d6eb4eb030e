"""Retention: its defaults, and those that cannot work."""

import math
from typing import Any

import pytest

from outlast.errors import SettingsError
from outlast.log.limits import DAY
from outlast.retention import SHORTEST, Retention


def test_an_ended_run_is_kept_for_a_week_and_known_for_a_month() -> None:
    assert Retention() == Retention(finished=7 * DAY, gone=30 * DAY)


@pytest.mark.behaviour("B23")
@pytest.mark.parametrize("name", ["finished", "gone"])
@pytest.mark.parametrize("seconds", [0.0, -1.0, SHORTEST - 1])
def test_a_retention_nobody_comes_back_within_is_refused_with_what_to_do(name: str, seconds: float) -> None:
    with pytest.raises(SettingsError, match=rf"Retention\.{name} is .* at least 60: raise it"):
        Retention(**{name: seconds})


@pytest.mark.behaviour("B23")
@pytest.mark.parametrize("name", ["finished", "gone"])
@pytest.mark.parametrize("value", [-math.inf, math.nan, True, "600", None])
def test_a_retention_that_is_no_number_is_refused(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=rf"Retention\.{name} must be a number of seconds, or infinite"):
        Retention(**{name: value})


def test_the_shortest_and_for_ever_are_retentions() -> None:
    assert Retention(finished=SHORTEST, gone=math.inf).gone == math.inf
