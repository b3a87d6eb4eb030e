"""The port of the logs: every method one operation of the engine."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from outlast.errors import RunNotFound, StoreError
from outlast.log.cursor import Cursor, chain
from outlast.log.event import Event, StoredEvent
from outlast.log.limits import is_counted
from outlast.run import Token
from outlast.stores.base import Head
from outlast.stores.sqlite.bell import Bells, LogSubscription
from outlast.stores.sqlite.engine import Engine
from outlast.stores.sqlite.events import append, chain_at, fence, head, heads, read

NUMBERS: Final = 4096
"""Logs whose number is remembered, which saves each append a look-up; more than one node drives at a time."""


class SQLiteLogs:
    """`LogStore` over one engine. What can be prepared for an append is prepared before its turn."""

    def __init__(self, engine: Engine, bells: Bells) -> None:
        self._engine = engine
        self._bells = bells
        self._numbers: dict[str, int] = {}

    async def fence(self, log: str, token: Token) -> None:
        await self._engine.write(lambda transaction: fence(transaction, log, token))

    async def head(self, log: str) -> Head:
        return await self._engine.read(lambda query: head(query, log))

    async def append(self, log: str, token: Token, previous: Cursor, events: Sequence[Event]) -> Cursor:
        # Without its chain a cursor has nothing that could be compared with the head: it continues no log.
        cursors = [] if previous.chain is None else chain(previous, events)
        size = sum([len(event.payload) for event in events])
        own = [len(event.payload) for event in events if not is_counted(event)]
        number = self._numbers.get(log)
        head, self._numbers[log] = await self._engine.write(
            lambda transaction: append(
                transaction, log, token, previous, number=number, cursors=cursors, events=events, size=size, own=own
            ),
            rows=len(cursors),
        )
        if len(self._numbers) > NUMBERS:
            self._numbers.clear()
        return head

    async def read(self, log: str, *, after: int, limit: int, max_bytes: int) -> Sequence[StoredEvent]:
        return await self._engine.read(lambda query: read(query, log, after=after, limit=limit, max_bytes=max_bytes))

    async def chain_at(self, log: str, seq: int) -> bytes | None:
        return await self._engine.read(lambda query: chain_at(query, log, seq))

    async def heads(self, logs: Collection[str]) -> Mapping[str, Cursor]:
        return await self._engine.read(lambda query: heads(query, logs))

    def subscribe(self, log: str) -> LogSubscription:
        try:
            seq = self._engine.peek(lambda query: head(query, log)).cursor.seq
        except (StoreError, RunNotFound):
            seq = None  # then the first look wakes the waiter once for nothing
        return self._bells.subscribe_log(log, seq=seq)
