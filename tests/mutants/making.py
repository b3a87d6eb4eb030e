"""Makes mutants of the client's machine from its source: each is the machine with one thing changed.

Rules:
1. Nothing is listed by hand: a line that is added to the machine has its mutants at once.
2. A condition is always true, and always false, which says more than its contrary; of several that are joined each is
   left out. An order loses or gains its boundary.
3. Seconds are a thousandth more, and less; a number that counts is one more, and one less, and nothing is one.
4. Whatever is said is left unsaid: each command, each member of a copy, each assignment, each case of a match.
5. A table loses each entry, and gains each that it could have.
"""

import ast
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType
from typing import Any

from outlast import supervision
from tests.mutants import tables

FOLDER = Path(supervision.__file__).parent
PACKAGE = "outlast.supervision"
MILLISECOND = tables.MILLISECOND
OTHER_ORDER = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
CONTRARY = {ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn}
OTHER_SUM = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Pow: ast.Mult, ast.Mod: ast.Mult}
OTHER_NAME = {"min": "max", "max": "min", "attempt": "afresh", "afresh": "attempt"}
SCOPES = (ast.FunctionDef, ast.ClassDef)
BRANCHES = (ast.If, ast.IfExp, ast.comprehension, ast.match_case)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mutant:
    """The machine with one thing changed: `member` of `owner` in the tree of its module is another.

    `spot` is where in the machine it is: a line of a module, a cell of a table, a profile. What never comes there
    cannot tell. None is everywhere.
    """

    module: str
    where: str
    change: str
    spot: Hashable
    tree: ast.Module = field(repr=False)
    owner: ast.AST = field(repr=False)
    member: str = field(repr=False)
    value: Any = field(repr=False)

    @property
    def name(self) -> str:
        """What it is called: where it is, and what is changed there."""
        return f"{self.where}: {self.change}"

    def compiled(self) -> CodeType:
        """Return the code of its module."""
        before = getattr(self.owner, self.member)
        setattr(self.owner, self.member, self.value)
        try:
            return compile(self.tree, f"<{self.name}>", "exec")
        finally:
            setattr(self.owner, self.member, before)


