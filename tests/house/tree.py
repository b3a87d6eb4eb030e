"""The files this house is made of, as the house tests read them."""

import ast
import functools
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "outlast"
TESTS = ROOT / "tests"


def modules(folder: Path = SOURCE) -> list[Path]:
    """List the Python files of a folder, in order."""
    return sorted(folder.rglob("*.py"))


def proofs() -> list[Path]:
    """List the files that hold tests: all of tests/, and the contract that is shipped for the stores of others."""
    return [*modules(TESTS), *modules(SOURCE / "testing" / "contract")]


def dotted(path: Path) -> str:
    """Name a source file as Python imports it; a package is named for its folder."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def place(path: Path) -> str:
    """Name a file as a person would, from the top of the checkout."""
    return path.relative_to(ROOT).as_posix()


@functools.cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def syntax(path: Path) -> ast.Module:
    return ast.parse(text(path), filename=str(path))


@functools.cache
def configuration() -> dict[str, Any]:
    return tomllib.loads(text(ROOT / "pyproject.toml"))


def contract(name: str) -> dict[str, Any]:
    """Find one of the import contracts by its id."""
    contracts = configuration()["tool"]["importlinter"]["contracts"]
    return next(each for each in contracts if each["id"] == name)


def under(module: str, rooms: list[str]) -> bool:
    """Tell whether a module is one of the rooms, or lies in one."""
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


def ground() -> list[Path]:
    """List the files of the ground floor, as the import contract names it."""
    return [path for path in modules() if under(dotted(path), contract("pure")["source_modules"])]


@functools.cache
def tracked() -> list[Path]:
    """List what git keeps, less what has been deleted since."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout: nothing is tracked")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True, encoding="utf-8"
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]
