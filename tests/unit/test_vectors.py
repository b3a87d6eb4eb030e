"""The machine goes through every vector, millisecond by millisecond; the vectors are the promises in another form."""

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from outlast.supervision.commands import Command
from tests import vectors
from tests.vectors import FOLDER, Vector, kind

VECTORS = list(vectors.read())


@pytest.mark.behaviour("K1", "K2", "K3", "K4", "K5", "K6", "K7", "K8", "K9", "K10")
@pytest.mark.behaviour("K11", "K12", "K13", "K14", "K15", "K16", "K17", "K18")
@pytest.mark.behaviour("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9")
@pytest.mark.behaviour("P10", "P11", "P12", "P13", "P14", "P15", "P16", "P17")
@pytest.mark.behaviour("N1", "N2", "N4")
@pytest.mark.behaviour("R1", "R5", "R7", "R13")
@pytest.mark.behaviour("M2", "M4")
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector.behaviour}: {vector.name}")
def test_the_machine_does_what_the_vector_says(vector: Vector) -> None:
    vectors.run(vector)


def named(test: Any) -> set[str]:
    """Return the behaviours that a test is marked with."""
    return {name for mark in test.pytestmark if mark.name == "behaviour" for name in mark.args}


def test_every_behaviour_that_has_vectors_is_named_by_their_test() -> None:
    assert {each.behaviour for each in VECTORS} == named(test_the_machine_does_what_the_vector_says)


def test_every_file_is_one_promise_in_its_own_words() -> None:
    promises = tomllib.loads((Path(__file__).parent.parent / "behaviours.toml").read_text(encoding="utf-8"))
    for path in FOLDER.glob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        assert document["promise"] == promises["behaviour"][document["behaviour"]]["promise"]
        assert document["behaviour"] == path.stem


def test_every_vector_has_a_name_of_its_own() -> None:
    names = [(each.behaviour, each.name) for each in VECTORS]
    assert len(set(names)) == len(names)


def test_the_readme_names_every_input_and_every_command() -> None:
    told = set(re.findall(r"`(\w+)`", (FOLDER / "README.md").read_text(encoding="utf-8")))
    assert {*vectors.KINDS, *map(kind, get_args(Command))} <= told


def test_every_input_but_none_is_in_some_vector() -> None:
    used = {step["input"]["kind"] for each in VECTORS for step in each.steps if "input" in step}
    assert used == set(vectors.KINDS)


# ---- the runner can fail ----

SAMPLE = Vector(
    behaviour="K7",
    name="a sample",
    profile="standard",
    link={},
    steps=[
        {"at": 0, "input": {"kind": "want"}, "commands": [{"kind": "open", "attempt": 1, "transport": 0}]},
        {"at": 1, "phase": "connecting", "record": {"attempt": 1, "since": 0, "trouble": None, "can_send": False}},
    ],
)


def test_the_sample_holds() -> None:
    vectors.run(SAMPLE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"at": 1, "phase": "live"},
        {"at": 1, "commands": [{"kind": "release", "attempt": 1}]},
        {"at": 15},
        {"at": 1, "record": {"attempt": 2}},
        {"at": 1, "record": {"since": 0.001}},
        {"at": 1, "record": {"trouble": "busy"}},
        {"at": 1, "record": {"can_send": True}},
    ],
    ids=json.dumps,
)
def test_a_step_that_does_not_hold_is_found(wrong: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        vectors.run(replace(SAMPLE, steps=[SAMPLE.steps[0], wrong]))
