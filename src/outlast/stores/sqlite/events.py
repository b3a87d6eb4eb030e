"""A log's events: appended behind its head by whom its fence lets in, sealed with the terminal, read with its chain."""

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from typing import Final

from outlast.errors import Fenced, HeadConflict, RunGone, RunNotFound, StoreCorrupt
from outlast.log.cursor import Cursor, advance, origin
from outlast.log.event import Event, StoredEvent, restore
from outlast.log.limits import Usage
from outlast.run import Token
from outlast.stores.base import Head
from outlast.stores.sqlite.statement import load
from outlast.stores.sqlite.transaction import Query, Transaction

EXTEND_LOG: Final = load("extend_log")
FENCE_LOG: Final = load("fence_log")
FIND_HEADS: Final = load("find_heads")
INSERT_EVENT: Final = load("insert_event")
READ_EVENTS: Final = load("read_events")
SEAL_LOG: Final = load("seal_log")

PLACE_BITS: Final = 32
"""`events.place` is the log's number shifted by this, plus the seq."""
SEQ_LIMIT: Final = 1 << PLACE_BITS

_LOG_COLUMNS: Final = (("seq", int), ("chain", bytes), ("first", int), ("bytes", int), ("opened_at", float))
_EVENT_KINDS: Final = (int, bytes, str, str, int, float, bytes)
"""What was written, as SQLite gives it back: a column takes values of any kind, so a damaged file may hold them."""

# ---- writing ------------------------------------------------------------------------------------


def fence(transaction: Transaction, log: str, token: Token) -> None:
    """Let nothing older than `token` in any more."""
    row = _find_to_write(transaction, log)
    check_fence(row, token)
    transaction.execute(FENCE_LOG, {"number": row["number"], "epoch": token.epoch, "claim": token.claim})


def append(
    transaction: Transaction,
    log: str,
    token: Token,
    previous: Cursor,
    *,
    number: int | None,
    cursors: Sequence[Cursor],
    events: Sequence[Event],
    size: int,
    own: Sequence[int],
) -> tuple[Cursor, int]:
    """Write `events`, whose cursors are made already, behind `previous`; return the new head, and the log's number.

    `number` is what an earlier append returned, `size` the payload in bytes, `own` that of each event that no limit
    counts. A number that has become another log's does no harm: the chain, which begins with the log's identity, is
    compared with it.
    """
    if number is None:
        number = int(_find_to_write(transaction, log)["number"])
    head = cursors[-1] if cursors else previous
    epoch, now = token.epoch, transaction.now
    extended = transaction.execute(
        EXTEND_LOG,
        (
            *(epoch, token.claim, head.seq, head.chain, size, now, number, previous.seq, previous.chain),
            *(len(own), sum(own)),
        ),
    )
    if not extended.rowcount:
        return _answer_again(transaction, log, token, head), number
    base = number << PLACE_BITS
    transaction.executemany(
        INSERT_EVENT,
        [
            (base + cursor.seq, cursor.chain, event.type, event.content_type, epoch, now, event.payload)
            for cursor, event in zip(cursors, events, strict=True)
        ],
    )
    transaction.grown[log] = head.seq
    transaction.written[log] = cursors, events, epoch, now
    transaction.size += size
    return head, number


def seal(transaction: Transaction, row: sqlite3.Row, event: Event, *, epoch: int, claim: str | None) -> None:
    """Write the terminal `event` behind the head of the log that `row` is, and let nothing follow it."""
    cursor = advance(Cursor(row["seq"], row["chain"]), event)
    place = (row["number"] << PLACE_BITS) + cursor.seq
    transaction.execute(
        INSERT_EVENT,
        (place, cursor.chain, event.type, event.content_type, epoch, transaction.now, event.payload),
    )
    transaction.execute(
        SEAL_LOG,
        {
            "number": row["number"],
            "seq": cursor.seq,
            "chain": cursor.chain,
            "bytes": len(event.payload),
            "epoch": epoch,
            "claim": claim,
            "now": transaction.now,
        },
    )
    transaction.written.pop(row["id"], None)  # an append of the same group is no longer all that is new
    transaction.grown[row["id"]] = cursor.seq


def check_fence(row: sqlite3.Row, token: Token) -> None:
    """Raise `Fenced` unless the log that `row` is lets `token` in."""
    fence = Token(epoch=row["fence_epoch"], claim=row["fence_claim"])
    if token.epoch < fence.epoch or (token.epoch == fence.epoch and token != fence):
        raise Fenced("The log was told of another claim.")


