"""Where runs come in, are stopped and are looked up: the same for an HTTP request and for the host application."""

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from enum import Enum, auto
from hashlib import sha256
from typing import Final

from outlast.errors import NO_SUCH_RUN, Draining, InputInvalid, NotStarted, RunNotFound, UnknownWorker
from outlast.log.event import JSON, encode_json
from outlast.run import ID_FORM, Run, Status, is_id
from outlast.server.claim import settlement
from outlast.server.conditions import Conditions
from outlast.server.hook import Hook, ask
from outlast.stores.base import Loaded, NewRun, RunStore, Started, StopAnswer, Stopped
from outlast.wire.trace import is_traceparent

NOT_STARTED: Final = (
    "Outlast is not running in this application: pass `lifespan=outlast.lifespan` to FastAPI or Starlette, "
    "or enter `async with outlast:` in your own lifespan."
)
"""What to do about the most common mistake of all."""

TOLD: Final = 12
"""Names of workers told to whoever asked for another: as many as one line holds."""


def _check_id(text: str) -> None:
    if not is_id(text):
        raise InputInvalid(ID_FORM)


class Door(Enum):
    """Whether runs are let in."""

    NOT_STARTED = auto()
    OPEN = auto()
    DRAINING = auto()


class Intake:
    """The runs of one node's store, as callers see them. Another owner's run is not found (A5)."""

    def __init__(self, runs: RunStore, workers: Collection[str], conditions: Conditions) -> None:
        self.door = Door.NOT_STARTED
        self._runs = runs
        self.workers = workers
        self._conditions = conditions

    def check_open(self, *, letting_in: bool = False) -> None:
        """Raise `NotStarted` where nothing runs, and `Draining` where a new run would be refused."""
        if self.door is Door.NOT_STARTED:
            raise NotStarted(NOT_STARTED)
        if letting_in and self.door is Door.DRAINING:
            raise Draining("This node is closing; start the run on another, or in a moment.")

    async def start(
        self,
        *,
        owner: str,
        worker: str,
        input: JSON,
        id: str | None = None,
        thread: str | None = None,
        metadata: Mapping[str, JSON] | None = None,
        traceparent: str | None = None,
    ) -> Started:
        """Accept a run; when this returns, it survives the death of every process (A2).

        The same id with the same worker, thread and input is the same run (A1); without `id` a fresh one is minted.
        `traceparent` names the trace that a request belongs to, if it is one; anything else is no trace.
        Raises `InputInvalid`, `UnknownWorker`, `NotAdmitted`, `HookFailed`, `IdConflict`, `RunGone`, `ThreadBusy`,
        `NotStarted`, `Draining`, `StoreUnavailable`.
        """
        self.check_open(letting_in=True)
        for name in (id, thread):
            if name is not None:
                _check_id(name)
        if worker not in self.workers:
            there = ", ".join(sorted(self.workers)[:TOLD]) or "none"
            raise UnknownWorker(f"No worker of this name is registered here; there are: {there}.")
        new = NewRun(
            owner=owner,
            id=id or self._conditions.mint(),
            log=self._conditions.mint(),
            worker=worker,
            thread=thread,
            input=encode_json(input),
            metadata=encode_json(metadata or {}),
            digest=digest(worker, thread, input),
        )
        await self._admit(new)
        with self._trace(traceparent) as name:
            started = await self._runs.start(replace(new, traceparent=name))
        if started.created and started.run.status.is_terminal:  # stopped before it came
            self._conditions.report(settlement(started.run))
        return started

    async def stop(self, *, owner: str, id: str, reason: str | None = None) -> Stopped:
        """Make a stop a durable fact; an id that is not known yet is remembered (S1). Raises `InputInvalid`."""
        self.check_open()
        _check_id(id)
        stopped = await self._runs.stop(owner, id, reason=reason)
        if stopped.answer is StopAnswer.SETTLED and stopped.run is not None:
            self._conditions.report(settlement(stopped.run))
        return stopped

    async def load(self, *, owner: str, id: str) -> Loaded:
        """Return a run and the store's clock. Raises `RunNotFound`, `RunGone`."""
        self.check_open()
        if not is_id(id):
            raise RunNotFound(NO_SUCH_RUN)
        return await self._runs.load(owner, id)

    async def erase(self, *, owner: str, id: str) -> None:
        """Delete a settled run and its log. Raises `RunNotFound`, `RunLive`, `RunGone`."""
        self.check_open()
        if not is_id(id):
            raise RunNotFound(NO_SUCH_RUN)
        await self._runs.erase(owner, id)

    async def list(
        self,
        *,
        owner: str,
        status: Status | None = None,
        thread: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> Sequence[Loaded]:
        """Return the owner's runs, newest first, at most `limit`.

        Only those older than run `before`, in `status`, and of `thread`, where these are given.
        """
        self.check_open()
        return await self._runs.list(owner, status=status, before=before, limit=limit, thread=thread)

    def _trace(self, given: str | None) -> AbstractContextManager[str | None]:
        if given is not None and not is_traceparent(given):
            given = None
        tracing = self._conditions.tracing
        return nullcontext(given) if tracing is None else tracing.starting(given)

    async def _admit(self, new: NewRun) -> None:
        admit = self._conditions.admit
        if admit is None:
            return
        proposed = Run(
            owner=new.owner,
            id=new.id,
            log=new.log,
            worker=new.worker,
            thread=new.thread,
            input=new.input,
            metadata=new.metadata,
            digest=new.digest,
        )
        await ask(Hook.ADMIT, lambda: admit(proposed), report=self._conditions.report)


def digest(worker: str, thread: str | None, input: JSON) -> bytes:
    """Return SHA-256 over the canonical JSON of what a run's id stands for: keys sorted, no spaces, ASCII.

    Raises `InputInvalid` for keys that have no order among each other, such as a string and a number.
    """
    said = {"worker": worker, "thread": thread, "input": input}
    try:
        canonical = json.dumps(said, sort_keys=True, separators=(",", ":"))
    except TypeError as error:
        raise InputInvalid("The keys of an object in an input are strings.") from error
    return sha256(canonical.encode()).digest()
