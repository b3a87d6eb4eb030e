"""Runs whose rows cannot be read: which ones were come upon, and how one is settled all the same."""

import sqlite3
from collections.abc import Sequence
from typing import Final

from outlast.errors import NO_SUCH_RUN, ClaimLost, RunNotFound, StoreCorrupt
from outlast.lineage import Kind
from outlast.run import Outcome, Status, after, move_of, terminal
from outlast.stores.sqlite import events, lineage
from outlast.stores.sqlite.rows import outcome_columns, run_of
from outlast.stores.sqlite.statement import load
from outlast.stores.sqlite.transaction import Query, Transaction

FIND_CORRUPT: Final = load("find_corrupt")
REPAIR_INPUT: Final = load("repair_input")
SETTLE_CORRUPT: Final = load("settle_corrupt")

REMEMBERED: Final = 1000
"""Logs remembered: more than a person would look after one by one."""


class Unreadable:
    """The logs of runs that this process came upon and could not read, in the order it met them."""

    def __init__(self) -> None:
        self._logs: dict[str, None] = {}

    @property
    def logs(self) -> Sequence[str]:
        """Those remembered."""
        return tuple(self._logs)

    def meet(self, log: str) -> None:
        """Remember one; beyond `REMEMBERED` the others' turn comes when these are settled."""
        if len(self._logs) < REMEMBERED:
            self._logs[log] = None

    def forget(self, log: str) -> None:
        """Forget one that can be read again."""
        self._logs.pop(log, None)


def is_corrupt(query: Query, log: str) -> bool:
    """Say whether there is a run of this log whose row cannot be read."""
    row = query.execute(FIND_CORRUPT, {"log": log}).fetchone()
    try:
        if row is not None:
            run_of(row, now=query.now)
    except StoreCorrupt:
        return True
    return False


def settle(transaction: Transaction, log: str, outcome: Outcome, *, claim: str) -> None:
    """Settle a run whose row cannot be read, and make it readable."""
    row = transaction.execute(FIND_CORRUPT, {"log": log}).fetchone()
    if row is None:
        raise RunNotFound(NO_SUCH_RUN)
    lease = row["lease_until"]
    if row["settled_at"] is not None or (isinstance(lease, float) and lease > transaction.now):
        raise ClaimLost("The run has its outcome, or is held.")
    try:
        run_of(row, now=transaction.now)
    except StoreCorrupt:
        _settle(transaction, row, outcome, claim=claim)
    else:
        raise ClaimLost("The run can be read: it is settled like any other.")


def _settle(transaction: Transaction, row: sqlite3.Row, outcome: Outcome, *, claim: str) -> None:
    status = after(Status(row["status"]), move_of(outcome))
    text, result = outcome_columns(outcome)
    asked = {"number": row["number"], "now": transaction.now, "claim": claim}
    transaction.execute(SETTLE_CORRUPT, {**asked, "status": status, "outcome": text, "result": result})
    transaction.execute(REPAIR_INPUT, asked)
    lineage.add(transaction, row["number"], Kind.SETTLE, cause=None, node=None)
    for table in ("refusals", "checkpoints"):
        transaction.execute(f"DELETE FROM {table} WHERE run = :number", asked)  # noqa: S608 - names of ours
    transaction.stir()
    try:
        head = events.find(transaction, row["log"])
    except (RunNotFound, StoreCorrupt):
        return  # there is no log that could tell
    if not head["sealed"]:
        events.seal(transaction, head, terminal(outcome), epoch=row["epoch"] + 1, claim=claim)
