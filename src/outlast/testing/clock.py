"""Runs asyncio on virtual time: when nothing is ready, the clock jumps to the next timer.

Rules:
1. Time stands still while anything is ready: a callback, a file descriptor, a cancelled task.
2. Time stands still while a thread works for the loop, in an executor or in anyio's pool; then, and only then, the
   loop waits in real time. A thread of an executor whose caller was cancelled is no longer waited for; threads and
   processes that were started in other ways never are.
3. Otherwise the clock jumps to the next timer, exactly, however far away it is.
4. Where there is no timer either, nothing can ever happen: that is a `Deadlock`, not a hang.
5. The same program runs in the same order, every time and in every process: timers of one moment ring in the order in
   which they were set, and the order of a set of tasks does not depend on addresses.

With anyio's pytest plugin:

    @pytest.fixture
    def anyio_backend():
        return ("asyncio", {"loop_factory": VirtualLoop})
"""

import asyncio
import itertools
import math
import selectors
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextvars import Context
from typing import Any, Final, TypeAlias, TypeVar, TypeVarTuple

from outlast.testing.stack import describe

PATIENCE: Final = 30.0
"""Real seconds that threads may work without a word to the loop: longer than honest work in a test, shorter than the
minute after which a test runner gives up without telling why."""

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")
_Coroutine: TypeAlias = Coroutine[Any, Any, Any] | Generator[Any, None, Any]
_Ready: TypeAlias = list[tuple[selectors.SelectorKey, int]]
_Poll: TypeAlias = Callable[[float], _Ready]


class Deadlock(BaseException):
    """Every task waits and nothing is left that could wake one; the text draws where they wait.

    It ends the loop and not a task, as KeyboardInterrupt does, and for the same reason it is no Exception: anyio's
    pytest plugin then cancels the stuck test before it goes on.
    """


class VirtualLoop(asyncio.SelectorEventLoop):
    """Run callbacks as asyncio does, on a clock that never waits.

    `time()` starts at `origin`, in seconds. Raises Deadlock out of whatever runs the loop.
    """

    _scheduled: list[asyncio.TimerHandle]  # asyncio's own heap; its head is not cancelled

    def __init__(self, *, origin: float = 0.0) -> None:
        self._ages = itertools.count()
        self._at_work = 0
        super().__init__(_Selector(self._idle))
        self.set_task_factory(self._task)
        self._jump(origin)

    def time(self) -> float:
        return self._now

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        moment = _Moment(when)
        moment.age = next(self._ages)
        return super().call_at(moment, callback, *args, context=context)

    def run_in_executor(
        self,
        executor: Executor | None,
        func: Callable[[*_Arguments], _Result],
        *args: *_Arguments,
    ) -> asyncio.Future[_Result]:
        future = super().run_in_executor(executor, func, *args)
        self._at_work += 1
        future.add_done_callback(self._rested)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109
        # The timeout of newer Pythons is left out: it would be virtual time, which stands still.
        self._at_work += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self._at_work -= 1

    def _task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: _Coroutine,
        /,
        **options: Any,  # noqa: ANN401 - asyncio's own, which grow with each Python
    ) -> asyncio.Task[Any]:
        return _Task(next(self._ages), coroutine, loop=loop, **options)

    def _rested(self, _future: asyncio.Future[Any]) -> None:
        self._at_work -= 1

    def _idle(self, poll: _Poll) -> _Ready:
        """Say what happens next, now that nothing is ready."""
        if self._at_work or any(map(self._employs, threading.enumerate())):
            if ready := poll(PATIENCE):
                return ready
            raise Deadlock(self._draw(f"a thread has worked for {PATIENCE:g} real seconds"))
        when = self._scheduled[0].when() if self._scheduled else math.inf
        if when == math.inf:
            raise Deadlock(self._draw("nothing is ready and no timer is set"))
        self._jump(when)
        return []

    def _employs(self, thread: threading.Thread) -> bool:
        # anyio, and so Starlette for its sync endpoints and files, has threads of its own and no public word for busy:
        # a thread at work is missing from the idle ones of its pool.
        return (
            getattr(thread, "loop", None) is self
            and not getattr(thread, "stopping", True)
            and thread not in getattr(thread, "idle_workers", ())
        )

    def _jump(self, when: float) -> None:
        self._now = float(when)
        # asyncio rings what lies within the clock's resolution: here the least that is not nothing, so that this moment
        # rings whole and nothing else does, at any distance from zero.
        self._clock_resolution = math.ulp(self._now)

    def _draw(self, reason: str) -> str:
        tasks = sorted(asyncio.all_tasks(self), key=hash)
        head = f"at {self._now:g} s {reason}, and {len(tasks)} tasks wait"
        return "\n\n".join([head, *map(describe, tasks)])


def run(coroutine: Coroutine[Any, Any, _Result], *, origin: float = 0.0, debug: bool = False) -> _Result:
    """Run a coroutine on a new VirtualLoop; cancel what it left behind and close the loop.

    `origin` is the loop's first time in seconds, `debug` asyncio's debug mode. Raises what the coroutine raises, and
    Deadlock.
    """
    with asyncio.Runner(debug=debug, loop_factory=lambda: VirtualLoop(origin=origin)) as runner:
        return runner.run(coroutine)


class _Selector(selectors.DefaultSelector):
    """Asks the loop where another selector would wait."""

    def __init__(self, idle: Callable[[_Poll], _Ready]) -> None:
        super().__init__()
        self._idle = idle

    def select(self, timeout: float | None = None) -> _Ready:
        poll = super().select
        ready = poll(0)
        return ready if ready or timeout == 0 else self._idle(poll)


class _Moment(float):
    """When a timer rings; of two that ring together the one set first is the lesser."""

    __slots__ = ("age",)
    age: int

    def __lt__(self, other: float) -> bool:
        if self == other and isinstance(other, _Moment):
            return self.age < other.age
        return super().__lt__(other)


class _Task(asyncio.Task[Any]):
    """A task whose place in a set follows from its age: a task group cancels in that order."""

    def __init__(self, age: int, coroutine: _Coroutine, **options: Any) -> None:  # noqa: ANN401
        self._age = age  # first of all: asyncio puts a new task into a set at once
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._age
