"""Virtual time jumps, stands still, is the same every time, and knows when nothing can happen any more."""

import asyncio
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from outlast.testing import clock
from outlast.testing.clock import Deadlock, VirtualLoop, run

pytestmark = pytest.mark.anyio

DAY = 86_400.0


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return ("asyncio", {"loop_factory": VirtualLoop})


def now() -> float:
    return asyncio.get_running_loop().time()


async def ring(delay: float, rung: list[Any]) -> None:
    await asyncio.sleep(delay)
    rung.append((now(), "timer"))


# ---- time jumps ------------------------------------------------------------------------------------------------------


async def test_a_year_passes_at_once() -> None:
    before = time.monotonic()
    await asyncio.sleep(365 * DAY)
    assert now() == 365 * DAY
    assert time.monotonic() - before < DAY


@pytest.mark.parametrize("origin", [0.0, 0.1, 1.7e9, 1e15])
def test_a_timer_rings_at_exactly_its_time_at_any_distance_from_zero(origin: float) -> None:
    wanted = [origin + step / 7 for step in range(50)]
    rung: list[float] = []

    async def program() -> None:
        assert now() == origin
        for when in wanted:
            asyncio.get_running_loop().call_at(when, lambda: rung.append(now()))
        await asyncio.sleep(10)

    run(program(), origin=origin)
    assert rung == wanted


async def test_timers_a_hair_apart_ring_at_their_own_times() -> None:
    rung: list[float] = []
    for when in (3e-10, 1e-10, 2e-10):
        asyncio.get_running_loop().call_at(when, lambda: rung.append(now()))
    await asyncio.sleep(1)
    assert rung == [1e-10, 2e-10, 3e-10]


async def test_ten_thousand_timers_ring_in_the_order_of_their_times_and_then_of_their_setting() -> None:
    dice = random.Random(7)
    timers = [(dice.randrange(300) / 10, number) for number in range(10_000)]
    rung: list[tuple[float, int]] = []
    for timer in timers:
        asyncio.get_running_loop().call_at(timer[0], rung.append, timer)
    await asyncio.sleep(31)
    assert rung == sorted(timers)


async def test_cancelled_timers_change_nothing_for_the_others() -> None:
    rung: list[int] = []
    for number in range(400):
        asyncio.get_running_loop().call_at(number % 3, rung.append, number)
        for _ in range(4):
            asyncio.get_running_loop().call_at(0.5, rung.append, -1).cancel()
    await asyncio.sleep(5)
    assert rung == sorted(range(400), key=lambda number: number % 3)


async def test_time_stands_still_while_anything_is_ready() -> None:
    rung: list[str] = []
    asyncio.get_running_loop().call_later(1, rung.append, "timer")
    for _ in range(1000):
        await asyncio.sleep(0)
    assert (now(), rung) == (0.0, [])


async def test_a_timeout_ends_a_wait_in_virtual_time() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(15):
            await asyncio.Event().wait()
    assert now() == 15.0


# ---- order -----------------------------------------------------------------------------------------------------------


async def test_a_task_group_cancels_its_tasks_by_age() -> None:
    cancelled: list[int] = []

    async def child(number: int) -> None:
        try:
            await asyncio.sleep(10)
        finally:
            cancelled.append(number)

    async def fail() -> None:
        async with asyncio.TaskGroup() as group:  # which keeps its tasks in a set
            for number in range(60):
                group.create_task(child(number))
            await asyncio.sleep(1)
            raise LookupError

    with pytest.raises(ExceptionGroup):
        await fail()
    assert sorted(cancelled) == list(range(60))
    youngest = cancelled.index(59)  # a set of ages is in order, but may begin anywhere
    assert cancelled[youngest + 1 :] + cancelled[: youngest + 1] == list(range(60))


