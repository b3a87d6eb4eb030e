"""Loads a mutant beside the machine: its module, and whatever imports it, once more under the same names.

Rules:
1. Nothing of the real modules is touched; while a mutant loads its modules stand in `sys.modules`, and then no more.
2. What does not depend on the changed module is the real one, so that a mutant costs a few milliseconds.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from types import CodeType, ModuleType

from tests.mutants.making import FOLDER, PACKAGE, Mutant

TESTS = Path(__file__).parents[1]
DRIVERS = ("tests.machine", "tests.vectors", "tests.fuzz")
"""What drives a machine: it is loaded anew with each."""

World = Mapping[str, ModuleType]
"""The modules of a machine by their names, and of what drives it."""


@cache
def files() -> Mapping[str, Path]:
    """Return where each module of the machine is, of its drivers and of its tests."""
    machine = {f"{PACKAGE}.{path.stem}": path for path in FOLDER.glob("*.py") if path.stem != "__init__"}
    drivers = {name: TESTS / f"{name.rpartition('.')[2]}.py" for name in DRIVERS}
    units = {f"tests.unit.{path.stem}": path for path in (TESTS / "unit").glob("test_supervision_*.py")}
    return machine | drivers | units


@cache
def code(name: str) -> CodeType:
    """Return the code of a module as it is."""
    path = files()[name]
    return compile(path.read_text(encoding="utf-8"), str(path), "exec")


@cache
def order() -> Mapping[str, frozenset[str]]:
    """Return each module after all that it imports, with all that it depends on."""
    asked = {name: set(imported(path)) & set(files()) for name, path in files().items()}
    needs: dict[str, frozenset[str]] = {}
    for name in TopologicalSorter(asked).static_order():
        needs[name] = frozenset(asked[name]).union(*(needs[each] for each in asked[name]))
    return needs


def imported(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, and those that it might: `from package import name`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{each.name}" for each in node.names)


def load(mutant: Mutant, *wanted: str) -> World:
    """Load what is `wanted` of a mutant's world, with all that it needs; raises whatever that raises."""
    needed = {*wanted, mutant.module, *(need for each in wanted for need in order()[each])}
    anew = [name for name, needs in order().items() if name in needed and mutant.module in needs | {name}]
    packages = {name.rpartition(".")[0] for name in anew}
    before = {name: sys.modules.get(name) for name in [*packages, *anew]}
    try:
        for package in packages:
            # `from package import name` asks the package first.
            sys.modules[package] = ModuleType(package)
            vars(sys.modules[package]).update(vars(before[package] or import_module(package)))
        for name in anew:
            module = sys.modules[name] = ModuleType(name)
            module.__file__ = str(files()[name])
            package, _, short = name.rpartition(".")
            setattr(sys.modules[package], short, module)
            exec(mutant.compiled() if name == mutant.module else code(name), vars(module))
        return {name: sys.modules[name] if name in anew else import_module(name) for name in needed}
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
