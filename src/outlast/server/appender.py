"""The way of a worker's events into the log: a queue, and one append in flight at a time.

Rules:
1. What arrives while an append is in flight is the next batch; a lone event waits for nothing.
2. A worker runs at most `AHEAD_EVENTS` or `AHEAD_BYTES` ahead of the store; then `put` waits.
3. Without proof of ownership for TTL - margin `put` waits as well: the controller is *paused* (H9). An accepted
   append or renewal ends the pause; a refused one ends the controller.
4. A store that gives no answer is asked the same again; the chain makes the repetition harmless (L2).
5. An event over a limit is refused before it is queued: what was said before it stays, nothing of it does (L3).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from outlast import lease
from outlast.errors import Fenced, LogRefused
from outlast.facts import ControllerPaused, ControllerResumed, EventsAppended
from outlast.log.cursor import Cursor
from outlast.log.event import OWN_PREFIX, Event
from outlast.log.limits import Usage
from outlast.run import Run
from outlast.server.conditions import Conditions
from outlast.server.patience import insist
from outlast.stores.base import Head, LogStore

AHEAD_EVENTS: Final = 64
"""Events a worker may be ahead of the store: a burst of tokens passes, a runaway loop does not fill memory."""
AHEAD_BYTES: Final = 1024 * 1024
"""Payload bytes a worker may be ahead of the store; one larger event passes alone."""


class Appender:
    """Takes one controller's events and makes them durable in order; `run` is its one task.

    `renewed_at` tells when the node's newest accepted renewal was sent, `on_refusal` is told of an event that a
    limit refused. Times are the loop's.
    """

    def __init__(
        self,
        logs: LogStore,
        run: Run,
        head: Head,
        conditions: Conditions,
        *,
        renewed_at: Callable[[], float],
        on_refusal: Callable[[LogRefused], None],
    ) -> None:
        self._logs = logs
        self._run = run
        self._conditions = conditions
        self._renewed_at = renewed_at
        self._on_refusal = on_refusal
        self._loop = asyncio.get_running_loop()
        self._began_at = self._proved_at = self._loop.time()
        self._head = head.cursor
        self._usage = head.usage
        self._taken = head.cursor.seq
        self._queue: deque[Event] = deque()
        self._queued_bytes = 0
        self._closed = False
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._waiters: deque[tuple[int, asyncio.Future[Cursor]]] = deque()

    # ---- what a worker does -----------------------------------------------------------------

    async def put(self, event: Event) -> int:
        """Queue one event and return its seq; waits while too much is queued or ownership is unproved.

        Raises `LogRefused` at a limit and `Fenced` once the appender is closed.
        """
        await self._wait_for_room()
        try:
            now = self._run.updated_at + self._loop.time() - self._began_at
            self._conditions.limits.check(self._usage, (event,), now=now)
        except LogRefused as refusal:
            self._on_refusal(refusal)
            raise
        return self.put_nowait(event)

    def put_nowait(self, event: Event) -> int:
        """Queue an event without asking anybody: for Outlast's own, which no limit holds back."""
        self._queue.append(event)
        self._queued_bytes += len(event.payload)
        if not event.type.startswith(OWN_PREFIX):
            usage = self._usage
            size = usage.bytes + len(event.payload)
            self._usage = Usage(events=usage.events + 1, bytes=size, opened_at=usage.opened_at)
        self._taken += 1
        self._work.set()
        return self._taken

    async def durable(self, number: int) -> Cursor:
        """Return the head once it has reached seq `number`."""
        if self._head.seq >= number:
            return self._head
        reached: asyncio.Future[Cursor] = self._loop.create_future()
        self._waiters.append((number, reached))
        return await reached  # ends with the append, or is cancelled with the controller's call

    # ---- what a controller does -------------------------------------------------------------

    @property
    def said(self) -> int:
        """The seq of the last event taken, durable or not."""
        return self._taken

    async def run(self) -> None:
        """Append what is queued until `close`; raises what the store answered for good."""
        while True:
            await self._work.wait()  # no deadline: a worker may be silent for as long as it likes
            if not self._queue:
                return
            await self._append(tuple(self._queue))
            if not self._queue and not self._closed:
                self._work.clear()

    def close(self) -> None:
        """Take nothing more; `run` ends when everything taken is durable."""
        self._closed = True
        self._work.set()
        self._room.set()

    def wake(self) -> None:
        """Look again whether ownership is proved: the node's lease was renewed."""
        self._room.set()

    # ---- inside -----------------------------------------------------------------------------

    async def _append(self, batch: tuple[Event, ...]) -> None:
        sent_at = self._loop.time()

        async def append() -> Cursor:
            nonlocal sent_at
            sent_at = self._loop.time()
            return await self._logs.append(self._run.log, self._run.token, self._head, batch)

        self._head = await insist(append, during="append", conditions=self._conditions)
        self._proved_at = sent_at
        queued_bytes = self._queued_bytes
        for event in batch:
            self._queue.popleft()
            self._queued_bytes -= len(event.payload)
        if self._conditions.measure is not None:
            size, took = queued_bytes - self._queued_bytes, self._loop.time() - sent_at
            self._conditions.measure(EventsAppended(run=self._run.log, events=len(batch), bytes=size, seconds=took))
        self._room.set()
        while self._waiters and self._waiters[0][0] <= self._head.seq:
            reached = self._waiters.popleft()[1]
            if not reached.done():
                reached.set_result(self._head)

    async def _wait_for_room(self) -> None:
        paused_at: float | None = None
        while not self._closed:
            paused = self._is_unproved()
            if paused and paused_at is None:
                paused_at = self._loop.time()
                self._conditions.report(ControllerPaused(run=self._run.log))
            if not paused and len(self._queue) < AHEAD_EVENTS and self._queued_bytes < AHEAD_BYTES:
                break
            self._room.clear()
            await self._room.wait()  # ends with an append, a renewal or close; the call's owner may cancel it
        if self._closed:
            raise Fenced("This run takes nothing more from this call of its worker.")
        if paused_at is not None:
            self._conditions.report(ControllerResumed(run=self._run.log, paused_for=self._loop.time() - paused_at))

    def _is_unproved(self) -> bool:
        proved_at = max(self._proved_at, self._renewed_at())
        return self._loop.time() >= lease.pause_at(proved_at, self._conditions.lease)
