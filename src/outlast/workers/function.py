"""A Python function as a worker: async generators, coroutines, and sync functions in a thread of their own.

Rules:
1. What the function yields is said; what it returns is the run's result.
2. Whatever it raises is a verdict, wrapped in `WorkerRaised`, whether Python calls it an `Exception` or not. `Retry`
   asks for another call. Running out of memory says nothing about the work, so it passes as it is and the run is
   released. A cancellation, the closing of the call and Ctrl-C are not the worker's.
3. A cancelled call closes its generator. A thread cannot be cancelled: it is ended at its next yield, or sees
   `run.stopping`. One that does neither is left behind (daemon), and nothing it says is taken.
"""

import asyncio
import contextvars
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from concurrent.futures import Future
from contextlib import aclosing, closing, suppress
from threading import Thread
from typing import Any, Final, TypeAlias, TypeVar, cast

from outlast.errors import Retry, WorkerRaised
from outlast.log.event import JSON, Said, encode_json
from outlast.run import Run
from outlast.workers.base import ActiveRun, Kind

T = TypeVar("T")

Function: TypeAlias = Callable[[ActiveRun], Any]
"""An async generator, a coroutine, a generator or a plain function of one `ActiveRun`."""

AbortFunction: TypeAlias = Callable[[str], Awaitable[None]]
"""Told the id of a run that ended without completing, so that what the worker began elsewhere can be ended too."""


_AS_THEY_ARE: Final = (Retry, MemoryError, WorkerRaised)
"""What a call raises as it is; a thread's errors are wrapped already."""
_NOT_THE_WORKERS: Final = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)
"""What comes from outside into a call on the loop. Into a thread nothing comes: all that it raises is its own."""


class FunctionWorker:
    """One registered function; `on_abort` is told of runs that ended without completing, at least once each."""

    def __init__(self, function: Function, *, kind: Kind = Kind.RESTART, on_abort: AbortFunction | None = None) -> None:
        self.kind = kind
        self._function = function
        self._on_abort = on_abort

    async def call(self, run: ActiveRun) -> bytes | None:
        """Call the function, say what it yields, and return its result as JSON bytes. Source: W16."""
        try:
            result = await self._drive(run)
            return None if result is None else encode_json(result)
        except (*_AS_THEY_ARE, *_NOT_THE_WORKERS):
            raise
        except BaseException as error:
            raise WorkerRaised("the worker raised") from error

    async def abort(self, run: Run) -> None:
        """Tell the function's `on_abort`; without one there is nobody to tell. Raises like `call`."""
        if self._on_abort is None:
            return
        try:
            await self._on_abort(run.id)
        except _NOT_THE_WORKERS:
            raise
        except BaseException as error:
            raise WorkerRaised("the worker's abort raised") from error

    async def _drive(self, run: ActiveRun) -> JSON:
        if inspect.isasyncgenfunction(self._function) or inspect.iscoroutinefunction(self._function):
            made = self._function(run)
        else:
            loop = asyncio.get_running_loop()
            made = await _in_thread(lambda: _exhaust(self._function(run), run, loop))
        if isinstance(made, AsyncIterator):  # also what a sync wrapper around an async function returned
            await _say_all(cast("AsyncIterator[Said]", made), run)
            return None
        if inspect.isawaitable(made):
            return cast("JSON", await made)
        return cast("JSON", made)


async def _say_all(said: AsyncIterator[Said], run: ActiveRun) -> None:
    if not inspect.isasyncgen(said):
        async for item in said:
            await run.say(item)
        return
    async with aclosing(cast("AsyncGenerator[Said, None]", said)) as generator:
        async for item in generator:
            await run.say(item)


def _exhaust(made: object, run: ActiveRun, loop: asyncio.AbstractEventLoop) -> object:
    """Say everything a sync generator yields, from its own thread, and return what it returns."""
    if not inspect.isgenerator(made):
        return made
    with closing(cast("Generator[Said, None, JSON]", made)) as generator:
        while True:
            try:
                item: Said = next(generator)
            except StopIteration as end:
                return end.value
            asyncio.run_coroutine_threadsafe(run.say(item), loop).result()  # no deadline: this is the back-pressure
            if run.stopping:
                return None


async def _in_thread(function: Callable[[], T]) -> T:
    """Run `function` in a daemon thread of its own and return what it returns.

    Not an executor: its threads are joined at interpreter exit, so one deaf worker would keep the process alive.
    Cancelled, it waits for the thread's own end: whoever cancels decides how long that is worth waiting for.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        done: Future[T] = Future()
        try:
            done.set_result(context.run(function))
        except (Retry, MemoryError) as error:
            done.set_exception(error)
        except BaseException as error:  # noqa: BLE001 - handed to the waiting task, whatever it is
            raised = WorkerRaised("the worker raised")  # a future takes no StopIteration, and Ctrl-C would end the loop
            raised.__cause__ = error
            done.set_exception(raised)
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            loop.call_soon_threadsafe(_pass_on, done, answer)

    Thread(target=work, name="outlast-worker", daemon=True).start()
    try:
        await asyncio.wait({answer})  # no deadline: how long a worker works is its own affair
    except asyncio.CancelledError:
        await asyncio.wait({answer})
        raise
    return answer.result()


def _pass_on(done: Future[T], answer: "asyncio.Future[T]") -> None:
    if answer.cancelled():
        return
    error = done.exception()
    if error is None:
        answer.set_result(done.result())
    else:
        answer.set_exception(error)
        answer.exception()  # heard, so that asyncio prints no worker's text where nobody waits any more (W17)
