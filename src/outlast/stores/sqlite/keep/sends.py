"""Sends: a row for each, from when it is queued until somebody has taken note of its answer."""

import sqlite3
from collections.abc import Sequence
from typing import Final

from outlast.errors import IdConflict, InputInvalid, OutboxFull, StoreCorrupt
from outlast.send import Kind, NewSend, Send, State, digest, fits
from outlast.stores.sqlite.statement import load

INSERT_SEND: Final = load("insert_send")
MEASURE_SENDS: Final = load("measure_sends")
FIND_SEND: Final = load("find_send")
FIND_NEXT_SEND: Final = load("find_next_send")
FORGET_SENDS: Final = load("forget_sends")

ACCEPTED_KEPT: Final = 1000
"""Accepted sends kept, without their contents: they say of what is asked for again that it has been."""


def add(connection: sqlite3.Connection, server: str, new: NewSend) -> Send:
    """Keep a send, or return the one that has its key and content."""
    key = _key(server, new.kind, new.run, new.owner)
    mark = digest(new.content)
    row = connection.execute(FIND_SEND, key).fetchone()
    if row is not None:
        if row["digest"] != mark:
            raise IdConflict(
                "The outbox holds another send of this kind about this run: choose another id, or forget that one."
            )
        return _send_of(row)
    measured = connection.execute(MEASURE_SENDS, key).fetchone()
    if not fits(len(new.content), sends=measured["sends"], held=measured["held"]):
        raise OutboxFull("The outbox is full: wait until what it holds was sent, and forget what was rejected.")
    return _send_of(connection.execute(INSERT_SEND, {**key, "content": new.content, "digest": mark}).fetchone())


def all_of(connection: sqlite3.Connection, server: str) -> Sequence[Send]:
    """Return every send of a server, in order."""
    rows = connection.execute("SELECT * FROM sends WHERE server = ? ORDER BY number", (server,)).fetchall()
    return [_send_of(row) for row in rows]


def find(connection: sqlite3.Connection, server: str, kind: Kind, run: str, owner: str | None) -> Send | None:
    """Return the send of a key."""
    row = connection.execute(FIND_SEND, _key(server, kind, run, owner)).fetchone()
    return None if row is None else _send_of(row)


def get(connection: sqlite3.Connection, number: int) -> Send:
    """Return a send. Raises `InputInvalid` for one that is not there."""
    row = connection.execute("SELECT * FROM sends WHERE number = ?", (number,)).fetchone()
    if row is None:
        raise InputInvalid("The outbox does not hold this send, or no longer: `outbox.sends()` lists what it holds.")
    return _send_of(row)


def next_of(connection: sqlite3.Connection, server: str) -> Send | None:
    """Return the oldest send without an answer."""
    row = connection.execute(FIND_NEXT_SEND, {"server": server}).fetchone()
    return None if row is None else _send_of(row)


def mark_sent(connection: sqlite3.Connection, number: int) -> bool:
    """Note that a send leaves now, once more maybe; False when another process has had its answer."""
    return bool(
        connection.execute(
            "UPDATE sends SET state = 'sent', tries = tries + 1 WHERE number = ? AND state IN ('queued', 'sent')",
            (number,),
        ).rowcount
    )


def settle(connection: sqlite3.Connection, send: Send, server: str, *, code: str | None) -> None:
    """Note the answer: accepted, or rejected with a code."""
    if code is None:
        statement = "UPDATE sends SET state = 'accepted', content = x'' WHERE number = ? AND state = 'sent'"
        connection.execute(statement, (send.number,))
        connection.execute(FORGET_SENDS, {"server": server, "kept": ACCEPTED_KEPT})
    else:
        statement = "UPDATE sends SET state = 'rejected', code = ? WHERE number = ? AND state = 'sent'"
        connection.execute(statement, (code, send.number))


def forget(connection: sqlite3.Connection, number: int) -> bool:
    """Delete a send, unless it is under way."""
    return bool(connection.execute("DELETE FROM sends WHERE number = ? AND state <> 'sent'", (number,)).rowcount)


def _key(server: str, kind: Kind, run: str, owner: str | None) -> dict[str, object]:
    return {"server": server, "owner": owner or "", "run": run, "kind": kind}


def _send_of(row: sqlite3.Row) -> Send:
    try:
        kind, state = Kind(row["kind"]), State(row["state"])
    except ValueError as error:
        raise StoreCorrupt("A send in the client's file is of no kind that there is.") from error
    return Send(
        number=row["number"],
        kind=kind,
        run=row["run"],
        owner=row["owner"] or None,
        state=state,
        tries=row["tries"],
        code=row["code"],
        content=row["content"],
    )
