"""Processes on one loop: what belongs to one, and what becomes of it when it is paused, resumed and killed."""

import asyncio
from contextvars import Context

import pytest

from outlast.testing.process import Process, bring_processes, outside

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


@pytest.fixture
async def process() -> Process:
    bring_processes(asyncio.get_running_loop())
    bring_processes(asyncio.get_running_loop())
    return Process("p")


class Diary:
    """What a task did, and when."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, float]] = []

    def write(self, what: str) -> None:
        self.entries.append((what, asyncio.get_running_loop().time()))

    async def keep(self, *, every: float = 1.0) -> None:
        try:
            while True:
                await asyncio.sleep(every)
                self.write("tick")
        finally:
            self.write("end")


async def end(process: Process) -> None:
    process.kill()
    await process.gone()


async def owner() -> Process | None:
    return Process.current()


async def test_a_task_belongs_to_the_process_of_the_task_that_created_it(process: Process) -> None:
    async def parent() -> list[Process | None]:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            children = [group.create_task(owner()), loop.create_task(owner(), context=Context())]
        return [Process.current(), *(await asyncio.gather(*children)), await outside(owner())]

    assert await process.start(parent()) == [process, process, process, None]
    assert await owner() is None


async def test_a_paused_process_takes_no_step_and_then_finds_out_what_happened(process: Process) -> None:
    diary = Diary()

    async def work() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await asyncio.get_running_loop().create_future()
        diary.write("timeout")

    process.start(diary.keep())
    process.start(work())
    await asyncio.sleep(1.5)
    process.pause()
    await asyncio.sleep(5)
    assert diary.entries == [("tick", 1.0)]
    process.resume()
    await asyncio.sleep(1.25)
    assert diary.entries == [("tick", 1.0), ("tick", 6.5), ("timeout", 6.5), ("tick", 7.5)]
    await end(process)


async def test_a_process_paused_before_a_task_began_does_not_begin_it(process: Process) -> None:
    diary = Diary()
    process.pause()
    process.start(diary.keep())
    await asyncio.sleep(5)
    assert not diary.entries
    process.resume()
    process.resume()
    await asyncio.sleep(1.5)
    assert diary.entries == [("tick", 6.0)]
    await end(process)


async def test_a_cancellation_reaches_a_paused_task_when_it_goes_on(process: Process) -> None:
    diary = Diary()
    task = process.start(diary.keep())
    await asyncio.sleep(0)
    process.pause()
    task.cancel()
    await asyncio.sleep(3)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    process.resume()
    await asyncio.wait({task})
    assert task.cancelled()
    assert diary.entries == [("end", 3.0)]


async def test_a_killed_process_has_no_tasks_left_however_they_cling_to_life(process: Process) -> None:
    clung: list[str] = []
    deaths: list[bool] = []
    process.on_death = lambda: deaths.append(process.alive)

    async def cling() -> None:
        for turn in range(5):
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                clung.append(f"turn {turn}")

    async def raise_on_the_way() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            raise ValueError("nobody hears it")

    tasks = [process.start(cling()), process.start(raise_on_the_way())]
    await asyncio.sleep(0)
    process.pause()
    process.kill()
    process.kill()
    assert deaths == [False]
    await process.gone()
    assert all(task.done() for task in tasks)
    assert len(clung) == 5
    assert asyncio.get_running_loop().time() == 0.0


async def test_a_task_may_kill_its_own_process(process: Process) -> None:
    diary = Diary()

    async def die() -> None:
        process.kill()
        await asyncio.get_running_loop().create_future()

    process.start(diary.keep())
    task = process.start(die())
    await process.gone()
    assert task.cancelled()
    assert [what for what, _ in diary.entries] == ["end"]


async def test_the_dead_begin_nothing(process: Process) -> None:
    await end(process)
    with pytest.raises(ProcessLookupError, match="p is dead"):
        process.start(owner())
    process.pause()
    assert not process.paused


async def test_a_task_that_never_ends_is_named(process: Process) -> None:
    said: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(str(context["exception"])))
    stubborn = True

    async def never() -> None:
        while stubborn:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                continue

    task = process.start(never(), name="stubborn")
    await asyncio.sleep(0)
    process.kill()
    await asyncio.sleep(1)
    assert said == ["p is dead and its tasks do not end: stubborn"]
    stubborn = False
    task.cancel()
    await asyncio.sleep(1)
    assert task.done()
