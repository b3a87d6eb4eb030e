"""What a worker is to a controller, and what a worker is given: the `ActiveRun`."""

import asyncio
import json
from collections.abc import Callable
from enum import StrEnum
from hashlib import blake2b
from typing import Protocol

from outlast.errors import OutlastError
from outlast.log.cursor import Cursor
from outlast.log.event import JSON, Event, Said, coerce
from outlast.run import Run


class Kind(StrEnum):
    """What a takeover does to what was said before it."""

    RESTART = "restart"
    """The worker is called again from the beginning; readers fold away what came before."""


class Outlet(Protocol):
    """Where a worker's events go."""

    async def put(self, event: Event) -> int:
        """Queue one event and return its number; waits while too much is queued or ownership is unproved."""
        ...

    async def durable(self, number: int) -> Cursor:
        """Return the cursor of the log once the event with this number is durable."""
        ...


class ActiveRun:
    """One call's view of its run: what to do, which attempt this is, and where to say things.

    `id`, `thread` and `metadata` are as the caller gave them; `attempt` counts the run's controllers from 1;
    `epoch` rises with every claim; `idempotency_key` is the same for every attempt, so that an outside service
    can tell a repeated request from a new one (W13). `traceparent` names the trace of whoever started the run, in
    W3C's form, for services that are called on the way; None where there is none.
    """

    def __init__(
        self, run: Run, outlet: Outlet, *, stopping: Callable[[], bool], traceparent: str | None = None
    ) -> None:
        self._outlet = outlet
        self._stopping = stopping
        self.id = run.id
        self.thread = run.thread
        self.input: JSON = json.loads(run.input)
        self.metadata: JSON = json.loads(run.metadata)
        self.attempt = run.attempt
        self.epoch = run.epoch
        self.traceparent = traceparent or run.traceparent
        self.idempotency_key = blake2b(run.log.encode(), digest_size=16, person=b"outlast.key").hexdigest()

    @property
    def stopping(self) -> bool:
        """Whether the run is being stopped. Threads look at it; async workers are cancelled as well."""
        return self._stopping()

    async def say(self, said: Said) -> None:
        """Queue an event, as `yield` does; at most 64 events or 1 MiB run ahead of the store.

        Raises `InputInvalid` for what is no event, `LogFull` and `EventTooLarge` at the run's limits.
        """
        await self._put(said)

    async def emit(self, said: Said) -> Cursor:
        """Say something and return its cursor once it is durable. Raises like `say`."""
        return await self._outlet.durable(await self._put(said))

    async def _put(self, said: Said) -> int:
        try:
            return await self._outlet.put(coerce(said))
        except OutlastError:
            await asyncio.sleep(0)  # a worker that catches this and goes on must not keep the loop to itself
            raise


class Worker(Protocol):
    """What a controller drives."""

    @property
    def kind(self) -> Kind:
        """What a takeover does to what was said before it."""
        ...

    async def call(self, run: ActiveRun) -> bytes | None:
        """Do the work, saying things on the way, and return the result as JSON bytes, if there is one.

        Raises `WorkerRaised` for whatever the worker raised (chained), and `Retry` when it asks for another call.
        Cancelled when the run is stopped, handed off or lost.
        """
        ...

    async def abort(self, run: Run) -> None:
        """Tell the worker that the settled `run` is over; returning acknowledges. Any exception means "ask again"."""
        ...
