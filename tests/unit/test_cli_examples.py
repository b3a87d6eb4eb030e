import builtins
import heapq
import sys

import pytest

from outlast.cli import examples
from outlast.cli.examples import COMPUTES, EXAMPLES, Example, has_examples, run_examples
from outlast.cli.library import ModuleRefused, list_names


def test_a_documented_example_is_run() -> None:
    assert run_examples("heapq", "merge")[0] == Example(
        source="list(merge([1,3,5,7], [0,2,4,8], [5,10,15,20], [], [25]))",
        output="[0, 1, 2, 3, 4, 5, 5, 7, 8, 10, 15, 20, 25]",
        agrees=True,
    )


def test_a_module_may_have_examples_itself() -> None:
    session = run_examples("json", "")
    assert session
    assert all(example.agrees for example in session)


def test_later_steps_see_what_earlier_ones_made() -> None:
    session = run_examples("collections", "namedtuple")
    assert session[0] == Example(source="Point = namedtuple('Point', ['x', 'y'])", output="", agrees=True)
    assert session[-1].agrees
    assert len(session) == EXAMPLES


def test_examples_may_name_their_module() -> None:
    assert [example.output for example in run_examples("textwrap", "shorten")] == ["'Hello world!'", "'Hello [...]'"]


@pytest.mark.parametrize("module", ["ftplib", "smtplib", "subprocess", "tempfile", "pdb", "random", "uuid"])
def test_examples_that_do_more_than_compute_are_not_run(module: str) -> None:
    assert not has_examples(module, "")
    names = list_names(module)
    assert not any(has_examples(module, name) for name in names.functions + names.classes)


@pytest.mark.parametrize(
    ("step", "inside"),
    [
        ("merge([1], [2])", True),
        ("from collections import Counter", True),
        ("import collections.abc", True),
        ("from io import StringIO", False),
        ("import os", False),
        ("import os.path as collections", False),
        ("if True:\n    import os", False),
        ("open('file')", False),
        ("(lambda: exec)()", False),
        ("no python", False),
    ],
)
def test_a_step_stays_inside_modules_that_compute(step: str, inside: bool) -> None:
    assert examples._stays_inside(step) is inside


def test_a_step_that_leaves_them_ends_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heapq.merge, "__doc__", ">>> 1\n1\n>>> import os\n>>> 2\n2\n")
    assert [step.source for step in run_examples("heapq", "merge")] == ["1"]


def test_what_has_no_examples_runs_none() -> None:
    assert run_examples("heapq", "heappush") == []
    assert not has_examples("heapq", "heappush")


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ModuleRefused):
        run_examples("heapq", "no_such_name")


def test_running_leaves_nothing_behind(capsys: pytest.CaptureFixture[str]) -> None:
    before = (sys.stdout, sys.displayhook, set(vars(builtins)) | {"_"})
    run_examples("statistics", "")
    assert (sys.stdout, sys.displayhook, set(vars(builtins)) | {"_"}) == before
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("module", sorted(COMPUTES))
def test_documented_examples_agree_with_this_python_and_never_differ(module: str) -> None:
    names = list_names(module)
    for name in ["", *names.functions, *names.classes]:
        if has_examples(module, name):
            session = run_examples(module, name)
            assert session == run_examples(module, name)
            assert [example.source for example in session if not example.agrees] == []
