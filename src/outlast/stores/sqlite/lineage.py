"""Who held a run, as rows: written in the transaction that raises its epoch, read oldest first."""

import sqlite3
from typing import Final

from outlast.errors import StoreCorrupt
from outlast.lineage import Entry, Kind, Lineage
from outlast.run import Cause
from outlast.stores.sqlite.rows import require
from outlast.stores.sqlite.statement import load
from outlast.stores.sqlite.transaction import Query, Transaction

INSERT_LINEAGE: Final = load("insert_lineage")


def add(transaction: Transaction, number: int, kind: Kind, *, cause: Cause | None, node: str | None) -> None:
    """Write the entry of the epoch that the run with this number has now."""
    asked = {"number": number, "kind": kind, "cause": cause, "node": node, "now": transaction.now}
    transaction.execute(INSERT_LINEAGE, asked)


def find(query: Query, owner: str, id: str) -> Lineage:
    """Return the entries of a run. Raises `RunNotFound`, `StoreCorrupt`."""
    number = require(query, owner, id)["number"]
    rows = query.execute("SELECT * FROM lineage WHERE run = ? ORDER BY epoch", (number,)).fetchall()
    return [_entry(row) for row in rows]


def _entry(row: sqlite3.Row) -> Entry:
    try:
        return Entry(
            epoch=row["epoch"],
            claim=row["claim"],
            node=row["node"],
            at=row["at"],
            kind=Kind(row["kind"]),
            cause=None if row["cause"] is None else Cause(row["cause"]),
            calls=row["calls"],
        )
    except ValueError as error:
        raise StoreCorrupt("The lineage of a run cannot be read.") from error