async def crowd() -> list[Any]:
    """Tell an order in which everything takes part that the loop decides."""
    dice = random.Random(11)
    told: list[Any] = []
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=3)

    async def produce() -> None:
        for number in range(20):
            await asyncio.sleep(dice.choice([0, 0, 0.5, 1]))
            await queue.put(number)

    async def consume(name: int) -> None:
        while True:
            told.append((now(), name, await queue.get()))
            queue.task_done()
            await asyncio.sleep(dice.choice([0, 0.5]))

    consumers = {asyncio.create_task(consume(name)) for name in range(4)}
    await asyncio.wait({asyncio.create_task(produce()) for _ in range(5)})
    await queue.join()
    for consumer in consumers:
        consumer.cancel()
    return told


def test_the_same_program_tells_the_same_order_twice() -> None:
    first = run(crowd())
    kept = [object() for _ in range(10_000)]  # so that what comes next has other addresses
    assert run(crowd()) == first
    assert len(first) == 100
    assert kept


CANCELLED = """
import asyncio
from outlast.testing.clock import run

async def wait(number):
    try:
        await asyncio.sleep(9)
    finally:
        print(number)

async def main():
    tasks = {asyncio.create_task(wait(number)) for number in range(99)}
    await asyncio.sleep(1)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)

run(main())
"""


def test_the_order_is_the_same_in_every_process() -> None:
    def told(seed: str) -> str:
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", CANCELLED]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=30).stdout

    first = told("1")
    assert first == told("2")
    assert len(first.split()) == 99


# ---- deadlocks -------------------------------------------------------------------------------------------------------


def test_a_wait_that_nothing_can_end_is_a_deadlock_that_names_its_tasks() -> None:
    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    async def program() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(wait_for_ever(), name="A reader")
            await asyncio.sleep(2.5)

    with pytest.raises(Deadlock) as caught:
        run(program())
    text = str(caught.value)
    assert "at 2.5 s nothing is ready and no timer is set, and 2 tasks wait" in text
    assert text.index("in program") < text.index("task 'A reader' waits in")  # the older first, whatever its name
    assert "in wait_for_ever\n    await asyncio.Event().wait()" in text


def test_a_timer_that_never_rings_does_not_hide_a_deadlock() -> None:
    with pytest.raises(Deadlock):
        run(anyio.sleep_forever())


def test_a_deadlock_ends_the_tasks_it_found() -> None:
    ended: list[str] = []

    async def program() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("program")

    with pytest.raises(Deadlock):
        run(program())
    assert ended == ["program"]


def test_a_loop_that_is_told_to_stop_is_no_deadlock() -> None:
    loop = VirtualLoop()
    loop.call_later(3, loop.stop)
    loop.run_forever()
    assert loop.time() == 3.0
    loop.close()


# ---- run -------------------------------------------------------------------------------------------------------------


def test_run_cancels_what_is_left_and_closes_the_loop() -> None:
    ended: list[float] = []
    tasks: list[asyncio.Task[None]] = []

    async def left() -> None:
        try:
            await asyncio.sleep(DAY)
        finally:
            ended.append(now())

    async def program() -> asyncio.AbstractEventLoop:
        tasks.append(asyncio.create_task(left()))
        await asyncio.sleep(1)
        return asyncio.get_running_loop()

    loop = run(program())
    assert loop.is_closed()
    assert ended == [1.0]
    assert tasks[0].cancelled()


def test_run_raises_what_the_program_raises() -> None:
    async def program() -> None:
        raise LookupError("the program's own")

    with pytest.raises(LookupError, match="the program's own"):
        run(program())


@pytest.mark.parametrize("debug", [True, False])
def test_run_sets_the_debug_mode(debug: bool) -> None:
    async def program() -> bool:
        await asyncio.sleep(1)
        return asyncio.get_running_loop().get_debug()

    assert run(program(), debug=debug) is debug


# ---- threads ---------------------------------------------------------------------------------------------------------


def work(idle: threading.Event) -> str:
    assert idle.wait(30)
    return "worked"


