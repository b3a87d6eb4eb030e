"""Rows of the file as the values of the house, and back.

Rules:
1. The window of the recovery budget that cannot be read is a fresh one: at worst a run is tried a few times more.
   What is counted for life is never guessed: a number that cannot be read is `StoreCorrupt` (B12).
   So is any other value of a kind that was never written: a column takes values of every kind.
2. A run whose holder gave its lease up as stalled was left for that cause, unless its row names another.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import NoneType
from typing import Any, Final, TypeAlias, TypeVar, assert_never

from outlast import lease
from outlast.errors import NO_SUCH_RUN, Fenced, RunGone, RunNotFound, StoreCorrupt
from outlast.run import (
    Cancelled,
    Cause,
    Completed,
    Failed,
    FailureCode,
    Limit,
    Outcome,
    RecoveryBudget,
    Run,
    Status,
    StopIntent,
    describe,
)
from outlast.stores.base import Loaded
from outlast.stores.sqlite.statement import load
from outlast.stores.sqlite.transaction import Query

FIND_RUN: Final = load("find_run")

Corrupt: TypeAlias = Callable[[str], None]
"""Told the log of a run whose row was left out because it cannot be read."""
T = TypeVar("T")
Cells: TypeAlias = Mapping[str, Any]
"""A row by the names of its columns."""

HISTORIES: Final = 64
"""Texts of causes that are remembered as what they mean: nearly every run has none, or one."""

_TIME: Final = (float, int)
_KINDS: Final = (
    ("owner", str),
    ("id", str),
    ("log", str),
    ("worker", str),
    ("input", bytes),
    ("digest", bytes),
    ("thread", (str, NoneType)),
    ("metadata", bytes),
    ("traceparent", (str, NoneType)),
    ("claim", (str, NoneType)),
    ("holder", (str, NoneType)),
    ("lease_until", (*_TIME, NoneType)),
    ("not_before", _TIME),
    ("wake_at", (*_TIME, NoneType)),
    ("stop_at", (*_TIME, NoneType)),
    ("stop_reason", (str, NoneType)),
    ("result", (bytes, NoneType)),
    ("created_at", _TIME),
    ("updated_at", _TIME),
    ("settled_at", (*_TIME, NoneType)),
)

# ---- finding ------------------------------------------------------------------------------------


def find(query: Query, owner: str, id: str) -> sqlite3.Row | None:
    """Return the row of one run, None when this owner has no such run."""
    row: sqlite3.Row | None = query.execute(FIND_RUN, {"owner": owner, "id": id, "now": query.now}).fetchone()
    return row


def require(query: Query, owner: str, id: str) -> sqlite3.Row:
    """Return the row of one run. Raises `RunNotFound`, `RunGone`."""
    row = find(query, owner, id)
    if row is None:
        check_not_gone(query, owner, id)
        raise RunNotFound(NO_SUCH_RUN)
    return row


def require_same(query: Query, run: Run) -> sqlite3.Row:
    """Return the row of this very run, not of another that has its id meanwhile. Raises `Fenced`."""
    row = find(query, run.owner, run.id)
    if row is None or row["log"] != run.log:
        raise Fenced("The run is gone.")
    return row


def check_not_gone(query: Query, owner: str, id: str) -> None:
    """Raise `RunGone` when there is a tombstone of this owner and id."""
    if query.execute("SELECT 1 FROM tombstones WHERE owner = ? AND id = ?", (owner, id)).fetchone() is not None:
        raise RunGone("This run is gone: it was erased, or has been kept for as long as runs are kept.")


def read(query: Query, number: int) -> Run:
    """Return the run that has this number."""
    row = query.execute("SELECT * FROM run_rows WHERE number = ?", (number,)).fetchone()
    return run_of(row, now=query.now)


# ---- reading ------------------------------------------------------------------------------------


def run_of(row: sqlite3.Row, *, now: float) -> Run:
    """Return the run that `row` is, at the store's time `now`. Raises `StoreCorrupt`."""
    cells: Cells = dict(zip(row.keys(), row, strict=True))  # a row compares its names one by one at every look-up
    for column, kind in _KINDS:
        if not isinstance(cells[column], kind):
            raise StoreCorrupt("The row of a run cannot be read.")
    try:
        return Run(
            owner=cells["owner"],
            id=cells["id"],
            log=cells["log"],
            worker=cells["worker"],
            input=cells["input"],
            digest=cells["digest"],
            status=Status(cells["status"]),
            thread=cells["thread"],
            metadata=cells["metadata"],
            traceparent=cells["traceparent"],
            epoch=_count(cells, "epoch"),
            claim=cells["claim"],
            holder=cells["holder"],
            lease_until=cells["lease_until"],
            cause=_cause(cells, now=now),
            budget=_budget(cells),
            not_before=cells["not_before"],
            wake_at=cells["wake_at"],
            stop=None if cells["stop_at"] is None else StopIntent(at=cells["stop_at"], reason=cells["stop_reason"]),
            outcome=_outcome(cells),
            created_at=cells["created_at"],
            updated_at=cells["updated_at"],
            settled_at=cells["settled_at"],
        )
    except (ValueError, TypeError, KeyError) as error:
        raise StoreCorrupt("The row of a run cannot be read.") from error


