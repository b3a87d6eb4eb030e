"""The pages hold what the code says now."""

from collections.abc import Mapping
from xml.etree import ElementTree as ET

import pytest

from docs import diagram, draw, plans
from outlast.recovery import Claim, plan
from outlast.run import TRANSITIONS, Status


def test_the_pages_hold_what_the_code_says_now() -> None:
    assert [path.name for path in draw.stale()] == [], "python3 dev.py docs draws them anew"


def test_the_picture_has_an_arrow_for_every_move_and_a_box_for_every_status() -> None:
    picture = ET.fromstring(diagram.picture())
    svg = "{http://www.w3.org/2000/svg}"
    arrows = [path for path in picture.iter(f"{svg}path") if "marker-end" in path.attrib]
    assert len(arrows) == sum(len(moves) for moves in TRANSITIONS.values())
    assert {text.text for text in picture.iter(f"{svg}text")} >= set(Status)


def test_the_plan_is_told_for_every_status_that_is_not_an_outcome_and_for_every_answer() -> None:
    assert {run.status for run in plans.FOUND.values()} >= {status for status in Status if not status.is_terminal}
    answers = {type(plan(run, plans.POLICY, now=plans.NOW, jitter=0.5)).__name__ for run in plans.FOUND.values()}
    assert answers == {"Leave", "Wait", Claim.__name__, "Exhaust", "Cancel"}


# ---- this check can fail ----


def test_a_page_that_says_something_else_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: Mapping[str, object] = {**draw.DRAWINGS, "failures": lambda: "none"}
    monkeypatch.setattr(draw, "DRAWINGS", changed)
    assert [path.name for path in draw.stale()] == ["errors.md"]