def tell_when_idle(idle: threading.Event) -> None:
    """Set an event when the running loop has nothing to do, just before it jumps or waits."""
    selector = cast("Any", asyncio.get_running_loop())._selector
    decide = selector._idle

    def tell(poll: Any) -> Any:
        idle.set()
        return decide(poll)

    selector._idle = tell


@pytest.fixture
async def idle() -> threading.Event:
    event = threading.Event()
    tell_when_idle(event)
    return event


async def in_executor(function: Callable[..., Any], *arguments: Any) -> Any:
    with ThreadPoolExecutor(1) as executor:
        return await asyncio.get_running_loop().run_in_executor(executor, function, *arguments)


each_pool = pytest.mark.parametrize("in_thread", [in_executor, asyncio.to_thread, anyio.to_thread.run_sync])
InThread = Callable[..., Awaitable[Any]]


@each_pool
async def test_time_does_not_jump_while_a_thread_works(in_thread: InThread, idle: threading.Event) -> None:
    rung: list[Any] = []
    timer = asyncio.create_task(ring(1, rung))
    rung.append((now(), await in_thread(work, idle)))
    await timer
    assert rung == [(0.0, "worked"), (1.0, "timer")]


@each_pool
async def test_a_thread_at_work_is_no_deadlock(in_thread: InThread, idle: threading.Event) -> None:
    assert await in_thread(work, idle) == "worked"


@each_pool
async def test_time_jumps_again_when_the_threads_rest(in_thread: InThread) -> None:
    assert await in_thread(str) == ""
    with pytest.raises(LookupError):
        await in_thread([].pop)
    await asyncio.sleep(DAY)
    assert now() == DAY


def test_a_deadlock_is_seen_when_the_threads_rest() -> None:
    async def program() -> None:
        await asyncio.to_thread(str)
        await anyio.to_thread.run_sync(str)
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match="no timer is set"):
        run(program())


async def test_the_last_thread_is_waited_for_like_the_first() -> None:
    rung: list[Any] = []
    idle = threading.Event()
    timer = asyncio.create_task(ring(1, rung))
    last = asyncio.create_task(asyncio.to_thread(work, idle))
    await asyncio.to_thread(str)
    tell_when_idle(idle)
    rung.append((now(), await last))
    await timer
    assert rung == [(0.0, "worked"), (1.0, "timer")]


async def test_a_thread_may_call_back_into_the_loop() -> None:
    loop = asyncio.get_running_loop()
    told: list[int] = []

    def call_back() -> str:
        for number in range(100):
            loop.call_soon_threadsafe(told.append, number)
        return asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "from the loop"), loop).result(30)

    assert await asyncio.to_thread(call_back) == "from the loop"
    assert told == list(range(100))
    assert now() == 0.0


async def test_a_thread_whose_caller_was_cancelled_is_not_waited_for() -> None:
    loop = asyncio.get_running_loop()
    started, release = asyncio.Event(), threading.Event()

    def deaf() -> None:
        loop.call_soon_threadsafe(started.set)
        assert release.wait(30)

    working = asyncio.create_task(asyncio.to_thread(deaf))
    await started.wait()
    working.cancel()
    await asyncio.sleep(DAY)
    release.set()
    assert now() == DAY


def test_closing_the_loop_waits_for_a_thread_that_still_works() -> None:
    told: list[str] = []

    async def program() -> None:
        loop = asyncio.get_running_loop()
        started, closing = asyncio.Event(), threading.Event()

        def deaf() -> None:
            loop.call_soon_threadsafe(started.set)
            told.append(work(closing))

        working = asyncio.create_task(asyncio.to_thread(deaf))
        await started.wait()
        working.cancel()
        tell_when_idle(closing)

    run(program())
    assert told == ["worked"]


