"""Reads the documentation of the standard library on this machine, for the demo's agents.

Rules:
1. Only public modules of this Python's standard library are imported, and none whose import does something by itself.
   A name is looked up in such a module and never evaluated.
2. Everything told comes from this Python: docstrings, signatures, source lines.
3. The same question has the same answer on the same Python, so memory addresses are taken out.
"""

import ast
import difflib
import importlib
import inspect
import pkgutil
import platform
import re
import sys
import textwrap
import warnings
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DOCS_WORDS: Final = 170
"""Words quoted from a module's docstring: its introduction, short of a manual such as that of configparser."""

SUMMARY_WORDS: Final = 45
"""Words quoted about one name: its first paragraph, cut where a paragraph is an essay."""

SIGNATURE_CHARACTERS: Final = 160
"""Longer signatures are lists of options that nobody reads in running text."""

BODY_LINES: Final = 6
"""Lines of source shown of one function: enough to see how it begins."""

ACTS_ON_IMPORT: Final = frozenset(
    {
        "__main__",
        "antigravity",  # opens a browser
        "idlelib",  # an application
        "readline",  # takes the terminal over
        "rlcompleter",  # changes the prompt's completion
        "test",
        "tests",
        "this",  # prints a poem
        "tkinter",  # wants a screen
        "turtle",  # wants a screen
        "turtledemo",  # wants a screen
    }
)

SUGGESTED: Final = ("heapq", "json", "textwrap", "statistics", "difflib")
"""What is suggested to somebody whose module is unlike any other."""

PROSE_WIDTH: Final = 45
"""Lines of running text reach at least this far, all but a paragraph's last; those of lists and code do not."""

_AS_IT_IS: Final = re.compile(r"^( |>>>|==|--|\+-|[*-] )|\S {3,}\S")
_MODULE_NAME: Final = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*){0,3}", re.ASCII)


class ModuleRefused(ValueError):
    """The module is not one that can be explained; the message says why and what to ask for instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Docs:
    """What a module says about itself."""

    module: str
    python: str
    text: str
    words_left: int
    lines: int
    """Lines of Python source; 0 for a module written in C."""
    imports: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The public names of a module, in the module's own order."""

    functions: list[str]
    classes: list[str]
    exceptions: list[str]
    values: list[str]
    modules: list[str]
    """Of a package: the public modules in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One function or class."""

    name: str
    kind: str
    signature: str
    summary: str
    lines: int
    """Lines of Python source; 0 for what is written in C alone."""
    body: list[str]
    """The first lines of a function after its docstring."""
    methods: list[str]


def read_docs(module: str) -> Docs:
    """Read what `module` says about itself. Raises `ModuleRefused`."""
    found = find_module(module)
    text, words_left = _cut_docs(inspect.getdoc(found) or "")
    source = _source(found)
    return Docs(
        module=module,
        python=platform.python_version(),
        text=text,
        words_left=words_left,
        lines=len(source),
        imports=sorted(set(_imports(source)) - {module, "__future__"}),
    )


def list_names(module: str) -> Names:
    """List the public names of `module`. Raises `ModuleRefused`."""
    found = find_module(module)
    names = Names(functions=[], classes=[], exceptions=[], values=[], modules=_inside(found))
    for name, value in _public(found):
        if isinstance(value, type):
            (names.exceptions if issubclass(value, BaseException) else names.classes).append(name)
        elif callable(value):
            names.functions.append(name)
        else:
            names.values.append(name)
    return names


def read_source(module: str, name: str) -> Source:
    """Read the signature, the first paragraph and the first lines of `name`. Raises `ModuleRefused`."""
    found = find_module(module)
    value = find_name(found, name)
    lines = _source(value) or _python_twin(found, name)
    return Source(
        name=name,
        kind="class" if isinstance(value, type) else "function",
        signature=_signature(value),
        summary=_summary(value),
        lines=len(lines),
        body=[] if isinstance(value, type) else _body(lines),
        methods=_methods(value) if isinstance(value, type) else [],
    )


