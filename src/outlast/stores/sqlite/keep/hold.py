"""Who sends: of those who share a file one at a time for each server, as an OS file lock beside it says.

The lock keeps two processes from pressing one server. Nothing rests on it: what two send twice has one key. The system
drops it with its process, however that ends.
"""

import os
from hashlib import sha256
from pathlib import Path

from outlast.stores.sqlite.locks import HAS_LOCKS, lock


class Holds:
    """The lock files in `folder`, and those of them that are held here."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, int | None] = {}

    def take(self, server: str) -> bool:
        """Take the lock of a server, if nobody has it; where there are no locks, no other process has one.

        Raises `OSError`.
        """
        if server in self._held:
            return False
        if not HAS_LOCKS:
            self._held[server] = None
            return True
        self._folder.mkdir(mode=0o700, exist_ok=True)
        name = sha256(server.encode(errors="surrogatepass")).hexdigest()[:16]
        descriptor = lock(self._folder / f"{name}.lock", os.O_RDWR | os.O_CREAT)
        if descriptor is None:
            return False
        self._held[server] = descriptor
        return True

    def drop(self, server: str) -> None:
        """Let go of a lock; the file stays, since another process may be about to lock it. Harmless twice."""
        descriptor = self._held.pop(server, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """Let go of every lock."""
        for server in list(self._held):
            self.drop(server)
