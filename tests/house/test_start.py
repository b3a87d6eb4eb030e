"""dev.py: what it refuses with a sentence, and when it has nothing to do."""

import ast
import platform
from pathlib import Path

import pytest

import dev
from tests.house import tree

OLD_PYTHON = (3, 7)  # must be able to read dev.py as far as the sentence that refuses it


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let dev.py work on an empty checkout of its own."""
    for name, file in {"LOCK": "requirements.lock", "PROJECT": "pyproject.toml", "VENV": ".venv"}.items():
        monkeypatch.setattr(dev, name, tmp_path / file)
    monkeypatch.setattr(dev, "STAMP", tmp_path / ".venv" / "stamp")
    monkeypatch.setattr(dev, "PYTHON", tmp_path / ".venv" / "python")
    (tmp_path / ".venv").mkdir()
    (tmp_path / "requirements.lock").write_text("click==8.1\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    return tmp_path


def test_an_old_python_can_read_dev() -> None:
    ast.parse(tree.text(tree.ROOT / "dev.py"), feature_version=OLD_PYTHON)


def test_dev_uses_the_standard_library_alone() -> None:
    nodes = list(ast.walk(tree.syntax(tree.ROOT / "dev.py")))
    names = {each.name for node in nodes if isinstance(node, ast.Import) for each in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= dev.sys.stdlib_module_names


def test_an_old_python_is_refused_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "OLDEST_PYTHON", (99, 0))
    with pytest.raises(dev.Refusal, match=f"needs Python .* this is {platform.python_version()}"):
        dev.main(["test"])


def test_an_unknown_command_is_refused() -> None:
    with pytest.raises(dev.Refusal, match="no command 'tests'"):
        dev.main(["tests"])


def test_a_failing_step_is_refused_by_its_purpose() -> None:
    with pytest.raises(dev.Refusal, match=r"^juggling failed"):
        dev.run([dev.sys.executable, "-c", "raise SystemExit(1)"], "juggling")


def test_an_unpinned_package_is_refused() -> None:
    assert dev.pinned("uv", "uv==1 \\\n    --hash=sha256:0\n    # via outlast\nclick==8\n") == (
        "uv==1 \\\n    --hash=sha256:0\n"
    )
    with pytest.raises(dev.Refusal, match="does not pin uv"):
        dev.pinned("uv", "uvicorn==1 \\\n    --hash=sha256:0\n")


@pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml"])
def test_a_change_of_what_the_set_up_depends_on_changes_the_fingerprint(checkout: Path, name: str) -> None:
    before = dev.fingerprint()
    assert dev.fingerprint() == before
    (checkout / name).write_text("changed\n")
    assert dev.fingerprint() != before


def test_a_set_up_with_its_stamp_is_left_alone_and_one_without_is_not(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def furnish() -> None:
        raise dev.Refusal("set up again")

    monkeypatch.setattr(dev, "furnish", furnish)
    dev.STAMP.write_text(dev.fingerprint())
    dev.prepare()
    (checkout / "requirements.lock").write_text("click==8.2\n")
    with pytest.raises(dev.Refusal, match="set up again"):
        dev.prepare()


@pytest.mark.parametrize(
    ("version", "folder", "fitting"),
    [(platform.python_version(), ".venv", True), ("3.0.0", ".venv", False), (platform.python_version(), "old", False)],
    ids=["its own", "another Python's", "moved"],
)
def test_a_venv_fits_this_python_in_this_folder_only(
    checkout: Path, version: str, folder: str, *, fitting: bool
) -> None:
    assert not dev.fits()
    dev.PYTHON.touch()
    configuration = f"version = {version}\ncommand = python3 -m venv {checkout / folder}\n"
    (dev.VENV / "pyvenv.cfg").write_text(configuration)
    assert dev.fits() is fitting
