"""The port of the runs: every method one operation of the engine, whose work is done in the rooms beside this one."""

import secrets
from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress

from outlast.errors import ClaimLost, RunNotFound, StoreUnavailable
from outlast.lineage import Lineage
from outlast.run import Cause, Checkpoint, Outcome, Run, Status, Token
from outlast.stores.base import Abort, Charge, Due, Expired, Loaded, NewClaim, NewRun, Node, Started, Stopped
from outlast.stores.sqlite import (
    absences,
    acceptance,
    claims,
    corruption,
    expiry,
    lineage,
    nodes,
    outbox,
    outcomes,
    resumption,
)
from outlast.stores.sqlite.bell import Bells, Subscription
from outlast.stores.sqlite.corruption import Unreadable
from outlast.stores.sqlite.engine import ROWS, Engine
from outlast.stores.sqlite.locks import NodeLocks


class SQLiteRuns:
    """`RunStore` over one engine. In memory there are no `locks`: nobody else could be proved dead."""

    def __init__(self, engine: Engine, bells: Bells, locks: NodeLocks | None) -> None:
        self._engine = engine
        self._bells = bells
        self._locks = locks
        self._unreadable = Unreadable()

    async def now(self) -> float:
        return self._engine.ground.clock.now()

    # ---- accepting and reading --------------------------------------------------------------

    async def start(self, new: NewRun) -> Started:
        return await self._engine.write(lambda transaction: acceptance.start(transaction, new))

    async def load(self, owner: str, id: str) -> Loaded:
        return await self._engine.read(lambda query: acceptance.load(query, owner, id))

    async def load_all(self, keys: Collection[tuple[str, str]]) -> Sequence[Loaded]:
        return await self._engine.read(lambda query: acceptance.load_all(query, keys, corrupt=self._unreadable.meet))

    async def recovering(self, keys: Collection[tuple[str, str]]) -> Collection[str]:
        return await self._engine.read(lambda query: acceptance.recovering(query, keys))

    async def list(
        self, owner: str, *, status: Status | None, before: str | None, limit: int, thread: str | None = None
    ) -> Sequence[Loaded]:
        return await self._engine.read(
            lambda query: acceptance.list_runs(
                query, owner, status=status, before=before, limit=limit, thread=thread, corrupt=self._unreadable.meet
            )
        )

    async def due(
        self, workers: Collection[str], *, limit: int, held_back: Collection[str] = (), within: float = 0.0
    ) -> Due:
        return await self._engine.read(
            lambda query: claims.due(
                query, workers, limit=limit, held_back=held_back, within=within, corrupt=self._unreadable.meet
            )
        )

    async def lineage(self, owner: str, id: str) -> Lineage:
        return await self._engine.read(lambda query: lineage.find(query, owner, id))

    # ---- claiming, settling -----------------------------------------------------------------

    async def claim(self, run: Run, claim: NewClaim) -> Run:
        return await self._engine.write(lambda transaction: claims.claim(transaction, run, claim))

    async def settle(self, run: Run, token: Token, outcome: Outcome) -> Run:
        return await self._engine.write(lambda transaction: outcomes.settle(transaction, run, token, outcome))

    async def settle_unheld(self, run: Run, outcome: Outcome, *, claim: str) -> Run:
        return await self._engine.write(
            lambda transaction: outcomes.settle_unheld(transaction, run, outcome, claim=claim)
        )

    async def release(self, run: Run, token: Token, cause: Cause) -> None:
        await self._engine.write(lambda transaction: claims.release(transaction, run, token, cause))

    async def charge(self, run: Run, token: Token, *, number: int, limit: int) -> Charge:
        return await self._engine.write(
            lambda transaction: claims.charge(transaction, run, token, number=number, limit=limit)
        )

    # ---- checkpoints ------------------------------------------------------------------------

    async def checkpoint(self, run: Run, token: Token, checkpoint: Checkpoint) -> None:
        await self._engine.write(lambda transaction: resumption.keep(transaction, run, token, checkpoint))

    async def last_checkpoint(self, run: Run) -> Checkpoint | None:
        return await self._engine.read(lambda query: resumption.last(query, run))

    # ---- erasing, expiring ------------------------------------------------------------------

    async def erase(self, owner: str, id: str) -> None:
        number = await self._engine.write(lambda transaction: expiry.erase(transaction, owner, id))
        with suppress(StoreUnavailable):  # it is gone; what is left of its log is deleted by `expire`
            while not await self._engine.write(lambda transaction: expiry.empty(transaction, number), rows=ROWS):
                pass

    async def expire(self, *, finished: float, gone: float) -> Expired:
        if not await self._engine.read(lambda query: expiry.is_due(query, finished=finished, gone=gone)):
            return Expired()
        return await self._engine.write(
            lambda transaction: expiry.expire(transaction, finished=finished, gone=gone), rows=ROWS
        )

    # ---- what cannot be read ----------------------------------------------------------------

    async def corrupt(self) -> Sequence[str]:
        return self._unreadable.logs

    async def settle_corrupt(self, log: str, outcome: Outcome, *, claim: str) -> None:
        try:
            await self._engine.write(lambda transaction: corruption.settle(transaction, log, outcome, claim=claim))
        except (ClaimLost, RunNotFound):
            if await self._engine.read(lambda query: corruption.is_corrupt(query, log)):
                raise
            self._unreadable.forget(log)  # another process settled it, and may have erased it since
            raise
        self._unreadable.forget(log)

    # ---- stopping, refusing -----------------------------------------------------------------

    async def stop(self, owner: str, id: str, *, reason: str | None) -> Stopped:
        claim = secrets.token_hex(8)
        return await self._engine.write(
            lambda transaction: outcomes.stop(transaction, owner, id, reason=reason, claim=claim)
        )

    async def stops(self, node: str) -> Sequence[Run]:
        return await self._engine.read(lambda query: outcomes.stops(query, node, corrupt=self._unreadable.meet))

    async def refuse(self, run: Run, *, retry_in: float) -> float:
        return await self._engine.write(lambda transaction: claims.refuse(transaction, run, retry_in=retry_in))

    # ---- what nobody can revive -------------------------------------------------------------

    async def attend(self, workers: Collection[str], *, every: float) -> None:
        if await self._engine.read(lambda query: absences.is_to_note(query, workers)):
            await self._engine.write(lambda transaction: absences.note(transaction, workers, every=every))

    async def forsaken(self, *, after: float, limit: int) -> Sequence[Run]:
        return await self._engine.read(
            lambda query: absences.forsaken(query, after=after, limit=limit, corrupt=self._unreadable.meet)
        )

    # ---- outbox -----------------------------------------------------------------------------

    async def take_aborts(self, workers: Collection[str], *, hold: float, limit: int) -> Sequence[Abort]:
        if not await self._engine.read(lambda query: outbox.is_due(query, workers)):
            return []
        return await self._engine.write(
            lambda transaction: outbox.take(transaction, workers, hold=hold, limit=limit, corrupt=self._unreadable.meet)
        )

    async def delay_abort(self, abort: Abort, *, retry_in: float) -> None:
        await self._engine.write(lambda transaction: outbox.delay(transaction, abort, retry_in=retry_in))

    async def finish_abort(self, abort: Abort) -> None:
        await self._engine.write(lambda transaction: outbox.finish(transaction, abort))

    # ---- nodes ------------------------------------------------------------------------------

    async def join(self, node: str, *, ttl: float, workers: Collection[str]) -> None:
        if self._locks is not None:
            self._locks.take(node)  # before its lease is there to be doubted
        boot_id = self._engine.ground.clock.boot_id
        named = nodes.workers_column(workers)
        await self._engine.write(
            lambda transaction: nodes.join(transaction, node, ttl=ttl, boot_id=boot_id, workers=named)
        )

    async def drain(self, node: str) -> None:
        await self._engine.write(lambda transaction: nodes.drain(transaction, node))

    async def leave(self, node: str) -> None:
        await self._engine.write(lambda transaction: nodes.leave(transaction, node))
        if self._locks is not None:
            self._locks.drop(node)

    async def bury(self, node: str) -> Sequence[str]:
        boot_id = self._engine.ground.clock.boot_id
        others = await self._engine.read(lambda query: nodes.others(query, node, boot_id=boot_id))
        with ExitStack() as held:  # a lock that proves a death is kept until the death is written down
            seized = [
                lock
                for other in (*others.live, *others.gone)
                if self._locks is not None and (lock := self._locks.seize(other)) is not None
            ]
            for lock in seized:
                held.callback(lock.release)
            proved = {lock.node for lock in seized}
            dead = [*(other for other in others.live if other in proved), *others.unbooted]
            if not dead and not others.gone and not others.unreadable:
                return []
            buried = await self._engine.write(lambda transaction: nodes.bury(transaction, dead, others))
            for lock in seized:
                lock.remove()
        return buried

    async def nodes(self) -> Sequence[Node]:
        return await self._engine.read(nodes.everyone)

    def subscribe(self) -> Subscription:
        return self._bells.subscribe_runs()