def test_a_thread_of_anyio_that_its_loop_gave_up_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "PATIENCE", 0.01)
    release = threading.Event()
    ended: list[float] = []

    async def left() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(60)
            ended.append(now())
            release.set()

    async def program() -> asyncio.Task[None]:
        started = asyncio.Event()

        def deaf() -> None:
            anyio.from_thread.run_sync(started.set)
            assert release.wait(30)

        async with anyio.create_task_group() as group:
            group.start_soon(partial(anyio.to_thread.run_sync, deaf, abandon_on_cancel=True))
            await started.wait()
            group.cancel_scope.cancel()
        return asyncio.create_task(left())

    assert run(program()).cancelled()
    assert ended == [60.0]


def test_time_jumps_again_when_the_executor_is_shut_down() -> None:
    async def program() -> float:
        await asyncio.to_thread(str)
        await asyncio.get_running_loop().shutdown_default_executor()
        await asyncio.sleep(DAY)
        return now()

    assert run(program()) == DAY


def test_a_thread_that_waits_for_virtual_time_is_a_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "PATIENCE", 0.01)
    release = threading.Event()

    async def program() -> None:
        asyncio.get_running_loop().call_later(1, release.set)
        waiting = asyncio.create_task(asyncio.to_thread(release.wait, 30), name="the-caller")
        try:
            await waiting
        finally:
            release.set()

    with pytest.raises(Deadlock, match=r"a thread has worked for 0\.01 real seconds") as caught:
        run(program())
    assert "task 'the-caller'" in str(caught.value)


# ---- file descriptors ------------------------------------------------------------------------------------------------


async def test_ready_file_descriptors_are_served_before_time_jumps() -> None:
    loop = asyncio.get_running_loop()
    rung: list[Any] = []
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        there.setblocking(False)
        timer = asyncio.create_task(ring(1, rung))
        reading = asyncio.create_task(loop.sock_recv(here, 10))
        await asyncio.sleep(0)
        await loop.sock_sendall(there, b"bytes")
        rung.append((await reading, now()))
        await timer
    assert rung == [(b"bytes", 0.0), (1.0, "timer")]


async def test_a_conversation_over_real_sockets_takes_no_time() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line.upper())
        writer.close()
        await writer.wait_closed()

    told: list[Any] = []
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for line in (b"one\n", b"two\n"):
            writer.write(line)
            told.append((await reader.readline(), now()))
            await asyncio.sleep(60)
        writer.close()
        await writer.wait_closed()
    assert told == [(b"ONE\n", 0.0), (b"TWO\n", 60.0)]


# ---- anyio's plugin --------------------------------------------------------------------------------------------------


@pytest.fixture
async def an_hour_later() -> AsyncIterator[float]:
    await asyncio.sleep(3600)
    yield now()
    await asyncio.sleep(3600)


async def test_it_is_the_loop_of_anyios_plugin_and_of_its_fixtures(an_hour_later: float) -> None:
    assert type(asyncio.get_running_loop()) is VirtualLoop
    assert an_hour_later == 3600.0
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep, DAY)
        with anyio.move_on_after(30):
            await anyio.sleep_forever()
        assert anyio.current_time() == 3630.0
    assert anyio.current_time() == 3600.0 + DAY


STUCK = """
import asyncio
import pytest
from outlast.testing.clock import VirtualLoop

pytestmark = pytest.mark.anyio

@pytest.fixture(scope="module")
def anyio_backend():
    return ("asyncio", {"loop_factory": VirtualLoop})

@pytest.fixture(scope="module", autouse=True)
async def shared():
    yield asyncio.get_running_loop()

async def test_stuck():
    while True:
        try:
            await asyncio.Event().wait()
        except Exception:
            continue

async def test_next():
    await asyncio.sleep(60)
"""


def test_under_anyios_plugin_a_deadlock_fails_one_test_and_harms_no_other(tmp_path: Path) -> None:
    (tmp_path / "test_stuck.py").write_text(STUCK)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "Deadlock: at 0 s nothing is ready and no timer is set" in done.stdout
    assert "in test_stuck" in done.stdout
