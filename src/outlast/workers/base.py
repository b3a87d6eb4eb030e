"""What a worker is to a controller, and what a worker is given: the `ActiveRun`."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Final, Protocol

from outlast.errors import CallMisused, InputInvalid, OutlastError
from outlast.log.cursor import Cursor
from outlast.log.event import JSON, Event, Said, coerce, encode_json
from outlast.log.fold import TEXT
from outlast.run import Completed, Outcome, Run, Status, after, move_of


class Kind(StrEnum):
    """What a takeover does to what was said before it."""

    RESTART = "restart"
    """The worker is called again from the beginning; readers fold away what came before."""
    RESUME = "resume"
    """The worker goes on from its last checkpoint; readers fold away what came after it."""


HISTORY: Final = 20
"""Earlier runs of a thread: what a conversation needs to be understood."""
LONGEST_HISTORY: Final = 200
"""Earlier runs in one history: their inputs are held together, which are at most a mebibyte each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """A settled run of the same thread: its input, its outcome, and what it said."""

    id: str
    input: JSON
    outcome: Outcome
    read: Callable[[], AsyncIterator[Event]] = field(repr=False)

    @property
    def status(self) -> Status:
        """Whether it completed, failed or was cancelled."""
        return after(Status.ACTIVE, move_of(self.outcome))

    @property
    def result(self) -> JSON:
        """What its worker returned; None when that was nothing, or it did not complete."""
        result = self.outcome.result if isinstance(self.outcome, Completed) else None
        return None if result is None else json.loads(result)

    def events(self) -> AsyncIterator[Event]:
        """Read what it said and readers still see, in order, without Outlast's own `run.*`; in pages.

        Raises `RunNotFound` once the run was erased.
        """
        return self.read()

    async def text(self) -> str:
        """Return all its text as one string. Raises like `events`."""
        return "".join([str(event.data) async for event in self.events() if event.type == TEXT])


class Outlet(Protocol):
    """Where a worker's events go."""

    async def put(self, event: Event) -> int:
        """Queue one event and return its number; waits while too much is queued or ownership is unproved."""
        ...

    async def durable(self, number: int) -> Cursor:
        """Return the cursor of the log once the event with this number is durable."""
        ...


class Past(Protocol):
    """What a worker can come back to."""

    @property
    def state(self) -> bytes | None:
        """The state of the checkpoint that this call goes on from, as JSON bytes."""
        ...

    async def keep(self, state: bytes) -> None:
        """Make everything said so far durable, and `state` what a later call goes on from."""
        ...

    def events(self) -> AsyncIterator[Event]:
        """Return what the worker said before the checkpoint and readers still see."""
        ...

    def history(self, limit: int) -> AsyncIterator[EarlierRun]:
        """Return the newest `limit` settled runs of the same owner and thread, the oldest first."""
        ...


class ActiveRun:
    """One call's view of its run: what to do, which attempt this is, where to say things, and what was before.

    `id`, `thread` and `metadata` are as the caller gave them; `attempt` counts the run's controllers from 1;
    `epoch` rises with every claim; `idempotency_key` is the same for every attempt, so that an outside service
    can tell a repeated request from a new one (W13). `traceparent` names the trace of whoever started the run, in
    W3C's form, for services that are called on the way; None where there is none.

    A worker declared `kind="resume"` goes on where it left a checkpoint:

        state = run.state or {"step": 0}
        for step in range(state["step"], 10):
            yield await work_at(step)
            await run.checkpoint({"step": step + 1})

    Everything here belongs to the event loop that calls the worker; from elsewhere it raises `CallMisused`. Once the
    call is over, it takes nothing more and raises `Fenced`.
    """

    def __init__(
        self,
        run: Run,
        outlet: Outlet,
        *,
        stopping: Callable[[], bool],
        kind: Kind = Kind.RESTART,
        past: Past | None = None,
        traceparent: str | None = None,
    ) -> None:
        self._outlet = outlet
        self._stopping = stopping
        self._kind = kind
        self._past = past or _NoPast()
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

    # ---- what was before --------------------------------------------------------------------

    @property
    def state(self) -> JSON:
        """What the checkpoint holds that this call goes on from; None when there is none.

        Raises `CallMisused` for a worker that is not declared `kind="resume"`. Source: W14.
        """
        self._check_resumes()
        state = self._past.state
        return None if state is None else json.loads(state)

    async def checkpoint(self, state: JSON) -> None:
        """Let a later call go on from here: what was said so far stays said, and `state` is what it gets.

        Returns once both are durable; a newer checkpoint takes the place of an older one. Readers see the event
        `run.checkpoint`, which counts towards the limits of the log. `state` is written down when this is called; it
        may have 1 MiB (`LogLimits.checkpoint_bytes`). Raises `TooLarge` and `InputInvalid`, which change nothing,
        `LogFull`, and `CallMisused` for a worker that is not declared `kind="resume"`. Source: W14.
        """
        self._check_resumes()
        await self._past.keep(encode_json(state))

    def events(self) -> AsyncIterator[Event]:
        """Read what the run said up to the checkpoint that this call goes on from, in order.

        Just what a reader still sees of it, without Outlast's own `run.*`. Read in pages, as fast as it is taken.
        Raises `CallMisused` for a worker that is not declared `kind="resume"`. Source: W14.
        """
        self._check_resumes()
        return self._past.events()

    def history(self, *, limit: int = HISTORY) -> AsyncIterator[EarlierRun]:
        """Read the settled runs that came before this one on its thread, oldest first; none without a thread.

        At most the newest `limit`, which is 1 to 200. What each said is read when it is asked for. Raises
        `InputInvalid` for another limit.
        """
        if not 1 <= limit <= LONGEST_HISTORY:
            raise InputInvalid(f"A history has 1 to {LONGEST_HISTORY} runs.")
        return self._past.history(limit)

    def _check_resumes(self) -> None:
        if self._kind is not Kind.RESUME:
            raise CallMisused('Only resume workers have checkpoints: declare it with `worker(…, kind="resume")`.')

    async def _put(self, said: Said) -> int:
        try:
            return await self._outlet.put(coerce(said))
        except OutlastError:
            await asyncio.sleep(0)  # a worker that catches this and goes on must not keep the loop to itself
            raise


class _NoPast:
    """The past of a run that nobody drives, as in the test of a worker's function."""

    state: bytes | None = None

    async def keep(self, state: bytes) -> None:
        self.state = state

    async def events(self) -> AsyncIterator[Event]:
        for event in tuple[Event, ...]():
            yield event

    async def history(self, limit: int) -> AsyncIterator[EarlierRun]:
        for run in tuple[EarlierRun, ...]()[:limit]:
            yield run


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
