"""One sentence on why a run is not moving: total over the rows there are, and in step with what `plan` decides."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from outlast.recovery import Claim, Leave, RecoveryPolicy, plan
from outlast.run import Cause, Completed, RecoveryBudget, Run, Status, StopIntent
from outlast.standstill import ON_ITS_WAY, Reason, explain

NOW = 1000.0
POLICY = RecoveryPolicy()
QUEUED = Run(owner="", id="r", log="l", worker="chat", input=b"", digest=b"", not_before=990.0, created_at=990.0)
ACTIVE = replace(QUEUED, status=Status.ACTIVE, epoch=1, claim="c", holder="n", lease_until=990.0)
LET_GO = replace(ACTIVE, holder=None, lease_until=None, cause=Cause.STORE)
STOP = StopIntent(at=997.0)
SPENT = RecoveryBudget(takeovers=5, last_takeover_at=999.0, life=5)


@pytest.mark.behaviour("F17")
@pytest.mark.parametrize(
    ("run", "reason", "part"),
    [
        (QUEUED, Reason.WAITING, "due for 10 s"),
        (replace(QUEUED, not_before=NOW - ON_ITS_WAY), Reason.WAITING, "due for 1 s"),
        (replace(QUEUED, not_before=1002.5), Reason.BACKOFF, "in 2.5 s"),
        (ACTIVE, Reason.LEASE_ENDED, "ended 10 s ago"),
        (replace(ACTIVE, lease_until=None), Reason.LEASE_ENDED, "is gone"),
        (replace(ACTIVE, lease_until=1010.0, stop=STOP), Reason.STOPPING, "3 s ago"),
        (LET_GO, Reason.WAITING, "due for"),
        (replace(LET_GO, not_before=1003.2), Reason.BACKOFF, "(store): takeover 1 of 5 comes in 3.2 s"),
        (
            replace(LET_GO, not_before=1003.2, budget=RecoveryBudget(takeovers=2, last_takeover_at=999.0, life=2)),
            Reason.BACKOFF,
            "takeover 3 of 5",
        ),
        (replace(LET_GO, not_before=1000.5, cause=Cause.HANDOFF), Reason.BACKOFF, "next claim comes in 0.5 s"),
        (replace(LET_GO, budget=SPENT), Reason.SETTLING, "(window)"),
        (replace(LET_GO, stop=STOP), Reason.SETTLING, "A stop"),
        (replace(QUEUED, status=Status.PARKED), Reason.PARKED, "answer"),
        (replace(QUEUED, status=Status.PARKED, wake_at=1004.0), Reason.PARKED, "wakes in 4.0 s"),
        (replace(QUEUED, status=Status.PARKED, wake_at=999.0), Reason.WAITING, "due"),
    ],
)
def test_a_run_that_is_not_moving_says_why(run: Run, reason: Reason, part: str) -> None:
    found = explain(run, POLICY, now=NOW, workers={"chat"})
    assert found is not None
    assert (found.reason, part in found.message) == (reason, True), found


@pytest.mark.behaviour("B18")
def test_a_refusal_holds_a_due_run_back_and_is_told_until_its_cool_down_is_over() -> None:
    found = explain(QUEUED, POLICY, now=NOW, workers={"chat"}, refused_until=NOW + 12)
    assert found is not None
    assert (found.reason, found.message) == (
        Reason.REFUSED,
        "Its admission was refused: it is asked for again in 12 s.",
    )
    over = explain(QUEUED, POLICY, now=NOW, workers={"chat"}, refused_until=NOW)
    assert over is not None
    assert over.reason is Reason.WAITING
    waiting = explain(replace(QUEUED, not_before=1002.5), POLICY, now=NOW, refused_until=NOW + 12)
    assert waiting is not None
    assert waiting.reason is Reason.BACKOFF


def test_a_run_that_moves_or_is_finished_says_nothing() -> None:
    assert explain(replace(ACTIVE, lease_until=1010.0), POLICY, now=NOW) is None
    assert explain(replace(QUEUED, not_before=NOW - ON_ITS_WAY + 0.01), POLICY, now=NOW) is None
    settled = replace(QUEUED, status=Status.COMPLETED, outcome=Completed(), settled_at=999.0, worker="unknown")
    assert explain(settled, POLICY, now=NOW, workers=()) is None


def test_a_worker_that_nobody_has_is_told_first_but_not_of_a_run_that_is_stopped() -> None:
    for run in (QUEUED, ACTIVE, replace(LET_GO, not_before=1003.2)):
        found = explain(run, POLICY, now=NOW, workers={"other"})
        assert found is not None
        assert found.reason is Reason.NO_WORKER
    stopped = explain(replace(QUEUED, stop=STOP), POLICY, now=NOW, workers={"other"})
    assert stopped is not None
    assert stopped.reason is Reason.SETTLING
    held_elsewhere = replace(ACTIVE, lease_until=1010.0)
    assert explain(held_elsewhere, POLICY, now=NOW, workers={"other"}) is None


def test_every_row_has_an_answer_and_only_moving_or_finished_ones_have_no_sentence() -> None:
    statuses: list[Any] = [*Status]
    for status, until, holder, stop, not_before, cause, wake_at in product(
        statuses,
        (None, 990.0, 1010.0),
        (None, "n"),
        (None, STOP),
        (990.0, 1010.0),
        (None, *Cause),
        (None, 990.0, 1010.0),
    ):
        run = replace(
            QUEUED,
            status=status,
            lease_until=until if holder else None,
            holder=holder,
            stop=stop,
            not_before=not_before,
            cause=cause,
            wake_at=wake_at,
        )
        found = explain(run, POLICY, now=NOW, workers={"chat"})
        live = holder is not None and until == 1010.0
        assert (found is None) == (status.is_terminal or (live and stop is None)), run
        if found is not None and found.reason in {Reason.WAITING, Reason.LEASE_ENDED}:
            assert isinstance(plan(run, POLICY, now=NOW, jitter=0.0), Claim)
        if found is not None and found.reason is Reason.PARKED and wake_at is None:
            assert isinstance(plan(run, POLICY, now=NOW, jitter=0.0), Leave)