def without_addresses(text: str) -> str:
    """Take the memory addresses out of a text that Python wrote, for they differ from process to process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def suggestions(module: str) -> list[str]:
    """Name modules that somebody who asked for `module` may have meant, best first, never none."""
    explainable = sorted(
        name for name in sys.stdlib_module_names if not name.startswith("_") and name not in ACTS_ON_IMPORT
    )
    close = difflib.get_close_matches(module.lower(), explainable, n=3)
    return list(dict.fromkeys([*close, *SUGGESTED]))[: len(SUGGESTED)]


def find_module(name: str) -> ModuleType:
    """Import `name`, if it is a module that may be explained. Raises `ModuleRefused`."""
    parts = name.split(".")
    if not _MODULE_NAME.fullmatch(name) or parts[0] not in sys.stdlib_module_names:
        raise _refused(name, "there is no public module of that name in this Python's standard library")
    if not ACTS_ON_IMPORT.isdisjoint(parts):
        raise _refused(name, "importing that module does something by itself, so it is left alone")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated modules may be explained too
            return importlib.import_module(name)
    except ImportError as error:
        raise _refused(name, "that module cannot be imported on this machine") from error


def _refused(name: str, reason: str) -> ModuleRefused:
    return ModuleRefused(f"{reason}; try one of these: {', '.join(suggestions(name))}")


def find_name(module: ModuleType, name: str) -> object:
    """Look a public name of `module` up. Raises `ModuleRefused`."""
    for public, value in _public(module):
        if public == name:
            return value
    known = ", ".join([public for public, value in _public(module) if callable(value)][:5])
    raise ModuleRefused(f"the module has no public function or class of that name; it has {known}")


def _public(module: ModuleType) -> "Iterator[tuple[str, object]]":
    listed: list[str] = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if not name.startswith("_") and _belongs(value, module)
    ]
    for name in dict.fromkeys(listed):
        value: object = getattr(module, name, None)
        if not isinstance(value, ModuleType):
            yield name, value


def _belongs(value: object, module: ModuleType) -> bool:
    """Tell whether a name counts without `__all__`: what a module defines itself does, what it imported does not."""
    return getattr(value, "__module__", module.__name__) in {module.__name__, None, "_" + module.__name__}


def _inside(module: ModuleType) -> list[str]:
    inside = pkgutil.iter_modules(getattr(module, "__path__", []))
    return [one.name for one in inside if not one.name.startswith("_") and one.name not in ACTS_ON_IMPORT]


def _source(value: object) -> list[str]:
    try:
        return inspect.getsource(cast("type", value)).splitlines()  # it says by TypeError what it cannot read
    except (OSError, TypeError):
        return []


def _python_twin(module: ModuleType, name: str) -> list[str]:
    """Find the source of a function written in Python and replaced by its C twin on import, as in heapq."""
    lines = _source(module)
    for node in ast.parse("\n".join(lines)).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return lines[node.lineno - 1 : node.end_lineno]
    return []


def _imports(lines: list[str]) -> "Iterator[str]":
    """Yield the public modules that these lines of Python import at their top level."""
    for node in ast.parse("\n".join(lines)).body:
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if not name.name.startswith("_"))
            case ast.ImportFrom(module=str(module), level=0) if not module.startswith("_"):
                yield module
            case _:
                pass


def _signature(value: object) -> str:
    try:
        text = str(inspect.signature(cast("Callable[..., object]", value)))
    except (ValueError, TypeError):
        return ""
    return textwrap.shorten(without_addresses(text), SIGNATURE_CHARACTERS, placeholder=" …)")


def _summary(value: object) -> str:
    for paragraph in _paragraphs(inspect.getdoc(value) or ""):
        if _is_prose(paragraph) and not re.match(r"\w+\(.*\)( ->|$)", paragraph):
            return _first_words(" ".join(paragraph.split()), SUMMARY_WORDS)
    return ""


def _methods(kind: type) -> list[str]:
    return [name for name, value in vars(kind).items() if not name.startswith("_") and callable(value)]


def _body(lines: list[str]) -> list[str]:
    source = textwrap.dedent("\n".join(lines))
    try:
        statements = ast.parse(source).body
    except SyntaxError:  # a lambda within a call, whose source is not a statement
        return []
    if not statements or not isinstance(statements[0], ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    told = statements[0].body[1:] if ast.get_docstring(statements[0]) is not None else statements[0].body
    if not told:
        return []
    shown = source.splitlines()[told[0].lineno - 1 :][:BODY_LINES]
    return textwrap.dedent("\n".join(shown)).rstrip().splitlines()


def _cut_docs(text: str) -> tuple[str, int]:
    """Take the first paragraphs, prose in one line each and tables as they are, and how many words were left out."""
    kept: list[str] = []
    words = 0
    for paragraph in _paragraphs(text):
        length = len(paragraph.split())
        if kept and words + length > DOCS_WORDS:
            break
        words += length
        verbatim = textwrap.indent(textwrap.dedent(paragraph), "    ")
        kept.append(" ".join(paragraph.split()) if _is_prose(paragraph) else verbatim)
    while len(kept) > 1 and kept[-1].endswith(":"):  # it announces what was cut
        words -= len(kept.pop().split())
    return without_addresses("\n\n".join(kept)), len(text.split()) - words


def _paragraphs(text: str) -> list[str]:
    return [block.strip("\n") for block in re.split(r"\n\s*\n", text) if block.strip()]


def _is_prose(paragraph: str) -> bool:
    """Tell running text from code, lists and tables, which keep their lines."""
    lines = paragraph.splitlines()
    if any(_AS_IT_IS.search(line) for line in lines):
        return False
    return all(len(line) >= PROSE_WIDTH for line in lines[:-1])


def _first_words(text: str, count: int) -> str:
    """Take the first whole sentences of at most `count` words, or else the first words."""
    words = text.split()
    if len(words) <= count:
        return text
    head = " ".join(words[:count])
    sentences, stop, _ = head.rpartition(". ")
    return sentences + "." if stop else head + " …"
