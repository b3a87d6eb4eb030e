"""Runs the standard library's documented examples on this machine, for the demo's agents.

Rules:
1. An example is run only where the module does nothing but compute, and only while its code stays inside such modules.
2. The examples of one docstring are one session: what an earlier step made is there for the later ones.
"""

import ast
import doctest
import inspect
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from outlast.cli import library

EXAMPLES: Final = 6
"""Steps of a documented example shown for one name; more of them repeat the point."""

COMPUTES: Final = frozenset(
    {
        "base64",
        "binascii",
        "bisect",
        "collections",
        "copy",
        "datetime",
        "decimal",
        "difflib",
        "enum",
        "fractions",
        "functools",
        "graphlib",
        "heapq",
        "html",
        "ipaddress",
        "itertools",
        "json",
        "math",
        "numbers",
        "operator",
        "re",
        "shlex",
        "statistics",
        "string",
        "struct",
        "textwrap",
        "typing",
        "unicodedata",
    }
)
"""Modules whose examples may run: no network, files, processes, terminal, clock or randomness."""

LEAVES_THE_MODULE: Final = frozenset({"breakpoint", "compile", "eval", "exec", "exit", "help", "input", "open", "quit"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One step of a documented example, run here."""

    source: str
    output: str
    """Empty for a step that says nothing."""
    agrees: bool
    """Whether the output is the documented one."""


def run_examples(module: str, name: str) -> list[Example]:
    """Run the examples in the docstring of `name`, or of `module` itself when `name` is empty.

    Raises `library.ModuleRefused`.
    """
    found = library.find_module(module)
    examples = _documented(found, name)[:EXAMPLES]
    package = module.partition(".")[0]
    namespace = {package: sys.modules[package], **vars(found)}
    test = doctest.DocTest(examples, namespace, name or module, None, None, None)
    runner = _Recorder()
    runner.run(test, out=len)
    return runner.recorded


def has_examples(module: str, name: str) -> bool:
    """Tell whether `run_examples` has anything to run. Raises `library.ModuleRefused`."""
    return bool(_documented(library.find_module(module), name))


class _Recorder(doctest.DocTestRunner):
    """Runs documented examples and keeps what they answered, in place of a report."""

    recorded: list[Example]

    def __init__(self) -> None:
        super().__init__(verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        self.recorded = []

    # doctest passes these by position, and type checkers hold an override to the names of the base.
    # ruff: noqa: ARG002
    def report_success(self, out: object, test: object, example: doctest.Example, got: str) -> None:
        self._record(example, got, agrees=True)

    def report_failure(self, out: object, test: object, example: doctest.Example, got: str) -> None:
        self._record(example, got, agrees=False)

    def report_unexpected_exception(
        self, out: object, test: object, example: doctest.Example, exc_info: tuple[type[BaseException], object, object]
    ) -> None:
        self._record(example, exc_info[0].__name__, agrees=False)

    def _record(self, example: doctest.Example, got: str, *, agrees: bool) -> None:
        output = library.without_addresses(got).rstrip()
        self.recorded.append(Example(source=example.source.rstrip(), output=output, agrees=agrees))


def _documented(module: ModuleType, name: str) -> list[doctest.Example]:
    if module.__name__.partition(".")[0] not in COMPUTES:
        return []
    text = inspect.getdoc(library.find_name(module, name) if name else module) or ""
    try:
        examples = doctest.DocTestParser().get_examples(text)
    except ValueError:  # a docstring that only looks like a session
        return []
    allowed: list[doctest.Example] = []
    for example in examples:
        if not _stays_inside(example.source):
            break  # those after it may need what it did
        allowed.append(example)
    return allowed


def _stays_inside(source: str) -> bool:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return False
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                roots = {name.name.partition(".")[0] for name in names}
            case ast.ImportFrom(module=module):
                roots = {(module or "").partition(".")[0]}
            case ast.Name(id=name) if name in LEAVES_THE_MODULE:
                return False
            case _:
                continue
        if not roots <= COMPUTES:
            return False
    return True
