"""A node: one process's share in driving runs. It claims what is due, hosts controllers, and keeps its lease.

Rules:
1. Every node does all of this; nothing is elected. Readers only read: they never start or claim anything (A4).
2. Its loops report what they could not do, and go on.
3. A node that has not looked for as long as a renewal takes, because its store was away or its machine asleep, waits
   one TTL before it claims others' runs, so that their holders renew first (H18). The store's clock counts: it goes
   on while a machine sleeps.
4. A run it holds by the rows has a controller, or is on its way to be released (O1).
5. A node that leaves claims nothing more, and hears stops and renews its lease until the last of its runs has finished
   or is handed off. Where another stays, its readers are sent there at once, and each resume run that this one has the
   worker for goes at its next checkpoint. Where nobody stays, they are kept until its runs are handed off.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from outlast.errors import OwnershipError, StoreError, code_of
from outlast.facts import (
    CallLeftBehind,
    NodeBuried,
    NodeDraining,
    NodeStarted,
    NodeStopped,
    RunClaimed,
    RunCorrupt,
    RunReleased,
    StoreTroubled,
)
from outlast.fleet import Fleet
from outlast.recovery import cause_of
from outlast.run import Cause, Run
from outlast.server.claim import Claimant, Turn
from outlast.server.conditions import Conditions
from outlast.server.controller import Controller
from outlast.server.drain import Drain
from outlast.server.expiry import Expiry
from outlast.server.outbox import Outbox
from outlast.server.pulse import Pulse
from outlast.server.relief import Relief, look_for_relief
from outlast.server.renewal import Keeper, Pacer, Renewed
from outlast.server.sweeper import Sweeper
from outlast.server.trouble import Trouble
from outlast.stores.base import Store, Subscription
from outlast.workers.base import Worker

LOOK_EVERY: Final = 3.0
"""Seconds between two looks when nothing rings and nothing is known to come: what the store rings for in vain is found
this late at most, and a node without work costs one operation a second."""
LOOK_SOON: Final = 0.5
"""Seconds between two looks while something is left to be done: a store that failed, a run that was passed over."""
LOOK_AGAIN: Final = 0.01
"""Seconds before the next look at the least: a due time that is a rounding error away must not spin."""
LOOK_AT: Final = 256
"""Due runs read in one look."""
STARTS_AT_ONCE: Final = 64
"""Claims under way at the same time: a node that takes over five hundred runs starts them in eight waves."""
ANSWERED_WITHIN: Final = 5.0
"""Seconds since the store's last answer after which requests are better sent to another node: longer than two looks are
apart, so that a slow one is no alarm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreleased:
    """A run this node holds, or may hold, by the rows and does not drive; `claimed` is the fact of a doubtful claim."""

    run: Run
    cause: Cause
    claimed: RunClaimed | None


