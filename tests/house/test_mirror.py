"""Every source module is proved in the test file that bears its name."""

from pathlib import Path

from tests.house import tree

# Modules and whole rooms whose proof stands elsewhere: where, and why. An entry that is no longer needed fails.
ELSEWHERE = {
    "outlast.stores.base": "ports without code: tests/contract holds every store to their docstrings",
    "outlast.client.keeper": "a port without code: tests/contract/test_keep.py holds what keeps to its docstring",
    "outlast.client.transport": "ports without code: tests/unit/test_client_http.py holds what connects to them",
    "outlast.testing.contract": "tests themselves, which tests/contract runs",
}


def expected(module: str) -> str:
    """Name the test file of a module: outlast.wire.sse is proved in tests/unit/test_wire_sse.py."""
    return f"tests/unit/test_{module.removeprefix('outlast.').replace('.', '_')}.py"


def unproved(modules: list[str], present: set[str], elsewhere: dict[str, str]) -> list[str]:
    """Say which modules have no test file, and which exceptions are needless."""
    without = [name for name in modules if expected(name) not in present]
    missing = [f"{name}: {expected(name)} is missing" for name in without if not tree.under(name, list(elsewhere))]
    needless = [f"{room}: needs no exception" for room in elsewhere if not any(tree.under(m, [room]) for m in without)]
    return missing + needless


def counts(path: Path) -> bool:
    """Tell whether a file holds code of its own: front doors and start scripts do not."""
    return path.stem not in {"__init__", "__main__"} and "web" not in path.relative_to(tree.SOURCE).parts


def test_every_module_has_its_test_file() -> None:
    modules = [tree.dotted(path) for path in tree.modules() if counts(path)]
    present = {tree.place(path) for path in tree.modules(tree.TESTS / "unit")}
    complaints = unproved(modules, present, ELSEWHERE)
    assert not complaints, "\n".join(complaints)


# ---- this test can fail ----


def test_a_missing_test_file_and_a_needless_exception_are_found() -> None:
    modules = ["outlast.wire.sse", "outlast.run", "outlast.stores.sqlite.store"]
    elsewhere = {"outlast.stores.sqlite": "tests/contract", "outlast.run": "nowhere", "outlast.old": "gone"}
    assert unproved(modules, {"tests/unit/test_run.py"}, elsewhere) == [
        "outlast.wire.sse: tests/unit/test_wire_sse.py is missing",
        "outlast.run: needs no exception",
        "outlast.old: needs no exception",
    ]