@dataclass(slots=True)
class Making:
    """What goes through the tree of one module and yields its mutants."""

    module: str
    tree: ast.Module
    names: set[str] = field(init=False)
    where: list[str] = field(init=False)
    line: int | None = None
    acts: bool = False

    def __post_init__(self) -> None:
        self.where = [self.module.rpartition(".")[2]]
        self.names = {each for node in self.tree.body for each in bound(node)}

    def mutant(self, owner: ast.AST, member: str, value: Any, change: str, spot: Hashable = None) -> Mutant:
        for new in value if isinstance(value, list) else [value]:
            if isinstance(new, ast.expr | ast.stmt) and not hasattr(new, "lineno"):
                new.lineno = new.end_lineno = self.line or 1
                new.col_offset = new.end_col_offset = 0
                ast.fix_missing_locations(new)
        where = ".".join(self.where)
        return Mutant(
            module=self.module,
            where=where,
            change=change,
            spot=spot or (self.line and (self.where[0], self.line)),
            tree=self.tree,
            owner=owner,
            member=member,
            value=value,
        )

    # ---- the way through the tree ---------------------------------------------------------------------

    def of(self, node: ast.AST) -> Iterator[Mutant]:
        """Yield the mutants of a node and of all that is in it."""
        if isinstance(node, (ast.Assert, ast.Import, ast.ImportFrom)) or is_profile(node):
            return
        line = self.line
        if self.acts and isinstance(node, ast.stmt):
            self.line = node.lineno
        elif isinstance(node, ast.match_case):
            self.line = node.pattern.lineno
        acts = self.acts
        if isinstance(node, SCOPES):
            self.where.append(node.name)
            self.line, self.acts = None, isinstance(node, ast.FunctionDef)
        yield from self.changes(node)
        for member, value in ast.iter_fields(node):
            if member in {"annotation", "returns", "decorator_list"}:
                continue
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST):
                    yield from self.of(each)
        if isinstance(node, SCOPES):
            self.where.pop()
        self.line, self.acts = line, acts

    def changes(self, node: ast.AST) -> Iterator[Mutant]:
        """Yield what can be changed of a node itself."""
        if isinstance(node, BRANCHES):
            yield from self.conditions(node)
        change = getattr(self, f"of_{type(node).__name__.lower()}", None)
        if change is not None:
            yield from change(node)
        if isinstance(getattr(node, "body", None), list):
            yield from self.statements(node)

    # ---- what can be changed --------------------------------------------------------------------------

    def conditions(self, node: ast.AST) -> Iterator[Mutant]:
        """Take each condition for true, and for false."""
        member = {ast.comprehension: "ifs", ast.match_case: "guard"}.get(type(node), "test")
        found = getattr(node, member)
        for index, test in enumerate(found if isinstance(found, list) else [found] if found else []):
            for truth in (True, False):
                value: Any = ast.Constant(truth)
                if isinstance(found, list):
                    value = [*found[:index], value, *found[index + 1 :]]
                yield self.mutant(node, member, value, f"{said(test)} is always {str(truth).lower()}")

    def of_boolop(self, node: ast.BoolOp) -> Iterator[Mutant]:
        """Leave out each of several conditions that are joined."""
        word = "and" if isinstance(node.op, ast.And) else "or"
        for value in node.values:
            rest = left(node.values, value)
            yield self.mutant(node, "values", rest, f"{word} without {said(value)}")

    def of_unaryop(self, node: ast.UnaryOp) -> Iterator[Mutant]:
        """Say what was denied."""
        if isinstance(node.op, ast.Not):
            twice = ast.UnaryOp(ast.Not(), node.operand)
            yield self.mutant(node, "operand", twice, f"{said(node.operand)} without not")

    def of_binop(self, node: ast.BinOp) -> Iterator[Mutant]:
        """Reckon otherwise."""
        if other := OTHER_SUM.get(type(node.op)):
            yield self.mutant(node, "op", other(), f"{said(node)} otherwise")

    def of_compare(self, node: ast.Compare) -> Iterator[Mutant]:
        """Move the boundary of an order, and take everything else for its contrary."""
        for index, op in enumerate(node.ops):
            other = OTHER_ORDER.get(type(op)) or CONTRARY.get(type(op), ast.In)
            verb = "another boundary" if type(op) in OTHER_ORDER else "the contrary"
            change = f"{said(node)} with {verb}" + (f" ({index + 1})" if index else "")
            yield self.mutant(node, "ops", [*node.ops[:index], other(), *node.ops[index + 1 :]], change)

    def of_constant(self, node: ast.Constant) -> Iterator[Mutant]:
        """Take a little more, and a little less."""
        value = node.value
        if isinstance(value, bool):
            yield self.mutant(node, "value", not value, f"{value} is {not value}")
            return
        if not isinstance(value, int | float):
            return
        by = MILLISECOND if isinstance(value, float) and value else 1
        for other in (value + by, value - by) if value else (by,):
            yield self.mutant(node, "value", other, f"{self.assigned(node)}{value} is {other:.12g}")

    def assigned(self, node: ast.Constant) -> str:
        """Return what a number is assigned to, where that alone names it."""
        for each in self.tree.body:
            if isinstance(each, ast.AnnAssign) and each.value is node:
                return f"{ast.unparse(each.target)} = "
        return ""

    def of_call(self, node: ast.Call) -> Iterator[Mutant]:
        """Leave each named argument out, and call the neighbour of what has one."""
        for keyword in node.keywords:
            rest = [each for each in node.keywords if each is not keyword]
            named = f"**{ast.unparse(keyword.value)}" if keyword.arg is None else keyword.arg
            yield self.mutant(node, "keywords", rest, f"{ast.unparse(node.func)}(…) without {named}")
        if isinstance(node.func, ast.Name) and node.func.id in OTHER_NAME:
            other = OTHER_NAME[node.func.id]
            if other in {"min", "max"} or other in self.names:
                yield self.mutant(node.func, "id", other, f"{other} for {said(node)}")

    def of_match(self, node: ast.Match) -> Iterator[Mutant]:
        """Leave each case out but the last, which is every other one."""
        for case in node.cases[:-1]:
            rest = [each for each in node.cases if each is not case]
            yield self.mutant(node, "cases", rest, f"without case {ast.unparse(case.pattern)}{guarded(case)}")

    def of_matchor(self, node: ast.MatchOr) -> Iterator[Mutant]:
        """Leave out each of several patterns."""
        for each in node.patterns:
            yield self.mutant(node, "patterns", left(node.patterns, each), f"without {said(each)}")

    def of_return(self, node: ast.Return) -> Iterator[Mutant]:
        """Leave each command of a consequence out."""
        value = node.value
        consequences = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
        for consequence in consequences:
            match consequence:
                case ast.Tuple(elts=[_, ast.Tuple(elts=given) as commands]):
                    for each in given:
                        rest = [other for other in given if other is not each]
                        yield self.mutant(commands, "elts", rest, f"without {said(each)}")
                case ast.Tuple(elts=[changed, commands]):
                    nothing = ast.Tuple([], ast.Load())
                    yield self.mutant(consequence, "elts", [changed, nothing], f"without {said(commands)}")
                case _:
                    pass

    def statements(self, node: ast.AST) -> Iterator[Mutant]:
        """Leave out each statement after which there is less only: what it assigns was there before."""
        there = {each.arg for each in ast.walk(getattr(node, "args", node)) if isinstance(each, ast.arg)}
        body = getattr(node, "body", [])
        for index, each in enumerate(body):
            assigned = set(bound(each))
            if (
                isinstance(each, ast.AugAssign)
                or is_spoken(each)
                or (isinstance(each, ast.Assign) and assigned <= there | self.outer(each))
            ):
                rest = [*body[:index], ast.Pass(), *body[index + 1 :]]
                line, self.line = self.line, each.lineno
                yield self.mutant(node, "body", rest, f"without {said(each)}")
                self.line = line
            there |= assigned

    def outer(self, node: ast.stmt) -> set[str]:
        """Return what a statement in a branch may assign anew: what it reads itself."""
        return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}