class Node:
    """Drives the runs of `store` for which it has workers; `run` is its one task.

    `id` is minted and never used again. `pacer` renews the lease, a `RenewalThread` in earnest.
    """

    def __init__(
        self,
        store: Store,
        workers: Mapping[str, Worker],
        conditions: Conditions,
        *,
        pacer: Pacer,
    ) -> None:
        self.id = conditions.mint()
        self.pulse = Pulse()
        self.pulse.listen(self._beat)
        self._store = store
        self._workers = workers
        self._conditions = conditions
        self._pacer = pacer
        self._drain = Drain(stop_grace=conditions.stop_grace)
        self._relief = Relief()
        self._claimant = Claimant(store.runs, self.id, conditions, Fleet(), on_doubt=self._doubt)
        self._slots = asyncio.Semaphore(STARTS_AT_ONCE)
        self._starting: set[str] = set()
        self._hosts: set[asyncio.Task[None]] = set()
        self._controllers: dict[str, Controller] = {}
        self._unreleased: dict[str, Unreleased] = {}
        self._left_behind: set[asyncio.Task[bytes | None]] = set()
        self._keeper: Keeper | None = None
        self._passed_over = 0
        self._trouble = Trouble("look", conditions.report)
        self._corrupt: set[str] = set()
        self._looked_at = 0.0
        self._answered_at = 0.0
        self._takes_over_from = 0.0
        # A look must come before what `_has_looked` takes for an absence, however short the lease is.
        self._look_every = min(LOOK_EVERY, (conditions.lease.ttl - conditions.lease.renew_every) / 3)

    async def run(self, on_started: Callable[[], None], send_away: Callable[[], None]) -> None:
        """Join, call `on_started`, work until `drain`, then let go of everything and leave.

        `send_away` is called, once or more, when readers are better served elsewhere. Raises what kept the node from
        joining.
        """
        runs, lease, report = self._store.runs, self._conditions.lease, self._conditions.report
        loop = asyncio.get_running_loop()
        await self._join()
        self._looked_at = await runs.now()
        self._answered_at = loop.time()
        self._keeper = Keeper(
            self._store.renewer(self.id, ttl=lease.ttl, workers=self._workers.keys()),
            lease,
            clock=loop.time,
            report=report,
            on_renewed=lambda renewed: self._tell_loop(loop, renewed),
        )
        self._pacer.start(self._keeper)
        report(NodeStarted(node=self.id))
        try:
            async with asyncio.TaskGroup() as tasks:
                outbox = Outbox(runs, self._workers, self._conditions)
                sweeper = Sweeper(runs, self._workers.keys(), self._conditions)
                loops = [
                    tasks.create_task(self._look(tasks), name="look"),
                    tasks.create_task(outbox.run(), name="outbox"),
                    tasks.create_task(sweeper.run(), name="sweeper"),
                    tasks.create_task(Expiry(runs, self._conditions).run(), name="expiry"),
                ]
                pulse = tasks.create_task(self.pulse.run(), name="pulse")
                on_started()
                await self._drain.begun.wait()  # no deadline: a node works until it is told to leave
                report(NodeDraining(node=self.id, runs=self.held))
                relieve = partial(self._relieve, send_away)
                looking = look_for_relief(runs, self.id, on_look=relieve, report=report)
                await self._leave([*loops, tasks.create_task(looking, name="relief")], send_away)
                pulse.cancel()  # not before: who looks at it would take the end of a drain for a loop that is blocked
            report(NodeStopped(node=self.id, finished=self._drain.finished, handed_off=self._drain.handed_off))
        finally:
            self._drain.end()
            self._pacer.close()
            with suppress(StoreError):
                await runs.leave(self.id)

    async def _join(self) -> None:
        try:
            await self._store.runs.join(self.id, ttl=self._conditions.lease.ttl, workers=self._workers.keys())
        except asyncio.CancelledError:  # its lease may be written all the same
            with suppress(StoreError):
                await self._store.runs.leave(self.id)
            raise

    def drain(self, grace: float) -> None:
        """Claim nothing more, let runs finish, hand off the others, and end `run` within `grace` seconds.

        May be called again: of several ends the earliest counts.
        """
        self._drain.begin(grace)
        self._end_drain_if_idle()

    @property
    def held(self) -> int:
        """How many runs it drives."""
        return len(self._controllers)

    @property
    def lease_left(self) -> float:
        """Seconds until its lease ends, counted from when the newest accepted renewal was sent; at least 0."""
        ends_at = self._renewed_at() + self._conditions.lease.ttl
        return 0.0 if self._keeper is None else max(0.0, ends_at - asyncio.get_running_loop().time())

    @property
    def is_answered(self) -> bool:
        """Whether its store has answered it lately."""
        return asyncio.get_running_loop().time() - self._answered_at < ANSWERED_WITHIN

    # ---- looking ----------------------------------------------------------------------------

    async def _look(self, tasks: asyncio.TaskGroup) -> None:
        with closing(self._store.runs.subscribe()) as bell:
            while True:
                try:
                    pause = await self._look_once(tasks)
                except Exception as error:  # noqa: BLE001 - a loop that reports and goes on
                    self._trouble.met(error)
                    pause = LOOK_SOON
                await self._pause(bell, pause)

    async def _pause(self, bell: Subscription, seconds: float) -> None:
        """Wait for the bell, or so long; shorter when something turns up that is left to be done."""
        left, rung = max(LOOK_AGAIN, seconds), False
        while left > 0 and not rung:
            rung = await bell.wait(min(left, LOOK_SOON))
            left = 0.0 if self._passed_over or self._unreleased else left - LOOK_SOON

    async def _look_once(self, tasks: asyncio.TaskGroup) -> float:
        runs = self._store.runs
        for node in await runs.bury(self.id):
            self._conditions.report(NodeBuried(node=node))
        await self._release_the_unreleased()
        if self._controllers:
            await self._hand_over_stops()
        if self._drain.begun.is_set():
            return self._look_every
        due = await runs.due(
            self._workers.keys(),
            limit=LOOK_AT + len(self._starting) + self._passed_over,
            held_back=self._claimant.held_back(now=self._looked_at),
            within=self._conditions.recovery.window,
        )
        self._has_looked(now=due.now)  # before any of them is claimed (rule 3)
        await self._report_corrupt()
        self._passed_over = 0
        for run in due.runs:
            if run.log in self._starting or run.log in self._controllers:
                continue
            if run.holder is not None and due.now < self._takes_over_from:
                self._passed_over += 1
                continue
            turn = self._claimant.turn(run, now=due.now)
            if turn is None:  # the next look does not read it, so it hides nothing
                continue
            self._starting.add(run.log)
            host = tasks.create_task(self._host(turn), name=f"host {run.log}")
            self._hosts.add(host)
            host.add_done_callback(self._host_ended)
        return self._look_every if due.next_at is None else min(self._look_every, due.next_at - due.now)

    def _host_ended(self, host: "asyncio.Task[None]") -> None:
        self._hosts.discard(host)
        self._end_drain_if_idle()

    def _end_drain_if_idle(self) -> None:
        if self._drain.begun.is_set() and not self._hosts:
            self._drain.end()

    async def _hand_over_stops(self) -> None:
        for run in await self._store.runs.stops(self.id):
            controller = self._controllers.get(run.log)
            if controller is not None and run.stop is not None:
                controller.stop(run.stop.reason)

    async def _report_corrupt(self) -> None:
        """Report each run whose row cannot be read, once: it is in nobody's way, and somebody must hear of it."""
        corrupt = set(await self._store.runs.corrupt())
        for log in corrupt - self._corrupt:
            self._conditions.report(RunCorrupt(run=log))
        self._corrupt = corrupt

    def _has_looked(self, *, now: float) -> None:
        lease = self._conditions.lease
        if now - self._looked_at >= lease.ttl - lease.renew_every:
            self._takes_over_from = now + lease.ttl  # rule 3; after a shorter absence every holder's lease is live
        self._looked_at = now
        self._answered_at = asyncio.get_running_loop().time()
        self._trouble.over()

    # ---- hosting ----------------------------------------------------------------------------

    async def _host(self, turn: Turn) -> None:
        run = turn.run
        try:
            async with self._slots:  # without a deadline: those before this run start, or are ended by the drain
                claimed = None if self._drain.begun.is_set() else await self._claimant.claim(turn)
            if claimed is None:
                self._passed_over += 1
                return
            worker, renewed_at = self._workers[run.worker], self._renewed_at
            controller = Controller(claimed, worker, self._store, self._conditions, renewed_at=renewed_at)
            self._controllers[run.log] = controller
            self._hurry(controller)
            await self._drive(controller)
        except Exception as error:  # noqa: BLE001 - reported; one run's trouble must not end the node
            self._conditions.report(StoreTroubled(during="claim", error=code_of(error)))
        finally:
            self._starting.discard(run.log)
            self._controllers.pop(run.log, None)

    async def _drive(self, controller: Controller) -> None:
        try:
            await controller.drive()
        except Exception as error:  # noqa: BLE001 - it could not even release: the look loop goes on trying (rule 4)
            cause = controller.releasing or cause_of(error)
            self._unreleased[controller.run.log] = Unreleased(run=controller.run, cause=cause, claimed=None)
            self._conditions.report(StoreTroubled(during="release", error=code_of(error)))
        finally:
            handed_off = controller.releasing is Cause.HANDOFF and controller.run.log not in self._unreleased
            self._drain.count(finished=controller.settled, handed_off=handed_off)
            if controller.left_behind is not None:
                self._leave_behind(controller.run, controller.left_behind)

    def _leave_behind(self, run: Run, call: "asyncio.Task[bytes | None]") -> None:
        self._left_behind.add(call)
        call.add_done_callback(self._forget)
        if not call.done():
            self._conditions.report(CallLeftBehind(run=run.log, epoch=run.epoch, left=len(self._left_behind)))

    def _forget(self, call: "asyncio.Task[bytes | None]") -> None:
        self._left_behind.discard(call)
        if not call.cancelled():
            call.exception()  # too late to matter, and a worker's text is not for our logs (W17)

    def _doubt(self, run: Run, claimed: RunClaimed) -> None:
        self._unreleased[run.log] = Unreleased(run=run, cause=Cause.STORE, claimed=claimed)

    async def _release_the_unreleased(self) -> None:
        for log, each in tuple(self._unreleased.items()):
            try:
                await self._store.runs.release(each.run, each.run.token, each.cause)
            except OwnershipError:  # another has it, or it was never claimed
                pass
            except Exception:  # noqa: BLE001, S112 - reported when it became one of these; the next look tries again
                continue
            else:
                if each.claimed is not None:
                    self._conditions.report(each.claimed)
                self._conditions.report(RunReleased(run=log, cause=each.cause))
            del self._unreleased[log]

    def _relieve(self, send_away: Callable[[], None], relief: Relief) -> None:
        self._relief = relief
        if relief.is_there:
            send_away()
        for controller in self._controllers.values():
            self._hurry(controller)

    def _hurry(self, controller: Controller) -> None:
        """Tell a controller how its run is to leave, by what the drain has come to."""
        if self._drain.hand_off.is_set():
            controller.hand_off()
        elif self._drain.checkpoint.is_set() or controller.run.worker in self._relief.workers:
            controller.hand_off_when_kept()

    async def _leave(self, loops: "list[asyncio.Task[None]]", send_away: Callable[[], None]) -> None:
        """Go through the moments of the drain; each has a time of its own, and comes at once when no run is left.

        No wait here has a deadline of its own: the drain's timers are the deadlines.
        """
        await self._drain.checkpoint.wait()
        for controller in self._controllers.values():
            self._hurry(controller)
        await self._drain.hand_off.wait()
        send_away()  # also where nobody stays: those who wait for the rest of the grace could not leave in it
        for each in loops:
            each.cancel()
        for controller in self._controllers.values():
            self._hurry(controller)
        await self._drain.leave_behind.wait()
        for controller in self._controllers.values():
            controller.leave_behind()
        await self._drain.gone.wait()
        for host in self._hosts:
            host.cancel()  # its store is away; the end of the lease frees the run as well

    # ---- the lease --------------------------------------------------------------------------

    def _tell_loop(self, loop: asyncio.AbstractEventLoop, renewed: Renewed) -> None:
        with suppress(RuntimeError):  # the loop is closed: its controllers are gone
            loop.call_soon_threadsafe(self._renewed, renewed)

    def _renewed(self, renewed: Renewed) -> None:
        for log, controller in self._controllers.items():
            if controller.claimed_at < renewed.sent_at and renewed.held.get(log) != controller.run.epoch:
                controller.lose()
            else:
                controller.wake()

    def _renewed_at(self) -> float:
        return self._keeper.renewed_at if self._keeper is not None else 0.0

    def _beat(self, now: float) -> None:
        if self._keeper is not None:
            self._keeper.beat_at, self._keeper.lag = now, self.pulse.lag
