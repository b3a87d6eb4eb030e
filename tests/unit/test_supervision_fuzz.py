"""A million steps that chance draws: nothing leaks, spins or is torn down, and every transition is seen."""

import random

import pytest

from outlast.supervision.phase import Phase
from outlast.supervision.table import TRANSITIONS
from tests import fuzz

PART = 200_000


@pytest.mark.behaviour("K18", "P11", "P14", "R1", "R5", "M4")
@pytest.mark.parametrize("part", range(4))
def test_steps_that_chance_draws_keep_every_rule(part: int) -> None:
    seed = random.SystemRandom().randrange(2**32)  # a failure names its own
    assert fuzz.courses(seed, PART), f"part {part}, from seed {seed}"


def test_courses_that_were_drawn_once_keep_every_rule_and_see_every_transition() -> None:
    passed = fuzz.courses(7, PART)
    lawful = {(phase, after) for phase, row in TRANSITIONS.items() for after in row}
    assert set(passed) == lawful
    assert passed[Phase.LIVE, Phase.SLOW] > PART / 500
