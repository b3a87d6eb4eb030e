"""Renews one node's lease from whatever thread calls, so that a blocked event loop loses no runs.

A file has a connection of its own here: the loop's is the loop's. In memory there is but one connection, and its
lock. The lock of the *file* is waited for by SQLite itself, in short naps without the interpreter's lock, for
`TIMEOUT`; the loop's writer lets go of it at the end of every turn, so neither starves the other.
"""

import sqlite3
import threading
from collections.abc import Callable, Collection
from contextlib import closing
from typing import Final

from outlast.errors import StoreUnavailable
from outlast.stores.base import Renewal
from outlast.stores.sqlite import nodes
from outlast.stores.sqlite.clock import StoreClock
from outlast.stores.sqlite.connection import translate
from outlast.stores.sqlite.identity import Identity
from outlast.stores.sqlite.transaction import Transaction

TIMEOUT: Final = 1.0
"""Seconds to wait for the file: several tries fit between a missed renewal and the end of the lease."""


class SQLiteRenewer:
    """Renews the lease of `node` over the connection that `connect` gives; `owned` says whether `close` closes it."""

    def __init__(
        self,
        node: str,
        *,
        ttl: float,
        workers: Collection[str],
        clock: StoreClock,
        connect: Callable[[], sqlite3.Connection],
        lock: threading.Lock,
        owned: bool,
        identity: Identity | None = None,
    ) -> None:
        self._node = node
        self._ttl = ttl
        self._clock = clock
        self._connect = connect
        self._lock = lock
        self._owned = owned
        self._workers = nodes.workers_column(workers)
        self._identity = identity
        self._connection: sqlite3.Connection | None = None
        self._closed = False

    def renew(self, *, stalled: bool, lag: float = 0.0) -> Renewal:
        with self._lock:
            if self._closed:
                raise StoreUnavailable("The renewer is closed.")
            try:
                return self._renew(stalled=stalled, lag=lag)
            except sqlite3.Error as error:
                raise translate(error) from error

    def close(self) -> None:
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
            if connection is not None and self._owned:
                connection.close()

    def _renew(self, *, stalled: bool, lag: float) -> Renewal:
        if self._identity is not None:
            self._identity.check()
        if self._connection is None:
            self._connection = self._connect()
        with closing(Transaction(self._connection)) as transaction:
            transaction.begin()
            try:
                renewal = self._write(transaction, stalled=stalled, lag=lag)
                transaction.execute("COMMIT")
            except BaseException:
                self._connection.rollback()
                raise
        return renewal

    def _write(self, transaction: Transaction, *, stalled: bool, lag: float) -> Renewal:
        transaction.now = self._clock.now()
        until = transaction.now + (0.0 if stalled else self._ttl)
        nodes.write_lease(
            transaction,
            self._node,
            until=until,
            boot_id=self._clock.boot_id,
            workers=self._workers,
            stalled=stalled,
            lag=lag,
        )
        if stalled:
            transaction.stir()
        held = transaction.execute(
            "SELECT log, epoch FROM runs WHERE holder = ? AND settled_at IS NULL", (self._node,)
        ).fetchall()
        return Renewal(until=until, held={row["log"]: row["epoch"] for row in held})
