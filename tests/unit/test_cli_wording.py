"""The sentences people read."""

from datetime import UTC, datetime
from typing import Any

import pytest

from outlast.cli.wording import (
    EVIDENCE,
    TROUBLES,
    ago,
    counted,
    link_sentence,
    node_sentence,
    outcome_sentence,
    recovery_sentence,
    takeover_sentence,
)
from outlast.log.event import JSON
from outlast.supervision.phase import Grade, Phase, Trouble
from outlast.supervision.record import LinkRecord

RECOVERING: dict[str, JSON] = {"takeover": 2, "next_try_in": 3.2, "cause": "store"}


def link(phase: Phase, **told: Any) -> LinkRecord:
    nothing = {"last_heard": None, "attempt": None, "retry_at": None, "trouble": None, "evidence": None}
    return LinkRecord(phase=phase, **{"since": 0.0, "generation": 1, "can_send": True, **nothing, **told})


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (link(Phase.CONNECTING, attempt=1), "connecting"),
        (link(Phase.CONNECTING, attempt=4, trouble=Trouble.BROKEN), "connecting, attempt 4: the connection broke"),
        (link(Phase.LIVE), "connected"),
        (link(Phase.LIVE, trouble=Trouble.SILENT), "connected"),
        (link(Phase.SLOW, last_heard=90.0), "slow, last heard 12 s ago"),
        (link(Phase.BUSY), "server is busy, your run continues"),
        (link(Phase.BUSY, evidence=Grade.BEACON), "server is busy, your run continues (its beacon answers)"),
        (
            link(Phase.BACKOFF, retry_at=105.0, attempt=4, trouble=Trouble.UNREACHABLE),
            "lost, retrying in 3 s: the server cannot be reached (attempt 4)",
        ),
        (
            link(Phase.BLOCKED, trouble=Trouble.CREDENTIALS),
            "sign in again: the server does not accept the credentials",
        ),
    ],
)
def test_the_link_is_told_in_a_sentence(record: LinkRecord, sentence: str) -> None:
    assert link_sentence(record, now=102.1) == sentence


def test_every_grade_of_evidence_has_its_words() -> None:
    assert set(EVIDENCE) == set(Grade)
    assert len(set(EVIDENCE.values())) == len(Grade)


def test_every_trouble_has_its_words() -> None:
    assert set(TROUBLES) == set(Trouble)
    assert len(set(TROUBLES.values())) == len(Trouble)


def test_a_run_that_nobody_drives_is_told_with_its_next_takeover() -> None:
    assert recovery_sentence(RECOVERING) == "recovering: takeover 2 in 3.2 s (store)"


@pytest.mark.parametrize("recovering", [None, 7, "soon", []])
def test_a_run_that_is_driven_is_not_recovering(recovering: object) -> None:
    assert recovery_sentence(recovering) is None


def test_a_takeover_and_a_hand_off_are_told_apart() -> None:
    assert takeover_sentence({"attempt": 2, "cause": "crash"}) == "taken over: attempt 2 (crash)"
    assert takeover_sentence({"attempt": 2, "cause": "handoff"}) == "handed off: attempt 2"
    assert takeover_sentence({}) == "taken over: attempt ? (?)"


@pytest.mark.parametrize(
    ("status", "outcome", "sentence"),
    [
        ("completed", {"code": "completed"}, "completed"),
        ("cancelled", {"reason": None}, "stopped"),
        ("cancelled", {"reason": "a\nb"}, "stopped: a␊b"),
        (
            "failed",
            {"code": "recovery_exhausted", "message": "Given up.", "causes": ["crash", "store"]},
            "failed: recovery_exhausted: Given up. (causes: crash, store)",
        ),
    ],
)
def test_an_outcome_is_told_in_a_sentence(status: str, outcome: dict[str, JSON], sentence: str) -> None:
    assert outcome_sentence(status, outcome) == sentence


def test_words_from_outside_stay_on_one_line_and_act_on_nothing() -> None:
    said = outcome_sentence("failed", {"code": "\x1b[2J", "message": "x\n" * 500, "causes": ["\r"]})
    assert said.isprintable()
    assert len(said) == 300


def test_one_is_no_plural() -> None:
    assert [counted(number, "takeover") for number in (0, 1, 2)] == ["0 takeovers", "1 takeover", "2 takeovers"]


@pytest.mark.parametrize(
    ("time", "said"),
    [
        ("2026-01-02T00:00:00.000Z", "0 s ago"),
        ("2026-01-01T23:59:01.000Z", "59 s ago"),
        ("2026-01-01T23:00:30.000Z", "59 min ago"),
        ("2026-01-01T00:00:01.000Z", "23 h ago"),
        ("2025-12-30T00:00:00.000Z", "3 d ago"),
        ("2026-01-02T00:00:09.000Z", "0 s ago"),
        ("yesterday", "?"),
    ],
)
def test_an_age_is_told_in_one_unit(time: str, said: str) -> None:
    assert ago(time, now=datetime(2026, 1, 2, tzinfo=UTC)) == said


def test_a_node_is_told_with_its_lease_its_lag_and_whether_it_stalled_or_drains() -> None:
    live = {"id": "n1", "live": True, "lease_left": 12.34, "stalled": False, "loop_lag": 0.0042}
    assert node_sentence(live) == "node n1: lease ends in 12.3 s, loop lag 4 ms"
    died = {**live, "id": "\x1b[2J", "live": False, "lease_left": None, "lapsed_for": 42.7}
    assert node_sentence(died) == "node ␛[2J: died 42 s ago"
    stalled = {**died, "id": "n2", "stalled": True, "lapsed_for": 130.0, "draining": True}
    assert node_sentence(stalled) == "node n2: stalled and gave its runs up 2 min ago, draining"
    assert node_sentence({**live, "draining": True}) == "node n1: lease ends in 12.3 s, loop lag 4 ms, draining"
