"""What a fact may hold: enums, numbers and ids that Outlast minted."""

import dataclasses
from enum import Enum
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest

from outlast import facts
from outlast.facts import Fact, RunReleased
from outlast.run import Cause

EVERY = [value for value in vars(facts).values() if dataclasses.is_dataclass(value) and isinstance(value, type)]

OUR_TEXT = {
    "run": "the identity of a log",
    "node": "an id minted for a node",
    "error": "the name of an exception's type",
    "frames": "files, lines and functions",
    "during": "the name of one of our loops",
    "hook": "the name of a kind of hook",
}
"""The members that are text, and why that text cannot come from outside."""


def is_safe(hint: Any) -> bool:
    """Whether no value of this type can carry a word from outside."""
    kinds = set(get_args(hint) or [hint]) - {NoneType}
    return all(kind in {int, float, bool} or issubclass(kind, Enum) for kind in kinds)


@pytest.mark.parametrize("fact", EVERY, ids=lambda fact: fact.__name__)
def test_a_fact_holds_enums_numbers_and_minted_ids(fact: type) -> None:
    hints = get_type_hints(fact)
    assert hints, "a fact says something"
    text = {name for name, hint in hints.items() if not is_safe(hint)}
    assert text <= set(OUR_TEXT)


@pytest.mark.parametrize("fact", EVERY, ids=lambda fact: fact.__name__)
def test_a_fact_is_about_a_run_a_node_a_loop_of_ours_or_a_hook(fact: type) -> None:
    assert {"run", "runs", "node", "during", "hook"} & set(get_type_hints(fact))


def test_the_union_of_facts_names_each_of_them_once() -> None:
    named = get_args(Fact)
    assert set(named) == set(EVERY)
    assert len(named) == len(EVERY)


@pytest.mark.parametrize("fact", EVERY, ids=lambda fact: fact.__name__)
def test_a_fact_cannot_be_changed_or_extended(fact: Any) -> None:
    assert fact.__dataclass_params__.frozen
    assert "__slots__" in vars(fact)
    assert all(field.kw_only for field in dataclasses.fields(fact))


def test_a_report_is_handed_the_fact_itself() -> None:
    reported: list[Fact] = []
    report: facts.Report = reported.append
    report(RunReleased(run="log1", cause=Cause.STORE))
    assert reported == [RunReleased(run="log1", cause=Cause.STORE)]
