"""Looks at a store's file from outside, changing nothing: which schema it has, and what the place it lies in can do."""

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from outlast.errors import StoreUnavailable
from outlast.stores.sqlite.clock import BootClock, system_clock
from outlast.stores.sqlite.connection import chained, connect
from outlast.stores.sqlite.locks import NodeLocks
from outlast.stores.sqlite.migration import NEWEST, migrate, version

FLOOR: Final = (3, 35, 0)
"""RETURNING came with it."""
PROBE: Final = "probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What the folder of a store can do; `free` is bytes left on its disk."""

    writable: bool
    wal: bool
    locks: bool
    syncs: bool
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The SQLite this process would use, and the clock: `boot_clock` says whether a clock step changes nothing."""

    version: str
    is_new_enough: bool
    boot_clock: bool
    boot_id: str


def engine() -> Engine:
    """Return what this machine and this Python bring along."""
    clock = system_clock()
    return Engine(
        version=sqlite3.sqlite_version,
        is_new_enough=sqlite3.sqlite_version_info >= FLOOR,
        boot_clock=isinstance(clock, BootClock),
        boot_id=clock.boot_id(),
    )


def schema_of(path: Path) -> int:
    """Return the schema version of a file, 0 for none or an empty one; nothing is made or changed.

    Raises `SchemaNewer`, `StoreCorrupt`, `StoreUnavailable`.
    """
    if not path.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return version(connection)
    except sqlite3.Error as error:
        raise chained(error) from error


def bring_up(path: Path) -> tuple[int, int]:
    """Migrate the file and return the schema versions before and after. Raises the errors of opening a store."""
    if not path.parent.is_dir():
        raise StoreUnavailable(f"The folder of the store's file does not exist: make {path.parent} first.")
    before = schema_of(path)
    try:
        with closing(connect(path, timeout=1.0)) as connection:
            migrate(connection)
    except sqlite3.Error as error:
        raise chained(error) from error
    return before, NEWEST


def place(folder: Path) -> Place:
    """Try out what a folder can do, in a folder of its own inside it that is gone afterwards."""
    free = shutil.disk_usage(folder).free
    try:
        with TemporaryDirectory(prefix=".outlast-", dir=folder) as name:
            probe = Path(name)
            return Place(writable=True, wal=_does_wal(probe), locks=_locks(probe), syncs=_syncs(probe), free=free)
    except OSError:
        return Place(writable=False, wal=False, locks=False, syncs=False, free=free)


def _does_wal(folder: Path) -> bool:
    with suppress(sqlite3.Error), closing(connect(folder / PROBE)) as connection:
        return str(connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]) == "wal"
    return False


def _locks(folder: Path) -> bool:
    """Say whether a lock that one descriptor holds is refused to another."""
    holder, other = NodeLocks(folder / "locks"), NodeLocks(folder / "locks")
    with suppress(StoreUnavailable), closing(holder):
        holder.take(PROBE)
        held = not _seizes(other)
        holder.close()
        return held and _seizes(other)
    return False


def _seizes(locks: NodeLocks) -> bool:
    seized = locks.seize(PROBE)
    if seized is not None:
        seized.release()
    return seized is not None


def _syncs(folder: Path) -> bool:
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return True
    return False
