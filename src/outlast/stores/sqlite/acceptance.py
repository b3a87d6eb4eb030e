"""Accepting runs, and finding them again."""

import json
import math
import sqlite3
from collections.abc import Collection, Sequence
from typing import Final

from outlast.errors import IdConflict, ThreadBusy
from outlast.log.cursor import origin
from outlast.run import Cancelled, Status, terminal
from outlast.stores.base import EARLY_STOP_TTL, Loaded, NewRun, Started
from outlast.stores.sqlite import events
from outlast.stores.sqlite.rows import (
    Corrupt,
    check_not_gone,
    find,
    loaded_of,
    outcome_columns,
    page,
    read,
    readable,
    require,
    run_of,
)
from outlast.stores.sqlite.statement import load as load_statement
from outlast.stores.sqlite.transaction import Query, Transaction

FIND_RECOVERING: Final = load_statement("find_recovering")
INSERT_RUN: Final = load_statement("insert_run")
OPEN_LOG: Final = load_statement("open_log")
LIST_RUNS: Final = load_statement("list_runs")
LIST_RUNS_OF_STATUS: Final = load_statement("list_runs_of_status")
LIST_RUNS_OF_THREAD: Final = load_statement("list_runs_of_thread")

LAST_NUMBER: Final = 2**63 - 1


def start(transaction: Transaction, new: NewRun) -> Started:
    """Accept a run, or find it accepted."""
    known = find(transaction, new.owner, new.id)
    if known is not None:
        if known["digest"] != new.digest:
            raise IdConflict("This id already names a run with another worker, thread or input.")
        return Started(run=run_of(known, now=transaction.now), created=False)
    check_not_gone(transaction, new.owner, new.id)
    if new.thread is not None:
        _check_thread(transaction, new.owner, new.thread)
    number = _insert(transaction, new, _early_stop(transaction, new))
    transaction.stir()
    return Started(run=read(transaction, number), created=True)


def load(query: Query, owner: str, id: str) -> Loaded:
    """Return a run, the time it was read, and until when a refusal holds it back."""
    return loaded_of(require(query, owner, id), now=query.now)


def load_all(query: Query, keys: Collection[tuple[str, str]], *, corrupt: Corrupt) -> Sequence[Loaded]:
    """Return what `load` would for each run that is found."""
    rows = [row for owner, id in keys if (row := find(query, owner, id)) is not None]
    return readable(rows, loaded_of, now=query.now, corrupt=corrupt)


def recovering(query: Query, keys: Collection[tuple[str, str]]) -> Collection[str]:
    """Return the log of each run that is active and that no live node holds."""
    rows = query.execute(FIND_RECOVERING, {"keys": json.dumps(list(keys)), "now": query.now})
    return {row["log"] for row in rows}


def list_runs(
    query: Query,
    owner: str,
    *,
    status: Status | None,
    before: str | None,
    limit: int,
    thread: str | None,
    corrupt: Corrupt,
) -> Sequence[Loaded]:
    """Return a page of the owner's runs, as `load` would."""
    last = None if before is None else _place(query, owner, before)
    statement = LIST_RUNS if status is None else LIST_RUNS_OF_STATUS
    if thread is not None:
        statement = LIST_RUNS_OF_THREAD
    asked = {
        "owner": owner,
        "thread": thread,
        "status": status,
        "created_at": math.inf if last is None else last["created_at"],
        "number": LAST_NUMBER if last is None else last["number"],
        "now": query.now,
    }

    def fetch(limit: int) -> Sequence[sqlite3.Row]:
        return query.execute(statement, {**asked, "limit": limit}).fetchall()

    return page(fetch, loaded_of, limit, now=query.now, corrupt=corrupt)


def _place(query: Query, owner: str, id: str) -> sqlite3.Row:
    """Return where a run stands in its owner's list, or stood before it was gone. Raises `RunNotFound`."""
    place: sqlite3.Row | None = query.execute(
        "SELECT created_at, number FROM tombstones WHERE owner = ? AND id = ?", (owner, id)
    ).fetchone()
    return require(query, owner, id) if place is None else place


def _check_thread(transaction: Transaction, owner: str, thread: str) -> None:
    live = transaction.execute(
        "SELECT id FROM runs WHERE owner = ? AND thread = ? AND settled_at IS NULL", (owner, thread)
    ).fetchone()
    if live is not None:
        raise ThreadBusy("This thread has a run that is not settled yet.", live=live["id"])


def _early_stop(transaction: Transaction, new: NewRun) -> sqlite3.Row | None:
    """Return the stop that came before this run, if there is one that counts; it is forgotten either way."""
    stop: sqlite3.Row | None = transaction.execute(
        "DELETE FROM early_stops WHERE owner = ? AND id = ? RETURNING at, reason", (new.owner, new.id)
    ).fetchone()
    return stop if stop is not None and stop["at"] > transaction.now - EARLY_STOP_TTL else None


def _insert(transaction: Transaction, new: NewRun, stop: sqlite3.Row | None) -> int:
    outcome = None if stop is None else Cancelled(reason=stop["reason"])
    number = transaction.execute(
        INSERT_RUN,
        {
            "owner": new.owner,
            "id": new.id,
            "log": new.log,
            "worker": new.worker,
            "thread": new.thread,
            "digest": new.digest,
            "status": Status.QUEUED if outcome is None else Status.CANCELLED,
            "stop_at": None if stop is None else stop["at"],
            "stop_reason": None if stop is None else stop["reason"],
            "outcome": None if outcome is None else outcome_columns(outcome)[0],
            "now": transaction.now,
        },
    ).lastrowid
    assert number is not None
    transaction.execute(
        "INSERT INTO inputs (run, input, metadata, traceparent) VALUES (?, ?, ?, ?)",
        (number, new.input, new.metadata, new.traceparent),
    )
    transaction.size += len(new.input) + len(new.metadata)
    transaction.execute(
        OPEN_LOG, {"number": number, "id": new.log, "chain": origin(new.log).chain, "now": transaction.now}
    )
    if outcome is not None:
        events.seal(transaction, events.find(transaction, new.log), terminal(outcome), epoch=0, claim=None)
    return number
