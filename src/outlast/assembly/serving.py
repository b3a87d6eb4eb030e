"""Everything that exists only while an `Outlast` runs: store, node, hub and routes, in one task that owns them."""

import asyncio
import random
import secrets
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress

from starlette.types import ASGIApp

from outlast.assembly.instruments import Instruments
from outlast.assembly.reading import Reading
from outlast.assembly.settings import Settings
from outlast.errors import NotStarted, StoreUnavailable
from outlast.log.event import JSON
from outlast.server.access import Access
from outlast.server.beacon import Address, Beacon
from outlast.server.conditions import Admit, Conditions
from outlast.server.drain import HURRY
from outlast.server.intake import Door, Intake
from outlast.server.node import Node
from outlast.server.readers.hub import Hub
from outlast.server.renewal import RenewalThread
from outlast.server.routes import build
from outlast.server.routes.metrics import Expose
from outlast.server.seats import Seats
from outlast.server.session.sessions import Sessions
from outlast.stores.base import Store
from outlast.workers.base import Worker


class Serving:
    """One life of an `Outlast`: `start` it, use `intake`, `store`, `reading` and `app`, `close` it.

    `on_drained` is called on the loop once nothing is left that a server's end could hurt.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        workers: Mapping[str, Worker],
        *,
        access: Access,
        admit: Admit | None,
        instruments: Instruments,
        on_drained: Callable[[], None],
    ) -> None:
        conditions = _conditions(settings, instruments, admit)
        self.store = store
        self.intake = Intake(self.store.runs, workers.keys(), conditions)
        self._node = Node(self.store, workers, conditions, pacer=RenewalThread())
        self._beacon = self._make_beacon(settings, instruments)
        self._hub = Hub(
            self.store,
            policy=settings.recovery,
            boot_id=self._node.id,
            lag=lambda: self._node.pulse.lag,
            report=instruments.report,
            heartbeat=settings.heartbeat,
            beacon=lambda: self.beacon,
        )
        per_owner, per_node = settings.readers_per_owner, settings.readers_per_node
        self._seats = Seats(per_owner=per_owner, per_node=per_node)
        self._sessions = Sessions(per_owner=per_owner, per_node=per_node)
        self.reading = Reading(self.intake, store.logs, self._hub, self._seats)
        self.app = self._routes(settings, workers, access, instruments)
        self.loop = asyncio.get_running_loop()
        self._on_drained = on_drained
        self._started = asyncio.Event()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def _routes(
        self, settings: Settings, workers: Mapping[str, Worker], access: Access, instruments: Instruments
    ) -> ASGIApp:
        return build(
            intake=self.intake,
            store=self.store,
            access=access,
            policy=settings.recovery,
            seats=self._seats,
            check_ready=self._check_ready,
            describe_node=lambda: self._describe(workers),
            expose=self._expose(instruments),
            events=self.reading.routes,
            greet=self._hub.greeting,
            sessions=self._sessions if settings.websocket else None,
        )

    async def start(self) -> None:
        """Open the store and start the node; raises what kept them from starting, `NotStarted` when closed meanwhile.

        Cancelled, it leaves nothing.
        """
        self._task = asyncio.create_task(self._run(), name="outlast")
        started = asyncio.create_task(self._started.wait())
        try:
            # Without a deadline: the store bounds its opening.
            await asyncio.wait({self._task, started}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()  # nobody would be left to close it
            await asyncio.wait({self._task})  # bounded by the store, like its opening
            raise
        finally:
            started.cancel()
        if self._task.done() or self._closing.is_set():
            await self._task  # bounded by the drain
        if self._closing.is_set():
            raise NotStarted("This Outlast was closed before it had started.")

    def drain(self, grace: float) -> int:
        """Take no new runs, send the readers to others if there are any, finish or hand off the runs; return how many.

        May be called again, on the loop: of several ends the earliest counts.
        """
        if self.intake.door is Door.OPEN:
            self.intake.door = Door.DRAINING
        self._node.drain(grace)
        return self._node.held

    async def close(self, grace: float) -> None:
        """Drain, close everything and wait until it is closed; raises what the node died of. Harmless twice."""
        self.drain(grace)
        self._closing.set()
        assert self._task is not None, "started first"
        try:
            await asyncio.wait({self._task})  # bounded by the grace, and by the store
        except asyncio.CancelledError:
            self.drain(HURRY)  # nobody would be left to close it
            await asyncio.wait({self._task})  # as above
            raise
        await self._task

    @property
    def beacon(self) -> int | None:
        """The port of its beacon, None where there is none."""
        return None if self._beacon is None else self._beacon.port

    async def _run(self) -> None:
        await self.store.open()
        try:
            with self._beacon or nullcontext():
                await self._live()
        finally:
            self.intake.door = Door.NOT_STARTED
            with suppress(asyncio.CancelledError):
                await self.store.close()

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._hub.run(), name="hub")
            try:
                await self._node.run(self._open, self._send_away)
                if self._beacon is not None:
                    self._beacon.put_out()  # with the node, whose beats it tells
                self._send_away()
                await self._hub.see_off()
            finally:
                self.loop.call_soon(self._on_drained)  # not from here: a handler may raise to end the loop
            await self._closing.wait()  # no deadline: until then readers are told, and whoever asks is answered
            self._hub.close()
            self._sessions.close()

    def _send_away(self) -> None:
        self._hub.drain()
        self._sessions.drain()

    def _make_beacon(self, settings: Settings, instruments: Instruments) -> Beacon | None:
        if not settings.beacon:
            return None
        address, process = Address.parse(settings.beacon), settings.beacon_process
        beacon = Beacon(address, self._node.id, process=process, report=instruments.report)
        self._node.pulse.listen(beacon.beat)
        return beacon

    def _expose(self, instruments: Instruments) -> Expose | None:
        if instruments.metrics is None:
            return None
        instruments.metrics.watch(
            {
                "runs_held": lambda: self._node.held,
                "readers": lambda: self._hub.readers,
                "sessions": lambda: len(self._sessions),
                "feeds": lambda: self._hub.feeds,
                "loop_lag_seconds": lambda: self._node.pulse.lag,
                "lease_left_seconds": lambda: self._node.lease_left,
            }
        )
        return instruments.metrics.expose

    def _describe(self, workers: Mapping[str, Worker]) -> dict[str, JSON]:
        return {
            "boot_id": self._node.id,
            "workers": sorted(workers),
            "loop_lag": round(self._node.pulse.lag, 3),
            **({} if self.beacon is None else {"beacon": self.beacon}),
        }

    def _check_ready(self) -> None:
        self.intake.check_open(letting_in=True)
        if not self._node.is_answered:
            raise StoreUnavailable("The store has not answered this node lately.")

    def _open(self) -> None:
        self.intake.door = Door.OPEN
        self._started.set()


def _conditions(settings: Settings, instruments: Instruments, admit: Admit | None) -> Conditions:
    return Conditions(
        report=instruments.report,
        measure=instruments.measure,
        tracing=instruments.tracing,
        mint=lambda: secrets.token_hex(12),
        jitter=random.random,
        recovery=settings.recovery,
        lease=settings.lease,
        limits=settings.limits,
        retention=settings.retention,
        stop_grace=settings.stop_grace,
        admit=admit,
    )
