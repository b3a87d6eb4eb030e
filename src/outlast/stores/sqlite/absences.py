"""Which workers no node has, for how long, and the runs that wait for them in vain."""

import json
import sqlite3
from collections.abc import Collection, Sequence
from typing import Final

from outlast.run import Run
from outlast.stores.sqlite.rows import Corrupt, page, run_of
from outlast.stores.sqlite.statement import load
from outlast.stores.sqlite.transaction import Query, Transaction

FIND_ABSENCE: Final = load("find_absence")
FIND_FORSAKEN: Final = load("find_forsaken")
FORGET_ABSENCES: Final = load("forget_absences")
NOTE_ABSENCES: Final = load("note_absences")


def is_to_note(query: Query, workers: Collection[str]) -> bool:
    """Say whether there is anything to note, so that a look at a house in order needs no write."""
    return bool(query.execute(FIND_ABSENCE, {"workers": json.dumps(sorted(workers))}).fetchone()[0])


def note(transaction: Transaction, workers: Collection[str], *, every: float) -> None:
    """Note which workers are here, and for how much longer the others have been absent."""
    asked = {"workers": json.dumps(sorted(workers)), "now": transaction.now, "every": every}
    transaction.execute(FORGET_ABSENCES, asked)
    transaction.execute(NOTE_ABSENCES, asked)


def forsaken(query: Query, *, after: float, limit: int, corrupt: Corrupt) -> Sequence[Run]:
    """Return runs whose worker has been on no node for `after` seconds."""
    asked = {"now": query.now, "after": after}

    def fetch(limit: int) -> Sequence[sqlite3.Row]:
        return query.execute(FIND_FORSAKEN, {**asked, "limit": limit}).fetchall()

    return page(fetch, run_of, limit, now=query.now, corrupt=corrupt)