def _answer_again(transaction: Transaction, log: str, token: Token, head: Cursor) -> Cursor:
    """Say why an append found nothing to extend; one that has been written already is answered as it was."""
    row = _find_to_write(transaction, log)
    check_fence(row, token)
    if row["sealed"]:
        raise Fenced("The log is sealed: nothing follows its terminal event.")
    if head.chain is None or chain_at(transaction, log, head.seq) != head.chain:
        raise HeadConflict("The append does not go on from the log's head.")
    return head


# ---- reading ------------------------------------------------------------------------------------


def heads(query: Query, logs: Collection[str]) -> Mapping[str, Cursor]:
    """Return the place of each log's head."""
    found = query.execute(FIND_HEADS, {"logs": json.dumps(list(logs))})
    # Unpacked as they come: to look into a row by name costs as much as to find it.
    return {log: Cursor(seq, place) for log, seq, place in found}


def find(query: Query, log: str) -> sqlite3.Row:
    """Return the row of a log. Raises `RunNotFound`, `RunGone`, `StoreCorrupt`."""
    row: sqlite3.Row | None = query.execute("SELECT * FROM logs WHERE id = ?", (log,)).fetchone()
    if row is None:
        if query.execute("SELECT 1 FROM tombstones WHERE log = ?", (log,)).fetchone() is not None:
            raise RunGone("This log is gone.")
        raise RunNotFound("There is no such log.")
    for column, kind in _LOG_COLUMNS:
        if not isinstance(row[column], kind):
            raise StoreCorrupt("The row of a log cannot be read.")
    return row


def _find_to_write(transaction: Transaction, log: str) -> sqlite3.Row:
    try:
        return find(transaction, log)
    except RunGone as error:
        raise Fenced("The log is gone: nothing is written to it any more.") from error


def head(query: Query, log: str) -> Head:
    """Return where a log stands."""
    row = find(query, log)
    return Head(
        cursor=Cursor(row["seq"], row["chain"]),
        first=row["first"],
        usage=Usage(
            events=row["seq"] - row["first"] + 1 - row["own_events"],
            bytes=row["bytes"] - row["own_bytes"],
            opened_at=row["opened_at"],
        ),
        sealed=bool(row["sealed"]),
    )


def chain_at(query: Query, log: str, seq: int) -> bytes | None:
    """Return the chain stored with one event, None when it is not stored."""
    if not 0 < seq < SEQ_LIMIT:
        return None
    row = query.execute(
        "SELECT chain FROM events WHERE place = (SELECT number << ? FROM logs WHERE id = ?) + ?",
        (PLACE_BITS, log, seq),
    ).fetchone()
    if row is not None and not isinstance(row["chain"], bytes):
        raise StoreCorrupt("An event of a log cannot be read.")
    return None if row is None else row["chain"]


def read(query: Query, log: str, *, after: int, limit: int, max_bytes: int) -> Sequence[StoredEvent]:
    """Return a page of events up to the head that was read first, each checked against its predecessor."""
    row = find(query, log)
    after = max(after, 0)
    last = min(row["seq"], after + limit)
    if after >= last:
        return []
    previous = Cursor(after, chain_at(query, log, after)) if after else origin(log)
    base = row["number"] << PLACE_BITS
    stored: list[StoredEvent] = []
    size = 0
    # Closed whatever happens: an open statement keeps its snapshot, and with it the WAL from beginning again.
    with closing(query.execute(READ_EVENTS, {"after": base + after, "last": base + last})) as rows:
        for each in rows:
            found = _stored(each, previous)
            stored.append(found)
            previous = found.cursor
            size += len(found.event.payload)
            if size >= max_bytes:
                return stored
    if previous.seq < last:
        raise StoreCorrupt("Events at the end of a log are missing.")
    return stored


def _stored(row: sqlite3.Row, previous: Cursor) -> StoredEvent:
    if tuple(map(type, row)) != _EVENT_KINDS:
        raise StoreCorrupt("An event of a log cannot be read.")
    seq, chain, name, content_type, epoch, time, data = row
    event = restore(name, data, content_type)
    if previous.chain is None or (cursor := advance(previous, event)) != Cursor(seq, chain):
        raise StoreCorrupt("An event of a log is missing, or is not the one that was written.")
    return StoredEvent(cursor=cursor, event=event, epoch=epoch, time=time)
