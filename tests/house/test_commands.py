"""The README, dev.py and CI name the same commands; what the commands install is locked."""

import os
import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import dev
from tests.house import tree

README = tree.ROOT / "README.md"
CI = tree.ROOT / ".ci" / "run"
LOCK = tree.ROOT / "requirements.lock"


def told(readme: str) -> list[str]:
    """Read the dev.py commands out of a README's shell blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("python3 dev.py ")]


def run_by(script: str) -> list[str]:
    """Read what a CI script runs, less what only prepares the shell."""
    lines = [line.strip() for line in script.splitlines()]
    return [line for line in lines if line and not line.startswith(("#", "set ", "cd "))]


def disagreements(readme: str, script: str) -> list[str]:
    """Say in what CI and the README differ."""
    commands, steps = told(readme), run_by(script)
    tests = [command for command in commands if command.split()[2] == "test"]
    found = [f"CI runs something the README does not tell: {step}" for step in steps if step not in commands]
    if len(tests) != 1:
        found.append(f"the README must tell one test command, not {len(tests)}")
    found += [f"CI does not run the README's {command}" for command in tests if command not in steps]
    return found


def unlocked(requirements: list[str], lock: str) -> list[str]:
    """Say which requirements a lock file does not meet."""
    pins = dict(re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", lock, re.MULTILINE))
    wanted = [Requirement(each) for each in requirements]
    return [str(each) for each in wanted if not each.specifier.contains(pins.get(canonicalize_name(each.name), "0"))]


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert not disagreements(tree.text(README), tree.text(CI))


def test_ci_is_a_strict_script_that_can_be_called() -> None:
    lines = tree.text(CI).splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    assert os.access(CI, os.X_OK)


def test_every_command_that_is_told_exists() -> None:
    told_of = {command.split()[2] for command in told(tree.text(README))}
    assert {"demo", "test", "check"} <= told_of <= dev.COMMANDS.keys()
    assert all(f"  {name} " in dev.usage() for name in dev.COMMANDS)


def test_the_lock_meets_every_requirement_and_names_no_host() -> None:
    project = tomllib.loads(tree.text(tree.ROOT / "pyproject.toml"))
    extras = project["project"].get("optional-dependencies", {}).values()
    groups = project["dependency-groups"].values()
    wanted = [*project["project"]["dependencies"], *(each for group in [*extras, *groups] for each in group)]
    assert not unlocked(wanted, tree.text(LOCK))
    assert "://" not in tree.text(LOCK)


def test_uv_is_cut_out_of_the_lock_with_its_hashes() -> None:
    block = dev.pinned("uv", tree.text(LOCK))
    assert block.startswith("uv==")
    assert block.count("--hash=sha256:") > 1
    assert "via" not in block
    assert block.count("==") == 1


# ---- these tests can fail ----


def test_a_drifted_command_is_found() -> None:
    readme = "```sh\npython3 dev.py test   # all\npython3 dev.py check\n```\n"
    assert not disagreements(readme, "#!/bin/sh\nset -eu\npython3 dev.py test\n")
    assert disagreements(readme, "python3 dev.py tests\n") == [
        "CI runs something the README does not tell: python3 dev.py tests",
        "CI does not run the README's python3 dev.py test",
    ]
    assert disagreements("no commands", "") == ["the README must tell one test command, not 0"]


def test_a_missing_and_an_old_pin_are_found() -> None:
    lock = "click==8.0 \\\n    --hash=sha256:0\nhttpx2==2.1\n"
    assert unlocked(["click>=8.1", "httpx2>=2", "uvicorn>=0.35"], lock) == ["click>=8.1", "uvicorn>=0.35"]
