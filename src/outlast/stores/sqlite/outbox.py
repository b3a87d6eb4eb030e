"""The outbox: workers that are to be told that a run is over."""

import json
from collections.abc import Collection, Sequence
from typing import Final

from outlast.stores.base import Abort
from outlast.stores.sqlite.rows import Corrupt, readable, run_of
from outlast.stores.sqlite.statement import load
from outlast.stores.sqlite.transaction import Query, Transaction

FIND_ABORT: Final = load("find_abort")
TAKE_ABORTS: Final = load("take_aborts")


def is_due(query: Query, workers: Collection[str]) -> bool:
    """Say whether there is anything to take, so that looking for it needs no write."""
    asked = {"workers": json.dumps(sorted(workers)), "now": query.now}
    return query.execute(FIND_ABORT, asked).fetchone() is not None


def take(
    transaction: Transaction, workers: Collection[str], *, hold: float, limit: int, corrupt: Corrupt
) -> Sequence[Abort]:
    """Return due rows and hide them from everybody for `hold` seconds.

    A row whose run cannot be read is deleted: nobody knows what the worker is to be told.
    """
    asked = {
        "workers": json.dumps(sorted(workers)),
        "now": transaction.now,
        "until": transaction.now + hold,
        "limit": limit,
    }
    taken = transaction.execute(TAKE_ABORTS, asked).fetchall()
    aborts = list[Abort]()
    for row in taken:
        found = transaction.execute("SELECT * FROM run_rows WHERE number = ?", (row["run"],)).fetchall()
        for run in readable(found, run_of, now=transaction.now, corrupt=corrupt):
            aborts.append(Abort(id=row["id"], run=run, tries=row["tries"]))
    for unreadable in {row["id"] for row in taken} - {abort.id for abort in aborts}:
        transaction.execute("DELETE FROM outbox WHERE id = ?", (unreadable,))
    return aborts


def delay(transaction: Transaction, abort: Abort, *, retry_in: float) -> None:
    """Let a row be due again later."""
    transaction.execute("UPDATE outbox SET due_at = ? WHERE id = ?", (transaction.now + retry_in, abort.id))


def finish(transaction: Transaction, abort: Abort) -> None:
    """Delete a row."""
    transaction.execute("DELETE FROM outbox WHERE id = ?", (abort.id,))
