"""What a run goes on from after a takeover: the newest checkpoint of its worker, in a row beside the run's."""

import sqlite3
from typing import Final

from outlast.errors import StoreCorrupt
from outlast.run import Checkpoint, Run, Token
from outlast.stores.sqlite.claims import require_held
from outlast.stores.sqlite.rows import require
from outlast.stores.sqlite.statement import load
from outlast.stores.sqlite.transaction import Query, Transaction

KEEP_CHECKPOINT: Final = load("keep_checkpoint")


def keep(transaction: Transaction, run: Run, token: Token, checkpoint: Checkpoint) -> None:
    """Keep a checkpoint for the controller that holds the run, unless it is not behind the one kept."""
    row = require_held(transaction, run, token)
    transaction.execute(KEEP_CHECKPOINT, {"run": row["number"], "seq": checkpoint.seq, "state": checkpoint.state})
    transaction.size += len(checkpoint.state)


def last(query: Query, run: Run) -> Checkpoint | None:
    """Return the checkpoint kept of a run, None when there is none."""
    number = require(query, run.owner, run.id)["number"]
    row: sqlite3.Row | None = query.execute("SELECT seq, state FROM checkpoints WHERE run = ?", (number,)).fetchone()
    if row is not None and not isinstance(row["state"], bytes):
        raise StoreCorrupt("The checkpoint of a run cannot be read.")
    return None if row is None else Checkpoint(seq=row["seq"], state=row["state"])
