"""The front door: `import outlast` gives documented nouns, the glossary's own verbs, and nothing else."""

import ast
import subprocess
import sys
from collections.abc import Mapping
from types import FunctionType

import pytest

import outlast
from tests.house import glossary, tree


def clutter(body: list[ast.stmt]) -> list[str]:
    """Say what stands in the door besides a docstring, imports of our own, at once or late, and the list of names."""
    found: list[str] = []
    for node in body:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.ImportFrom(module="typing", names=[ast.alias(name="TYPE_CHECKING", asname=None)]):
                pass
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=late, orelse=[ast.FunctionDef(name="__getattr__")]):
                found += clutter(late)
            case ast.ImportFrom(module=str(name), level=0) if name.split(".")[0] == "outlast":
                found += [f"{each.name} as {each.asname}" for each in node.names if each.asname]
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                pass
            case _:
                found.append(ast.unparse(node))
    return found


def imported(body: list[ast.stmt]) -> list[str]:
    """List what the door gives: what it imports for everybody, and what type checkers see it import late."""
    names: list[str] = []
    for node in body:
        match node:
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] == "outlast":
                names += [each.name for each in node.names]
            case ast.If(body=late):
                names += imported(late)
            case _:
                pass
    return names


def unworthy(names: Mapping[str, object], words: set[str]) -> list[str]:
    """Say which names are neither documented classes nor documented functions named for a word of the glossary."""
    found: list[str] = []
    for name, value in names.items():
        if not isinstance(value, type) and not (isinstance(value, FunctionType) and name in words):
            found.append(f"{name} is neither a class nor a verb of the glossary")
        written = value.__dict__.get("__doc__") if isinstance(value, type) else value.__doc__
        if not written or written.startswith(f"{name}("):  # a dataclass makes one up
            found.append(f"{name} has no docstring of its own")
    return found


def test_the_front_door_holds_imports_of_our_own_and_nothing_else() -> None:
    body = tree.syntax(tree.SOURCE / "__init__.py").body
    assert not clutter(body)
    assert sorted(imported(body)) == sorted(outlast.__all__)


def test_every_public_name_is_a_documented_noun_or_a_verb_of_the_glossary() -> None:
    assert outlast.__all__
    assert not unworthy({name: getattr(outlast, name) for name in outlast.__all__}, glossary.entries())


def test_a_server_imports_no_http_client() -> None:
    code = "import sys, outlast; print('httpx2' in sys.modules); outlast.follow; print('httpx2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"]


def test_who_keeps_nothing_loads_nothing_that_keeps() -> None:
    code = "import sys, outlast; outlast.connect; print('outlast.stores.sqlite.keep' in sys.modules, outlast.Keep)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split(maxsplit=1) == ["False", "<class 'outlast.stores.sqlite.keep.file.Keep'>\n"]


def test_a_name_that_the_door_does_not_give_is_missed_as_usual() -> None:
    with pytest.raises(AttributeError, match="module 'outlast' has no attribute 'folow'"):
        outlast.folow  # type: ignore[attr-defined]  # noqa: B018


# ---- these tests can fail ----


def test_clutter_in_the_door_is_found() -> None:
    source = '"""Door."""\nimport os\nfrom outlast.run import Run as R\nfrom x import y\n__all__ = ["R"]\nVERSION = 1\n'
    assert clutter(ast.parse(source).body) == ["import os", "Run as R", "from x import y", "VERSION = 1"]
    late = "if TYPE_CHECKING:\n    import os\nelse:\n    def __getattr__(name): ...\nif x:\n    y()\n"
    assert clutter(ast.parse(late).body) == ["import os", "if x:\n    y()"]


def test_a_strange_verb_and_what_has_no_docstring_are_found() -> None:
    def begin() -> None:
        """Begin."""

    def follow() -> None: ...

    class Bare: ...

    class Noun:
        """Documented."""

    assert unworthy({"begin": begin, "follow": follow, "Bare": Bare, "Noun": Noun}, {"follow"}) == [
        "begin is neither a class nor a verb of the glossary",
        "follow has no docstring of its own",
        "Bare has no docstring of its own",
    ]
