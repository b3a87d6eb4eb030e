"""A file is named for the one thing it is about, and a constant says that it is one."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePath

from tests.house import tree

WORD = re.compile(r"[a-z]+[0-9]?")
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")
# Names that say where code was put because nobody knew what it was.
EMPTY = {"common", "core", "helper", "helpers", "manager", "misc", "shared", "util", "utils"}


def misnamed(path: PurePath) -> list[str]:
    """Say which parts of a path are not one plain noun."""
    parts = [part for part in path.with_suffix("").parts if part not in {"__init__", "__main__"}]
    return [part for part in parts if not WORD.fullmatch(part) or part in EMPTY]


def test_files_and_folders_are_single_nouns() -> None:
    found = {tree.place(path): misnamed(path.relative_to(tree.SOURCE)) for path in tree.modules()}
    assert not {place: parts for place, parts in found.items() if parts}


def loose(syntax: ast.Module) -> Iterator[str]:
    """Find a module's constants that could be set again: those that are not `Final`."""
    for node in syntax.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) if CONSTANT.fullmatch(name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if CONSTANT.fullmatch(name):
                if not ast.unparse(annotation).startswith(("Final", "TypeAlias")):
                    yield name
            case _:
                pass


def test_constants_are_final() -> None:
    found = [f"{tree.place(path)}: {name}" for path in tree.modules() for name in loose(tree.syntax(path))]
    assert not found, "\n".join(found)


# ---- these tests can fail ----


def test_two_words_and_empty_words_are_found() -> None:
    assert misnamed(PurePath("server/run_reader.py")) == ["run_reader"]
    assert misnamed(PurePath("utils/Runs.py")) == ["utils", "Runs"]
    assert not misnamed(PurePath("log/__init__.py"))


def test_a_constant_that_could_be_set_again_is_found() -> None:
    source = "A = 1\nLIMIT = 1\n_TABLE: dict[str, int] = {}\nBOUND: Final = 2\nROWS: Final[int] = 3\nvalue = 4\n"
    assert list(loose(ast.parse(source))) == ["LIMIT", "_TABLE"]