def left(several: list[Any], one: ast.AST) -> list[Any]:
    """Return what is left without one; to say the last one twice is to say it once, and what joins takes two."""
    rest = [each for each in several if each is not one]
    return rest if len(rest) > 1 else rest * 2


def bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement binds."""
    match node:
        case ast.Assign(targets=targets):
            names = [each for target in targets for each in ast.walk(target)]
            yield from (each.id for each in names if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ImportFrom(names=names):
            yield from (each.asname or each.name for each in names)
        case _:
            pass


def is_profile(node: ast.AST) -> bool:
    """Tell whether a node makes a profile: each of its numbers is changed in `profiles`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Profile"


def is_spoken(node: ast.stmt) -> bool:
    """Tell whether a statement is a call, or gives something out."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Yield)


def said(node: ast.AST) -> str:
    """Return a piece of source on one line."""
    return f"`{ast.unparse(node)}`"


def guarded(case: ast.match_case) -> str:
    """Return the guard of a case, as it stands after the pattern."""
    return "" if case.guard is None else f" if {ast.unparse(case.guard)}"


# ---- all ------------------------------------------------------------------------------------------


def appended(appendix: tables.Appendix) -> Mutant:
    """Return the machine with something that comes after the source of one of its modules."""
    path = FOLDER / f"{appendix.module}.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    body = [*tree.body, *ast.parse(appendix.source).body]
    return Making(f"{PACKAGE}.{path.stem}", tree).mutant(tree, "body", body, appendix.change, appendix.spot)


def every() -> list[Mutant]:
    """Return all mutants there are, in the order of the source; each has a name of its own."""
    found: list[Mutant] = []
    appendices = [*tables.entries(), *tables.profiles()]
    for path in sorted(FOLDER.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        making = Making(f"{PACKAGE}.{path.stem}", tree)
        found += making.of(tree)
        for each in appendices:
            if each.module == path.stem:
                body = [*tree.body, *ast.parse(each.source).body]
                found.append(making.mutant(tree, "body", body, each.change, each.spot))
    seen: Counter[str] = Counter()
    named: list[Mutant] = []
    for mutant in found:
        seen[mutant.name] += 1
        times = seen[mutant.name]
        named.append(mutant if times == 1 else replace(mutant, change=f"{mutant.change}, {times}"))
    return named
