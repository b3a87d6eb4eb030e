"""One OS lock per node, beside the database: whose lock is free, its process is gone.

Rules:
1. A node takes its lock before its lease is written and keeps it until it leaves. The system drops it with the
   process, however that ends; a process that is merely stopped keeps it. (So does a child that was forked without
   exec: then nothing is proved until the child ends, and the lease runs out by itself.)
2. Only a lock that was *taken* proves anything. A missing file, a file system without locks, an error: no proof.
3. A lock file is removed under its own lock. Who locks one looks whether it is still the file of that name.
4. A file that was not there at the look before is left alone: its node may not have come to lock it yet.
"""

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from outlast.errors import StoreBusy, StoreUnavailable

if sys.platform == "win32":  # no such lock, so no proof: leases run out by themselves
    HAS_LOCKS = False
else:
    import fcntl

    HAS_LOCKS = True

TRIES: Final = 3
"""Looks at one lock file: it is replaced under our hands only while another node buries this one's predecessor."""


@dataclass(frozen=True, slots=True)
class Seized:
    """The lock of a node that is provably dead, held while it is buried."""

    node: str
    path: Path
    descriptor: int

    def remove(self) -> None:
        """Delete the file; the lock is kept."""
        self.path.unlink(missing_ok=True)

    def release(self) -> None:
        """Drop the lock."""
        os.close(self.descriptor)


class NodeLocks:
    """The lock files in `folder`, and those of them that this process holds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, Seized] = {}
        self._seen: set[str] = set()
        self._told: set[str] = set()

    def take(self, node: str) -> None:
        """Hold the lock of `node`, one of this process; harmless twice. Raises `StoreBusy`, `StoreUnavailable`."""
        if not HAS_LOCKS or node in self._held:
            return
        path = self._path(node)
        try:
            self._folder.mkdir(exist_ok=True)
            for _ in range(TRIES):
                descriptor = lock(path, os.O_RDWR | os.O_CREAT)
                if descriptor is not None:
                    self._held[node] = Seized(node, path, descriptor)
                    return
        except OSError as error:
            raise StoreUnavailable("The folder of node locks beside the store's file cannot be written to.") from error
        raise StoreBusy("Another process holds the lock of a node with this id.")

    def seize(self, node: str) -> Seized | None:
        """Take the lock of another node if that is possible: then its process is gone."""
        if not HAS_LOCKS or node in self._held:
            return None
        path = self._path(node)
        with suppress(OSError):
            descriptor = lock(path, os.O_RDWR)
            if descriptor is not None:
                return Seized(node, path, descriptor)
        return None

    def notice(self) -> bool:
        """Say whether another node's lock is free, once for each: a hint that it can be buried."""
        there = self._others()
        known, self._seen = self._seen & there, there
        self._told &= there
        freed = [node for node in known - self._told if self._is_free(node)]
        self._told.update(freed)
        return bool(freed)

    def drop(self, node: str) -> None:
        """Let go of a node's lock and delete its file; harmless twice."""
        held = self._held.pop(node, None)
        if held is not None:
            held.remove()
            held.release()

    def close(self) -> None:
        """Let go of every lock. Files stay: the nodes have not left."""
        for held in self._held.values():
            held.release()
        self._held.clear()

    def _others(self) -> set[str]:
        try:
            files = list(self._folder.iterdir()) if HAS_LOCKS else []
        except OSError:  # nobody has come yet
            return set()
        return {unquote(file.stem) for file in files} - self._held.keys()

    def _is_free(self, node: str) -> bool:
        seized = self.seize(node)
        if seized is not None:
            seized.release()
        return seized is not None

    def _path(self, node: str) -> Path:
        return self._folder / f"{quote(node, safe='')}.lock"


def lock(path: Path, flags: int) -> int | None:
    """Return a descriptor of the locked file, None when it is locked or was replaced. Raises `OSError`."""
    descriptor = os.open(path, flags, 0o600)  # closed on exec, as every descriptor of Python's
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
