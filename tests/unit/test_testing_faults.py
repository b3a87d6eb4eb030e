"""Who decides what goes wrong: scripts to the letter, dice by their seed, an outage for all."""

import random

import pytest

from outlast.errors import StoreUnavailable
from outlast.testing.faults import Dice, ErrorBefore, Gate, NoFaults, Outage, Script, Slow

AWAY = ErrorBefore(StoreUnavailable("away"))
SLOW = Slow(1.0)


def drawn(script: Script, operation: str, times: int) -> list[object]:
    return [script.draw(operation) for _ in range(times)]


def test_a_fault_befalls_its_operation_once_and_no_other() -> None:
    script = Script()
    assert script.add("append", AWAY) is AWAY
    assert script.draw("settle") is None
    assert drawn(script, "append", 2) == [AWAY, None]


def test_faults_skip_and_repeat_as_written_one_after_another() -> None:
    script = Script()
    script.add("append", AWAY, skip=1, times=2)
    script.add("append", SLOW, skip=1, times=None)
    assert drawn(script, "append", 6) == [None, AWAY, AWAY, None, SLOW, SLOW]
    script.clear()
    assert script.draw("append") is None


def test_dice_roll_by_their_chances_the_same_for_the_same_seed() -> None:
    def roll(seed: int) -> tuple[list[object], dict[str, int]]:
        dice = Dice(random.Random(seed), {lambda _: AWAY: 0.2, lambda roll: Slow(roll.random()): 0.2})
        return [dice.draw("append") for _ in range(1000)], dict(dice.rolled)

    faults, rolled = roll(1)
    assert (faults, rolled) == roll(1)
    assert faults != roll(2)[0]
    assert rolled["ErrorBefore"] == faults.count(AWAY)
    assert 150 < rolled["ErrorBefore"] < 250
    assert 110 < rolled["Slow"] < 210


def test_in_an_outage_every_operation_fails_and_without_faults_none() -> None:
    error = StoreUnavailable("away")
    assert Outage(error).draw("anything") == ErrorBefore(error)
    assert NoFaults().draw("anything") is None


@pytest.mark.anyio
async def test_a_gate_tells_that_somebody_came_and_stays_open() -> None:
    gate = Gate()
    assert not gate.entered.is_set()
    gate.open()
    await gate.wait()
    await gate.wait()
    assert gate.entered.is_set()
