"""A Python function as a worker: what it says, what it returns, what its failures mean, how it is ended."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from outlast.errors import InputInvalid, Retry, WorkerRaised
from outlast.log.cursor import Cursor
from outlast.log.event import Event, Said
from outlast.run import Run
from outlast.workers.base import ActiveRun, Kind
from outlast.workers.function import Function, FunctionWorker

pytestmark = pytest.mark.anyio


class Page:
    """An outlet that keeps what it is given; `gate` closed, it keeps whoever says something waiting."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.refusal: Exception | None = None

    async def put(self, event: Event) -> int:
        await self.gate.wait()
        if self.refusal is not None:
            raise self.refusal
        self.events.append(event)
        return len(self.events)

    async def durable(self, number: int) -> Cursor:
        return Cursor(number, bytes(8))


class Stage:
    """A run in progress: its outlet, and whether it is being stopped."""

    def __init__(self, **fields: object) -> None:
        self.page = Page()
        self.stopping = False
        row = {"owner": "", "id": "r1", "log": "l1", "worker": "w", "input": b'{"n":3}', "digest": b""} | fields
        self.run = ActiveRun(Run(**row), self.page, stopping=lambda: self.stopping)  # type: ignore[arg-type]

    async def call(self, function: Function) -> bytes | None:
        return await FunctionWorker(function).call(self.run)

    @property
    def said(self) -> list[object]:
        return [event.data for event in self.page.events]


async def test_an_async_generator_says_what_it_yields() -> None:
    async def work(run: ActiveRun) -> AsyncIterator[Said]:
        yield "a"
        yield {"n": run.input["n"]}  # type: ignore[call-overload, index]
        yield b"\x00"
        yield Event("tool.call", [1])

    stage = Stage()
    assert await stage.call(work) is None
    assert [event.type for event in stage.page.events] == ["text", "data", "bytes", "tool.call"]
    assert stage.said == ["a", {"n": 3}, b"\x00", [1]]


async def test_a_coroutine_says_things_and_its_return_value_is_the_result() -> None:
    async def work(run: ActiveRun) -> dict[str, int]:
        await run.say("queued")
        cursor = await run.emit("durable")
        return {"seq": cursor.seq}

    stage = Stage()
    assert await stage.call(work) == b'{"seq":2}'
    assert stage.said == ["queued", "durable"]


async def test_a_sync_generator_runs_in_a_thread_and_its_return_value_is_the_result() -> None:
    threads: list[str] = []

    def work(run: ActiveRun) -> Iterator[str]:
        threads.append(threading.current_thread().name)
        yield "a"
        yield "b"
        return 7

    stage = Stage()
    assert await stage.call(work) == b"7"
    assert stage.said == ["a", "b"]
    assert threads == ["outlast-worker"]


async def test_a_plain_function_runs_in_a_thread() -> None:
    def work(run: ActiveRun) -> str:
        return threading.current_thread().name

    assert await Stage().call(work) == b'"outlast-worker"'


def _hidden(function: Function) -> Function:
    """Wrap an async function as a decorator does that forgets what it wraps."""

    def wrapper(*arguments: object) -> object:
        return function(*arguments)  # type: ignore[arg-type]

    return wrapper


async def test_a_sync_wrapper_around_an_async_function_is_driven_on_the_loop() -> None:
    async def inner(run: ActiveRun) -> AsyncIterator[str]:
        yield threading.current_thread().name

    stage = Stage()
    await stage.call(_hidden(inner))
    assert stage.said == [threading.main_thread().name]

    async def coroutine(run: ActiveRun) -> int:
        return 1

    assert await Stage().call(_hidden(coroutine)) == b"1"


async def test_a_sync_generator_waits_for_room_before_it_is_asked_for_more() -> None:
    asked = 0

    def work(run: ActiveRun) -> Iterator[str]:
        nonlocal asked
        for _ in range(3):
            asked += 1
            yield "x"

    stage = Stage()
    stage.page.gate.clear()
    call = asyncio.create_task(stage.call(work))
    while not asked:
        await asyncio.sleep(0)
    assert asked == 1
    stage.page.gate.set()
    await call
    assert asked == 3


class Unusual(BaseException):
    """What some libraries raise past everyone's `except Exception`."""


FAILURES = [
    ValueError("secret"),
    SystemExit(3),
    InputInvalid("x"),
    KeyError("k"),
    Unusual("secret"),
    BaseExceptionGroup("secret", [Unusual()]),
]


@pytest.mark.parametrize("failure", FAILURES)
async def test_whatever_a_worker_raises_is_a_verdict_that_keeps_its_cause(failure: BaseException) -> None:
    async def work(run: ActiveRun) -> None:
        raise failure

    with pytest.raises(WorkerRaised) as caught:
        await Stage().call(work)
    assert caught.value.__cause__ is failure
    assert "secret" not in str(caught.value)


