"""Reads from the code what can be set, what it is set to, and why: the rows of settings.md.

Rules:
1. A setting is a field of `Settings`, or of a policy that is one of its fields.
2. Its default is a named constant, and its reason that constant's docstring: the words that stand beside the number in
   the code. A setting without them has no row, and `rows` says so instead of leaving it out.
"""

import ast
import importlib
import inspect
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import ModuleType
from typing import Any

from outlast.assembly.settings import LEASE_NAMES, PREFIX, Settings

UNITS: Mapping[object, str] = {float: "seconds", int: "a number", bool: "true or false", str: "text"}
KEYWORDS: Mapping[str, str] = {field: keyword for keyword, field in LEASE_NAMES.items()}


class ReasonMissing(LookupError):
    """A setting has no named default, or that constant does not say why it is what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One thing that can be set."""

    keyword: str
    variable: str
    default: object
    unit: str
    reason: str


def rows() -> Iterator[Option]:
    """Return every option, those of a policy after the plain ones. Raises `ReasonMissing`."""
    policies: list[tuple[str, type]] = []
    for each in fields(Settings):
        made = each.default_factory
        if isinstance(made, type) and is_dataclass(made):
            policies.append((each.name, made))
        else:
            yield _option(Settings, each.name, keyword=each.name, variable=each.name)
    for name, policy in policies:
        for each in fields(policy):
            if name == "lease":
                keyword = variable = KEYWORDS[each.name]
            else:
                keyword, variable = f"{name}={policy.__name__}({each.name})", f"{name}_{each.name}"
            yield _option(policy, each.name, keyword=keyword, variable=variable)


def _option(owner: type, name: str, *, keyword: str, variable: str) -> Option:
    field = next(each for each in fields(owner) if each.name == name)
    default = None if field.default is MISSING else field.default
    constant = _defaults(owner).get(name)
    if constant is None:
        raise ReasonMissing(f"{owner.__name__}.{name} has no named constant as its default")
    return Option(
        keyword=keyword,
        variable=f"{PREFIX}{variable.upper()}",
        default=default,
        unit="bytes" if name.endswith("bytes") else UNITS.get(field.type, "names"),
        reason=_reason(inspect.getmodule(owner), constant),
    )


@cache
def _defaults(owner: type) -> Mapping[str, str]:
    """Return which constant each field of a dataclass has as its default."""
    (made,) = ast.parse(inspect.getsource(owner)).body
    assert isinstance(made, ast.ClassDef)
    return {
        each.target.id: each.value.id
        for each in made.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and isinstance(each.value, ast.Name)
    }


def _reason(module: ModuleType | None, constant: str) -> str:
    assert module is not None
    body = ast.parse(inspect.getsource(module)).body
    for each, after in itertools.pairwise(body):
        if isinstance(each, ast.AnnAssign) and ast.unparse(each.target) == constant:
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                return " ".join(str(after.value.value).split())
            raise ReasonMissing(f"{constant} does not say why it is what it is")
    for each in body:  # it is another module's
        if isinstance(each, ast.ImportFrom) and any(alias.name == constant for alias in each.names):
            return _reason(importlib.import_module(each.module or ""), constant)
    raise ReasonMissing(f"{constant} is nowhere to be found")


def written(value: Any) -> str:  # noqa: ANN401 - a default is of any type
    """Write a default as its variable would be set."""
    match value:
        case bool():
            return "true" if value else "false"
        case float() | int():
            return f"{value:.15g}" if isinstance(value, float) else str(value)
        case tuple():
            return ",".join(value)
        case _:
            return str(value)
