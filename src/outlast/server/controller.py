"""Drives one claimed run to its outcome, or to the point where another must.

    fence ─> read head ─> charge ─> call the worker ─> append … ─> settle
                            ^             │ Retry, at most `tries` times without progress
                            └─────────────┘

Rules:
1. Whatever ends the driving is an `Ending`, and the first one decides: a failure after a stop stays a stop (H14).
   Only a worker that came to its end by itself beats a stop or a hand-off of that very moment. One that was told to
   end has not: what it returns then is what it had so far. And none returns past a refusal (H13).
2. What the worker said before the ending is made durable first. A completed run whose last words cannot be stored
   is not completed.
3. A controller that finds another claim on its run goes away in silence: no settle, no clean-up, no abort (H10).
4. The worker runs in a task of its own, so that a deaf one can be left behind after `stop_grace`, or when its node
   has no more time. Once its call is over, nothing more is taken from it, whatever it left running (X13).
5. A resume worker goes on from the newest checkpoint that was taken. Its row is written behind its event: a crash in
   between goes on from the one before, whose seq the next `run.restarted` names.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, assert_never

from outlast.backoff import delay
from outlast.errors import Fenced, OwnershipError, WorkerRaised
from outlast.facts import ControllerStoodDown, RunReleased, WorkerCalled, WorkerFailed
from outlast.recovery import TRY_BASE, Reaction, cause_of, classify
from outlast.run import Cause, Checkpoint, Outcome, restarted, started
from outlast.server.appender import Appender
from outlast.server.call import Call
from outlast.server.claim import Claimed, settlement
from outlast.server.conditions import Conditions
from outlast.server.ending import CallsSpent, Ending, Finished, HandedOff, Raised, StopAsked, resolve
from outlast.server.patience import insist
from outlast.server.tracing import Span
from outlast.stores.base import Charge, Store
from outlast.workers.base import ActiveRun, Kind, Worker

T = TypeVar("T")


class Controller:
    """Drives the run its node has just claimed; `drive` is its one task.

    `renewed_at` tells, on the loop's clock, when the node's newest accepted renewal was sent. `left_behind` is the
    call of a worker that did not end when it was told to; its node keeps it until it does. `settled` tells that the run
    has its outcome, `releasing` is the cause it lets go for, once it does.
    """

    def __init__(
        self,
        claimed: Claimed,
        worker: Worker,
        store: Store,
        conditions: Conditions,
        *,
        renewed_at: Callable[[], float],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.run = claimed.run
        self.claimed_at = loop.time()
        self.left_behind: asyncio.Task[bytes | None] | None = None
        self.settled = False
        self.releasing: Cause | None = None
        self._cause = claimed.cause
        self._worker = worker
        self._store = store
        self._conditions = conditions
        self._renewed_at = renewed_at
        self._calls = claimed.run.budget.calls
        self._ending: asyncio.Future[Ending] = loop.create_future()
        self._leaves_when_kept = False
        self._impatient: asyncio.Future[None] = loop.create_future()
        self._appender: Appender | None = None
        self._span: Span | None = None

    # ---- what a node does -------------------------------------------------------------------

    async def drive(self) -> None:
        """Drive the run until it is settled, released or lost.

        Raises what kept it from being released; the caller must then see to the release.
        """
        tracing = self._conditions.tracing
        span = self._span = None if tracing is None else tracing.begin(self.run, self._cause)
        try:
            await self._drive()
        finally:
            if span is not None:
                span.end()

    def stop(self, reason: str | None) -> None:
        """End the run: its stop is a durable fact."""
        self._decide(StopAsked(reason=reason))

    def hand_off(self) -> None:
        """Let go on purpose, so that another node goes on."""
        self._decide(HandedOff())

    def hand_off_when_kept(self) -> None:
        """Let go at the next checkpoint, where another node goes on without taking anything back."""
        self._leaves_when_kept = True

    def leave_behind(self) -> None:
        """Wait no longer for a worker that was told to end. Harmless twice."""
        if not self._impatient.done():
            self._impatient.set_result(None)

    def lose(self) -> None:
        """Go away: by the rows, this claim does not hold the run any more."""
        self._decide(Raised(error=Fenced("The node's renewal found this run held by another claim.")))

    def wake(self) -> None:
        """Look again whether ownership is proved."""
        if self._appender is not None:
            self._appender.wake()

    # ---- the work ---------------------------------------------------------------------------

    async def _drive(self) -> None:
        try:
            appender = self._appender = await self._open()
        except Exception as error:  # noqa: BLE001 - every error has its reaction
            await self._conclude(Raised(error=error))
            return
        appending = asyncio.create_task(appender.run(), name=f"append {self.run.log}")
        appending.add_done_callback(self._appended)
        try:
            ending = await self._work(appender)
            appender.close()
            await self._conclude(await _drained(ending, appending))
        finally:
            appender.close()
            appending.cancel()

    async def _open(self) -> Appender:
        run, logs = self.run, self._store.logs
        await self._insist(lambda: logs.fence(run.log, run.token), during="fence")
        head = await self._insist(lambda: logs.head(run.log), during="head")
        checkpoint = await self._last_checkpoint() if head.cursor.seq else None
        appender = Appender(
            self._store,
            run,
            head,
            self._conditions,
            checkpoint=checkpoint,
            renewed_at=self._renewed_at,
            on_refusal=lambda refusal: self._decide(Raised(error=refusal)),
        )
        if head.cursor.seq == 0 or self._cause is None:
            appender.put_nowait(started(run))
        else:
            appender.put_nowait(restarted(run, cause=self._cause, keep=appender.kept))
        return appender

    async def _last_checkpoint(self) -> Checkpoint | None:
        if self._worker.kind is not Kind.RESUME:  # also one that was, when it made its checkpoints
            return None
        return await self._insist(lambda: self._store.runs.last_checkpoint(self.run), during="checkpoint")

    async def _work(self, appender: Appender) -> Ending:
        tries = 0
        while not self._ending.done():
            said = appender.said
            try:
                ending = await self._charge() or await self._call(appender)
            except Exception as error:  # noqa: BLE001 - every error has its reaction
                return Raised(error=error)
            if not isinstance(ending, Raised) or classify(ending.error) is not Reaction.AGAIN:
                return ending
            progressed = appender.said > said
            tries = 1 if progressed else tries + 1
            if tries > self._conditions.recovery.tries:
                return ending
            await self._wait_for_try(tries)
            if progressed and not self._ending.done():
                appender.put_nowait(restarted(self.run, cause=Cause.WORKER, keep=appender.kept))
        return self._ending.result()

    async def _charge(self) -> Ending | None:
        run, runs, number = self.run, self._store.runs, self._calls + 1
        limit = self._conditions.recovery.call_limit(run.budget)
        charge = await self._insist(lambda: runs.charge(run, run.token, number=number, limit=limit), during="charge")
        match charge:
            case Charge.GRANTED:
                self._calls = number
                self._conditions.report(
                    WorkerCalled(run=run.log, epoch=run.epoch, call=number, waited=self._first_call_after())
                )
                return None
            case Charge.STOPPED:
                return StopAsked(reason=None)  # the settle puts in the reason that is stored with the stop
            case Charge.SPENT:
                return CallsSpent()
            case _:
                assert_never(charge)

    async def _call(self, appender: Appender) -> Ending:
        span, name = self._span, f"worker {self.run.log}"
        view = Call(self.run, appender, self._store, self._conditions, leaves=self._leaves)
        active = ActiveRun(
            self.run,
            view,
            stopping=self._ending.done,
            kind=self._worker.kind,
            past=view,
            traceparent=None if span is None else span.traceparent,
        )
        context = None if span is None else span.context.copy()
        call = asyncio.create_task(self._called(active, view), name=name, context=context)
        try:
            either: set[asyncio.Future[Any]] = {call, self._ending}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)  # no deadline: a worker's time is its own
            if call.done():
                return self._ending_of(call)
            call.cancel()
            until: set[asyncio.Future[Any]] = {call, self._impatient}
            timeout = self._conditions.stop_grace
            await asyncio.wait(until, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            view.shut()
            if not call.done():
                call.cancel()
                self.left_behind = call
            elif not call.cancelled():
                call.exception()  # heard, so that nobody prints it (W17)
        return self._ending.result()

    async def _called(self, active: ActiveRun, view: Call) -> bytes | None:
        try:
            return await self._worker.call(active)
        finally:
            view.shut()  # in the very moment it ends: what it left running must not be faster

    def _ending_of(self, call: "asyncio.Task[bytes | None]") -> Ending:
        decided = self._ending.result() if self._ending.done() else None
        if isinstance(decided, Raised):
            return decided
        try:
            return Finished(result=call.result())
        except asyncio.CancelledError as error:
            cancelled = WorkerRaised("the worker cancelled itself")
            cancelled.__cause__ = error
            return decided or Raised(error=cancelled)
        except BaseException as error:  # noqa: BLE001 - the call's, whatever it is; raised here it would end the node
            if decided is None:
                self._report_failure(error)
            return decided or Raised(error=error)

    async def _wait_for_try(self, tries: int) -> None:
        conditions = self._conditions
        pause = delay(tries, base=TRY_BASE, cap=conditions.recovery.cap, jitter=conditions.jitter())
        await asyncio.wait({self._ending}, timeout=pause)

    # ---- the end ----------------------------------------------------------------------------

    async def _conclude(self, ending: Ending) -> None:
        match resolve(ending, self.run, self._conditions):
            case None:
                self._stand_down()
            case Cause() as cause:
                await self._release(cause)
            case outcome:
                try:
                    await self._settle(outcome)
                except OwnershipError:
                    self._stand_down()
                except Exception as error:  # noqa: BLE001 - a settle that failed unclassified is a release
                    await self._release(cause_of(error))

    async def _settle(self, outcome: Outcome) -> None:
        run, runs = self.run, self._store.runs
        settled = await self._insist(lambda: runs.settle(run, run.token, outcome), during="settle")
        self.settled = True
        self._conditions.report(settlement(settled))

    async def _release(self, cause: Cause) -> None:
        self.releasing = cause
        run, runs = self.run, self._store.runs
        try:
            await self._insist(lambda: runs.release(run, run.token, cause), during="release")
        except OwnershipError:
            self._stand_down()
        else:
            self._conditions.report(RunReleased(run=run.log, cause=cause))

    def _stand_down(self) -> None:
        self._conditions.report(ControllerStoodDown(run=self.run.log, epoch=self.run.epoch))

    # ---- inside -----------------------------------------------------------------------------

    def _first_call_after(self) -> float | None:
        first = self._calls == self.run.budget.calls + 1
        return asyncio.get_running_loop().time() - self.claimed_at if first else None

    def _decide(self, ending: Ending) -> None:
        if not self._ending.done():
            self._ending.set_result(ending)

    def _leaves(self) -> bool:
        if self._leaves_when_kept:
            self._decide(HandedOff())
        return self._leaves_when_kept

    def _appended(self, appending: "asyncio.Task[None]") -> None:
        error = None if appending.cancelled() else appending.exception()
        if error is not None:
            self._decide(Raised(error=error))

    def _report_failure(self, error: BaseException) -> None:
        raised = error.__cause__ or error
        frames = tuple(
            f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(raised.__traceback__)
        )
        self._conditions.report(WorkerFailed(run=self.run.log, error=type(raised).__name__, frames=frames))

    async def _insist(self, operation: Callable[[], Awaitable[T]], *, during: str) -> T:
        return await insist(operation, during=during, conditions=self._conditions)


async def _drained(ending: Ending, appending: "asyncio.Task[None]") -> Ending:
    """Wait until what was said is durable, and return what the ending becomes if it cannot be."""
    if isinstance(ending, Raised) and classify(ending.error) is Reaction.STAND_DOWN:
        return ending
    await asyncio.wait({appending})  # no deadline: the settle behind it needs the store as well
    error = appending.exception()
    if error is None:
        return ending
    if isinstance(ending, Finished) or classify(error) is Reaction.STAND_DOWN:
        return Raised(error=error)
    return ending
