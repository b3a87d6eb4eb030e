"""What a run may cost: each call is paid for, takeovers are counted, and neither goes past its bound."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from outlast.run import Status
from outlast.stores.base import Charge
from outlast.testing.history import History
from outlast.testing.observation import (
    CallBegan,
    CallEnded,
    Charged,
    Claimed,
    RowSeen,
)

LATE: Final = 5.0
"""Seconds a call of the worker may go on after its run has its outcome."""
SLACK: Final = 1e-6
"""Seconds by which two sums of the same times may differ."""


def charge_before_work(history: History) -> Iterator[str]:
    """Find calls of the worker without one committed charge of their own before them, by the same claim."""
    charged: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    owner: dict[tuple[str, int], int] = {}
    called: Counter[tuple[str, int]] = Counter()
    for each in history.observations:
        match each:
            case Charged(run=run, token=token, number=number, charge=Charge.GRANTED):
                charged[run, token.epoch].add(number)
                if owner.setdefault((run, number), token.epoch) != token.epoch:
                    yield f"call {number} of run {run} was charged by two claims"
            case CallBegan(run=run, epoch=epoch):
                called[run, epoch] += 1
                if called[run, epoch] > len(charged[run, epoch]):
                    yield f"epoch {epoch} of run {run} made a call that it had not paid for"
            case _:
                pass


def bounded_calls(history: History) -> Iterator[str]:
    """Find more calls than are counted, and more calls or takeovers counted than the policy allows."""
    policy = history.policy
    called = Counter(each.run for each in history.of(CallBegan))
    for row in history.rows.values():
        if called[row.id] > row.budget.calls:
            yield f"run {row.id} was called {called[row.id]} times and counted {row.budget.calls}"
    for each in history.of(RowSeen):
        budget = each.row.budget
        if budget.calls > policy.call_limit(budget):
            yield f"run {each.row.id} has used {budget.calls} calls of {policy.call_limit(budget)}"
        if budget.life > policy.life or budget.takeovers > policy.takeovers:
            yield f"run {each.row.id} was taken over {budget.takeovers} times in a window, {budget.life} in its life"


def budget_with_epoch(history: History) -> Iterator[str]:
    """Find claims that charge another number than one for an active run, and budgets that no claim changed."""
    for each in history.of(Claimed):
        before, after = each.before.budget, each.after.budget
        charged = after.life + after.handoffs - before.life - before.handoffs
        if charged != (each.before.status is Status.ACTIVE):
            yield f"a claim of the {each.before.status} run {each.before.id} charged {charged}"
    for log, seen in history.rows_seen().items():
        for earlier, later in pairwise(seen):
            one, two = earlier.row.budget, later.row.budget
            moved = (one.takeovers, one.life, one.handoffs) != (two.takeovers, two.life, two.handoffs)
            if moved and earlier.row.epoch == later.row.epoch:
                yield f"the budget of log {log} changed within epoch {later.row.epoch}"
        if any(len(each.row.budget.causes) != each.row.budget.life for each in seen):
            yield f"log {log} has not one cause for each takeover"


def not_before(history: History) -> Iterator[str]:
    """Find claims before the row's `not_before`, or `wake_at` for a parked run, by the store's clock."""
    for each in history.of(Claimed):
        due = each.before.wake_at if each.before.status is Status.PARKED else each.before.not_before
        if due is None or each.after.updated_at < due - SLACK:
            yield f"run {each.before.id} was claimed at {each.after.updated_at}, before {due}"


def later_takeovers_wait(history: History) -> Iterator[str]:
    """Find takeovers whose next one may come sooner than the backoff's floor after they were decided (B4)."""
    for each in history.of(Claimed):
        budget = each.after.budget
        if budget.life == each.before.budget.life or budget.last_takeover_at is None:
            continue
        floor = history.policy.pause(budget.takeovers, jitter=0.0)
        gap = each.after.not_before - budget.last_takeover_at
        if gap < floor - SLACK:
            yield f"run {each.after.id} may be taken over again {gap:g} s after takeover {budget.takeovers}"


def calls_end_with_their_run(history: History) -> Iterator[str]:
    """Find calls alive `LATE` seconds after the outcome of their run, other than those that are deaf."""
    settled = _settled_at(history)
    ended = {(each.run, each.number): each for each in history.of(CallEnded)}
    over = max((each.at for each in history.observations), default=0.0)
    for call in history.of(CallBegan):
        if call.run not in settled:
            continue
        end = ended.get((call.run, call.number))
        until = over if end is None else end.at
        if until > max(settled[call.run], call.at) + LATE + SLACK and not (end is not None and end.deaf):
            yield f"call {call.number} of run {call.run} was alive {until - settled[call.run]:g} s after its outcome"


def _settled_at(history: History) -> dict[str, float]:
    settled: dict[str, float] = {}
    for each in history.of(RowSeen):
        if each.row.status.is_terminal:
            settled.setdefault(each.row.id, each.at)
    return settled
