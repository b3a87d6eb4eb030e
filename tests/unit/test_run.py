"""The table of a run's moves, its outcomes, and the events that Outlast itself writes."""

import dataclasses
import json
from enum import StrEnum
from typing import Any

import pytest

from outlast.run import (
    TERMINALS,
    TRANSITIONS,
    Cancelled,
    Cause,
    Completed,
    Failed,
    FailureCode,
    Limit,
    Move,
    Outcome,
    RecoveryBudget,
    Run,
    Status,
    StopIntent,
    Token,
    after,
    describe,
    is_id,
    move_of,
    restarted,
    started,
    terminal,
)

ROW = Run(owner="ann", id="r1", log="log1", worker="chat", input=b"{}", digest=b"d")

LEGAL = {
    (Status.QUEUED, Move.CLAIM): Status.ACTIVE,
    (Status.QUEUED, Move.FAIL): Status.FAILED,
    (Status.QUEUED, Move.CANCEL): Status.CANCELLED,
    (Status.ACTIVE, Move.CLAIM): Status.ACTIVE,
    (Status.ACTIVE, Move.PARK): Status.PARKED,
    (Status.ACTIVE, Move.COMPLETE): Status.COMPLETED,
    (Status.ACTIVE, Move.FAIL): Status.FAILED,
    (Status.ACTIVE, Move.CANCEL): Status.CANCELLED,
    (Status.PARKED, Move.CLAIM): Status.ACTIVE,
    (Status.PARKED, Move.FAIL): Status.FAILED,
    (Status.PARKED, Move.CANCEL): Status.CANCELLED,
}
EVERY_MOVE = [(status, move) for status in Status for move in Move]
BROKE = FailureCode.WORKER_ERROR

PUBLISHED: dict[type[StrEnum], str] = {
    Status: "queued active parked completed failed cancelled",
    Move: "claim park complete fail cancel",
    Cause: "crash stall store worker memory handoff",
    FailureCode: "recovery_exhausted worker_error worker_failed log_full event_too_large not_admitted orphaned",
    Limit: "window life calls",
}
"""Part of the public contract: rows, events and documents hold these words."""


# ---- the table ------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "move"), EVERY_MOVE)
def test_a_move_leads_where_the_drawing_says_or_nowhere(status: Status, move: Move) -> None:
    if (status, move) in LEGAL:
        assert after(status, move) is LEGAL[status, move]
        return
    with pytest.raises(ValueError, match=f"^a {status} run cannot {move}$"):
        after(status, move)


def test_the_table_has_a_row_for_every_status() -> None:
    assert set(TRANSITIONS) == set(Status)


def test_the_terminal_statuses_are_those_that_nothing_leaves() -> None:
    assert {status for status in Status if status.is_terminal} == {Status.COMPLETED, Status.FAILED, Status.CANCELLED}


def test_every_status_can_be_reached_from_queued() -> None:
    reached, frontier = {Status.QUEUED}, [Status.QUEUED]
    while frontier:
        found = set(TRANSITIONS[frontier.pop()].values()) - reached
        reached |= found
        frontier += found
    assert reached == set(Status)


@pytest.mark.parametrize(
    ("outcome", "move", "status"),
    [
        (Completed(), Move.COMPLETE, Status.COMPLETED),
        (Failed(code=BROKE, message="m"), Move.FAIL, Status.FAILED),
        (Cancelled(), Move.CANCEL, Status.CANCELLED),
    ],
)
def test_an_outcome_is_the_move_that_ends_an_active_run(outcome: Outcome, move: Move, status: Status) -> None:
    assert move_of(outcome) is move
    assert after(Status.ACTIVE, move) is status


# ---- the row --------------------------------------------------------------------------------


def test_a_new_run_is_queued_unclaimed_and_due_at_once() -> None:
    unset = {name: getattr(ROW, name) for name in Run.__slots__ if not getattr(ROW, name)}
    assert unset == {
        **dict.fromkeys(["thread", "claim", "holder", "lease_until", "cause"]),
        **dict.fromkeys(["wake_at", "stop", "outcome", "settled_at", "traceparent"]),
        "epoch": 0,
        "not_before": 0.0,
        "created_at": 0.0,
        "updated_at": 0.0,
    }
    assert (ROW.status, ROW.metadata) == (Status.QUEUED, b"{}")


def test_a_new_budget_is_untouched() -> None:
    assert dataclasses.asdict(ROW.budget) == {
        **dict.fromkeys(["takeovers", "life", "handoffs", "calls", "waits"], 0),
        "last_takeover_at": None,
        "causes": (),
    }


