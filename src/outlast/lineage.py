"""The lineage of a run: one entry for every epoch it ever had, so that anyone can tell who held it, and why.

Rules:
1. Whatever raises the epoch leaves one entry, in the same transaction: a claim, a settling without a controller (a
   stop that settles is one). Nothing else does.
2. An entry never changes. It goes with its run, and the recovery budget bounds how many there are.
3. A run from before lineages were kept has none for its first epochs; the entries it has follow each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from outlast.run import Cause, RecoveryBudget


class Kind(StrEnum):
    """Why an epoch began."""

    CLAIM = "claim"
    """The first controller, or the waking of a parked run."""
    TAKEOVER = "takeover"
    """The controller before it died or failed: charged."""
    HANDOFF = "handoff"
    """The controller before it let go on purpose: free."""
    SETTLE = "settle"
    """The run got its outcome while nobody held it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One epoch: `claim` is its claim id, `node` who claimed, None for a settling; `at` is by the store's clock.

    `cause` is why the controller before let go, for a takeover and a hand-off. `calls` counts the worker calls that
    the run had used by then.
    """

    epoch: int
    claim: str
    node: str | None
    at: float
    kind: Kind
    cause: Cause | None
    calls: int


Lineage: TypeAlias = Sequence[Entry]
"""The entries of one run, oldest first."""


def kind_of(before: RecoveryBudget, after: RecoveryBudget) -> tuple[Kind, Cause | None]:
    """Return what a claim was, and its cause, from what it charged."""
    if after.life > before.life:
        return Kind.TAKEOVER, after.causes[-1] if after.causes else None
    if after.handoffs > before.handoffs:
        return Kind.HANDOFF, Cause.HANDOFF
    return Kind.CLAIM, None
