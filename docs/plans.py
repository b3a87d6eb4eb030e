"""Asks the decision about recovery what it decides, of one run after another: the rows of the plan in recovery.md.

The sentences are written here, the answers are the decision's own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from outlast.recovery import Cancel, Claim, Exhaust, Leave, Plan, RecoveryPolicy, Wait, plan
from outlast.run import Cause, RecoveryBudget, Run, Status, StopIntent

POLICY = RecoveryPolicy()
NOW = 10_000.0
NEW = Run(owner="", id="run", log="log", worker="chat", input=b"null", digest=b"")
ACTIVE = replace(NEW, status=Status.ACTIVE, epoch=1, claim="claim", holder="node", lease_until=NOW)
PARKED = replace(ACTIVE, status=Status.PARKED)
ONCE = RecoveryBudget(takeovers=1, last_takeover_at=NOW - 1, life=1)
SPENT = RecoveryBudget(takeovers=POLICY.takeovers, last_takeover_at=NOW - 1, life=POLICY.takeovers)
LATE = replace(SPENT, last_takeover_at=NOW - POLICY.window)

FOUND: Mapping[str, Run] = {
    "has its outcome": replace(NEW, status=Status.COMPLETED),
    "is held, its node's lease live": replace(ACTIVE, lease_until=NOW + 1),
    "was never claimed": NEW,
    "was never claimed, and is stopped": replace(NEW, stop=StopIntent(at=NOW)),
    "lost its node": ACTIVE,
    "lost its node, and is stopped": replace(ACTIVE, stop=StopIntent(at=NOW), budget=SPENT),
    "lost its node again, a moment later": replace(ACTIVE, budget=ONCE, not_before=NOW + 1),
    "lost its node again, and has waited": replace(ACTIVE, budget=ONCE),
    "has had all the takeovers of its window": replace(ACTIVE, budget=SPENT),
    "has had them, and was driven for a window since": replace(ACTIVE, budget=LATE),
    "has had them, and was left alone for a window since": replace(
        ACTIVE, holder=None, updated_at=NOW - POLICY.window + 9, budget=LATE
    ),
    "has had all the takeovers of its life": replace(ACTIVE, budget=replace(LATE, life=POLICY.life)),
    "has had all its calls": replace(ACTIVE, budget=RecoveryBudget(calls=POLICY.calls)),
    "was handed off by a deploy": replace(ACTIVE, cause=Cause.HANDOFF, budget=SPENT),
    "was handed off once too often": replace(
        ACTIVE, cause=Cause.HANDOFF, budget=RecoveryBudget(handoffs=POLICY.handoffs)
    ),
    "is parked, and waits for nobody's time": PARKED,
    "is parked until later": replace(PARKED, wake_at=NOW + 1),
    "is parked, and its time has come": replace(PARKED, wake_at=NOW),
}
"""A run as a node finds it, in the middle of the night."""


def rows() -> Iterator[tuple[str, str]]:
    """Return what a node finds, and what it does."""
    for found, run in FOUND.items():
        yield found, _told(run, plan(run, POLICY, now=NOW, jitter=0.5))


def _told(run: Run, decided: Plan) -> str:
    match decided:
        case Leave():
            return "leaves it alone"
        case Wait():
            return "waits until its time"
        case Claim(budget=budget):
            return f"claims it: {_charged(run.budget, budget)}"
        case Exhaust(limit=limit):
            return f"settles it: `failed(recovery_exhausted)`, limit `{limit}`"
        case Cancel():
            return "settles it: `cancelled`"
        case _:
            assert_never(decided)


def _charged(before: RecoveryBudget, after: RecoveryBudget) -> str:
    if after.life > before.life:
        fresh = " of a fresh window" if after.takeovers == 1 and before.takeovers else ""
        return f"takeover {after.takeovers}{fresh}, charged"
    if after.handoffs > before.handoffs:
        return f"hand-off {after.handoffs}, free"
    return "free"
