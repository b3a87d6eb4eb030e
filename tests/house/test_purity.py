"""The ground floor cannot wait: what its modules may not do, beyond what an import contract can say."""

import ast
from collections.abc import Iterator

from tests.house import tree

# Imports of the whole package are judged by the contract; these are the parts of permitted ones that talk.
PARTS = {"urllib.request", "importlib.resources"}
# datetime is needed to write a time down; asking it for the present is the clock by another door.
CLOCKS = {"now", "utcnow", "today"}
DOORS = {"open", "print", "input", "__import__"}


def impurities(syntax: ast.AST, forbidden: set[str]) -> Iterator[str]:
    """Find what waits, ticks, rolls dice or talks."""
    for node in ast.walk(syntax):
        line = f"line {getattr(node, 'lineno', 0)}"
        match node:
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                yield f"{line}: waits"
            case ast.Import(names=names):
                wrong = [each.name for each in names if {each.name, each.name.split(".")[0]} & forbidden]
                yield from (f"{line}: imports {name}" for name in wrong)
            case ast.ImportFrom(module=str(name)) if {name, name.split(".")[0]} & forbidden:
                yield f"{line}: imports {name}"
            case ast.Call(func=ast.Attribute(attr=name)) if name in CLOCKS:
                yield f"{line}: asks the clock"
            case ast.Call(func=ast.Name(id=name)) if name in DOORS:
                yield f"{line}: calls {name}()"
            case _:
                pass


def test_the_ground_floor_is_pure() -> None:
    forbidden = {*tree.contract("pure")["forbidden_modules"], *PARTS}
    found = [
        f"{tree.place(path)}, {what}" for path in tree.ground() for what in impurities(tree.syntax(path), forbidden)
    ]
    assert not found, "\n".join(found)


# ---- this test can fail ----


def test_each_kind_of_impurity_is_found() -> None:
    source = """
import time
import os.path
from asyncio import sleep
from urllib.request import urlopen
from urllib.parse import quote
async def wait(): ...
def tick(): return datetime.now(UTC)
def talk(): print(1)
def lazy():
    import sqlite3
"""
    assert sorted(impurities(ast.parse(source), {"time", "os", "asyncio", "sqlite3", *PARTS})) == [
        "line 11: imports sqlite3",
        "line 2: imports time",
        "line 3: imports os.path",
        "line 4: imports asyncio",
        "line 5: imports urllib.request",
        "line 7: waits",
        "line 8: asks the clock",
        "line 9: calls print()",
    ]


def test_the_ground_floor_is_not_empty() -> None:
    assert {"outlast.run", "outlast.log.cursor"} <= {tree.dotted(path) for path in tree.ground()}
