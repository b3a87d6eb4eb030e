"""The embedded store: one SQLite file for everything, or memory, opened for one process."""

import asyncio
import sqlite3
import threading
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Literal

from outlast.errors import StoreUnavailable
from outlast.stores.sqlite.bell import Bells, Watch
from outlast.stores.sqlite.checkpoint import Checkpointer
from outlast.stores.sqlite.clock import Clock, StoreClock, anchor, system_clock
from outlast.stores.sqlite.connection import connect
from outlast.stores.sqlite.engine import Engine, Ground
from outlast.stores.sqlite.identity import Identity
from outlast.stores.sqlite.locks import NodeLocks
from outlast.stores.sqlite.logs import SQLiteLogs
from outlast.stores.sqlite.migration import migrate
from outlast.stores.sqlite.patience import patiently
from outlast.stores.sqlite.power import PowerSync, mark
from outlast.stores.sqlite.renewer import TIMEOUT, SQLiteRenewer
from outlast.stores.sqlite.runs import SQLiteRuns
from outlast.stores.sqlite.transaction import Transaction


class SQLiteStore:
    """`Store` in the file at `path`, which is made when it is not there; `None` keeps everything in memory.

    What is answered survives the death of every process; with `durability="power"` also a power failure, at the
    price of waiting for the disk. `clock` is the machine's unless a test brings its own. Several processes may have
    the same file open.
    """

    def __init__(
        self,
        path: str | Path | None,
        *,
        durability: Literal["process", "power"] = "process",
        clock: Clock | None = None,
    ) -> None:
        self._path = None if path is None else Path(path).absolute()
        self._durability = durability
        self._clock = clock or system_clock()
        self._locks = None if self._path is None else NodeLocks(self._path.with_name(f"{self._path.name}.nodes"))
        self._bells = Bells(on_listener=self._watch_others)
        self._engine = Engine(self._bells)
        self._watch = Watch(
            self._bells, self._engine.peek, notice=lambda: self._locks is not None and self._locks.notice()
        )
        self._ground: Ground | None = None
        self._id: str | None = None
        self._runs = SQLiteRuns(self._engine, self._bells, self._locks)
        self._logs = SQLiteLogs(self._engine, self._bells)

    @property
    def runs(self) -> SQLiteRuns:
        return self._runs

    @property
    def logs(self) -> SQLiteLogs:
        return self._logs

    @property
    def id(self) -> str | None:
        return self._id

    async def open(self) -> None:
        if self._path is not None and not self._path.parent.is_dir():
            raise StoreUnavailable(f"The folder of the store's file does not exist: make {self._path.parent} first.")
        if self._ground is None:
            connection, clock, self._id = await patiently(self._connect)
            self._ground = self._stand_on(connection, clock)
            self._engine.begin(self._ground)

    async def close(self) -> None:
        await self._engine.end()
        self._watch.end()
        ground, self._ground = self._ground, None
        if ground is None:
            return
        if ground.power is not None:
            await ground.power.close()
        if ground.checkpointer is not None:
            ground.checkpointer.close()
        with self._engine.lock:
            ground.transaction.close()
            ground.connection.close()  # the last one of a file moves the whole WAL into it and deletes it
        if self._locks is not None:
            self._locks.close()

    def renewer(self, node: str, *, ttl: float, workers: Collection[str]) -> SQLiteRenewer:
        ground = self._engine.ground
        path = self._path
        return SQLiteRenewer(
            node,
            ttl=ttl,
            workers=workers,
            clock=ground.clock,
            connect=(lambda: ground.connection)
            if path is None
            else (lambda: connect(path, timeout=TIMEOUT, known=True)),
            identity=ground.identity,
            lock=self._engine.lock if path is None else threading.Lock(),
            owned=path is not None,
        )

    # ---- inside -----------------------------------------------------------------------------

    def _connect(self) -> tuple[sqlite3.Connection, StoreClock, str]:
        connection = connect(self._path)
        try:
            migrate(connection)
            (named,) = connection.execute("SELECT id FROM identity").fetchone()
            return connection, anchor(connection, self._clock), named
        except BaseException:
            connection.close()
            raise

    def _stand_on(self, connection: sqlite3.Connection, clock: StoreClock) -> Ground:
        checkpointer = power = identity = None
        if self._path is not None:
            try:
                identity = Identity(self._path)
                power = PowerSync(self._path, partial(mark, connection)) if self._durability == "power" else None
            except OSError as error:
                connection.close()
                raise StoreUnavailable("The store's files cannot be opened.") from error
            checkpointer = Checkpointer(self._path)
            checkpointer.start()
        loop = asyncio.get_running_loop()
        return Ground(
            loop=loop,
            connection=connection,
            transaction=Transaction(connection),
            clock=clock,
            checkpointer=checkpointer,
            power=power,
            identity=identity,
        )

    def _watch_others(self) -> None:
        if self._path is not None:
            self._watch.begin()