async def test_a_sync_worker_that_raises_is_a_verdict_too() -> None:
    def work(run: ActiveRun) -> Iterator[str]:
        yield "before"
        raise ValueError

    stage = Stage()
    with pytest.raises(WorkerRaised):
        await stage.call(work)
    assert stage.said == ["before"]


# A future takes no StopIteration, and a task that raises KeyboardInterrupt ends its loop.
@pytest.mark.parametrize(
    "failure", [*FAILURES, StopIteration("secret"), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()]
)
async def test_whatever_a_thread_raises_is_a_verdict_that_keeps_its_cause(failure: BaseException) -> None:
    def work(run: ActiveRun) -> None:
        raise failure

    with pytest.raises(WorkerRaised) as caught:
        async with asyncio.timeout(10):
            await Stage().call(work)
    assert caught.value.__cause__ is failure


async def test_what_a_stopped_thread_raises_is_printed_by_nobody(caplog: pytest.LogCaptureFixture) -> None:
    entered, release = threading.Event(), threading.Event()

    def work(run: ActiveRun) -> None:
        entered.set()
        release.wait(10)
        raise ValueError("secret")

    call = asyncio.create_task(Stage().call(work))
    while not entered.is_set():
        await asyncio.sleep(0)
    call.cancel()
    await asyncio.sleep(0)
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    del call
    gc.collect()
    assert "secret" not in caplog.text


@pytest.mark.parametrize("failure", [Retry("again"), MemoryError()])
async def test_what_passes_as_it_is_does_so_from_a_thread(failure: Exception) -> None:
    def work(run: ActiveRun) -> None:
        raise failure

    with pytest.raises(type(failure)) as caught:
        await Stage().call(work)
    assert caught.value is failure


@pytest.mark.parametrize("failure", [Retry("again"), MemoryError()])
async def test_asking_for_another_call_and_running_out_of_memory_pass_as_they_are(failure: Exception) -> None:
    async def work(run: ActiveRun) -> None:
        raise failure

    with pytest.raises(type(failure)) as caught:
        await Stage().call(work)
    assert caught.value is failure


@pytest.mark.parametrize("said", [3.5, None, {"x": float("nan")}, {1, 2}, Event("run.completed", {})])
async def test_a_yield_that_is_no_event_is_the_workers_fault(said: Said) -> None:
    async def work(run: ActiveRun) -> AsyncIterator[Said]:
        yield said

    stage = Stage()
    with pytest.raises(WorkerRaised):
        await stage.call(work)
    assert stage.said == []


async def test_a_result_that_is_not_json_is_the_workers_fault() -> None:
    async def work(run: ActiveRun) -> object:
        return object()

    with pytest.raises(WorkerRaised):
        await Stage().call(work)


async def test_a_cancelled_call_closes_its_generator() -> None:
    closed = asyncio.Event()

    async def work(run: ActiveRun) -> AsyncIterator[str]:
        try:
            yield "first"
            yield "never taken"
        finally:
            closed.set()

    stage = Stage()
    stage.page.gate.clear()
    call = asyncio.create_task(stage.call(work))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert closed.is_set()


async def test_a_stopped_thread_ends_at_its_next_yield_with_its_clean_up_done() -> None:
    entered, go, cleaned = threading.Event(), threading.Event(), threading.Event()

    def work(run: ActiveRun) -> Iterator[str]:
        try:
            entered.set()
            go.wait(10)
            yield "last words"
            yield "never said"
        finally:
            cleaned.set()

    stage = Stage()
    call = asyncio.create_task(stage.call(work))
    while not entered.is_set():
        await asyncio.sleep(0)
    stage.stopping = True
    call.cancel()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert cleaned.is_set()
    assert stage.said == ["last words"]


async def test_a_deaf_thread_is_left_behind_by_a_second_cancellation() -> None:
    entered, release = threading.Event(), threading.Event()

    def work(run: ActiveRun) -> None:
        entered.set()
        release.wait(10)

    call = asyncio.create_task(Stage().call(work))
    while not entered.is_set():
        await asyncio.sleep(0)
    call.cancel()
    await asyncio.sleep(0)
    assert not call.done()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    release.set()


async def test_an_abort_is_told_the_run_and_none_is_needed() -> None:
    told: list[str] = []

    async def on_abort(id: str) -> None:
        told.append(id)

    row = Run(owner="", id="r1", log="l1", worker="w", input=b"{}", digest=b"")
    await FunctionWorker(lambda run: None, on_abort=on_abort).abort(row)
    await FunctionWorker(lambda run: None).abort(row)
    assert told == ["r1"]

    async def exits(id: str) -> None:
        raise SystemExit(3)

    with pytest.raises(WorkerRaised):
        await FunctionWorker(lambda run: None, on_abort=exits).abort(row)
    assert FunctionWorker(lambda run: None).kind is Kind.RESTART
