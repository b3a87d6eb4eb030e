"""The promises of tests/behaviours.toml and the marks in the tests never drift apart."""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

from tests.house import tree

KINDS = ("behaviour", "fault", "attack", "invariant")
STATUSES = {"planned", "begun", "done"}
FIELDS = {"status", "promise"}
CASES = range(1, 154)

Manifest = dict[str, dict[str, dict[str, str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    kind: str
    name: object  # what is written there, which may be no literal at all
    where: str


def marks(syntax: ast.Module, where: str) -> Iterator[Mark]:
    """Find every `pytest.mark.<kind>(…)` of a file, on functions, classes and whole modules."""
    for node in ast.walk(syntax):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if ast.unparse(node.func.value) != "pytest.mark" or node.func.attr not in {*KINDS, "case"}:
            continue
        for argument in node.args or [ast.Constant(None)]:
            name = argument.value if isinstance(argument, ast.Constant) else ast.unparse(argument)
            literal = isinstance(argument, ast.Constant)
            yield Mark(kind=node.func.attr, name=name if literal else None, where=f"{where}:{node.lineno}")


def drift(manifest: Manifest, found: list[Mark]) -> list[str]:
    """Say in what the promises and the marks differ."""
    complaints: list[str] = []
    proved: set[tuple[str, object]] = set()
    for mark in found:
        if mark.kind == "case":
            if mark.name not in CASES:
                complaints.append(f"{mark.where} names case {mark.name}, which is not a known number")
        elif mark.name is None:
            complaints.append(f"{mark.where} must name each {mark.kind} by a literal")
        elif mark.name not in manifest[mark.kind]:
            complaints.append(f"{mark.where} names an unknown {mark.kind}: {mark.name}")
        proved.add((mark.kind, mark.name))
    for kind in KINDS:
        for name, entry in manifest[kind].items():
            if entry["status"] != "planned" and (kind, name) not in proved:
                complaints.append(f"{kind} {name} is {entry['status']}, but no test carries it")
            if entry["status"] == "planned" and (kind, name) in proved:
                complaints.append(f"{kind} {name} has a test, but is still planned")
    return complaints


def malformed(manifest: Manifest) -> list[str]:
    """Say which entries are not a status and one sentence."""
    wrong = [f"there is a table {kind}" for kind in manifest if kind not in KINDS]
    for kind in KINDS:
        for name, entry in manifest[kind].items():
            if set(entry) != FIELDS or entry["status"] not in STATUSES or not entry["promise"].endswith("."):
                wrong.append(f"{kind} {name} must be a status and a sentence")
    return wrong


def promises() -> Manifest:
    return tomllib.loads(tree.text(tree.TESTS / "behaviours.toml"))


def test_promises_and_marks_agree() -> None:
    found = [mark for path in tree.proofs() for mark in marks(tree.syntax(path), tree.place(path))]
    complaints = drift(promises(), found)
    assert not complaints, "\n".join(complaints)


def hollow(manifest: Manifest, page: str) -> list[str]:
    """Say which of the ids that a page names are of promises that no test proves, or that nobody has made."""
    proved = {name for entries in manifest.values() for name, entry in entries.items() if entry["status"] != "planned"}
    named = re.findall(r"\b[A-Z][0-9]+\b|(?<=`)[a-z]+(?:-[a-z]+)+(?=`)", page)
    return [f"{name} is proved by nothing" for name in named if name not in proved]


def test_the_page_of_guarantees_names_nothing_that_no_test_proves() -> None:
    assert not hollow(promises(), tree.text(tree.ROOT / "docs" / "guarantees.md"))


def test_each_promise_is_a_status_and_a_sentence() -> None:
    assert not malformed(promises())


# ---- these tests can fail ----

SAMPLE: Manifest = {
    "behaviour": {
        "B1": {"status": "done", "promise": "Held."},
        "B2": {"status": "planned", "promise": "Later."},
    },
    "fault": {"X1": {"status": "done", "promise": "Survived."}},
    "attack": {"Z1": {"status": "planned", "promise": "Refused."}},
    "invariant": {"dense": {"status": "done", "promise": "Watched."}},
}


def test_a_done_promise_without_a_test_is_found() -> None:
    held = [Mark(kind="fault", name="X1", where="t:1"), Mark(kind="invariant", name="dense", where="t:2")]
    assert drift(SAMPLE, held) == ["behaviour B1 is done, but no test carries it"]


def test_a_mark_of_a_planned_promise_an_unknown_one_and_a_computed_one_are_found() -> None:
    source = """
pytestmark = pytest.mark.behaviour("B2", "B1")
@pytest.mark.fault("X1", "X99")
@pytest.mark.attack(NAME)
@pytest.mark.invariant("dense")
@pytest.mark.case(1, 9000)
class TestIt: ...
@pytest.mark.behaviour()
def test_nothing() -> None: ...
"""
    complaints = drift(SAMPLE, list(marks(ast.parse(source), "t")))
    assert sorted(complaints) == [
        "behaviour B2 has a test, but is still planned",
        "t:3 names an unknown fault: X99",
        "t:4 must name each attack by a literal",
        "t:6 names case 9000, which is not a known number",
        "t:8 must name each behaviour by a literal",
    ]


def test_a_malformed_entry_is_found() -> None:
    broken: Manifest = {**SAMPLE, "attack": {"Z1": {"status": "perhaps", "promise": "Refused."}}, "wish": {}}
    assert malformed(broken) == ["there is a table wish", "attack Z1 must be a status and a sentence"]


def test_a_guarantee_that_no_test_proves_is_found() -> None:
    assert hollow(SAMPLE, "Held (B1, X1, `dense`); later (B2); `never-said` (B7).") == [
        "B2 is proved by nothing",
        "never-said is proved by nothing",
        "B7 is proved by nothing",
    ]
