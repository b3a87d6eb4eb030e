"""A thread that moves what was committed from the WAL into the database file.

A checkpoint waits for the disk, twice. So it is nothing for the event loop, and nothing that a commit should do on
the way. It is no promise either: what is in the WAL is as good as what is in the file.

Rules:
1. The thread looks when about `WAKE_BYTES` were written since it last looked, and once more at the end.
2. It copies beside the writers (PASSIVE). Writers that never pause leave it a few pages short each time, and then
   the WAL can never begin again from its start: past `LONG_WAL` pages the thread asks for the write lock and copies
   the rest (RESTART). The loop finds the file busy meanwhile and tries again; it does not block.
"""

import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from outlast.stores.sqlite.connection import connect

WAKE_BYTES: Final = 4 * 1024 * 1024
"""Written between two checkpoints: about SQLite's own thousand pages."""
LONG_WAL: Final = 8 * 1024
"""Pages (32 MiB) at which the WAL must begin again: readers look through an index as long as it is."""
PAGE: Final = 4096
"""Bytes of SQLite's page; a commit writes one for every table it touches, and one or so per operation."""
LOCK_TIMEOUT: Final = 0.25
"""Seconds to wait for the write lock, which others want too."""


class Checkpointer:
    """The checkpoints of one file. `wrote` is told what was written; the rest happens in the thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = 0
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="outlast-checkpoint", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wrote(self, operations: int, size: int) -> None:
        """Count one commit of so many operations and bytes of payload: it decides only when the thread looks."""
        self._written += (1 + operations) * PAGE + 2 * size
        if self._written >= WAKE_BYTES:
            self._written = 0
            self._wake.set()

    def close(self) -> None:
        """Make the last checkpoint and end the thread; waits for it."""
        self._closing = True
        self._wake.set()
        self._thread.join()  # ends with the checkpoint under way: two fsyncs

    def _run(self) -> None:
        with suppress(sqlite3.Error), closing(connect(self._path, timeout=LOCK_TIMEOUT, known=True)) as connection:
            last = False
            while not last:
                self._wake.wait()  # no deadline: with nothing written there is nothing to do; close wakes it
                self._wake.clear()
                last = self._closing
                checkpoint(connection)


def checkpoint(connection: sqlite3.Connection) -> None:
    """Copy what can be copied. An error is left to whoever needs the file: nothing was lost, the next try comes."""
    with suppress(sqlite3.Error):
        _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if pages >= LONG_WAL:
            connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
