"""What becomes of a run: legal moves, nobody forgotten, one outcome, and a worker that is told of it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

from outlast import facts
from outlast.backoff import JITTER
from outlast.run import TRANSITIONS, Completed, Run, Status
from outlast.stores.base import Charge, StopAnswer
from outlast.testing.history import History
from outlast.testing.observation import (
    AbortTold,
    Charged,
    Claimed,
    FactReported,
    FaultMet,
    PrerequisiteRefused,
    RowSeen,
    Settled,
    StopAnswered,
)

SLACK: Final = 1e-6
"""Seconds by which two sums of the same times may differ."""


def refusal_leaves_the_row(history: History) -> Iterator[str]:
    """Find rows that a refusing prerequisite did not leave as they were; the lease beside one is another row."""
    seen = {(each.at, replace(each.row, lease_until=None)) for each in history.of(RowSeen)}
    for each in history.of(PrerequisiteRefused):
        before, after = replace(each.before, lease_until=None), replace(each.after, lease_until=None)
        if before != after and (each.at, after) not in seen:  # else another operation of that moment changed it
            yield f"a refusal changed the row of run {each.before.id}"


def nobody_is_called_after_the_outcome(history: History) -> Iterator[str]:
    """Find runs that were charged or claimed after their outcome was durable."""
    settled: set[str] = set()
    for each in history.observations:
        match each:
            case Settled(after=row):
                settled.add(row.id)
            case RowSeen(row=row) if row.status.is_terminal:
                settled.add(row.id)
            case Charged(run=run, charge=Charge.GRANTED) if run in settled:
                yield f"run {run} was charged for a call after its outcome"
            case Claimed(before=row) if row.id in settled:
                yield f"run {row.id} was claimed after its outcome"
            case _:
                pass


def legal_transitions(history: History) -> Iterator[str]:
    """Find rows that moved in a way the table does not have, or after their outcome."""
    for log, seen in history.rows_seen().items():
        for earlier, later in pairwise(seen):
            moved = earlier.row.status is not later.row.status
            if moved and later.row.status not in TRANSITIONS[earlier.row.status].values():
                yield f"log {log} went from {earlier.row.status} to {later.row.status}"
            if earlier.row.status.is_terminal and later.row != earlier.row:
                yield f"log {log} changed after its outcome"


def nobody_forgotten(history: History) -> Iterator[str]:
    """Find unsettled runs that are neither due at a time that comes soon nor parked until a time (O1)."""
    cap = history.policy.cap * (1 + JITTER)
    for each in history.of(RowSeen):
        row = each.row
        if row.status.is_terminal:
            continue
        if row.status is Status.PARKED:
            if row.wake_at is None:
                yield f"run {row.id} is parked without a time"
        elif row.not_before > each.now + cap + SLACK:
            yield f"run {row.id} is not due for {row.not_before - each.now:g} s"


def stop_wins_once(history: History) -> Iterator[str]:
    """Find stopped runs that are neither cancelled nor completed before it, and runs with two outcomes."""
    outcomes: dict[str, object] = {}
    for each in history.of(Settled):
        if outcomes.setdefault(each.after.log, each.after.outcome) != each.after.outcome:
            yield f"run {each.after.id} has two outcomes"
    by_id = {row.id: row for row in history.rows.values()}
    for stop in history.of(StopAnswered):
        row = by_id.get(stop.run)
        if row is None or not stop.known or stop.answer is StopAnswer.ALREADY:
            continue
        allowed = {Status.CANCELLED} if stop.answer is StopAnswer.SETTLED else {Status.CANCELLED, Status.COMPLETED}
        if row.status.is_terminal and row.status not in allowed:
            yield f"run {row.id} was stopped ({stop.answer}) and is {row.status}"


def every_run_has_its_outcome(history: History) -> Iterator[str]:
    """Find what is left undecided at the end."""
    for row in history.rows.values():
        if not row.status.is_terminal:
            yield f"run {row.id} is {row.status} still, epoch {row.epoch}, held by {row.holder}"


def aborts_follow_the_outcome(history: History) -> Iterator[str]:
    """Find aborts without such an outcome or with another epoch, and runs that the worker was never told of."""
    settled: dict[str, Run] = {}
    for each in history.observations:
        match each:
            case RowSeen(row=row) if row.status.is_terminal:
                settled[row.id] = row
            case Settled(after=row):
                settled[row.id] = row
            case AbortTold(run=run, epoch=epoch):
                found = settled.get(run)
                if found is None or isinstance(found.outcome, Completed) or found.epoch != epoch:
                    yield f"the worker was told at epoch {epoch} that run {run} is over"
            case _:
                pass
    told = {each.run for each in history.of(AbortTold)}
    for row in history.rows.values():
        if row.status in {Status.FAILED, Status.CANCELLED} and row.id not in told and row.epoch > 0:
            yield f"the worker was never told that run {row.id} is over"


def told_once(history: History) -> Iterator[str]:
    """Find runs of which the worker was told twice."""
    for run, times in Counter(each.run for each in history.of(AbortTold)).items():
        if times > 1:
            yield f"the worker was told {times} times that run {run} is over"


def quiet(history: History) -> Iterator[str]:
    """Find trouble reported where no fault was injected."""
    troubles = (facts.StoreTroubled, facts.AbortFailed, facts.ControllerStoodDown, facts.ControllerPaused)
    if any(True for _ in history.of(FaultMet)):
        return
    for each in history.of(FactReported):
        if isinstance(each.fact, troubles):
            yield f"node {each.node} reports {each.fact} and nothing was wrong"
