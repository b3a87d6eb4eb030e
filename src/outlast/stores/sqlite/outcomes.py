"""How a run ends: settling it, by its controller or without one, and stopping it."""

import sqlite3
from collections.abc import Sequence
from typing import Final

from outlast import lease
from outlast.errors import ClaimLost
from outlast.lineage import Kind
from outlast.run import Cancelled, Completed, Outcome, Run, StopIntent, Token, after, move_of, terminal
from outlast.stores.base import EARLY_STOP_TTL, EARLY_STOPS, StopAnswer, Stopped
from outlast.stores.sqlite import events, lineage
from outlast.stores.sqlite.claims import check_token, is_own
from outlast.stores.sqlite.rows import (
    Corrupt,
    check_not_gone,
    find,
    outcome_columns,
    read,
    readable,
    require_same,
    run_of,
)
from outlast.stores.sqlite.statement import load
from outlast.stores.sqlite.transaction import Query, Transaction

FORGET_STOPS: Final = load("forget_stops")
REMEMBER_STOP: Final = load("remember_stop")
SETTLE_RUN: Final = load("settle_run")


def settle(transaction: Transaction, run: Run, token: Token, outcome: Outcome) -> Run:
    """Settle a run for the controller that holds it."""
    row = require_same(transaction, run)
    check_token(row, token)
    found = run_of(row, now=transaction.now)
    if found.status.is_terminal:
        return found
    log = events.find(transaction, found.log)
    events.check_fence(log, token)
    return _settle(transaction, found, log, outcome, token)


def settle_unheld(transaction: Transaction, run: Run, outcome: Outcome, *, claim: str) -> Run:
    """Settle a run as it was read, which nobody holds."""
    row = find(transaction, run.owner, run.id)
    if row is None or row["log"] != run.log:
        raise ClaimLost("The run is gone.")
    found = run_of(row, now=transaction.now)
    token = Token(epoch=run.epoch + 1, claim=claim)
    if found.status.is_terminal and is_own(row, token):
        return found
    held = lease.is_live(found.lease_until, now=transaction.now)
    if found.status.is_terminal or found.epoch != run.epoch or held:
        raise ClaimLost("The run changed since it was read, or is held.")
    return _settle(transaction, found, events.find(transaction, found.log), outcome, token)


def stop(transaction: Transaction, owner: str, id: str, *, reason: str | None, claim: str) -> Stopped:
    """Make a stop a durable fact; `claim` becomes the claim id of a run that it settles."""
    row = find(transaction, owner, id)
    if row is None:
        check_not_gone(transaction, owner, id)
        _remember(transaction, owner, id, reason)
        return Stopped(answer=StopAnswer.ACCEPTED, run=None)
    run = run_of(row, now=transaction.now)
    if run.status.is_terminal:
        return Stopped(answer=StopAnswer.ALREADY, run=run)
    intent = StopIntent(at=transaction.now, reason=reason)  # of two the first counts, here and in `_settle`
    if not lease.is_live(run.lease_until, now=transaction.now):
        token = Token(epoch=run.epoch + 1, claim=claim)
        log = events.find(transaction, run.log)
        settled = _settle(transaction, run, log, Cancelled(reason=reason), token, stop=intent)
        return Stopped(answer=StopAnswer.SETTLED, run=settled)
    if run.stop is None:
        transaction.execute(
            "UPDATE runs SET stop_at = ?, stop_reason = ?, updated_at = ? WHERE number = ?",
            (intent.at, intent.reason, transaction.now, row["number"]),
        )
        transaction.stir()
    return Stopped(answer=StopAnswer.ACCEPTED, run=read(transaction, row["number"]))


def stops(query: Query, node: str, *, corrupt: Corrupt) -> Sequence[Run]:
    """Return the runs that a node holds and is to stop."""
    rows = query.execute(
        "SELECT * FROM run_rows WHERE holder = ? AND stop_at IS NOT NULL AND settled_at IS NULL", (node,)
    ).fetchall()
    return readable(rows, run_of, now=query.now, corrupt=corrupt)


def _settle(
    transaction: Transaction,
    run: Run,
    log: sqlite3.Row,
    outcome: Outcome,
    token: Token,
    *,
    stop: StopIntent | None = None,
) -> Run:
    """Write the outcome, the terminal event and the abort, all of which is decided before any of it is written."""
    if run.stop is not None and not isinstance(outcome, Completed):
        outcome = Cancelled(reason=run.stop.reason)
    status = after(run.status, move_of(outcome))
    event = terminal(outcome)
    text, result = outcome_columns(outcome)
    number = log["number"]  # the run's as well
    transaction.execute(
        SETTLE_RUN,
        {
            "number": number,
            "status": status,
            "epoch": token.epoch,
            "claim": token.claim,
            "stop_at": None if stop is None else stop.at,
            "stop_reason": None if stop is None else stop.reason,
            "outcome": text,
            "result": result,
            "now": transaction.now,
        },
    )
    if token.epoch > run.epoch:
        lineage.add(transaction, number, Kind.SETTLE, cause=None, node=None)
    events.seal(transaction, log, event, epoch=token.epoch, claim=token.claim)
    if not isinstance(outcome, Completed):
        transaction.execute("INSERT INTO outbox (run, due_at) VALUES (?, ?)", (number, transaction.now))
    transaction.execute("DELETE FROM refusals WHERE run = ?", (number,))
    transaction.execute("DELETE FROM checkpoints WHERE run = ?", (number,))
    transaction.stir()
    return read(transaction, number)


def _remember(transaction: Transaction, owner: str, id: str, reason: str | None) -> None:
    now = transaction.now
    transaction.execute("DELETE FROM early_stops WHERE at <= ?", (now - EARLY_STOP_TTL,))
    transaction.execute(REMEMBER_STOP, {"owner": owner, "id": id, "reason": reason, "now": now})
    transaction.execute(FORGET_STOPS, {"owner": owner, "kept": EARLY_STOPS})
