"""The file in which a client keeps what is to outlive it: how far its runs were taken, and what it is to send.

Rules:
1. Each operation is one transaction, inline on whoever's loop: a few dozen microseconds. What is returned survives the
   death of the process. A file that others have locked is tried again for `BUSY_LIMIT`, without blocking the loop.
2. The file, and all that lies beside it, is made for its owner's eyes alone. A file that is there keeps its mode.
3. Several clients of one process may share a `Keep`, from several threads; it is open for as long as one of them is.
"""

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final, TypeVar

from outlast.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from outlast.place import Place
from outlast.send import Kind, NewSend, Send
from outlast.stores.sqlite.checkpoint import Checkpointer
from outlast.stores.sqlite.connection import connect
from outlast.stores.sqlite.identity import Identity
from outlast.stores.sqlite.keep import places, sends
from outlast.stores.sqlite.keep.hold import Holds
from outlast.stores.sqlite.migration import OF_A_CLIENT, Schema, migrate, read
from outlast.stores.sqlite.patience import patiently

T = TypeVar("T")

SCHEMA: Final = Schema(
    name="The client's file",
    application_id=OF_A_CLIENT,
    migrations=read(Path(__file__).parent / "migrations"),
)
SENTENCES: Final[dict[type[StoreError], str]] = {
    StoreBusy: "Other processes kept the client's file locked for too long: look what holds it, and try again.",
    StoreFull: "The disk of the client's file is full: nothing was kept. Make room, and try again.",
    StoreReadOnly: "The client's file, or its folder, cannot be written to: change its mode, or name another file.",
    StoreCorrupt: "The client's file is damaged: put a copy of it back, or delete it and begin anew.",
    StoreUnavailable: "The client's file cannot be opened, read or written: look at its folder and its disk.",
}
"""What is told of SQLite's errors in place of what a server's operator is told."""
GONE: Final = (
    "The client's file was deleted, renamed or replaced while it was open: put it back together with its -wal file, or "
    "begin anew with another client."
)
"""What is told of it then."""
UNWRITABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
"""How a system says that a file may not be written."""


class Keep:
    """What clients keep in the SQLite file at `path`, made when it is not there: `connect(url, keep=Keep(path))`.

    A client started again goes on with its runs behind what was taken of them, and has an `outbox`. Several clients and
    processes may share a file. What is kept belongs to a server by its first url, or by `server`, a name of your
    choosing: give one where the url may change. Source: R3, R11.
    """

    def __init__(self, path: str | os.PathLike[str], *, server: str | None = None) -> None:
        self.server = server
        self._path = Path(path).absolute()
        self._clock = time.time  # only for how long ago something was: never compared with another machine's
        self._lock = threading.Lock()
        self._holds = Holds(self._path.with_name(f"{self._path.name}.senders"))
        self._clients = 0
        self._connection: sqlite3.Connection | None = None
        self._checkpointer: Checkpointer | None = None
        self._identity: Identity | None = None

    # ---- its life ---------------------------------------------------------------------------

    async def open(self) -> None:
        await self._told(self._open)

    async def close(self) -> None:
        with self._lock:
            self._clients -= 1
            if self._clients:
                return
            connection, checkpointer = self._connection, self._checkpointer
            self._connection = self._checkpointer = None
            self._holds.close()
        if checkpointer is not None:
            checkpointer.close()
        if connection is not None:
            connection.close()

    # ---- places -----------------------------------------------------------------------------

    async def place(self, server: str, place: Place) -> Place | None:
        return await self._read(lambda connection: places.find(connection, server, place))

    async def move(self, server: str, moved: Collection[Place]) -> None:
        now = self._clock()
        await self._write(lambda connection: places.move(connection, server, moved, now=now))

    async def forget_place(self, server: str, place: Place) -> None:
        await self._write(lambda connection: places.forget(connection, server, place))

    # ---- sends ------------------------------------------------------------------------------

    async def add(self, server: str, new: NewSend) -> Send:
        return await self._write(lambda connection: sends.add(connection, server, new))

    async def sends(self, server: str) -> Sequence[Send]:
        return await self._read(lambda connection: sends.all_of(connection, server))

    async def send(self, number: int) -> Send:
        return await self._read(lambda connection: sends.get(connection, number))

    async def find(self, server: str, kind: Kind, run: str, owner: str | None) -> Send | None:
        return await self._read(lambda connection: sends.find(connection, server, kind, run, owner))

    async def next_send(self, server: str) -> Send | None:
        return await self._read(lambda connection: sends.next_of(connection, server))

    async def mark_sent(self, send: Send) -> bool:
        return await self._write(lambda connection: sends.mark_sent(connection, send.number))

    async def settle(self, server: str, send: Send, *, code: str | None) -> None:
        await self._write(lambda connection: sends.settle(connection, send, server, code=code))

    async def forget_send(self, send: Send) -> bool:
        return await self._write(lambda connection: sends.forget(connection, send.number))

    def hold(self, server: str) -> bool:
        try:
            with self._lock:
                return self._holds.take(server)
        except OSError as error:
            raise _unusable(error) from error

    def let_go(self, server: str) -> None:
        with self._lock:
            self._holds.drop(server)

    # ---- inside -----------------------------------------------------------------------------

    def _open(self) -> None:
        with self._lock:
            if self._connection is None:
                self._connection = self._connect()
                self._identity = Identity(self._path)
                self._checkpointer = Checkpointer(self._path)
                self._checkpointer.start()
            self._clients += 1

    def _connect(self) -> sqlite3.Connection:
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        except FileNotFoundError as error:
            raise StoreUnavailable("The folder of the client's file does not exist: make it first.") from error
        except OSError as error:
            raise _unusable(error) from error
        connection = connect(self._path, known=True)
        try:
            migrate(connection, SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def reading() -> T:
            with self._lock:
                return work(self._ready())

        return await self._told(reading)

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def writing() -> T:
            with self._lock:
                return self._transact(work)

        return await self._told(writing)

    def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._ready()
        connection.execute("BEGIN IMMEDIATE")
        try:
            answer = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise
        if self._checkpointer is not None:
            self._checkpointer.wrote(1, 0)
        return answer

    def _ready(self) -> sqlite3.Connection:
        if self._connection is None or self._identity is None:
            raise StoreUnavailable("The client's file is not open: its client is closed.")
        try:
            self._identity.check()
        except StoreUnavailable as error:
            raise StoreUnavailable(GONE) from error
        return self._connection

    async def _told(self, work: Callable[[], T]) -> T:
        try:
            return await patiently(work)
        except StoreError as error:
            sentence = SENTENCES.get(type(error))
            if sentence is None or not isinstance(error.__cause__, sqlite3.Error):
                raise
            raise type(error)(sentence) from error.__cause__


def _unusable(error: OSError) -> StoreError:
    """Return what is told of a file that the system does not give us."""
    kind = StoreReadOnly if error.errno in UNWRITABLE else StoreUnavailable
    return kind(SENTENCES[kind])
