"""Processes on one loop: groups of tasks that can be killed or stopped, as SIGKILL and SIGSTOP do to real ones.

    bring_processes(loop)
    process = Process("node-1")
    process.start(node.run(on_started, send_away))
    process.pause()                  # not one of its tasks takes a step, whatever happens around it
    process.resume()                 # and now all of them find out what happened
    process.kill()
    await process.gone()

Rules:
1. A task belongs to the process of the task that created it, or that set the timer which did.
2. A paused process takes no step. What would have woken its tasks is kept: resumed, each goes on from where it stood.
3. A killed process is told nothing and is asked nothing. Its tasks are cancelled until they are over, because Python
   ends no coroutine otherwise; whatever they do on the way must lead nowhere, which is what `on_death` is for.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar, copy_context
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary, WeakSet

TURNS: Final = 1000
"""Turns of the loop a killed process may need: each `finally` that waits costs its task one."""

T = TypeVar("T")

_owners: "WeakKeyDictionary[asyncio.Task[Any], Process]" = WeakKeyDictionary()
_of_context: "ContextVar[Process | None]" = ContextVar("process", default=None)
"""Whose context something is: a callback has no task, and the context of the one that asked for it."""
_brought: "WeakSet[asyncio.AbstractEventLoop]" = WeakSet()
_outside = False


class Process:
    """A group of tasks; `on_death` is called as soon as it is killed, before anything of it ends."""

    def __init__(self, name: str, *, on_death: Callable[[], None] = lambda: None) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.on_death = on_death
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in order, so that they end in the same order every time
        self._stood_still: dict[asyncio.Future[None], None] = {}
        self._gone = asyncio.Event()

    @staticmethod
    def current() -> "Process | None":
        """Return the process of the running task, None outside of any."""
        return _owner(asyncio.current_task())

    def start(self, coroutine: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Begin a task of this process. Raises `ProcessLookupError` when it is dead."""
        if not self.alive:
            coroutine.close()
            raise ProcessLookupError(f"{self.name} is dead")
        task = outside(_Stoppable(coroutine, self), name=name or self.name, context_of=self)
        self.adopt(task)
        return task

    def pause(self) -> None:
        """Let no task of it take another step; harmless twice, and on a dead process."""
        self.paused = self.alive

    def resume(self) -> None:
        """Let its tasks go on; harmless twice."""
        self.paused = False
        stood_still, self._stood_still = self._stood_still, {}
        for future in stood_still:
            if not future.done():
                future.set_result(None)

    def kill(self) -> None:
        """End it, from outside or from one of its own tasks; harmless twice."""
        if self.alive:
            self.alive = False
            self.on_death()
            self.resume()
            self._loop.call_soon(self._reap, TURNS)

    async def gone(self) -> None:
        """Wait until the last task of a killed process is over."""
        await self._gone.wait()  # no deadline: reaping gives up loudly after `TURNS` turns

    def stand_still(self) -> "asyncio.Future[None]":
        """Return what a task of a paused process waits for."""
        future = self._loop.create_future()
        self._stood_still[future] = None
        return future

    def adopt(self, task: "asyncio.Task[Any]") -> None:
        """Count a task, whose coroutine already stops with this process, as one of it."""
        _owners[task] = self
        self._tasks[task] = None
        task.add_done_callback(self._lose)

    def _lose(self, task: "asyncio.Task[Any]") -> None:
        del self._tasks[task]
        if not self.alive and not task.cancelled():
            task.exception()  # nobody is left to be told

    def _reap(self, turns: int) -> None:
        if not self._tasks:
            self._gone.set()
            return
        if not turns:
            names = ", ".join(task.get_name() for task in self._tasks)
            raise RuntimeError(f"{self.name} is dead and its tasks do not end: {names}")
        for task in tuple(self._tasks):
            task.cancel()
        self._loop.call_soon(self._reap, turns - 1)


class _Stoppable(Coroutine[Any, Any, T]):
    """A coroutine that takes no step while its process is paused."""

    def __init__(self, inner: Coroutine[Any, Any, T], process: Process) -> None:
        self._inner = inner
        self._process = process
        self._error: BaseException | None = None

    def send(self, value: Any, /) -> Any:  # noqa: ANN401 - what is sent through a coroutine is anybody's
        if self._process.paused:
            return self._stand_still()
        if self._error is not None:
            error, self._error = self._error, None
            return self._inner.throw(error)
        return self._inner.send(value)

    def throw(self, error: Any, /, *rest: Any) -> Any:  # noqa: ANN401 - as above
        if self._process.paused:
            self._error = error
            return self._stand_still()
        return self._inner.throw(error, *rest)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._inner.__await__()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - where it stands, for whoever draws it
        return getattr(self._inner, name)

    def _stand_still(self) -> Any:  # noqa: ANN401 - a task takes the future that a coroutine waits for
        return next(self._process.stand_still().__await__())


def bring_processes(loop: asyncio.AbstractEventLoop) -> None:
    """Let tasks of `loop` belong to processes from now on; harmless twice."""
    if loop in _brought:
        return
    _brought.add(loop)
    make: Callable[..., Any] = loop.get_task_factory() or _plain_task

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:  # noqa: ANN401 - asyncio's own, which grow with each Python
        process = None if _outside else _creator(loop)
        if process is None:
            return make(loop, coroutine, **options)
        task: asyncio.Task[Any] = make(loop, _Stoppable(coroutine, process), **options)
        process.adopt(task)
        return task

    loop.set_task_factory(factory)


def _owner(task: "asyncio.Task[Any] | None") -> Process | None:
    return None if task is None else _owners.get(task)


def _creator(loop: asyncio.AbstractEventLoop) -> Process | None:
    task = asyncio.current_task(loop)
    return _of_context.get() if task is None else _owner(task)


def _plain_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:  # noqa: ANN401 - as above
    return asyncio.Task(coroutine, loop=loop, **options)


def outside(
    coroutine: Coroutine[Any, Any, T], *, name: str | None = None, context_of: Process | None = None
) -> asyncio.Task[T]:
    """Begin a task that belongs to no process, whoever asks: what was sent to a store is out of the sender's hands."""
    global _outside  # noqa: PLW0603 - set for the length of one call, on one loop's thread
    context = copy_context()
    context.run(_of_context.set, context_of)
    _outside = True
    try:
        return asyncio.get_running_loop().create_task(coroutine, name=name, context=context)
    finally:
        _outside = False
