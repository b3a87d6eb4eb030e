"""Runs the vectors of `vectors/` on the machine in Python, as their README says it; other languages run the same files.

Rules:
1. A step without an input lets time go on: time is told at each deadline up to the step's moment, that one included.
2. A step with one lets time go on first, but not as far as what comes due at the same moment. Where the input is time's
   own, it is late: nothing was told of what came due before.
3. Commands are all that were given since the step before, in their order; a step that names none expects none.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from outlast.supervision.commands import Command
from outlast.supervision.inputs import Input, Tick
from outlast.supervision.link import Link
from outlast.supervision.phase import Grade, Trouble, Wakeup
from outlast.supervision.profile import PROFILES
from outlast.supervision.record import record
from tests.machine import Machine

FOLDER = Path(__file__).parent.parent / "vectors"
TOLERANCE = 1e-6
"""Seconds: what sums of decimal fractions may be apart in binary; a thousandth of the vectors' millisecond."""
WORDS = {"wakeup": Wakeup, "trouble": Trouble, "grade": Grade}


@cache
def kind(fact: type) -> str:
    """Return what a fact is called in a vector: `WentOffline` is `went_offline`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", fact.__name__).lower()


KINDS = {kind(each): each for each in get_args(Input)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """One course of a link; `behaviour` is the promise that it is an example of."""

    behaviour: str
    name: str
    profile: str
    link: dict[str, Any]
    steps: list[dict[str, Any]]


def read(folder: Path = FOLDER) -> Iterator[Vector]:
    """Yield every vector, in the order of the files' names."""
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        for each in document["vectors"]:
            yield Vector(behaviour=document["behaviour"], **{"link": {}, **each})


def input_of(told: dict[str, Any]) -> Input:
    """Return an input from its JSON."""
    members = {name: WORDS[name](value) if name in WORDS else value for name, value in told.items() if name != "kind"}
    return KINDS[told["kind"]](**members)


def written(command: Command) -> dict[str, Any]:
    """Return a command as JSON has it."""
    return {"kind": kind(type(command)), **asdict(command)}


def run(vector: Vector) -> None:
    """Go through a vector; fails at the first step after which the machine is not as it says."""
    machine = Machine(link=Link(profile=PROFILES[vector.profile], **vector.link))
    for number, step in enumerate(vector.steps, 1):
        at, where = step["at"], f"step {number}, at {step['at']} s"
        machine.jitter = step.get("jitter", 0.5)
        told = input_of(step["input"]) if "input" in step else None
        commands = [] if isinstance(told, Tick) else machine.wait(at + (TOLERANCE if told is None else -TOLERANCE))
        machine.now = at
        if told is not None:
            commands += machine.tell(told)
        given = [written(each) for each in commands]
        assert given == step.get("commands", []), f"{where}: {given}"
        assert machine.phase == step.get("phase", machine.phase), f"{where}: {machine.phase}"
        shown = record(machine.link) if "record" in step else None
        for name, value in step.get("record", {}).items():
            expected = pytest.approx(value, abs=2 * TOLERANCE) if isinstance(value, float | int) else value
            found = getattr(shown, name)
            assert found == expected, f"{where}: {name} is {found}"
