"""One whole life of a cluster from one seed: nodes, readers, runs, and everything that goes wrong in between.

A world has a storm, in which faults of every kind come at random moments, and a calm after it, in which every run
must come to its outcome by itself. The same seed is the same world, to the last observation.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from outlast.errors import NotAdmitted, OutlastError, Retry, StoreUnavailable
from outlast.lease import LeasePolicy
from outlast.log.event import Event
from outlast.recovery import RecoveryPolicy
from outlast.run import Run, Status
from outlast.server.access import Access
from outlast.testing.clock import run as run_virtually
from outlast.testing.cluster import Cluster, Member
from outlast.testing.faults import NoFaults, Outage
from outlast.testing.history import History
from outlast.testing.invariants import check
from outlast.testing.observation import FaultMet
from outlast.testing.worker import (
    Call,
    Chatter,
    Deaf,
    Die,
    Emit,
    Hang,
    Raise,
    Return,
    Save,
    Say,
    ScriptedWorker,
    Step,
    Told,
    Work,
)
from outlast.workers.base import Kind
from tests.simulation.trouble import Trouble

WORKERS = {"chat": Kind.RESTART, "agent": Kind.RESUME}

# A third of the defaults and less, so that one world's lives, deaths and backoffs fit into a minute or two.
LEASE = LeasePolicy(ttl=4.5, renew_every=1.5, margin=1.0, stall_limit=40.0)
RECOVERY = RecoveryPolicy(window=60.0, base=0.3, cap=5.0)

STORM = (15.0, 40.0)
"""Seconds a storm lasts."""
SETTLE_WITHIN = 150.0
"""Seconds of calm in which everything must be settled: the longest backoffs, a cool-down, and what workers need."""
TOLD_WITHIN = 100.0
"""Seconds of calm in which every worker was told: an abort is hidden for half a minute, and put off by one at most."""
LAST_WORDS = 20.0
"""Seconds after the last outcome in which readers come to the end and nothing may still be alive."""
EVERY_FAULT = (
    *("ErrorBefore", "ErrorAfter", "Slow", "LateAnswer", "Gate", "Death", "Standstill"),
    *("kill", "pause", "restart", "outage", "deafness", "clock step", "lease ended", "lease extended", "worker death"),
)
"""What the worlds together must have met often enough to prove anything."""


@dataclass(frozen=True)
class Plan:
    """What a seed decides before anything begins."""

    nodes: int
    readers: int
    runs: int
    storm: float

    @classmethod
    def rolled(cls, dice: random.Random) -> "Plan":
        return cls(
            nodes=dice.randint(1, 3),
            readers=dice.choice([0, 1, 3, dice.randint(4, 20)]),
            runs=dice.randint(2, 7),
            storm=dice.uniform(*STORM),
        )


class World:
    """A cluster under a storm."""

    def __init__(self, seed: int, *, access: Access | None = None) -> None:
        self.dice = random.Random(f"world {seed}")
        self.seed = seed
        self.plan = Plan.rolled(self.dice)
        self.calm = False
        self.workers = {name: ScriptedWorker(self.script, self.answer, kind=kind) for name, kind in WORKERS.items()}
        self.cluster = Cluster(self.workers, seed=seed, recovery=RECOVERY, lease=LEASE, admit=self.admit, access=access)
        self.nodes: list[Member] = []
        self.runs: list[Run] = []
        self.trouble: list[Trouble] = []
        self._names = iter(range(1, 1000))
        self._loop = asyncio.get_running_loop()

    # ---- what the worker does ---------------------------------------------------------------

    def script(self, call: Call) -> Iterator[Step]:
        """Play a call: some words, some work, and one of many ends."""
        dice = random.Random(f"{self.seed}/{call.run}/{call.number}")
        yield from self.words(call, dice)
        roll = dice.random()
        if roll < 0.20 and not self.calm:
            self.note("worker death")
            yield Die()
        elif roll < 0.25:
            yield Raise(ValueError("the worker's own words"))
        elif roll < 0.34:
            yield Raise(Retry("again, please"))
        elif roll < 0.38:
            yield Raise(MemoryError())
        elif roll < 0.44:
            yield Hang()
        elif roll < 0.50:
            yield Deaf(dice.uniform(1, 10))
        elif roll < 0.55:
            yield Chatter(dice.uniform(0.1, 1))
        yield Return({"call": call.number})

    def answer(self, told: Told) -> Iterator[Step]:
        """Acknowledge an abort, or not."""
        dice = random.Random(f"{self.seed}/{told.run}/{told.at}")
        roll = dice.random()
        if self.calm or roll < 0.6:
            return
        if roll < 0.7:
            yield Die()
        yield Raise(ConnectionError()) if roll < 0.85 else Hang()

    def words(self, call: Call, dice: random.Random) -> Iterator[Step]:
        """Say some words, with some work and, where the worker resumes, some checkpoints in between."""
        for count in range(dice.randint(0, 6)):
            said = dice.choice([f"{call.number}.{count} ", Event("tool.call", {"n": count}), Event("bytes", bytes(9))])
            yield dice.choice([Say, Emit])(said)
            if dice.random() < 0.5:
                yield Work(dice.choice([0.01, 0.3, dice.uniform(0.5, 3)]))
            if self.kind_of(call.run) is Kind.RESUME and dice.random() < 0.4:
                yield Save()

    def kind_of(self, run: str) -> Kind:
        """Tell the kind of a run's worker: every other run is of the one that resumes."""
        return Kind.RESUME if int(run.removeprefix("run-")) % 2 else Kind.RESTART

    def calls_of(self, run: str) -> list[Call]:
        """Return all calls of a run, whichever worker's they are."""
        return [call for worker in self.workers.values() for call in worker.calls_of(run)]

    async def admit(self, run: Run) -> None:
        """Refuse a takeover now and then."""
        if run.epoch > 0 and not self.calm and self.dice.random() < 0.1:
            raise NotAdmitted("not now")

    # ---- the storm --------------------------------------------------------------------------

    def note(self, kind: str) -> None:
        """Write down that something went wrong."""
        self.cluster.history.note(FaultMet(at=self._loop.time(), node="world", kind=kind, operation=""))

    async def join(self) -> None:
        """Bring up one more node; it may not survive its first operations."""
        name = f"node-{next(self._names)}"
        member = self.cluster.prepare(name)
        trouble = Trouble(random.Random(f"{self.seed}/{name}"), ttl=LEASE.ttl)
        member.store.faults = NoFaults() if self.calm else trouble
        self.trouble.append(trouble)
        self.nodes.append(member)
        with suppress(OutlastError):  # a store that fails while a node joins is a node that does not come up
            await member.begin()
            return
        member.process.kill()

    async def storm(self, tasks: asyncio.TaskGroup) -> None:
        """Let things go wrong until the storm is over."""
        ends_at = self._loop.time() + self.plan.storm
        while self._loop.time() < ends_at:
            await asyncio.sleep(self.dice.uniform(0.2, 3.0))
            happen = self.dice.choice(self._happenings())
            tasks.create_task(happen())

    def _happenings(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        common = [self._kill, self._pause, self._outage, self._deafness, self._extend_lease, self._end_lease]
        return [*common, *common, self._restart, self._restart, self._step_clock, self._stop, self._open_gates]

    def _alive(self) -> list[Member]:
        return [node for node in self.nodes if node.process.alive]

    def _one(self) -> Member | None:
        alive = self._alive()
        return self.dice.choice(alive) if alive else None

    async def _kill(self) -> None:
        node = self._one()
        if node is not None:
            self.note("kill")
            node.process.kill()

    async def _pause(self) -> None:
        node = self._one()
        if node is not None and not node.process.paused:
            self.note("pause")
            node.process.pause()
            await asyncio.sleep(LEASE.ttl * self.dice.uniform(0.5, 5))
            node.process.resume()

    async def _restart(self) -> None:
        node = self._one()
        if node is None or node.process.paused:
            return
        self.note("restart")
        with suppress(OutlastError, TimeoutError, asyncio.CancelledError):  # it may be killed meanwhile, or hang
            async with asyncio.timeout(20):
                await node.close()
        node.process.kill()

    async def _outage(self) -> None:
        self.note("outage")
        nodes = self._alive() if self.dice.random() < 0.5 else [each for each in [self._one()] if each is not None]
        before = [(node, node.store.faults) for node in nodes]
        for node in nodes:
            node.store.faults = Outage(StoreUnavailable("the store is away"))
        await asyncio.sleep(self.dice.choice([1.0, LEASE.ttl * self.dice.uniform(0.3, 4)]))
        for node, faults in before:
            node.store.faults = NoFaults() if self.calm else faults

    async def _deafness(self) -> None:
        node = self._one()
        if node is not None:
            self.note("deafness")
            node.store.deaf = not node.store.deaf

    async def _step_clock(self) -> None:
        self.note("clock step")
        self.cluster.clock.step = self.dice.choice([3600.0, -3600.0, -300.0, 0.0])

    async def _end_lease(self) -> None:
        nodes = await self.cluster.store.runs.nodes()
        if nodes:
            self.note("lease ended")
            await self.cluster.store.runs.leave(self.dice.choice(nodes).id)

    async def _extend_lease(self) -> None:
        nodes = await self.cluster.store.runs.nodes()
        if nodes:
            self.note("lease extended")
            node = self.dice.choice(nodes)
            renewer = self.cluster.store.renewer(node.id, ttl=LEASE.ttl, workers=node.workers or ())
            renewer.renew(stalled=self.dice.random() < 0.2)
            renewer.close()

    async def _stop(self) -> None:
        run, node = self.dice.choice(self.runs), self._one()
        runs = self.cluster.runs if node is None else node.store.runs
        with suppress(OutlastError, TimeoutError):  # asked from a node that is about to die, or hang
            async with asyncio.timeout(10):
                await runs.stop("", run.id, reason="enough")

    async def _open_gates(self) -> None:
        for trouble in self.trouble:
            trouble.open_gates()

    # ---- those who live through it ----------------------------------------------------------

    async def keep_nodes(self) -> None:
        """Bring up a node for each that is gone, a little later."""
        while True:
            await asyncio.sleep(self.dice.uniform(0.5, 4))
            if len(self._alive()) < self.plan.nodes:
                await self.join()

    async def start(self) -> None:
        """Accept one more run."""
        name = f"run-{len(self.runs)}"
        worker = next(worker for worker, kind in WORKERS.items() if kind is self.kind_of(name))
        self.runs.append(await self.cluster.start(worker, name))

    async def start_runs(self) -> None:
        """Accept runs all through the storm."""
        while len(self.runs) < self.plan.runs:
            await asyncio.sleep(self.dice.uniform(0, self.plan.storm / self.plan.runs))
            await self.start()

    async def follow(self, number: int) -> None:
        """Follow a run to its end, over connections that break at random moments."""
        dice = random.Random(f"{self.seed}/reader {number}")
        await asyncio.sleep(dice.uniform(0, self.plan.storm))
        reader = self.cluster.reader(f"reader-{number}", dice.choice(self.runs))
        while not reader.ended:
            alive = self._alive()
            if alive:
                node = dice.choice(alive)
                with suppress(TimeoutError, OutlastError, ProcessLookupError):
                    async with asyncio.timeout(dice.choice([0.01, 0.5, dice.uniform(1, 8)])):
                        if dice.random() < 0.8:
                            await reader.follow_stream(node.process, node.response(reader.run, reader.cursor))
                        else:
                            await reader.follow_log(node.store.logs)
            await asyncio.sleep(dice.uniform(0.01, 2))

    async def be_calm(self) -> None:
        """End everything that is wrong."""
        self.calm = True
        for node, trouble in zip(self.nodes, self.trouble, strict=True):
            node.store.faults = NoFaults()
            node.store.deaf = False
            node.process.resume()
            trouble.open_gates()
        while len(self._alive()) < self.plan.nodes:
            await self.join()

    async def see_runs_settled(self) -> None:
        """Wait until every run has its outcome; stop by hand only what has a worker that goes on for ever."""
        deadline = self._loop.time() + SETTLE_WITHIN
        for run in self.runs:
            while not (row := await self.cluster.row(run.id)).status.is_terminal:
                if self._loop.time() >= deadline:
                    return  # the history says so
                await asyncio.sleep(1)
                if any(call.epoch == row.epoch and is_endless(call) for call in self.calls_of(run.id)):
                    await self.cluster.runs.stop("", run.id, reason="at last")

    async def see_aborts_told(self) -> None:
        """Wait until the worker was told of every run that did not complete, or the history says that it was not."""
        deadline = self._loop.time() + TOLD_WITHIN
        for run in self.runs:
            row = await self.cluster.row(run.id)
            while row.epoch and row.status in {Status.FAILED, Status.CANCELLED} and self._loop.time() < deadline:
                if any(told.run == run.id for worker in self.workers.values() for told in worker.aborts):
                    break
                await asyncio.sleep(1)


def is_endless(call: Call) -> bool:
    """Say whether a call is alive and will be until somebody ends it."""
    return call.ended_at is None and isinstance(call.doing, (Hang, Chatter))


async def live(seed: int) -> History:
    """Live through one world and return its history."""
    world = World(seed)
    async with world.cluster as cluster:
        await world.start()
        async with asyncio.TaskGroup() as around:
            keeping = around.create_task(world.keep_nodes())
            starting = around.create_task(world.start_runs())
            readers = [around.create_task(world.follow(number)) for number in range(world.plan.readers)]
            async with asyncio.TaskGroup() as storm:
                await world.storm(storm)
            await starting
            await world.be_calm()
            await world.see_runs_settled()
            await world.see_aborts_told()
            await asyncio.sleep(LAST_WORDS)
            for task in (keeping, *readers):
                task.cancel()
        history = await cluster.finish()
        check(history)
        crashed = [(node.name, node.crash) for node in world.nodes if node.crash is not None]
        assert not crashed, f"nodes crashed: {crashed}"
        alive = [call for worker in world.workers.values() for call in worker.calls if call.ended_at is None]
        assert not alive, f"calls are still alive: {alive}"
        unread = [task for task in readers if task.cancelled()]
        assert not unread, f"{len(unread)} readers never came to the end"
        return history


def history_of(seed: int) -> History:
    """Live through one world on a loop of its own, and return a history that keeps every promise."""
    return run_virtually(live(seed))
