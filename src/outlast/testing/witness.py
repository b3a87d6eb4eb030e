"""Stands beside a store and writes down what it accepted: the truth against which everything else is judged.

It is the innermost wrapper, right around the store: what a node does not hear of because an answer was lost, the
witness has seen. Rows are read back after each operation that may have changed one.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias, cast

from outlast.log.cursor import Cursor
from outlast.log.event import Event
from outlast.run import Cause, Checkpoint, Outcome, Run, Token
from outlast.stores.base import (
    Charge,
    LogStore,
    NewClaim,
    NewRun,
    Renewer,
    RunStore,
    Started,
    Stopped,
    Store,
    Subscription,
)
from outlast.testing import observation

Note: TypeAlias = Callable[[observation.Observation], None]


class Witness:
    """`inner` as `node` uses it; `note` is told every operation that `inner` accepted."""

    def __init__(self, inner: Store, note: Note, *, node: str) -> None:
        self.inner = inner
        self._runs = cast("RunStore", _Runs(inner.runs, note, node))
        self._logs = cast("LogStore", _Logs(inner.logs, note, node))

    @property
    def runs(self) -> RunStore:
        """The authority, witnessed."""
        return self._runs

    @property
    def logs(self) -> LogStore:
        """The logs, witnessed."""
        return self._logs

    @property
    def id(self) -> str | None:
        """Which store this is."""
        return self.inner.id

    async def open(self) -> None:
        """Do nothing: `inner` is open."""

    async def close(self) -> None:
        """Do nothing: `inner` belongs to whoever made it."""

    def renewer(self, node: str, *, ttl: float, workers: Collection[str]) -> Renewer:
        """Return the store's own renewer: what a lease says proves nothing."""
        return self.inner.renewer(node, ttl=ttl, workers=workers)


class _Runs:
    def __init__(self, inner: RunStore, note: Note, node: str) -> None:
        self._inner = inner
        self._note = note
        self._node = node
        self._clock = asyncio.get_running_loop().time

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the port's other methods, as they are
        return getattr(self._inner, name)

    def subscribe(self) -> Subscription:
        return self._inner.subscribe()

    async def start(self, new: NewRun) -> Started:
        started = await self._inner.start(new)
        await self._look(new.owner, new.id)
        return started

    async def claim(self, run: Run, claim: NewClaim) -> Run:
        after = await self._inner.claim(run, claim)
        self._note(observation.Claimed(at=self._clock(), node=self._node, before=run, after=after))
        await self._look(run.owner, run.id)
        return after

    async def settle(self, run: Run, token: Token, outcome: Outcome) -> Run:
        after = await self._inner.settle(run, token, outcome)
        self._note(observation.Settled(at=self._clock(), node=self._node, token=token, after=after))
        await self._look(run.owner, run.id)
        return after

    async def settle_unheld(self, run: Run, outcome: Outcome, *, claim: str) -> Run:
        after = await self._inner.settle_unheld(run, outcome, claim=claim)
        self._note(observation.Settled(at=self._clock(), node=self._node, token=None, after=after))
        await self._look(run.owner, run.id)
        return after

    async def release(self, run: Run, token: Token, cause: Cause) -> None:
        await self._inner.release(run, token, cause)
        self._note(observation.Released(at=self._clock(), node=self._node, run=run.id, token=token))
        await self._look(run.owner, run.id)

    async def charge(self, run: Run, token: Token, *, number: int, limit: int) -> Charge:
        charge = await self._inner.charge(run, token, number=number, limit=limit)
        self._note(
            observation.Charged(
                at=self._clock(),
                node=self._node,
                run=run.id,
                token=token,
                number=number,
                limit=limit,
                charge=charge,
            )
        )
        await self._look(run.owner, run.id)
        return charge

    async def checkpoint(self, run: Run, token: Token, checkpoint: Checkpoint) -> None:
        await self._inner.checkpoint(run, token, checkpoint)
        self._note(
            observation.Checkpointed(at=self._clock(), node=self._node, run=run.id, token=token, seq=checkpoint.seq)
        )

    async def stop(self, owner: str, id: str, *, reason: str | None) -> Stopped:
        stopped = await self._inner.stop(owner, id, reason=reason)
        known = stopped.run is not None
        self._note(observation.StopAnswered(at=self._clock(), run=id, known=known, answer=stopped.answer))
        if known:
            await self._look(owner, id)
        return stopped

    async def refuse(self, run: Run, *, retry_in: float) -> float:
        before = await self._inner.load(run.owner, run.id)
        refused_for = await self._inner.refuse(run, retry_in=retry_in)
        after = await self._inner.load(run.owner, run.id)
        self._note(
            observation.PrerequisiteRefused(at=self._clock(), node=self._node, before=before.run, after=after.run)
        )
        return refused_for

    async def _look(self, owner: str, id: str) -> None:
        loaded = await self._inner.load(owner, id)
        self._note(observation.RowSeen(at=self._clock(), now=loaded.now, row=loaded.run))


class _Logs:
    def __init__(self, inner: LogStore, note: Note, node: str) -> None:
        self._inner = inner
        self._note = note
        self._node = node
        self._clock = asyncio.get_running_loop().time

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the port's other methods, as they are
        return getattr(self._inner, name)

    def subscribe(self, log: str) -> Subscription:
        return self._inner.subscribe(log)

    async def fence(self, log: str, token: Token) -> None:
        await self._inner.fence(log, token)
        self._note(observation.FenceRaised(at=self._clock(), node=self._node, log=log, token=token))

    async def append(self, log: str, token: Token, previous: Cursor, events: Sequence[Event]) -> Cursor:
        head = await self._inner.append(log, token, previous, events)
        self._note(
            observation.Appended(
                at=self._clock(),
                node=self._node,
                log=log,
                token=token,
                previous=previous,
                events=tuple(events),
                head=head,
            )
        )
        return head
