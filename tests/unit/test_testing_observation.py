"""Observations are facts: they never change, and say the same for the same."""

import dataclasses
from typing import get_args

import pytest

from outlast.testing import observation
from outlast.testing.observation import CallBegan, Observation


def test_every_kind_of_observation_is_one_of_the_union_and_tells_when() -> None:
    kinds = {
        each
        for each in vars(observation).values()
        if dataclasses.is_dataclass(each) and "observation" in each.__module__
    }
    assert set(get_args(Observation)) == kinds
    assert all("at" in {field.name for field in dataclasses.fields(kind)} for kind in kinds)


def test_an_observation_never_changes() -> None:
    seen = CallBegan(at=1.0, run="r1", epoch=1, number=1)
    assert seen == CallBegan(at=1.0, run="r1", epoch=1, number=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        seen.at = 2.0  # type: ignore[misc]
