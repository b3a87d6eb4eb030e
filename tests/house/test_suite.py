"""What tests/conftest.py gives to every test, seen from a suite that runs under it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house import tree

SAMPLE = """
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


def outcome(sample: Path, *options: str) -> str:
    """Run a file as a suite of this house; answer what pytest says in the end."""
    command = [sys.executable, "-m", "pytest", "-c", "pyproject.toml", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    # A suite inside a suite must not take the outer one's workers or options for its own; and it may keep what it
    # compiled, else each of them compiles pytest's plugins again.
    outer = {name for name in os.environ if name.startswith("PYTEST_")} | {"PYTHONDONTWRITEBYTECODE"}
    environment = {name: value for name, value in os.environ.items() if name not in outer}
    done = subprocess.run(
        [*command, *options, str(sample)],
        cwd=tree.ROOT,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    return done.stdout


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "test_sample.py"
    path.write_text(SAMPLE, encoding="utf-8")
    return path


def test_a_long_form_is_skipped_by_name(sample: Path) -> None:
    said = outcome(sample)
    assert "2 passed, 1 skipped" in said
    assert "a long form: --all runs it" in said


def test_all_runs_the_long_forms_too(sample: Path) -> None:
    assert "3 passed" in outcome(sample, "--all")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("import warnings\ndef test_it() -> None:\n    warnings.warn('careless')\n", "UserWarning: careless"),
        (
            "import pytest\n@pytest.mark.behavior('B1')\ndef test_it() -> None: ...\n",
            "'behavior' not found in `markers`",
        ),
        ("import pytest\n@pytest.mark.xfail\ndef test_it() -> None: ...\n", "XPASS(strict)"),
    ],
    ids=["a warning", "an unknown marker", "an expected failure that passes"],
)
def test_carelessness_fails(sample: Path, wrong: str, said: str) -> None:
    sample.write_text(wrong, encoding="utf-8")
    assert said in outcome(sample)
