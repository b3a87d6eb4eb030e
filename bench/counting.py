"""Counts what is asked of a store: the operations of its ports, and the statements that SQLite ran for them."""

# ruff: noqa: ANN401 - it passes on whatever the ports take and return

import sqlite3
from collections import Counter
from collections.abc import Mapping
from typing import Any

HINTS = frozenset({"subscribe"})
"""What asks nothing of the file."""


class Counted:
    """A port of a store whose every operation is counted in `calls`."""

    def __init__(self, port: Any, calls: Counter[str]) -> None:
        self._port = port
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not callable(found) or name in HINTS:
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            self._calls[name] += 1
            return found(*arguments, **options)

        return call


class CountedStore(Counted):
    """A store of which the ports and the renewers are counted, and not its opening and closing."""

    @property
    def runs(self) -> Any:
        """Its runs."""
        return Counted(self._port.runs, self._calls)

    @property
    def logs(self) -> Any:
        """Its logs."""
        return Counted(self._port.logs, self._calls)

    def renewer(self, *arguments: Any, **options: Any) -> Any:
        """Return a renewer."""
        return Counted(self._port.renewer(*arguments, **options), self._calls)


class Statements:
    """Counts the statements of every connection that is opened from now on."""

    def __init__(self) -> None:
        self.count = 0
        self._connect: Any = sqlite3.connect
        sqlite3.connect = self._open

    def _open(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = self._connect(*arguments, **options)
        connection.set_trace_callback(self._note)
        return connection

    def _note(self, _statement: str) -> None:
        self.count += 1


def told(calls: Counter[str], statements: Statements) -> Mapping[str, float]:
    """Return both counts."""
    return {"operations": calls.total(), "statements": statements.count, **calls}
