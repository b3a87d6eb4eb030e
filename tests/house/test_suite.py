"""What tests/conftest.py and the settings of pytest give to every test, seen from a suite that runs under them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house import tree

FINE = """
import pytest
from hypothesis import settings

@pytest.mark.long
def test_a_long_form() -> None:
    pass

def test_an_example_has_no_clock_over_it() -> None:
    assert settings().deadline is None

@pytest.mark.anyio
async def test_an_async_test(anyio_backend_name: str) -> None:
    assert anyio_backend_name == "asyncio"
"""

# What is wrong in a file of tests, and what the suite says about it.
CARELESS = {
    "warning": ("import warnings\ndef test_it() -> None:\n    warnings.warn('careless')\n", "UserWarning: careless"),
    "marker": (
        "import pytest\n@pytest.mark.behavior('B1')\ndef test_it() -> None: ...\n",
        "'behavior' not found in `markers`",
    ),
    "surprise": ("import pytest\n@pytest.mark.xfail\ndef test_it() -> None: ...\n", "XPASS(strict)"),
    "thread": (
        """
import threading

def test_it() -> None:
    threading.Thread(target=threading.Event().wait, args=[30], name="outlast-forgotten", daemon=True).start()
""",
        "thread 'outlast-forgotten' at",
    ),
    "task": (
        """
import asyncio
import pytest

forgotten = set()

@pytest.mark.anyio
async def test_it() -> None:
    forgotten.add(asyncio.create_task(asyncio.Event().wait(), name="forgotten-task"))
""",
        "task 'forgotten-task' waits in",
    ),
}


def outcome(folder: Path, *options: str) -> str:
    """Run a folder as a suite of this house; answer all that pytest says."""
    command = [sys.executable, "-m", "pytest", "-c", "pyproject.toml", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    # A suite inside a suite must not take the outer one's workers or options for its own; and it may keep what it
    # compiled, else each of them compiles pytest's plugins again.
    outer = {name for name in os.environ if name.startswith("PYTEST_")} | {"PYTHONDONTWRITEBYTECODE"}
    environment = {name: value for name, value in os.environ.items() if name not in outer}
    done = subprocess.run(
        [*command, *options, str(folder)],
        cwd=tree.ROOT,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    return done.stdout


@pytest.fixture(scope="module")
def careless(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Run all careless files as one suite."""
    folder = tmp_path_factory.mktemp("careless")
    for name, (source, _) in CARELESS.items():
        (folder / f"test_{name}.py").write_text(source, encoding="utf-8")
    return outcome(folder, "--continue-on-collection-errors")


@pytest.mark.parametrize("name", CARELESS)
def test_carelessness_fails(careless: str, name: str) -> None:
    _, said = CARELESS[name]
    assert said in careless
    assert re.search(rf"^(FAILED|ERROR) .*\btest_{name}\.py", careless, re.MULTILINE)


@pytest.mark.parametrize(
    ("options", "ending"),
    [([], "2 passed, 1 skipped"), (["--all"], "3 passed")],
    ids=["short", "all"],
)
def test_long_forms_are_skipped_unless_all_is_asked_for(tmp_path: Path, options: list[str], ending: str) -> None:
    (tmp_path / "test_fine.py").write_text(FINE, encoding="utf-8")
    said = outcome(tmp_path, *options)
    assert ending in said
    assert ("a long form: --all runs it" in said) is (not options)
