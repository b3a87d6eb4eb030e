"""Tries a mutant: the vectors that come where it is changed, then the unit tests of its module, then chance.

Rules:
1. A vector that does not come to the changed spot cannot tell it from the machine, and is not asked.
2. What has caught most is asked first: what is easy to catch is caught by few.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any

import pytest

from outlast.supervision.inputs import Woken
from outlast.supervision.step import step
from tests import vectors
from tests.mutants.making import FOLDER, Mutant
from tests.mutants.world import load
from tests.vectors import Vector

SEED = 7
"""The first of the courses that chance draws: always the same ones."""

_catches: defaultdict[str, Counter[int]] = defaultdict(Counter)


@cache
def known() -> Sequence[Vector]:
    """Return every vector, the shortest first."""
    return sorted(vectors.read(), key=lambda each: len(each.steps))


@cache
def travelled() -> Mapping[Hashable, Sequence[int]]:
    """Return which vectors come to each spot of the machine, by their numbers in `known`."""
    found: dict[Hashable, list[int]] = {}
    spots: set[Hashable] = set()

    def call(frame: FrameType, _event: str, _argument: object) -> Any:
        path = frame.f_code.co_filename
        if not path.startswith(str(FOLDER)):
            return None
        module, told = Path(path).stem, frame.f_locals
        was = told["link"].phase if frame.f_code is step.__code__ else None
        if was is not None:
            input = told["input"]
            spots.add((input.wakeup if isinstance(input, Woken) else type(input), was))

        def line(frame: FrameType, event: str, consequence: Any) -> Any:
            if event == "line":
                spots.add((module, frame.f_lineno))
            elif was is not None and consequence is not None:
                spots.add((was, consequence[0].phase))
            return line

        return line

    before = sys.gettrace()
    for number, vector in enumerate(known()):
        spots.clear()
        spots.add(vector.profile)
        sys.settrace(call)
        try:
            vectors.run(vector)
        finally:
            sys.settrace(before)
        for each in spots:
            found.setdefault(each, []).append(number)
    return found


def asked(mutant: Mutant) -> Sequence[int]:
    """Return the vectors that may tell a mutant from the machine, those first that have caught most there so far."""
    numbers = range(len(known())) if mutant.spot is None else travelled().get(mutant.spot, ())
    there = _catches[mutant.where]
    return sorted(numbers, key=lambda each: (-there[each], -_catches[""][each]))


def caught(mutant: Mutant, *, steps: int) -> str | None:
    """Return what catches a mutant, None where nothing does; chance has so many `steps`. It must load."""
    run = load(mutant, "tests.vectors")["tests.vectors"].run
    for number in asked(mutant):
        if fails(run, known()[number]):
            _catches[mutant.where][number] += 1
            _catches[""][number] += 1
            return f"vector {known()[number].behaviour}: {known()[number].name}"
    units = f"tests.unit.test_supervision_{mutant.module.rpartition('.')[2]}"
    world = load(mutant, units, "tests.fuzz")
    for name, test, arguments in tests(world[units]):
        if fails(test, **arguments):
            return f"test {name}"
    return "chance" if fails(world["tests.fuzz"].courses, SEED, steps) else None


def fails(test: Any, *arguments: object, **options: object) -> bool:
    """Tell whether a check fails, in whatever way."""
    try:
        test(*arguments, **options)
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - whatever it is, the machine does not
        return True
    return False


def tests(module: ModuleType) -> Iterator[tuple[str, FunctionType, dict[str, object]]]:
    """Yield every test of a module, with each set of its parameters; none of them asks for a fixture."""
    for name, test in vars(module).items():
        if not (name.startswith("test_") and isinstance(test, FunctionType)):
            continue
        marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
        rows = [[parameters(mark.args[0], row) for row in mark.args[1]] for mark in marks]
        for chosen in product(*rows):
            yield name, test, {key: value for row in chosen for key, value in row.items()}


def parameters(names: str | Sequence[str], row: Any) -> dict[str, object]:
    """Return the parameters of one row by their names."""
    listed = [each.strip() for each in names.split(",")] if isinstance(names, str) else list(names)
    values = row.values if isinstance(row, type(pytest.param())) else row
    return dict(zip(listed, [values] if len(listed) == 1 else values, strict=True))
