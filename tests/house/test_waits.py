"""Tests neither sleep nor mock: they order what happens, on real parts."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house import tree

SLEEPERS = {"time", "asyncio", "anyio", "trio"}
# A module that brings the virtual clock, or whose folder does, may let it pass: there a sleep costs nothing, is exact.
VIRTUAL = "outlast.testing.clock"
MARK = "pytest.mark.virtual"
# What is tested, not a test, and why it sleeps. An entry that is no longer needed fails.
SUBJECTS = {
    "tests/integration/application.py": "a worker that takes its time, and one that blocks the event loop (H16)",
    "tests/integration/busy.py": "a process that is stopped for as long as a test says (X16)",
    "tests/integration/comparison.py": "a measurement, of servers that stand still for a minute and of loops that wait",
}
MOCKS = {"mock", "unittest", "pytest_mock"}


def is_virtual(syntax: ast.AST) -> bool:
    """Tell whether a file brings the virtual clock, or marks its tests for it."""
    return any(
        (isinstance(node, ast.ImportFrom) and node.module == VIRTUAL)
        or (isinstance(node, ast.Attribute) and ast.unparse(node) == MARK)
        for node in ast.walk(syntax)
    )


def lives_virtually(path: Path) -> bool:
    """Tell whether the folder of a file brings the virtual clock to everything in it."""
    fixtures = path.with_name("conftest.py")
    return fixtures.is_file() and is_virtual(tree.syntax(fixtures))


def shortcuts(syntax: ast.AST, *, virtual: bool = False) -> Iterator[str]:
    """Find sleeps and mocks; `asyncio.sleep(0)` is a way to let others run, not a sleep."""
    sleepers = SLEEPERS - {"asyncio"} if virtual or is_virtual(syntax) else SLEEPERS
    for node in ast.walk(syntax):
        line = f"line {getattr(node, 'lineno', 0)}"
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="sleep"), args=arguments):
                if owner in sleepers and [ast.unparse(each) for each in arguments] != ["0"]:
                    yield f"{line}: sleeps"
            case ast.ImportFrom(module=str(module), names=names):
                if module in sleepers and any(each.name == "sleep" for each in names):
                    yield f"{line}: imports sleep"
                if module.split(".")[0] in MOCKS:
                    yield f"{line}: mocks"
            case ast.Import(names=names) if any(each.name.split(".")[0] in MOCKS for each in names):
                yield f"{line}: mocks"
            case ast.arg(arg="mocker"):
                yield f"{line}: mocks"
            case _:
                pass


def test_tests_neither_sleep_nor_mock() -> None:
    found = {
        tree.place(path): list(shortcuts(tree.syntax(path), virtual=lives_virtually(path))) for path in tree.proofs()
    }
    taken = [f"{place}, {what}" for place, each in found.items() for what in each if place not in SUBJECTS]
    needless = [f"{place}: no exception needed" for place in SUBJECTS if not found.get(place)]
    assert not taken + needless, "\n".join(taken + needless)


# ---- this test can fail ----


def test_each_kind_of_sleep_and_mock_is_found() -> None:
    source = """
import unittest.mock
from unittest import mock
from time import sleep
def test_it(mocker):
    time.sleep(1)
    asyncio.sleep(0)
    asyncio.sleep(delay)
"""
    assert sorted(shortcuts(ast.parse(source))) == [
        "line 2: mocks",
        "line 3: mocks",
        "line 4: imports sleep",
        "line 5: mocks",
        "line 6: sleeps",
        "line 8: sleeps",
    ]


def test_a_sleep_on_the_virtual_clock_costs_nothing_and_one_of_the_thread_does() -> None:
    for clock in ("from outlast.testing.clock import VirtualLoop", "pytestmark = [pytest.mark.virtual]"):
        assert list(shortcuts(ast.parse(f"{clock}\nasyncio.sleep(5)\ntime.sleep(5)\n"))) == ["line 3: sleeps"]


def test_a_folder_that_brings_the_virtual_clock_brings_it_to_all_in_it() -> None:
    assert lives_virtually(tree.TESTS / "simulation" / "world.py")
    assert not lives_virtually(tree.TESTS / "unit" / "test_run.py")
    assert list(shortcuts(ast.parse("asyncio.sleep(5)\ntime.sleep(5)\n"), virtual=True)) == ["line 2: sleeps"]
