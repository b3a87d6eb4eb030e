"""Several nodes over one store on one virtual clock, each in a process of its own that can die, stop and come back.

    async with Cluster({"chat": worker}) as cluster:
        first, second = await cluster.join("a"), await cluster.join("b")
        run = await cluster.start("chat", id="r1")
        first.process.kill()
        await cluster.outcome("r1", within=20)
        check(await cluster.finish())

Every part is the real one but the worker's script, the pacer (a task instead of a thread) and the clock.
"""

import asyncio
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Self

from starlette.types import ASGIApp, Receive, Scope, Send

from outlast.errors import NotStarted, StoreUnavailable
from outlast.facts import Fact
from outlast.lease import LeasePolicy
from outlast.log.cursor import Cursor
from outlast.log.event import JSON, StoredEvent
from outlast.log.limits import LogLimits
from outlast.recovery import RecoveryPolicy
from outlast.run import Run
from outlast.server.access import Access
from outlast.server.conditions import Admit, Conditions
from outlast.server.drain import GRACE, HURRY
from outlast.server.intake import Door, Intake
from outlast.server.node import Node
from outlast.server.readers.hub import Hub
from outlast.server.readers.place import locate
from outlast.server.routes import build
from outlast.server.routes.events import Events
from outlast.server.seats import Seats
from outlast.stores.base import Store
from outlast.stores.sqlite import SQLiteStore
from outlast.testing.faults import Fault, Faults
from outlast.testing.faulty import FaultyStore
from outlast.testing.history import History
from outlast.testing.observation import (
    AbortTold,
    CallBegan,
    CallEnded,
    CallResumed,
    FactReported,
    FaultMet,
)
from outlast.testing.pacer import TaskPacer
from outlast.testing.process import Process, bring_processes
from outlast.testing.reader import ModelReader
from outlast.testing.witness import Witness
from outlast.testing.worker import Call, ScriptedWorker, Told
from outlast.workers.base import Worker

EPOCH: Final = 1_800_000_000.0
"""The wall clock when the loop's clock is at 0: some day in 2027."""
OUTSIDE: Final = "outside"
"""Who starts, stops and looks without being a node."""
LOOK_EVERY: Final = 5.0
"""Seconds between two looks at a row that is waited for, when nothing rings: what changes it rings."""


class LoopClock:
    """A machine's clocks that follow the loop's: `rate` seconds pass for each of its own, the wall clock may step."""

    def __init__(self, *, rate: float = 1.0, step: float = 0.0) -> None:
        self.rate = rate
        self.step = step
        self._time = asyncio.get_running_loop().time

    def boot_id(self) -> str:
        """Return the one boot there is."""
        return "boot"

    def elapsed(self) -> float:
        """Return the time since the loop's clock was at 0, as this machine counts it."""
        return self._time() * self.rate

    def wall(self) -> float:
        """Return what the machine believes the time to be."""
        return EPOCH + self.elapsed() + self.step


