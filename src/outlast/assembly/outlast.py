"""`Outlast`, the object users hold: workers are registered on it, its `app` is mounted, its lifespan runs the node."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Literal, Self, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from outlast.assembly.application import Application
from outlast.assembly.instruments import Instruments
from outlast.assembly.serving import Serving
from outlast.assembly.settings import Settings
from outlast.assembly.signals import Signals
from outlast.assembly.stores import open_store
from outlast.client.received import Received
from outlast.errors import NotStarted, SettingsError
from outlast.log.cursor import Cursor
from outlast.log.event import JSON
from outlast.log.limits import LogLimits
from outlast.recovery import RecoveryPolicy
from outlast.retention import Retention
from outlast.run import Run, is_id
from outlast.server.access import Access
from outlast.server.conditions import Admit
from outlast.server.drain import HURRY, timetable
from outlast.server.identity import Authenticate, Authorize
from outlast.server.intake import NOT_STARTED
from outlast.stores.base import Stopped, Store
from outlast.wire.status import status_document
from outlast.workers.base import Kind, Worker
from outlast.workers.function import AbortFunction, Function, FunctionWorker

F = TypeVar("F", bound=Function)


class Outlast:
    """Runs that outlive what carries them.

        outlast = Outlast("sqlite:///runs.db")

        @outlast.worker("chat")
        async def chat(run):
            yield f"You said {run.input!r}."

        app = FastAPI(lifespan=outlast.lifespan)
        app.mount("/agents", outlast.app)

    `store` is a URL, or a `Store` of your own making. Every option is a keyword, or a variable `OUTLAST_…` (see
    `assembly.settings`); times are in seconds.
    `authenticate` gets each request's connection and returns its owner, an `Identity`, or None; without it only this
    machine is answered. `authorize` says who may do what with whose run. `admit` is asked before a run is accepted
    and before every takeover, and raises `NotAdmitted` to refuse.
    On the main thread SIGTERM and SIGINT drain it, within `grace`, before the server hears of them; `signals=False`
    leaves them to others, who call `close`. `on_drain`, when set, is told of each: so many runs, and the seconds that
    they have to finish.
    Raises `SettingsError` for options that cannot work.
    """

    def __init__(
        self,
        store: str | Store | None = None,
        *,
        durability: Literal["process", "power"] | None = None,
        lease_ttl: float | None = None,
        renew_every: float | None = None,
        lease_margin: float | None = None,
        stall_limit: float | None = None,
        recovery: RecoveryPolicy | None = None,
        limits: LogLimits | None = None,
        retention: Retention | None = None,
        heartbeat: float | None = None,
        stop_grace: float | None = None,
        grace: float | None = None,
        signals: bool | None = None,
        hosts: tuple[str, ...] | None = None,
        allow_anonymous: bool | None = None,
        origins: tuple[str, ...] | None = None,
        readers_per_owner: int | None = None,
        readers_per_node: int | None = None,
        metrics: bool | None = None,
        tracing: bool | None = None,
        beacon: str | int | None = None,
        beacon_process: bool | None = None,
        websocket: bool | None = None,
        authenticate: Authenticate | None = None,
        authorize: Authorize | None = None,
        admit: Admit | None = None,
    ) -> None:
        self.settings = Settings.resolve(
            {
                "store": store if isinstance(store, str) else None,
                "durability": durability,
                "lease_ttl": lease_ttl,
                "renew_every": renew_every,
                "lease_margin": lease_margin,
                "stall_limit": stall_limit,
                "recovery": recovery,
                "limits": limits,
                "retention": retention,
                "heartbeat": heartbeat,
                "stop_grace": stop_grace,
                "grace": grace,
                "signals": signals,
                "hosts": hosts,
                "allow_anonymous": allow_anonymous,
                "origins": None if origins is None else tuple(origins),
                "readers_per_owner": readers_per_owner,
                "readers_per_node": readers_per_node,
                "metrics": metrics,
                "tracing": tracing,
                "beacon": None if beacon is None else str(beacon),
                "beacon_process": beacon_process,
                "websocket": websocket,
            }
        )
        self._instruments = Instruments.of(self.settings)
        self._own_store = None if isinstance(store, str) else store
        self.authenticate = authenticate
        self.authorize = authorize
        self.admit = admit
        self.workers: dict[str, Worker] = {}
        self.app = Application(self.lifespan, lambda: None if self._serving is None else self._serving.app)
        self.on_drain: Callable[[int, float], None] | None = None
        self._serving: Serving | None = None
        self._signals: Signals | None = None

    # ---- workers ----------------------------------------------------------------------------

    def worker(
        self, name: str, *, kind: Literal["restart", "resume"] = "restart", abort: AbortFunction | None = None
    ) -> Callable[[F], F]:
        """Register the decorated function as the worker `name`.

        It is an async generator, a coroutine, or a sync function (run in a thread), of one `ActiveRun`. When another
        process takes a run over, a `restart` worker is called again from the beginning, and a `resume` worker goes on
        from its last `run.checkpoint`. `abort` is told the id of each run that ended without completing, at least
        once. Register before the lifespan begins. Raises `SettingsError` for a name that is taken or malformed, and
        for a kind that there is not.
        """
        if kind not in set(Kind):
            raise SettingsError(f"A worker's kind is one of {', '.join(Kind)}.")
        if not is_id(name) or name in self.workers:
            raise SettingsError("A worker's name is 1 to 128 letters, digits or any of . _ ~ - and is registered once.")
        if self._serving is not None:
            raise SettingsError("Register workers before the application starts: a running node knows its workers.")

        def register(function: F) -> F:
            self.workers[name] = FunctionWorker(function, kind=Kind(kind), on_abort=abort)
            return function

        return register

    # ---- running ----------------------------------------------------------------------------

    @asynccontextmanager
    async def lifespan(self, _app: object) -> AsyncGenerator[None, None]:
        """Run the node for as long as the application runs: `FastAPI(lifespan=outlast.lifespan)`."""
        async with self:
            yield

    async def __aenter__(self) -> Self:
        """Open the store and start the node. Raises `StoreError`, `SettingsError`."""
        if self._serving is not None:
            raise SettingsError("This Outlast is running already.")
        store = self._own_store or open_store(self.settings.store, durability=self.settings.durability)
        self._signals = Signals(self._drain, grace=self.settings.grace)
        self._serving = Serving(
            store,
            self.settings,
            self.workers,
            access=self._access(),
            admit=self.admit,
            instruments=self._instruments,
            on_drained=self._signals.drained,
        )
        try:
            await self._serving.start()
        except BaseException:
            self._serving = self._signals = None
            raise
        if self.settings.signals:
            self._signals.install()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close; at once where an error or a cancellation ends the application."""
        await self.close(grace=None if kind is None else HURRY)

    async def close(self, *, grace: float | None = None) -> None:
        """Drain, close the store, and return when that is done: what a signal does, without one.

        Takes no new runs, sends the readers away, lets runs finish for a part of `grace` seconds (the setting, when
        not given), and hands off the others for nothing. Call it from any loop, in any thread, before the server that
        carries the application is stopped: servers wait for open streams. Harmless twice.
        """
        serving = self._serving
        if serving is None or serving.loop.is_closed():
            self._serving = None
            return
        closing = self._close(serving, self.settings.grace if grace is None else grace)
        if serving.loop is asyncio.get_running_loop():
            await closing
        else:  # without a deadline of its own: the drain has one
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(closing, serving.loop))

    def reconfigure(
        self,
        *,
        store: str | None = None,
        beacon: str | None = None,
        beacon_process: bool | None = None,
        websocket: bool | None = None,
    ) -> None:
        """Use another store or beacon than the one given in code, or open a WebSocket, before the application starts.

        Raises `SettingsError`.
        """
        if self._serving is not None:
            raise SettingsError("Settings can only be changed before the application starts.")
        before = self.settings
        self.settings = replace(
            before,
            store=before.store if store is None else store,
            beacon=before.beacon if beacon is None else beacon,
            beacon_process=before.beacon_process if beacon_process is None else beacon_process,
            websocket=before.websocket if websocket is None else websocket,
        )
        if store is not None:
            self._own_store = None

    @property
    def beacon(self) -> int | None:
        """The port of its beacon while it runs; None where it has none."""
        return None if self._serving is None else self._serving.beacon

    # ---- in handlers of the host's own application ------------------------------------------

    async def start(
        self,
        worker: str,
        input: JSON = None,
        *,
        owner: str = "",
        id: str | None = None,
        thread: str | None = None,
        metadata: Mapping[str, JSON] | None = None,
    ) -> Run:
        """Accept a run; when this returns, it survives the death of this process.

        The same `owner`, `id`, worker, thread and input again is the same run (A1). Raises `Refusal`s and
        `StoreUnavailable`.
        """
        started = await self._running.intake.start(
            owner=owner, worker=worker, input=input, id=id, thread=thread, metadata=metadata
        )
        return started.run

    async def stop(self, id: str, *, owner: str = "", reason: str | None = None) -> Stopped:
        """Stop a run: a durable fact when this returns, from whatever process; also before the run is known (S1).

        Raises `InputInvalid` for what is no id, `NotStarted`, `StoreUnavailable`.
        """
        return await self._running.intake.stop(owner=owner, id=id, reason=reason)

    async def erase(self, id: str, *, owner: str = "") -> None:
        """Delete a run that has ended, and its log; its id stays known as gone for `Retention.gone` seconds.

        Raises `RunLive` for a run that has not ended (stop it first), `RunGone`, `RunNotFound`, `StoreUnavailable`.
        """
        await self._running.intake.erase(owner=owner, id=id)

    async def status(self, id: str, *, owner: str = "") -> dict[str, JSON]:
        """Return the status document of a run, as `GET /runs/{id}` does. Raises `RunNotFound`, `RunGone`."""
        serving = self._running
        loaded = await serving.intake.load(owner=owner, id=id)
        head = await serving.store.logs.head(loaded.run.log)
        return status_document(
            loaded.run,
            head,
            policy=self.settings.recovery,
            now=loaded.now,
            workers=serving.intake.workers,
            refused_until=loaded.refused_until,
        )

    async def events(
        self, id: str, *, owner: str = "", after: Cursor | str | None = None, types: Collection[str] | None = None
    ) -> AsyncGenerator[Received, None]:
        """Yield the events of a run behind the cursor `after`, each once and in order, until its terminal event.

        Live ones come as soon as they are durable. With `types` only events of these types, and the terminal event.
        A cursor that cannot be served is told as a `ReceivedGap`, whose snapshot replaces what came before it. Leave
        the loop whenever you like (F3).

        Raises `RunNotFound`, `InputInvalid`, `CursorInvalid`; and `Draining` when this node closes or `StoreError` when
        the store fails: then go on behind the last event you took, here or on another node.
        """
        cursor = after if isinstance(after, Cursor) else Cursor.parse(after or "")
        async with aclosing(self._running.reading.events(owner=owner, id=id, after=cursor, types=types)) as events:
            async for received in events:
                yield received

    async def response(self, id: str, request: Request, *, owner: str = "") -> Response:
        """Return the answer to a request of your own handler for a run's log: what `GET /runs/{id}/events` answers.

        A stream, lines or a page, as the request's `Accept`, cursor and parameters ask; a run that is not there is a
        404. You decide who may see the run: name its `owner`, and neither `authenticate` nor `authorize` is asked.
        """
        return await self._running.reading.response(request, owner=owner, id=id)

    # ---- inside -----------------------------------------------------------------------------

    async def _close(self, serving: Serving, grace: float) -> None:
        try:
            await serving.close(grace)
        finally:
            if self._serving is serving:
                self._serving = None
            if self._signals is not None:
                self._signals.restore()

    def _drain(self, grace: float) -> None:
        if self._serving is not None:
            runs = self._serving.drain(grace)
            if self.on_drain is not None:
                self.on_drain(runs, timetable(grace, stop_grace=self.settings.stop_grace).hand_off)

    @property
    def _running(self) -> Serving:
        if self._serving is None:
            raise NotStarted(NOT_STARTED)
        return self._serving

    def _access(self) -> Access:
        return Access(
            report=self._instruments.report,
            authenticate=self.authenticate,
            authorize=self.authorize,
            allow_anonymous=self.settings.allow_anonymous,
            hosts=self.settings.hosts,
            origins=self.settings.origins,
        )
