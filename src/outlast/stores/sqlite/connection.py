"""A connection to the store's file: how it is opened, and which of our errors an error of SQLite is.

Rules:
1. Transactions are begun and ended in so many words (`isolation_level=None`): Python begins none behind our back.
2. WAL, so that readers and one writer never wait for each other. `synchronous=NORMAL`: a commit survives the death
   of every process; surviving power loss is `power`'s work. No automatic checkpoints: they would fsync inside a
   commit, on the event loop; a thread makes them (`checkpoint`).
3. A connection may be used by several threads, one after another; whoever shares one holds its lock.
"""

import sqlite3
from pathlib import Path
from typing import Final

from outlast.errors import (
    InputInvalid,
    OutlastError,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

CACHE_KIB: Final = 16 * 1024
"""Memory for pages: the newest pages of some thousand live logs stay in it, so that appends never read the file."""
WAL_KIB: Final = 64 * 1024
"""What the WAL file is cut back to after a burst."""
STATEMENTS: Final = 256
"""Prepared statements kept: more than there are, so that none is prepared twice."""

_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})

_ERRORS: Final[dict[int, tuple[type[OutlastError], str]]] = {
    sqlite3.SQLITE_BUSY: (StoreBusy, "Other processes kept the store's file locked for too long."),
    sqlite3.SQLITE_LOCKED: (StoreBusy, "Other connections kept the store's tables locked for too long."),
    sqlite3.SQLITE_PROTOCOL: (StoreBusy, "Other processes kept the store's WAL locked for too long."),
    sqlite3.SQLITE_FULL: (StoreFull, "The store's disk is full."),
    sqlite3.SQLITE_READONLY: (StoreReadOnly, "The store's file, or its folder, cannot be written to."),
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, "The store's file is damaged."),
    sqlite3.SQLITE_NOTADB: (StoreCorrupt, "The store's file is no SQLite database."),
    sqlite3.SQLITE_CONSTRAINT: (StoreCorrupt, "The store's tables refused a row that contradicts them."),
    sqlite3.SQLITE_IOERR: (StoreUnavailable, "The store's file cannot be read or written."),
    sqlite3.SQLITE_CANTOPEN: (StoreUnavailable, "The store's file cannot be opened."),
}
_OTHER: Final = (StoreUnavailable, "The store failed.")
_PRIMARY: Final = 0xFF
"""The bits of an extended error code that name its kind."""


def connect(path: Path | None, *, timeout: float = 0.0, known: bool = False) -> sqlite3.Connection:
    """Open the file at `path`, or memory when it is None; an operation waits `timeout` seconds for other processes.

    A file that is `known` is never made anew: whoever joins an open store must not leave an empty one under a name
    that was just taken away.
    """
    place = ":memory:" if path is None else f"{path.absolute().as_uri()}?mode={'rw' if known else 'rwc'}"
    connection = sqlite3.connect(
        place,
        uri=path is not None,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS,
    )
    connection.row_factory = sqlite3.Row
    try:
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_KIB * 1024}")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute("PRAGMA temp_store = MEMORY")
    except BaseException:
        connection.close()
        raise
    return connection


def is_busy(error: BaseException) -> bool:
    """Say whether `error` means that others hold a lock, so that the same will work a little later."""
    return isinstance(error, sqlite3.Error) and _kind(error) in _BUSY


def translate(error: Exception) -> Exception:
    """Return the error of ours that `error` stands for; what is none of SQLite's comes back as it is.

    The sentences hold nothing of what was asked. The original is the caller's to chain.
    """
    match error:
        case sqlite3.Error():
            kind, sentence = _ERRORS.get(_kind(error), _OTHER)
            return kind(sentence)
        case UnicodeEncodeError():  # raised while binding, so before the statement did anything
            return InputInvalid("An id or a reason holds half a surrogate pair, which is no text.")
        case _:
            return error


def chained(error: Exception) -> Exception:
    """Return the error of ours that `error` stands for, with `error` as its cause."""
    told = translate(error)
    if told is not error:
        told.__cause__ = error
    return told


def _kind(error: sqlite3.Error) -> int:
    # Errors that Python itself found have no code; they are failures like any other.
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & _PRIMARY
