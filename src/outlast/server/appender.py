"""The way of a worker's events into the log: a queue, and one append in flight at a time.

Rules:
1. What arrives while an append is in flight is the next batch; a lone event waits for nothing.
2. A worker runs at most `AHEAD_EVENTS` or `AHEAD_BYTES` ahead of the store; then `put` waits. Who waits is served in
   turn, and takes its room before anybody else looks: however many tasks wait, the bound holds.
3. Without proof of ownership for TTL - margin `put` waits as well: the controller is *paused* (H9). An accepted
   append or renewal ends the pause; a refused one ends the controller.
4. A store that gives no answer is asked the same again; the chain makes the repetition harmless (L2).
5. An event over a limit is refused before it is queued: what was said before it stays, nothing of it does (L3).
6. A checkpoint is an event behind everything said before it. Its row is written once that event is durable, and
   before the next append: never the other way round, or a row could name a place that the log does not have.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from outlast import lease
from outlast.errors import Fenced, LogRefused
from outlast.facts import ControllerPaused, ControllerResumed, EventsAppended
from outlast.log.cursor import Cursor
from outlast.log.event import Event
from outlast.log.limits import Usage, is_counted
from outlast.run import Checkpoint, Run, checkpointed
from outlast.server.conditions import Conditions
from outlast.server.patience import insist
from outlast.stores.base import Head, Store

AHEAD_EVENTS: Final = 64
"""Events a worker may be ahead of the store: a burst of tokens passes, a runaway loop does not fill memory."""
AHEAD_BYTES: Final = 1024 * 1024
"""Payload bytes a worker may be ahead of the store; one larger event passes alone."""
OVER: Final = "This run takes nothing more from this call of its worker."


def always() -> bool:
    """Say that an event is wanted whenever there is room for it."""
    return True


class Appender:
    """Takes one controller's events and makes them durable in order; `run` is its one task.

    `checkpoint` is the newest one taken: what the next call goes on from. `renewed_at` tells when the node's newest
    accepted renewal was sent, `on_refusal` is told of an event that a limit refused. Times are the loop's.
    """

    def __init__(
        self,
        store: Store,
        run: Run,
        head: Head,
        conditions: Conditions,
        *,
        checkpoint: Checkpoint | None = None,
        renewed_at: Callable[[], float],
        on_refusal: Callable[[LogRefused], None],
    ) -> None:
        self.checkpoint = checkpoint
        self._store = store
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
        self._is_over = False
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._turn = asyncio.Lock()
        self._waiters: deque[tuple[int, asyncio.Future[Cursor]]] = deque()
        self._checkpoints: deque[tuple[Checkpoint, asyncio.Future[None]]] = deque()

    # ---- what a worker does -----------------------------------------------------------------

    async def put(self, event: Event, *, wanted: Callable[[], bool] = always) -> int:
        """Queue one event and return its seq; waits while too much is queued or ownership is unproved.

        Raises `LogRefused` at a limit, and `Fenced` once the appender is closed or the event is no longer `wanted`.
        """
        await self._wait_for_room(len(event.payload), wanted)
        self._check_limits(event)
        return self.put_nowait(event)

    async def keep(self, state: bytes, *, wanted: Callable[[], bool] = always) -> None:
        """Queue a checkpoint behind everything said, and return when its row is written. Waits and raises like `put`.

        It counts from when it is taken: whoever calls the worker once more does so behind it.
        """
        event = checkpointed()
        await self._wait_for_room(len(event.payload) + len(state), wanted)
        self._check_limits(event)
        written: asyncio.Future[None] = self._loop.create_future()
        self.checkpoint = Checkpoint(seq=self.put_nowait(event), state=state)
        self._checkpoints.append((self.checkpoint, written))
        self._queued_bytes += len(state)
        await written  # ends with the write, with the appender, or is cancelled with the controller's call

    def put_nowait(self, event: Event) -> int:
        """Queue an event without asking anybody: for Outlast's own, which no limit holds back."""
        self._queue.append(event)
        self._queued_bytes += len(event.payload)
        if is_counted(event):
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
        if self._is_over:
            raise Fenced(OVER)
        reached: asyncio.Future[Cursor] = self._loop.create_future()
        self._waiters.append((number, reached))
        return await reached  # ends with the append, with the appender, or is cancelled with the controller's call

    # ---- what a controller does -------------------------------------------------------------

    @property
    def said(self) -> int:
        """The seq of the last event taken, durable or not."""
        return self._taken

    @property
    def kept(self) -> int:
        """The seq up to which the next call's readers keep what was said; 0 without a checkpoint."""
        return 0 if self.checkpoint is None else self.checkpoint.seq

    async def run(self) -> None:
        """Append what is queued until `close`; raises what the store answered for good."""
        try:
            while True:
                await self._work.wait()  # no deadline: a worker may be silent for as long as it likes
                if not self._queue:
                    return
                await self._append(tuple(self._queue))
                await self._write_checkpoint()
                if not self._queue and not self._closed:
                    self._work.clear()
        finally:
            self._turn_away()

    def close(self) -> None:
        """Take nothing more; `run` ends when everything taken is durable."""
        self._closed = True
        self._work.set()
        self._room.set()

    def wake(self) -> None:
        """Look again whether ownership is proved and events are wanted: the lease was renewed, or a call is over."""
        self._room.set()

    # ---- inside -----------------------------------------------------------------------------

    async def _append(self, batch: tuple[Event, ...]) -> None:
        sent_at = self._loop.time()

        async def append() -> Cursor:
            nonlocal sent_at
            sent_at = self._loop.time()
            return await self._store.logs.append(self._run.log, self._run.token, self._head, batch)

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

    async def _write_checkpoint(self) -> None:
        """Write the row of the newest checkpoint whose event is durable; it is that of the older ones as well."""
        reached: list[tuple[Checkpoint, asyncio.Future[None]]] = []
        while self._checkpoints and self._checkpoints[0][0].seq <= self._head.seq:
            reached.append(self._checkpoints.popleft())
        if not reached:
            return
        runs, run, newest = self._store.runs, self._run, reached[-1][0]
        try:
            await insist(
                lambda: runs.checkpoint(run, run.token, newest), during="checkpoint", conditions=self._conditions
            )
        except BaseException:
            self._checkpoints.extendleft(reversed(reached))
            raise
        for checkpoint, written in reached:
            self._queued_bytes -= len(checkpoint.state)
            if not written.done():
                written.set_result(None)
        self._room.set()

    def _turn_away(self) -> None:
        """Answer those who still wait: nothing more becomes durable here."""
        self._is_over = True
        waiting: list[asyncio.Future[Any]] = [reached for _, reached in self._waiters]
        waiting += [written for _, written in self._checkpoints]
        for waiter in waiting:
            if not waiter.done():
                waiter.set_exception(Fenced(OVER))

    def _check_limits(self, event: Event) -> None:
        try:
            now = self._run.updated_at + self._loop.time() - self._began_at
            self._conditions.limits.check(self._usage, (event,), now=now)
        except LogRefused as refusal:
            self._on_refusal(refusal)
            raise

    async def _wait_for_room(self, size: int, wanted: Callable[[], bool]) -> None:
        if not self._turn.locked() and self._is_open(wanted) and self._has_room(size) and not self._is_unproved():
            return
        async with self._turn:  # without a deadline: those before it wait for room, as it will
            await self._wait_in_turn(size, wanted)

    async def _wait_in_turn(self, size: int, wanted: Callable[[], bool]) -> None:
        paused_at: float | None = None
        while self._is_open(wanted):
            paused = self._is_unproved()
            if paused and paused_at is None:
                paused_at = self._loop.time()
                self._conditions.report(ControllerPaused(run=self._run.log))
            if not paused and self._has_room(size):
                break
            self._room.clear()
            await self._room.wait()  # ends with an append, a renewal or close; the call's owner may cancel it
        if not self._is_open(wanted):
            raise Fenced(OVER)
        if paused_at is not None:
            self._conditions.report(ControllerResumed(run=self._run.log, paused_for=self._loop.time() - paused_at))

    def _is_open(self, wanted: Callable[[], bool]) -> bool:
        return not self._closed and wanted()

    def _has_room(self, size: int) -> bool:
        ahead, size = len(self._queue), self._queued_bytes + size
        return ahead < AHEAD_EVENTS and (size <= AHEAD_BYTES or not self._queued_bytes)

    def _is_unproved(self) -> bool:
        proved_at = max(self._proved_at, self._renewed_at())
        return self._loop.time() >= lease.pause_at(proved_at, self._conditions.lease)
