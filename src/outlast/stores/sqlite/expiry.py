"""How a run ends as a row: erased or past its retention, it becomes a tombstone, and its log is deleted in slices.

Rules:
1. The row, what it was given and the log's own row go in one transaction, and the tombstone comes: from then on the
   run is gone. Its events follow in slices, each one operation that lets others run before the next.
2. A slice is `SLICE_ROWS` events or `SLICE_BYTES`, of one log or of many small ones.
3. Each step does one kind of work: what is begun first, then runs that are due, then tombstones, then room.
"""

from typing import Final

from outlast.errors import NO_SUCH_RUN, RunLive, RunNotFound
from outlast.stores.base import ABORT_WAIT, Expired
from outlast.stores.sqlite import vacuum
from outlast.stores.sqlite.events import PLACE_BITS, SEQ_LIMIT
from outlast.stores.sqlite.rows import check_not_gone
from outlast.stores.sqlite.statement import load
from outlast.stores.sqlite.transaction import Query, Transaction

BURY_RUN: Final = load("bury_run")
FIND_EXPIRED: Final = load("find_expired")
FIND_SLICE: Final = load("find_slice")

SLICE_ROWS: Final = 512
"""Events deleted at once: as many as one group of appends writes."""
SLICE_BYTES: Final = 1024 * 1024
"""Bytes of payload deleted at once, give or take one event: their pages are written as free ones."""
RUNS: Final = 32
"""Runs that become tombstones at once: each is a handful of rows."""
TOMBSTONES: Final = 256
"""Tombstones deleted at once."""


def erase(transaction: Transaction, owner: str, id: str) -> int:
    """Make a settled run a tombstone, and return its number."""
    row = transaction.execute("SELECT number, settled_at FROM runs WHERE owner = ? AND id = ?", (owner, id)).fetchone()
    if row is None:
        check_not_gone(transaction, owner, id)
        raise RunNotFound(NO_SUCH_RUN)
    if row["settled_at"] is None:
        raise RunLive("Only a run that has ended can be erased: stop it first.")
    if row["settled_at"] > transaction.now - ABORT_WAIT and _is_aborting(transaction, row["number"]):
        raise RunLive("The run has ended, and its worker is still to be told: erase it in a moment.")
    _bury(transaction, row["number"])
    return int(row["number"])


def empty(transaction: Transaction, number: int) -> bool:
    """Delete one slice of the events of a run that is gone; say whether none is left."""
    return _delete_events(transaction, number, _Room())


def is_due(query: Query, *, finished: float, gone: float) -> bool:
    """Say whether `expire` would find anything to do."""
    asked = _ages(query, finished=finished, gone=gone)
    return (
        query.execute("SELECT 1 FROM tombstones WHERE NOT emptied LIMIT 1").fetchone() is not None
        or query.execute(FIND_EXPIRED, {**asked, "limit": 1}).fetchone() is not None
        or query.execute("SELECT 1 FROM tombstones WHERE gone_at <= :gone LIMIT 1", asked).fetchone() is not None
        or vacuum.is_wanted(query)
    )


def expire(transaction: Transaction, *, finished: float, gone: float) -> Expired:
    """Do one step of whatever is to be done."""
    asked = _ages(transaction, finished=finished, gone=gone)
    runs = tombstones = 0
    if not _empty_some(transaction):
        runs = _bury_some(transaction, asked)
        if not runs:
            tombstones = _forget_some(transaction, asked)
            if not tombstones and vacuum.is_wanted(transaction):
                vacuum.step(transaction)
    return Expired(runs=runs, tombstones=tombstones, more=is_due(transaction, finished=finished, gone=gone))


def _ages(query: Query, *, finished: float, gone: float) -> dict[str, float]:
    before = query.now - finished
    return {"finished": before, "waited": before - ABORT_WAIT, "gone": query.now - gone}


def _is_aborting(query: Query, number: int) -> bool:
    return query.execute("SELECT 1 FROM outbox WHERE run = ?", (number,)).fetchone() is not None


# ---- steps --------------------------------------------------------------------------------------


def _bury_some(transaction: Transaction, asked: dict[str, float]) -> int:
    expired = transaction.execute(FIND_EXPIRED, {**asked, "limit": RUNS}).fetchall()
    for row in expired:
        _bury(transaction, row["number"])
    return len(expired)


def _bury(transaction: Transaction, number: int) -> None:
    transaction.execute(BURY_RUN, {"number": number, "now": transaction.now})
    transaction.execute("DELETE FROM runs WHERE number = ?", (number,))
    transaction.execute("DELETE FROM logs WHERE number = ?", (number,))
    for table in ("inputs", "refusals", "checkpoints", "outbox"):
        transaction.execute(f"DELETE FROM {table} WHERE run = ?", (number,))  # noqa: S608 - names of ours


def _empty_some(transaction: Transaction) -> bool:
    """Delete a slice of what is left of logs that are gone; False when nothing is."""
    waiting = transaction.execute("SELECT number FROM tombstones WHERE NOT emptied LIMIT ?", (SLICE_ROWS,)).fetchall()
    room = _Room()
    for row in waiting:
        if not room.is_left or not _delete_events(transaction, row["number"], room):
            break
    return bool(waiting)


class _Room:
    """How much of a slice is left."""

    def __init__(self) -> None:
        self.rows = SLICE_ROWS
        self.bytes = SLICE_BYTES

    @property
    def is_left(self) -> bool:
        return self.rows > 0 and self.bytes > 0


def _delete_events(transaction: Transaction, number: int, room: _Room) -> bool:
    """Delete events of a run that is gone while there is room; say whether none is left."""
    begin = last = number << PLACE_BITS
    found = transaction.execute(
        FIND_SLICE, {"after": begin, "before": begin + SEQ_LIMIT, "limit": room.rows}
    ).fetchall()
    whole = len(found) < room.rows
    for row in found:
        if not room.is_left:
            whole = False
            break
        last = row["place"]
        room.rows -= 1
        room.bytes -= row["size"]
        transaction.size += row["size"] // 8  # about what of it is written again, as free pages
    transaction.execute("DELETE FROM events WHERE place > ? AND place <= ?", (begin, last))
    if whole:
        transaction.execute("UPDATE tombstones SET emptied = 1 WHERE number = ?", (number,))
        room.rows -= 1  # a log without events is work as well
    return whole


def _forget_some(transaction: Transaction, asked: dict[str, float]) -> int:
    forgotten: int = transaction.execute(
        "DELETE FROM tombstones WHERE number IN (SELECT number FROM tombstones WHERE gone_at <= :gone LIMIT :limit)",
        {**asked, "limit": TOMBSTONES},
    ).rowcount
    return forgotten
