"""Files, functions and nesting stay small enough to be read at one sitting."""

import ast
from collections.abc import Iterator

from tests.house import tree

FILE = 400  # lines
FUNCTION = 40  # lines, its docstring not counted: prose costs nothing
NESTING = 3  # levels of if, for, while, with, try and match in one function

# What may be larger, and why: "path" for a file, "path::name" for a function. An entry that is no longer needed fails.
EXCEPTIONS: dict[str, str] = {
    "src/outlast/assembly/outlast.py::Outlast.__init__": "each option is named twice, as a keyword and as a setting",
    "src/outlast/stores/base.py": "the contract of storage is prose, and its two halves belong on one page",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef
LEVELS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Find every function with its qualified name, also inside others."""
    for child in ast.iter_child_nodes(node):
        name = prefix
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{prefix}.{child.name}" if prefix else child.name
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield name, child
        yield from functions(child, name)


def length(function: Function) -> int:
    """Count the lines of a function from its `def`, without its docstring."""
    lines = (function.end_lineno or 0) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        lines -= (first.end_lineno or 0) - first.lineno + 1
    return lines


def depth(node: ast.AST) -> int:
    """Count how many levels lie inside each other, an `elif` being no level of its own."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, SCOPES):
            continue  # counted as itself
        chained = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        level = isinstance(child, LEVELS) and not chained
        deepest = max(deepest, depth(child) + level)
    return deepest


def excesses(place: str, source: str) -> Iterator[tuple[str, str]]:
    """Name what is too large in a file, and by how much."""
    lines = len(source.splitlines())
    if lines > FILE:
        yield place, f"{lines} lines"
    for name, function in functions(ast.parse(source)):
        if length(function) > FUNCTION:
            yield f"{place}::{name}", f"{length(function)} lines"
        if depth(function) > NESTING:
            yield f"{place}::{name}", f"{depth(function)} levels"


def test_nothing_is_too_large_and_no_exception_is_needless() -> None:
    folders = [tree.SOURCE, tree.ROOT / "bench", tree.ROOT / "examples", tree.ROOT / "docs"]
    paths = [tree.ROOT / "dev.py", *(path for folder in folders for path in tree.modules(folder))]
    found = [excess for path in paths for excess in excesses(tree.place(path), tree.text(path))]
    unexplained = [f"{what}: {size}" for what, size in found if what not in EXCEPTIONS]
    needless = [f"{what}: no exception needed" for what in EXCEPTIONS if what not in dict(found)]
    assert not unexplained + needless, "\n".join(unexplained + needless)


# ---- this test can fail ----


def test_a_long_file_a_long_function_and_a_deep_one_are_found() -> None:
    long_function = 'def long() -> None:\n    """Explain.\n\n    At length.\n    """\n' + "    pass\n" * FUNCTION
    deep = """
class Tower:
    async def deep(self) -> None:
        for floor in self:
            if floor:
                async with floor:
                    match floor:
                        case 1: ...
"""
    filler = "\n" * FILE
    assert dict(excesses("x.py", long_function + deep + filler)) == {
        "x.py": f"{len((long_function + deep + filler).splitlines())} lines",
        "x.py::long": f"{FUNCTION + 1} lines",
        "x.py::Tower.deep": "4 levels",
    }


def test_a_chain_of_elif_and_a_function_inside_are_no_deeper_levels() -> None:
    source = """
def flat(x: int) -> None:
    for each in range(x):
        with each:
            if x == 1: ...
            elif x == 2: ...
            elif x == 3: ...
            else:
                def inner() -> None:
                    if x: ...
"""
    assert not list(excesses("x.py", source))
