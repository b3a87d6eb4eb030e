"""Finding the object to serve, and the sentence where there is none."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.assembly.outlast import Outlast
from outlast.cli.target import load
from outlast.errors import SettingsError

APP = """
from outlast import Outlast
outlast = Outlast("sqlite://")
class Rooms:
    inner = outlast
number = 7
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own to import from, forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    known = set(sys.modules)
    (tmp_path / "sample_app.py").write_text(APP)
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.startswith("sample_"):
            del sys.modules[name]


@pytest.mark.parametrize("target", ["sample_app:outlast", "sample_app:Rooms.inner"])
def test_an_object_is_found_from_the_current_folder(target: str) -> None:
    assert isinstance(load(target), Outlast)


def test_a_module_in_a_package_is_found(folder: Path) -> None:
    (folder / "sample_package").mkdir()
    (folder / "sample_package" / "inner.py").write_text(APP)
    assert isinstance(load("sample_package.inner:outlast"), Outlast)


@pytest.mark.parametrize(
    "target", ["", "sample_app", "sample_app:", ":outlast", "a b:c", "sample_app:x()", "./app.py:x"]
)
def test_what_is_no_name_is_told_the_form(target: str) -> None:
    with pytest.raises(SettingsError, match="MODULE:ATTRIBUTE"):
        load(target)


@pytest.mark.parametrize(
    ("target", "missing"), [("sample_none:x", "sample_none"), ("sample_app.deeper:x", "sample_app.deeper")]
)
def test_a_missing_module_is_named(target: str, missing: str) -> None:
    with pytest.raises(SettingsError, match=f"There is no module {missing} here"):
        load(target)


def test_a_missing_attribute_leads_to_the_object_that_is_there() -> None:
    with pytest.raises(SettingsError, match=r"no `app` in sample_app\. Did you mean `sample_app:outlast`\?"):
        load("sample_app:app")


def test_an_object_of_another_type_is_refused_by_its_type() -> None:
    with pytest.raises(SettingsError, match=r"of type int\. Did you mean `sample_app:outlast`\?"):
        load("sample_app:number")


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (
            "import sample_missing",
            r"ModuleNotFoundError: No module .* \(.*sample_bad\.py, line 1\)",
        ),
        ("\n1 / 0", r"ZeroDivisionError: division by zero \(.*sample_bad\.py, line 2\)"),
        ("\n\nx = = 1", r"invalid syntax \(.*sample_bad\.py, line 3\)"),
    ],
    ids=["a missing import", "an exception", "a syntax error"],
)
def test_a_module_that_cannot_be_imported_says_why_and_where(folder: Path, code: str, sentence: str) -> None:
    (folder / "sample_bad.py").write_text(code)
    with pytest.raises(SettingsError, match=sentence):
        load("sample_bad:outlast")


def test_a_setting_that_cannot_work_is_told_in_its_own_words(folder: Path) -> None:
    (folder / "sample_bad.py").write_text("import outlast\noutlast.Outlast(lease_ttl=1, renew_every=1)\n")
    with pytest.raises(SettingsError, match=r"^lease_ttl is 1 s"):
        load("sample_bad:outlast")