def test_what_a_person_did_not_say_is_not_there() -> None:
    assert (StopIntent(at=1.0).reason, Cancelled().reason, Completed().result) == (None, None, None)


def test_the_token_of_a_run_is_its_epoch_and_claim() -> None:
    assert dataclasses.replace(ROW, epoch=3, claim="c").token == Token(epoch=3, claim="c")


def test_a_run_that_was_never_claimed_has_no_token() -> None:
    with pytest.raises(ValueError, match=r"^a run that was never claimed has no token$"):
        _ = ROW.token


@pytest.mark.parametrize(
    ("budget", "attempt"),
    [
        (RecoveryBudget(), 1),
        (RecoveryBudget(life=2), 3),
        (RecoveryBudget(handoffs=3), 4),
        (RecoveryBudget(life=2, handoffs=3, takeovers=1, calls=9, waits=7), 6),
    ],
)
def test_an_attempt_is_one_more_than_takeovers_and_hand_offs_of_a_life(budget: RecoveryBudget, attempt: int) -> None:
    assert dataclasses.replace(ROW, budget=budget).attempt == attempt


@pytest.mark.parametrize("fact", [Run, Token, RecoveryBudget, StopIntent, Completed, Failed, Cancelled])
def test_a_fact_cannot_be_changed_or_extended_and_names_its_members(fact: Any) -> None:
    assert fact.__dataclass_params__.frozen
    assert "__slots__" in vars(fact)
    assert all(member.kw_only for member in dataclasses.fields(fact))


@pytest.mark.parametrize("words", PUBLISHED, ids=lambda words: words.__name__)
def test_words_are_as_published(words: type[StrEnum]) -> None:
    assert {word.name: word.value for word in words} == {word.upper(): word for word in PUBLISHED[words].split()}


# ---- our own events -------------------------------------------------------------------------


def test_a_started_event_names_epoch_and_attempt() -> None:
    event = started(dataclasses.replace(ROW, epoch=1))
    assert (event.type, event.data) == ("run.started", {"epoch": 1, "attempt": 1})


def test_a_restarted_event_says_why_and_what_is_kept() -> None:
    run = dataclasses.replace(ROW, epoch=4, budget=RecoveryBudget(life=2))
    event = restarted(run, cause=Cause.STALL, keep=17)
    assert event.type == "run.restarted"
    assert event.data == {"epoch": 4, "attempt": 3, "cause": "stall", "keep": 17}


@pytest.mark.parametrize(
    ("outcome", "type", "data"),
    [
        (Completed(), "run.completed", {}),
        (Completed(result=b""), "run.completed", {}),
        (Completed(result=b"null"), "run.completed", {"result": None}),
        (Completed(result=b'{"n":[1,2]}'), "run.completed", {"result": {"n": [1, 2]}}),
        (Failed(code=BROKE, message="m"), "run.failed", {"code": "worker_error", "message": "m"}),
        (Cancelled(), "run.cancelled", {"reason": None}),
        (Cancelled(reason="enough"), "run.cancelled", {"reason": "enough"}),
    ],
)
def test_a_terminal_event_carries_its_outcome_as_json(outcome: Outcome, type: str, data: object) -> None:
    event = terminal(outcome)
    assert (event.type, event.content_type) == (type, "application/json")
    assert json.loads(event.payload) == data


def test_the_result_of_a_worker_stands_in_the_terminal_byte_for_byte() -> None:
    assert terminal(Completed(result=b'{"a": 1.50}')).payload == b'{"result":{"a": 1.50}}'


def test_a_failure_is_described_with_its_limit_and_its_causes_when_it_has_them() -> None:
    failed = Failed(
        code=FailureCode.RECOVERY_EXHAUSTED, message="m", limit=Limit.LIFE, causes=(Cause.CRASH, Cause.STORE)
    )
    assert describe(failed) == {
        "code": "recovery_exhausted",
        "message": "m",
        "limit": "life",
        "causes": ["crash", "store"],
    }


def test_the_terminals_are_the_types_that_outcomes_write() -> None:
    failed = Failed(code=FailureCode.WORKER_ERROR, message="m")
    assert {terminal(outcome).type for outcome in (Completed(), failed, Cancelled())} == TERMINALS


# ---- ids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a", "A.b_c~d-9", "x" * 128])
def test_an_id_is_what_stands_unquoted_anywhere(text: str) -> None:
    assert is_id(text)


@pytest.mark.attack("Z2", "Z14")
@pytest.mark.parametrize(
    "text", ["", ".", "..", "x" * 129, "a b", "a/b", "a\n", "ä", "'; drop table runs", "\x00", "a%00", "١"]
)
def test_anything_else_is_no_id(text: str) -> None:
    assert not is_id(text)
