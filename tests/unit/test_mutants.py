"""Each guard of the client's machine has a mutant that is caught, and each invariant a machine that breaks it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import fuzz
from tests.mutants import making
from tests.mutants.alike import NAMES
from tests.mutants.making import Mutant
from tests.mutants.tables import Appendix
from tests.mutants.trial import SEED, caught
from tests.mutants.world import load
from tests.mutants.wrong import WRONG

FEW = 20_000
"""Steps within which chance finds each machine that is wrong."""
MANY = 5_000
"""Steps in which chance finds nothing wrong with a machine in another form."""
TOGETHER = 40
"""Mutants of one table that are tried in one test."""


@cache
def gathered() -> dict[str, list[Mutant]]:
    """Return all mutants by where they are: those of one function together, and of a table so many."""
    found: dict[str, list[Mutant]] = {}
    for each in making.every():
        found.setdefault(each.where, []).append(each)
    parts: dict[str, list[Mutant]] = {}
    for where, mutants in found.items():
        for start in range(0, len(mutants), TOGETHER):
            parts[where if start == 0 else f"{where} from {start}"] = mutants[start : start + TOGETHER]
    return parts


@pytest.mark.parametrize("where", list(gathered()))
def test_every_mutant_is_caught(where: str) -> None:
    alive = [each.name for each in gathered()[where] if each.name not in NAMES and caught(each, steps=0) is None]
    assert not alive, "\n".join(alive)


def test_every_mutant_has_a_name_of_its_own() -> None:
    names = [each.name for each in making.every()]
    assert len(set(names)) == len(names)


# ---- what nothing can tell ----


def alike() -> list[Mutant]:
    """Return the mutants that are the machine in another form."""
    return [each for each in making.every() if each.name in NAMES]


def test_what_is_alike_is_there() -> None:
    assert {each.name for each in alike()} == NAMES


def test_what_is_alike_is_not_caught() -> None:
    found = {each.name: caught(each, steps=0) for each in alike()}
    assert not any(found.values()), found


@pytest.mark.long
@pytest.mark.parametrize("mutant", alike(), ids=lambda mutant: mutant.name)
def test_chance_does_not_tell_what_is_alike_either(mutant: Mutant) -> None:
    assert caught(mutant, steps=MANY) is None


# ---- the invariants can fail ----


def invariants() -> Iterator[str]:
    """Yield what each check of a course says where it fails."""
    for node in ast.walk(ast.parse(Path(fuzz.__file__).read_text(encoding="utf-8"))):
        match node:
            case ast.Assert(msg=ast.Constant(value=str(message))):
                yield message
            case ast.Assert(msg=ast.JoinedStr() as message):
                yield ast.unparse(message)[2:-1]
            case ast.Assert():
                yield ast.unparse(node)
            case _:
                pass


def test_every_invariant_has_a_machine_that_breaks_it() -> None:
    assert sorted(invariants()) == sorted(WRONG)


@pytest.mark.parametrize("invariant", WRONG)
def test_a_machine_that_breaks_an_invariant_is_found_out_by_it(invariant: str) -> None:
    module, source = WRONG[invariant]
    wrong = making.appended(Appendix(module=module, source=source, change=f"against: {invariant}"))
    said = re.sub(r"\\\{\w+\\\}", r"\\w+", re.escape(invariant))
    with pytest.raises(AssertionError) as raised:
        load(wrong, "tests.fuzz")["tests.fuzz"].courses(SEED, FEW)
    assert re.fullmatch(said, str(raised.value)), raised.value