class Member:
    """One node of a cluster: its process, its view of the store, what it drives, and `app`, all that it serves.

    `crash` is the error that ended it while it served, which nothing ever should.
    """

    def __init__(
        self, name: str, inner: Store, workers: Mapping[str, Worker], conditions: Conditions, access: Access
    ) -> None:
        self.name = name
        self.facts: list[Fact] = []
        self.crash: Exception | None = None
        self.process = Process(name)
        self.store = FaultyStore(inner, process=self.process)
        self.process.on_death = self.store.sever
        self.node = Node(self.store, workers, conditions, pacer=TaskPacer())
        self.intake = Intake(self.store.runs, workers, conditions)
        self.hub = Hub(
            self.store,
            policy=conditions.recovery,
            boot_id=self.node.id,
            lag=lambda: self.node.pulse.lag,
            report=conditions.report,
            jitter=conditions.jitter,
        )
        self.app = build(
            intake=self.intake,
            store=self.store,
            access=access,
            policy=conditions.recovery,
            describe_node=lambda: {"boot_id": self.node.id},
            seats=Seats(),
            check_ready=lambda: self.intake.check_open(letting_in=True),
            events=Events(self.intake, self.store.logs, self.hub),
            greet=self.hub.greeting,
        )
        self._serving = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Start the process, and return when it serves or is over already. Raises what kept it from serving."""
        task = self._task = self.process.start(self._run())
        serving = asyncio.create_task(self._serving.wait())
        await asyncio.wait({task, serving}, return_when=asyncio.FIRST_COMPLETED)  # as long as its store makes it wait
        serving.cancel()
        if task.done() and not task.cancelled():
            task.result()

    async def drain(self, grace: float = GRACE) -> None:
        """Leave within `grace` seconds, as at SIGTERM; raises what the node died of."""
        self.intake.door = Door.DRAINING
        self.node.drain(grace)
        if self._task is not None:
            await self._task

    async def close(self) -> None:
        """Let go of everything at once, as at a second signal; raises what the node died of."""
        await self.drain(HURRY)

    def response(self, run: Run, cursor: Cursor) -> ASGIApp:
        """Return the stream of `run` behind `cursor`, as a route would; it ends at once when the store fails."""

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            with suppress(StoreUnavailable, NotStarted):
                place = await locate(self.store.logs, run.log, cursor)
                await self.hub.reader(run, place)(scope, receive, send)

        return application

    async def _run(self) -> None:
        hub = asyncio.create_task(self.hub.run(), name="hub")
        try:
            await self.node.run(self._open, self.hub.drain)
        except Exception as error:
            self.crash = error if self._serving.is_set() and self.process.alive else None
            raise
        finally:
            self.hub.close()
            await hub

    def _open(self) -> None:
        self.intake.door = Door.OPEN
        self._serving.set()


class Cluster:
    """A store, workers, nodes that come and go, and the history of it all. Times are virtual seconds.

    `store` is one in memory unless a test brings its own, open; `clock` is that one's. `access` is asked about requests
    to a node's `app`; without it everybody is answered. The same `seed` rolls the same jitter. Two clusters over one
    file need a `prefix` each for the ids they mint.
    """

    def __init__(
        self,
        workers: Mapping[str, Worker],
        *,
        seed: int = 0,
        recovery: RecoveryPolicy | None = None,
        lease: LeasePolicy | None = None,
        limits: LogLimits | None = None,
        admit: Admit | None = None,
        access: Access | None = None,
        clock: LoopClock | None = None,
        store: Store | None = None,
        prefix: str = "minted",
    ) -> None:
        self.workers = workers
        self.members: list[Member] = []
        self.clock = clock or LoopClock()
        self.store = store or SQLiteStore(None, clock=self.clock)
        self.history = History(policy=recovery or RecoveryPolicy())
        self.conditions = Conditions(
            report=lambda _fact: None,
            mint=lambda: next(self._ids),
            jitter=random.Random(seed).random,
            recovery=self.history.policy,
            lease=lease or LeasePolicy(),
            limits=limits or LogLimits(),
            admit=admit,
        )
        self.access = access or Access(report=lambda _fact: None, allow_anonymous=True)
        self._ids = (f"{prefix}-{number}" for number in itertools.count(1))
        self._loop = asyncio.get_running_loop()
        self._owns_store = store is None
        for worker in workers.values():
            if isinstance(worker, ScriptedWorker):
                self._watch(worker)
        witness = Witness(self.store, self.history.note, node=OUTSIDE)
        self.runs = witness.runs
        self.intake = Intake(witness.runs, workers, self.conditions)
        self.intake.door = Door.OPEN

    async def __aenter__(self) -> Self:
        bring_processes(self._loop)
        if self._owns_store:
            await self.store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        for member in self.members:
            member.process.kill()
            await member.process.gone()
        if self._owns_store:
            await self.store.close()

    # ---- nodes ------------------------------------------------------------------------------

    async def join(
        self, name: str, *, faults: Faults | None = None, workers: Mapping[str, Worker] | None = None
    ) -> Member:
        """Bring up a node under `faults`; it may be over already when it did not survive them."""
        member = self.prepare(name, workers=workers)
        member.store.faults = faults or member.store.faults
        await member.begin()
        return member

    def prepare(self, name: str, *, workers: Mapping[str, Worker] | None = None) -> Member:
        """Return a node that is still to begin."""

        def report(fact: Fact) -> None:
            if member.process.alive:  # the dead report nothing
                member.facts.append(fact)
                self.history.note(FactReported(at=self._loop.time(), node=name, fact=fact))

        def met(operation: str, fault: Fault) -> None:
            kind = type(fault).__name__
            self.history.note(FaultMet(at=self._loop.time(), node=name, kind=kind, operation=operation))

        witness = Witness(self.store, self.history.note, node=name)
        conditions = replace(self.conditions, report=report)
        member = Member(name, witness, workers or self.workers, conditions, self.access)
        member.store.on_fault = met
        self.members.append(member)
        return member

    # ---- runs -------------------------------------------------------------------------------

    async def start(self, worker: str, id: str, *, input: JSON = None, thread: str | None = None) -> Run:
        """Accept a run, from outside of every node."""
        return (await self.intake.start(owner="", worker=worker, input=input, id=id, thread=thread)).run

    async def row(self, id: str) -> Run:
        """Return a run's row as it is."""
        return (await self.store.runs.load("", id)).run

    async def log(self, run: Run) -> Sequence[StoredEvent]:
        """Return all that is stored of a run's log."""
        return await self.store.logs.read(run.log, after=0, limit=1_000_000, max_bytes=1 << 40)

    async def outcome(self, id: str, *, within: float) -> Run:
        """Wait until a run has its outcome. Raises `TimeoutError` after `within` seconds."""
        return await self.until(id, lambda row: row.status.is_terminal, within=within)

    async def until(self, id: str, holds: Callable[[Run], bool], *, within: float) -> Run:
        """Wait until a run's row is as `holds` says. Raises `TimeoutError` after `within` seconds."""
        bell = self.store.runs.subscribe()
        deadline = self._loop.time() + within
        try:
            while not holds(row := await self.row(id)):
                if self._loop.time() >= deadline:
                    raise TimeoutError(f"run {id} is {row.status} after {within:g} s: {row}")
                await bell.wait(min(LOOK_EVERY, deadline - self._loop.time()))
            return row
        finally:
            bell.close()

    def reader(self, name: str, run: Run) -> ModelReader:
        """Return a reader of a run, whose every event is held against what the store has."""
        return ModelReader(name, run, self.store.logs, note=self.history.note)

    async def finish(self) -> History:
        """Return the history with everything as it stands now."""
        found = await self.store.runs.list("", status=None, before=None, limit=1_000_000)
        rows = [each.run for each in found]
        self.history.finish(rows, {row.log: await self.log(row) for row in rows})
        return self.history

    # ---- inside -----------------------------------------------------------------------------

    def _watch(self, worker: ScriptedWorker) -> None:
        note, time = self.history.note, self._loop.time

        def begun(call: Call) -> None:
            note(CallBegan(at=time(), run=call.run, epoch=call.epoch, number=call.number))

        def resumed(call: Call) -> None:
            kept, counted = tuple(call.kept), call.counted
            note(CallResumed(at=time(), run=call.run, epoch=call.epoch, number=call.number, kept=kept, counted=counted))

        def ended(call: Call) -> None:
            said = tuple(call.said)
            note(CallEnded(at=time(), run=call.run, epoch=call.epoch, number=call.number, deaf=call.deaf, said=said))

        def told(abort: Told) -> None:
            note(AbortTold(at=time(), run=abort.run, epoch=abort.epoch))

        worker.on_call, worker.on_resumed, worker.on_end, worker.on_abort = begun, resumed, ended, told