def loaded_of(row: sqlite3.Row, *, now: float) -> Loaded:
    """Return the run that `row` is with what was read beside it. Raises `StoreCorrupt`."""
    return Loaded(run=run_of(row, now=now), now=now, refused_until=row["refused_until"])


def readable(rows: Iterable[sqlite3.Row], kind: Callable[..., T], *, now: float, corrupt: Corrupt) -> list[T]:
    """Return what `kind` makes of each row; those that cannot be read are left out, and `corrupt` is told."""
    found = list[T]()
    for row in rows:
        try:
            found.append(kind(row, now=now))
        except StoreCorrupt:
            corrupt(str(row["log"]))
    return found


def page(
    fetch: Callable[[int], Sequence[sqlite3.Row]], kind: Callable[..., T], limit: int, *, now: float, corrupt: Corrupt
) -> list[T]:
    """Return as many readable runs as there are, at most `limit`; `fetch` returns the first so many rows."""
    asked = limit
    while True:
        rows = fetch(asked)
        found = readable(rows, kind, now=now, corrupt=corrupt)
        if len(rows) < asked or len(found) >= limit:
            return found[:limit]
        asked *= 2  # those that cannot be read are in the way of others


def _cause(cells: Cells, *, now: float) -> Cause | None:
    if cells["cause"] is not None:
        return Cause(cells["cause"])
    return Cause.STALL if cells["stalled"] and not lease.is_live(cells["lease_until"], now=now) else None


def _budget(cells: Cells) -> RecoveryBudget:
    takeovers, last_takeover_at, causes = cells["takeovers"], cells["last_takeover_at"], _causes(cells["causes"])
    readable = isinstance(takeovers, int) and takeovers >= 0 and isinstance(last_takeover_at, float)
    if not readable or causes is None:
        takeovers, last_takeover_at = 0, None
    return RecoveryBudget(
        takeovers=takeovers,
        last_takeover_at=last_takeover_at,
        life=_count(cells, "life"),
        handoffs=_count(cells, "handoffs"),
        calls=_count(cells, "calls"),
        waits=_count(cells, "waits"),
        causes=causes or (),
    )


@lru_cache(maxsize=HISTORIES)
def _causes(text: object) -> tuple[Cause, ...] | None:
    try:
        return tuple(Cause(name) for name in json.loads(text)) if isinstance(text, str) else None
    except (ValueError, TypeError):
        return None


def _count(cells: Cells, column: str) -> int:
    count = cells[column]
    if not isinstance(count, int) or count < 0:
        raise StoreCorrupt(f"The counter {column!r} of a run cannot be read, and is not guessed.")
    return count


def _outcome(cells: Cells) -> Outcome | None:
    if cells["outcome"] is None:
        return None
    said: dict[str, Any] = json.loads(cells["outcome"])
    match Status(cells["status"]):
        case Status.COMPLETED:
            return Completed(result=cells["result"])
        case Status.CANCELLED:
            return Cancelled(reason=said["reason"])
        case _:
            return Failed(
                code=FailureCode(said["code"]),
                message=said["message"],
                limit=Limit(said["limit"]) if "limit" in said else None,
                causes=tuple(Cause(name) for name in said.get("causes", ())),
            )


# ---- writing ------------------------------------------------------------------------------------


def causes_column(causes: Sequence[Cause]) -> str:
    """Return causes as they are stored."""
    return json.dumps([cause.value for cause in causes])


def outcome_columns(outcome: Outcome) -> tuple[str, bytes | None]:
    """Return the columns `outcome`, as JSON that needs nothing but ASCII, and `result`."""
    match outcome:
        case Completed(result=result):
            return "{}", result
        case Failed():
            return json.dumps(describe(outcome)), None
        case Cancelled(reason=reason):
            return json.dumps({"reason": reason}), None
        case _:
            assert_never(outcome)
