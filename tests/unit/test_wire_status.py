import json
from dataclasses import dataclass
from typing import Any

import pytest

from outlast.log.cursor import Cursor
from outlast.recovery import RecoveryPolicy
from outlast.run import (
    Cancelled,
    Cause,
    Completed,
    Failed,
    FailureCode,
    Limit,
    RecoveryBudget,
    Run,
    Status,
    StopIntent,
)
from outlast.wire.status import etag, status_document
from tests.stage import row

POLICY = RecoveryPolicy()
NOW = 1_796_000_000.5
CURSOR = Cursor(57, bytes.fromhex("8f1c2d3e4a5b6c7d"))


@dataclass(frozen=True)
class Extent:
    cursor: Cursor = CURSOR
    first: int = 1


def run(**said: Any) -> Run:
    return row(**{"created_at": NOW - 60, "updated_at": NOW - 1, **said})


def held(**said: Any) -> Run:
    return run(status=Status.ACTIVE, epoch=1, claim="c", holder="n", lease_until=NOW + 12.4, **said)


def unheld(**said: Any) -> Run:
    return run(**{"status": Status.ACTIVE, "epoch": 1, "claim": "c", **said})


def document(of: Run, *, now: float = NOW) -> dict[str, Any]:
    return json.loads(json.dumps(status_document(of, Extent(), policy=POLICY, now=now)))


@pytest.mark.behaviour("F17")
def test_a_status_document_has_the_shape_of_the_wire() -> None:
    budget = RecoveryBudget(takeovers=1, last_takeover_at=NOW - 12.9, life=1, calls=2, causes=(Cause.STORE,))
    assert document(held(budget=budget, thread="t", stop=StopIntent(at=NOW))) == {
        "id": "r1",
        "thread": "t",
        "worker": "chat",
        "status": "active",
        "epoch": 1,
        "head": "57-8f1c2d3e4a5b6c7d",
        "first": 1,
        "snapshot": "57-8f1c2d3e4a5b6c7d",
        "budget": {
            "takeovers": {"used": 1, "limit": 5, "window_left": 287.1},
            "life": {"used": 1, "limit": 20},
            "handoffs": {"used": 0, "limit": 50},
            "calls": {"used": 2, "limit": 64},
        },
        "recovering": None,
        "standstill": {
            "code": "stopping",
            "message": "A stop was asked for 0 s ago, and the worker has not ended yet.",
        },
        "lease_left": 12.4,
        "waits": [],
        "stop_requested": True,
        "degraded": False,
        "outcome": None,
        "created_at": "2026-11-30T00:52:20.500Z",
        "updated_at": "2026-11-30T00:53:19.500Z",
        "settled_at": None,
    }


def test_the_owner_and_the_input_are_not_told() -> None:
    assert not {"owner", "input", "metadata", "log", "claim", "holder"} & document(held()).keys()


@pytest.mark.behaviour("F17")
@pytest.mark.parametrize(
    ("of", "told"),
    [
        (run(), None),
        (held(), None),
        (held(not_before=NOW + 9), None),
        (run(status=Status.PARKED, epoch=1, claim="c"), None),
        (run(status=Status.COMPLETED, outcome=Completed(), settled_at=NOW), None),
        (unheld(), {"takeover": 1, "next_try_in": 0.0, "cause": "crash"}),
        (unheld(lease_until=NOW, holder="n"), {"takeover": 1, "next_try_in": 0.0, "cause": "crash"}),
        (
            unheld(
                budget=RecoveryBudget(takeovers=1, last_takeover_at=NOW - 1, life=1),
                not_before=NOW + 3.2,
                cause=Cause.STORE,
            ),
            {"takeover": 2, "next_try_in": 3.2, "cause": "store"},
        ),
        (
            unheld(budget=RecoveryBudget(takeovers=3, last_takeover_at=NOW - 301, life=3)),
            {"takeover": 1, "next_try_in": 0.0, "cause": "crash"},
        ),
        (
            unheld(budget=RecoveryBudget(takeovers=3, last_takeover_at=NOW - 300, life=3)),
            {"takeover": 4, "next_try_in": 0.0, "cause": "crash"},
        ),
        (
            unheld(budget=RecoveryBudget(takeovers=5, last_takeover_at=NOW - 1, life=5)),
            {"takeover": 5, "next_try_in": 0.0, "cause": "crash"},
        ),
        (
            unheld(
                budget=RecoveryBudget(takeovers=2, last_takeover_at=NOW - 1, life=2),
                cause=Cause.HANDOFF,
                not_before=NOW + 0.5,
            ),
            {"takeover": 2, "next_try_in": 0.5, "cause": "handoff"},
        ),
    ],
    ids=[
        "queued",
        "held",
        "held, though the next claim has to wait",
        "parked",
        "settled",
        "nobody holds it",
        "its lease has just run out",
        "waits for its second takeover",
        "the next one opens a fresh window",
        "waiting opens none",
        "the budget is spent",
        "a hand-off is no takeover",
    ],
)
def test_recovering_is_told_of_an_active_run_that_no_live_lease_holds(of: Run, told: object) -> None:
    assert document(of)["recovering"] == told


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Completed(result=b'"secret"'), {"code": "completed"}),
        (Cancelled(reason="enough"), {"code": "cancelled", "reason": "enough"}),
        (
            Failed(
                code=FailureCode.RECOVERY_EXHAUSTED, message="Given up.", limit=Limit.WINDOW, causes=(Cause.CRASH,) * 2
            ),
            {
                "code": "recovery_exhausted",
                "message": "Given up.",
                "limit": "window",
                "causes": ["crash", "crash"],
            },
        ),
    ],
)
def test_an_outcome_is_told_by_its_code(outcome: Any, told: object) -> None:
    assert document(run(status=Status.FAILED, outcome=outcome, settled_at=NOW))["outcome"] == told


@pytest.mark.behaviour("F17")
def test_a_settled_run_keeps_showing_the_takeovers_it_had() -> None:
    budget = RecoveryBudget(takeovers=5, last_takeover_at=NOW - 10, life=5)
    failed = run(status=Status.FAILED, budget=budget, settled_at=NOW)
    week = 7 * 86400.0
    assert document(failed, now=NOW + week)["budget"]["takeovers"] == {"used": 5, "limit": 5, "window_left": None}


def test_an_etag_changes_with_what_is_said_and_not_with_time() -> None:
    waiting = unheld(not_before=NOW + 9, budget=RecoveryBudget(takeovers=1, last_takeover_at=NOW - 1, life=1))
    assert etag(document(waiting)) == etag(document(waiting, now=NOW + 1))
    assert etag(document(held())) == etag(document(held(), now=NOW + 1))
    tags = {etag(document(each)) for each in (run(), held(), unheld(), waiting, held(thread="t"))}
    assert len(tags) == 5
    assert all(tag.startswith('W/"') and tag.endswith('"') for tag in tags)
