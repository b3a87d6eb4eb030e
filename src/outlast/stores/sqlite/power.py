"""`durability="power"`: nothing is answered or shown before the disk itself has it.

A commit (`synchronous=NORMAL`) is in the system's memory, where the death of processes does not reach it, but a
power failure does. One `fdatasync` of the WAL brings everything committed before it began to the disk, whoever
committed it. What a checkpoint has taken out of the WAL meanwhile was synced by the checkpoint, before and after.

Rules:
1. One sync is in flight; whoever comes meanwhile waits for the next, which begins when this one ends.
2. A *mark* stands for everything committed so far, by us and by others. A sync covers the mark taken before it
   began. Whoever has read or written something waits for a sync that covers the mark taken after that.
3. A failed sync is the end of promises: the system may have dropped what it could not write, and the next sync
   would succeed without it. Every answer is "unknown" until the store is opened again.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

from outlast.errors import StoreUnavailable

Mark: TypeAlias = tuple[int, int]

sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def mark(connection: sqlite3.Connection) -> Mark:
    """Return what is another after every commit: SQLite's number for others' commits, its count of our changes."""
    return connection.execute("PRAGMA data_version").fetchone()[0], connection.total_changes


class PowerSync:
    """The syncs of one file's WAL. `mark` tells what is committed so far, `sync` does one sync of a descriptor."""

    def __init__(self, path: Path, mark: Callable[[], Mark], *, sync: Callable[[int], None] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._mark = mark
        self._sync = sync or sync_data
        self._covered: Mark | None = None
        self._covering: Mark | None = None
        self._in_flight: asyncio.Future[None] | None = None
        self._on_board: list[asyncio.Future[None]] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._failed = False
        # The WAL file stays the same one for as long as a connection is open, and SQLite's own locks are on other
        # files: closing this descriptor drops none of them.
        self._descriptor = os.open(path.with_name(f"{path.name}-wal"), os.O_RDONLY)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="outlast-sync")
        _sync_folder(path.parent)

    def cover(self) -> "asyncio.Future[None]":
        """Return a future that is done when everything committed before this call is on the disk.

        It fails with `StoreUnavailable`.
        """
        future: asyncio.Future[None] = self._loop.create_future()
        mark = self._mark()
        if self._failed:
            future.set_exception(_unknown())
        elif mark == self._covered:
            future.set_result(None)
        elif self._in_flight is None:
            self._begin(mark, [future])
        elif mark == self._covering:
            self._on_board.append(future)
        else:
            self._waiting.append(future)
        return future

    async def close(self) -> None:
        """Wait for the sync in flight and those waiting; then let go of the file."""
        while self._in_flight is not None:
            await asyncio.wait({self._in_flight})  # ends with the disk's answer; `_end` has run before us
        self._thread.shutdown()
        os.close(self._descriptor)

    def _begin(self, mark: Mark, on_board: "list[asyncio.Future[None]]") -> None:
        self._covering, self._on_board, self._waiting = mark, on_board, []
        self._in_flight = self._loop.run_in_executor(self._thread, self._sync, self._descriptor)
        self._in_flight.add_done_callback(self._end)

    def _end(self, done: "asyncio.Future[None]") -> None:
        self._in_flight = None
        self._failed = done.cancelled() or done.exception() is not None
        if self._failed:
            for future in (*self._on_board, *self._waiting):
                if not future.done():
                    future.set_exception(_unknown())
            return
        self._covered = self._covering
        for future in self._on_board:
            if not future.done():
                future.set_result(None)
        if self._waiting:
            self._begin(self._mark(), self._waiting)


def _sync_folder(folder: Path) -> None:
    """Make the names of the store's files survive as well."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unknown() -> StoreUnavailable:
    return StoreUnavailable("The disk did not confirm what was written: open the store again.")
