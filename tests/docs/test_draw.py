"""The pages hold what the code says now."""

from collections.abc import Mapping
from xml.etree import ElementTree as ET

import pytest

from docs import diagram, draw, phases, plans
from outlast.recovery import Claim, plan
from outlast.run import TRANSITIONS, Status
from outlast.supervision.phase import Phase
from outlast.supervision.table import RULES


def test_the_pages_hold_what_the_code_says_now() -> None:
    assert [path.name for path in draw.stale()] == [], "python3 dev.py docs draws them anew"


def test_the_picture_has_an_arrow_for_every_move_and_a_box_for_every_status() -> None:
    picture = ET.fromstring(diagram.picture())
    svg = "{http://www.w3.org/2000/svg}"
    arrows = [path for path in picture.iter(f"{svg}path") if "marker-end" in path.attrib]
    assert len(arrows) == sum(len(moves) for moves in TRANSITIONS.values())
    assert {text.text for text in picture.iter(f"{svg}text")} >= set(Status)


def test_the_picture_of_a_link_has_a_box_for_every_phase_and_says_where_sending_is_possible() -> None:
    picture = ET.fromstring(phases.picture())
    words = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert [word for word in words if word in set(Phase)] == list(Phase)
    assert "sending is possible" in words
    assert "offline, connecting, closed may follow every one" in words


def test_every_rule_of_the_client_is_in_its_table_and_in_its_legend() -> None:
    names = {rule.__name__ for row in RULES.values() for rule in row.values()}
    assert all(f"| {name} |" in phases.legend() for name in names)
    assert all(name in phases.rules() for name in names)
    assert phases.rules().count("\n") == len(RULES) + 1


def test_the_plan_is_told_for_every_status_that_is_not_an_outcome_and_for_every_answer() -> None:
    assert {run.status for run in plans.FOUND.values()} >= {status for status in Status if not status.is_terminal}
    answers = {type(plan(run, plans.POLICY, now=plans.NOW, jitter=0.5)).__name__ for run in plans.FOUND.values()}
    assert answers == {"Leave", "Wait", Claim.__name__, "Exhaust", "Cancel"}


# ---- this check can fail ----


def test_a_page_that_says_something_else_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: Mapping[str, object] = {**draw.DRAWINGS, "failures": lambda: "none"}
    monkeypatch.setattr(draw, "DRAWINGS", changed)
    assert [path.name for path in draw.stale()] == ["errors.md"]
