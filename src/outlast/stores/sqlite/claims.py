"""Who may drive a run: what is due, the claim, the charge before each call, letting go."""

import json
import sqlite3
from collections.abc import Collection, Sequence
from typing import Final

from outlast.errors import ClaimLost, Fenced
from outlast.lineage import kind_of
from outlast.run import Cause, Run, Token
from outlast.stores.base import Charge, Due, NewClaim
from outlast.stores.sqlite import lineage
from outlast.stores.sqlite.rows import Corrupt, causes_column, page, require_same, run_of
from outlast.stores.sqlite.statement import load
from outlast.stores.sqlite.transaction import Query, Transaction

CLAIM_RUN: Final = load("claim_run")
FIND_DUE: Final = load("find_due")
FIND_NEXT_DUE: Final = load("find_next_due")
REFUSE_RUN: Final = load("refuse_run")
RELEASE_RUN: Final = load("release_run")


def due(
    query: Query, workers: Collection[str], *, limit: int, held_back: Collection[str], within: float, corrupt: Corrupt
) -> Due:
    """Return due runs, and when the next one is; a full page is to be followed by another at once."""
    asked = {
        "workers": json.dumps(sorted(workers)),
        "now": query.now,
        "held_back": json.dumps(sorted(held_back)),
        "within": within,
    }

    def fetch(limit: int) -> Sequence[sqlite3.Row]:
        return query.execute(FIND_DUE, {**asked, "limit": limit}).fetchall()

    runs = page(fetch, run_of, limit, now=query.now, corrupt=corrupt)
    next_at = query.now if len(runs) >= limit else query.execute(FIND_NEXT_DUE, asked).fetchone()["at"]
    return Due(runs=runs, now=query.now, next_at=next_at)


def claim(transaction: Transaction, run: Run, claim: NewClaim) -> Run:
    """Claim a run as it was read."""
    budget = claim.budget
    claimed = transaction.execute(
        CLAIM_RUN,
        {
            "owner": run.owner,
            "id": run.id,
            "log": run.log,
            "epoch": run.epoch,
            "claim": claim.claim,
            "node": claim.node,
            "takeovers": budget.takeovers,
            "last_takeover_at": budget.last_takeover_at,
            "causes": causes_column(budget.causes),
            "life": budget.life,
            "handoffs": budget.handoffs,
            "calls": budget.calls,
            "waits": budget.waits,
            "not_before": claim.not_before,
            "now": transaction.now,
        },
    ).fetchone()
    if claimed is not None:
        transaction.execute("DELETE FROM refusals WHERE run = ?", (claimed["number"],))
        kind, cause = kind_of(run.budget, budget)
        lineage.add(transaction, claimed["number"], kind, cause=cause, node=claim.node)
    row = _this_run(transaction, run)
    if claimed is None and not is_own(row, Token(epoch=run.epoch + 1, claim=claim.claim)):
        raise ClaimLost("The run changed between reading and claiming it, or may not be claimed now.")
    return run_of(row, now=transaction.now)


def _this_run(transaction: Transaction, run: Run) -> sqlite3.Row:
    try:
        return require_same(transaction, run)
    except Fenced as error:
        raise ClaimLost("The run is gone.") from error


def charge(transaction: Transaction, run: Run, token: Token, *, number: int, limit: int) -> Charge:
    """Count a worker call before it is made."""
    row = require_held(transaction, run, token)
    used: int = run_of(row, now=transaction.now).budget.calls
    if row["stop_at"] is not None:
        return Charge.STOPPED
    if number > limit:
        return Charge.SPENT
    if number == used + 1:
        transaction.execute(
            "UPDATE runs SET calls = ?, updated_at = ? WHERE number = ?", (number, transaction.now, row["number"])
        )
    elif number != used:
        raise ValueError(f"call {number} cannot follow call {used}")
    return Charge.GRANTED


def release(transaction: Transaction, run: Run, token: Token, cause: Cause) -> None:
    """Give a run up, unless this claim has let go of it already."""
    row = require_same(transaction, run)
    check_token(row, token)
    if row["holder"] is not None:
        transaction.execute(RELEASE_RUN, {"number": row["number"], "cause": cause, "now": transaction.now})
        transaction.stir()


def refuse(transaction: Transaction, run: Run, *, retry_in: float) -> float:
    """Note a refusal of the run as it was read; once it was claimed the refusal is about the past."""
    require_same(transaction, run)
    refused = transaction.execute(
        REFUSE_RUN,
        {
            "owner": run.owner,
            "id": run.id,
            "epoch": run.epoch,
            "now": transaction.now,
            "retry_in": retry_in,
        },
    ).fetchone()
    return 0.0 if refused is None else float(refused["refused_for"])


# ---- proof --------------------------------------------------------------------------------------


def is_own(row: sqlite3.Row, token: Token) -> bool:
    """Say whether `token` is the newest claim on the run that `row` is."""
    return bool(row["epoch"] == token.epoch and row["claim"] == token.claim)


def check_token(row: sqlite3.Row, token: Token) -> None:
    """Raise `Fenced` unless `token` is the newest claim on the run that `row` is."""
    if not is_own(row, token):
        raise Fenced("Another claim decides about this run.")


def require_held(query: Query, run: Run, token: Token) -> sqlite3.Row:
    """Return the row of an unsettled run whose newest claim is `token`. Raises `Fenced`."""
    row = require_same(query, run)
    check_token(row, token)
    if row["settled_at"] is not None:
        raise Fenced("The run has its outcome.")
    return row
