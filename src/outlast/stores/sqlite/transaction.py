"""What an operation works with: statements, one moment in time, and a note of whom the commit concerns."""

import sqlite3
from collections.abc import Sequence
from typing import TypeAlias

from outlast.log.cursor import Cursor
from outlast.log.event import Event, StoredEvent

Written: TypeAlias = tuple[Sequence[Cursor], Sequence[Event], int, float]
"""One append: cursors and events, the epoch and the time they are stored with. Nobody may want to hear of it, so it
stays in the parts that were there already."""


class Query:
    """What a reading operation works with; `now` is the store's clock at its beginning."""

    __slots__ = ("execute", "now")

    def __init__(self, connection: sqlite3.Connection, *, now: float) -> None:
        self.execute = connection.execute
        self.now = now


class Transaction(Query):
    """What a writing operation works with, together with the others of its group.

    `grown` tells the new head seq of every log that grew, `written` what was last appended to it, `stirred` whether
    anything happened that nodes wait for, `size` how many bytes of payload were written.
    One serves a connection's transactions one after another. So does its cursor, which spares each statement one of
    its own: what a statement answers is read before the next is executed.
    """

    __slots__ = ("close", "executemany", "grown", "size", "stirred", "written")

    def __init__(self, connection: sqlite3.Connection) -> None:
        cursor = connection.cursor()
        self.close = cursor.close  # or a statement that failed would keep the connection's files open
        self.execute = cursor.execute
        self.executemany = cursor.executemany
        self.now = 0.0
        self.grown: dict[str, int] = {}
        self.written: dict[str, Written] = {}
        self.stirred = False
        self.size = 0

    def begin(self) -> None:
        """Take the write lock; nobody is concerned yet. Who begins sets `now`, after that."""
        self.execute("BEGIN IMMEDIATE")
        self.grown = {}
        self.written = {}
        self.stirred = False
        self.size = 0

    def stir(self) -> None:
        """Let the nodes of every process look again: once for the whole group, in the same commit."""
        if not self.stirred:
            self.stirred = True
            self.execute("UPDATE store SET stirred = stirred + 1")


def stored(written: Written) -> list[StoredEvent]:
    """Return the events of an append as they are read back."""
    cursors, events, epoch, time = written
    return [
        StoredEvent(cursor=cursor, event=event, epoch=epoch, time=time)
        for cursor, event in zip(cursors, events, strict=True)
    ]
