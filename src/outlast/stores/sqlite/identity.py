"""Notices that the store's file is not the one that was opened: deleted, renamed, or replaced under our hands.

An open file goes on after its name is gone. Another process that starts then makes a new file under the name, and the
two would drive and number their runs apart, without knowing of each other.
"""

import os.path
from pathlib import Path
from typing import Final

from outlast.errors import StoreUnavailable

CHECK_EVERY: Final = 1.0
"""Seconds between two checks of a store that is in use: each is one system call."""


class Identity:
    """The file that `path` names when this is made; `check` says whether it still is the one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = path.stat()

    def check(self) -> None:
        """Raise `StoreUnavailable` when the path names another file, or none."""
        try:
            same = os.path.samestat(self._path.stat(), self._known)
        except OSError:
            same = False
        if not same:
            raise StoreUnavailable(
                "The store's file was deleted, renamed or replaced while it was open: stop every process that uses "
                "it, put the file back where it was together with its -wal file, and start again."
            )
