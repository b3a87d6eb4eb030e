"""Inputs are facts: equal where they say the same, and each kind has its row in the table."""

from dataclasses import fields
from typing import get_args

import pytest

from outlast.supervision.inputs import Failed, Heard, Input, Lost, Ready, Woken
from outlast.supervision.phase import Grade, Trouble, Wakeup
from outlast.supervision.table import RULES

KINDS = get_args(Input)


def test_inputs_are_facts() -> None:
    assert Heard(link=1) == Heard(link=1, progress=False)
    assert Woken(wakeup=Wakeup.USER) == Woken(wakeup=Wakeup.USER, seconds=0.0)
    assert Ready(attempt=1).heartbeat is None
    assert Failed(attempt=1, trouble=Trouble.BROKEN).pause == Lost(link=1, trouble=Trouble.BROKEN).pause == 0.0


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_has_its_row_and_a_wakeup_one_for_each_reason(kind: type) -> None:
    assert kind in RULES or kind is Woken
    assert set(Wakeup) <= set(RULES)


@pytest.mark.behaviour("P18")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_input_carries_a_text_from_outside(kind: type) -> None:
    assert {field.type for field in fields(kind)} <= {int, float, bool, float | None, Trouble, Wakeup, Grade}
