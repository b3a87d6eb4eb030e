"""The store's clock: the machine's boot-time clock, anchored in the file together with the boot id.

Rules:
1. Within one boot, `now = offset + time since boot`. The wall clock is not looked at, so a step of it, at any moment
   and in any direction, changes nothing; every process of the boot reads the same offset.
2. Only a new file and a new boot look at the wall clock: once, and never to set the store's time back. A new boot
   goes on from the newest time in the file or from the wall clock, whichever is later.
3. Where a machine has no such clock the wall clock takes its place. Then it may jump, but within a process it does
   not go back.
"""

import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from outlast.stores.sqlite.statement import load

ANCHOR_CLOCK: Final = load("anchor_clock")
FIND_NEWEST_TIME: Final = load("find_newest_time")

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """A machine's clocks, in seconds."""

    def boot_id(self) -> str:
        """Return what is the same for every process until the machine starts again."""
        ...

    def elapsed(self) -> float:
        """Return the time since that start, sleep included; it never goes back."""
        ...

    def wall(self) -> float:
        """Return the time since 1970 as the machine believes it to be."""
        ...


class BootClock:
    """Linux: time since boot, which goes on while a laptop sleeps."""

    def __init__(self) -> None:
        self.elapsed = partial(time.clock_gettime, time.CLOCK_BOOTTIME)  # asked once per commit: no call more

    def boot_id(self) -> str:
        return _BOOT_ID.read_text(encoding="ascii").strip()

    def wall(self) -> float:
        return time.time()


class WallClock:
    """Anywhere else: the wall clock, kept from going back within the process."""

    def __init__(self) -> None:
        self._newest = 0.0

    def boot_id(self) -> str:
        return "wall clock"

    def elapsed(self) -> float:
        self._newest = max(self._newest, time.time())
        return self._newest

    def wall(self) -> float:
        return self.elapsed()


def system_clock() -> Clock:
    """Return the best clock this machine has."""
    return BootClock() if hasattr(time, "CLOCK_BOOTTIME") and _BOOT_ID.exists() else WallClock()


class StoreClock:
    """One store's time on one boot; `now` may be called from any thread."""

    def __init__(self, clock: Clock, *, boot_id: str, offset: float) -> None:
        self.boot_id = boot_id
        self._elapsed = clock.elapsed
        self._offset = offset

    def now(self) -> float:
        """Return the store's time in seconds."""
        return self._offset + self._elapsed()


def anchor(connection: sqlite3.Connection, clock: Clock) -> StoreClock:
    """Return the store's clock, anchored anew when the file is new or was last used on another boot."""
    boot_id = clock.boot_id()
    offset = _offset(connection, boot_id)
    if offset is None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            offset = _offset(connection, boot_id)  # another process may have been first
            if offset is None:
                offset = _anchor_anew(connection, clock, boot_id)
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise
    return StoreClock(clock, boot_id=boot_id, offset=offset)


def _offset(connection: sqlite3.Connection, boot_id: str) -> float | None:
    row = connection.execute("SELECT clock_offset FROM store WHERE boot_id = ?", (boot_id,)).fetchone()
    return None if row is None else float(row["clock_offset"])


def _anchor_anew(connection: sqlite3.Connection, clock: Clock, boot_id: str) -> float:
    newest = connection.execute(FIND_NEWEST_TIME).fetchone()["at"]
    offset = max(clock.wall(), newest or 0.0) - clock.elapsed()
    connection.execute(ANCHOR_CLOCK, {"boot_id": boot_id, "clock_offset": offset})
    return offset
