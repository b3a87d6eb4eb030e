"""A file is named for the one thing it is about."""

import re
from pathlib import PurePath

from tests.house import tree

WORD = re.compile(r"[a-z]+[0-9]?")
# Names that say where code was put because nobody knew what it was.
EMPTY = {"common", "core", "helper", "helpers", "manager", "misc", "shared", "util", "utils"}


def misnamed(path: PurePath) -> list[str]:
    """Say which parts of a path are not one plain noun."""
    parts = [part for part in path.with_suffix("").parts if part not in {"__init__", "__main__"}]
    return [part for part in parts if not WORD.fullmatch(part) or part in EMPTY]


def test_files_and_folders_are_single_nouns() -> None:
    found = {tree.place(path): misnamed(path.relative_to(tree.SOURCE)) for path in tree.modules()}
    assert not {place: parts for place, parts in found.items() if parts}


# ---- this test can fail ----


def test_two_words_and_empty_words_are_found() -> None:
    assert misnamed(PurePath("server/run_reader.py")) == ["run_reader"]
    assert misnamed(PurePath("utils/Runs.py")) == ["utils", "Runs"]
    assert not misnamed(PurePath("log/__init__.py"))
