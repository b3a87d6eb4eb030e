"""A leak check finds the tasks, threads and files that a block leaves behind, and raises no false alarm."""

import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from outlast.testing.clock import VirtualLoop
from outlast.testing.leaks import TURNS, Leak, check_leaks

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

linux = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are known on Linux alone")


# What a test leaves behind on purpose is cleared away after it.


@pytest.fixture
def later() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
async def tasks() -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks: list[asyncio.Task[None]] = []
    yield tasks
    for task in tasks:
        await end(task)


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


Tasks = list[asyncio.Task[None]]


# ---- tasks -----------------------------------------------------------------------------------------------------------


async def test_a_task_left_behind_is_named_and_drawn(tasks: Tasks) -> None:
    with pytest.raises(Leak) as caught:
        async with check_leaks():
            tasks.append(asyncio.create_task(wait_for_ever(), name="the-reader"))
    text = str(caught.value)
    assert text.startswith("1 left behind\n\ntask 'the-reader' waits in\n")
    assert "in wait_for_ever\n    await asyncio.Event().wait()" in text


async def test_every_task_left_behind_is_told(tasks: Tasks) -> None:
    with pytest.raises(Leak, match=r"(?s)^3 left behind.*'reader-0'.*'reader-1'.*'reader-2'"):
        async with check_leaks():
            tasks += [asyncio.create_task(wait_for_ever(), name=f"reader-{number}") for number in (2, 0, 1)]


async def test_tasks_that_were_there_before_may_stay(tasks: Tasks) -> None:
    tasks.append(asyncio.create_task(wait_for_ever()))
    async with check_leaks():
        await asyncio.sleep(1)


async def test_a_task_that_ended_inside_is_no_leak() -> None:
    async with check_leaks():
        await end(asyncio.create_task(wait_for_ever()))


async def cancelled_slowly(turns: int) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        for _ in range(turns):
            await asyncio.sleep(0)


async def test_a_cancelled_task_gets_turns_to_end() -> None:
    async with check_leaks():
        task = asyncio.create_task(cancelled_slowly(TURNS - 3))
        await asyncio.sleep(0)
        task.cancel()
    assert task.done()


async def test_the_turns_are_bounded(tasks: Tasks) -> None:
    async def leave() -> None:
        async with check_leaks():
            tasks.append(asyncio.create_task(cancelled_slowly(TURNS + 3)))
            await asyncio.sleep(0)
            tasks[0].cancel()

    with pytest.raises(Leak, match="in cancelled_slowly"):
        await leave()


async def test_the_check_takes_no_time(tasks: Tasks) -> None:
    with pytest.raises(Leak, match="sleep"):
        async with check_leaks():
            tasks.append(asyncio.create_task(asyncio.sleep(0.001)))
    assert asyncio.get_running_loop().time() == 0.0


async def test_inside_a_loop_a_synchronous_check_finds_tasks_too(tasks: Tasks) -> None:
    with pytest.raises(Leak, match="'the-reader'"), check_leaks():
        tasks.append(asyncio.create_task(wait_for_ever(), name="the-reader"))


# ---- threads ---------------------------------------------------------------------------------------------------------


def wait_in_thread(name: str, later: ExitStack) -> None:
    release = threading.Event()
    thread = threading.Thread(target=release.wait, args=(30,), name=name)
    thread.start()
    later.callback(thread.join)
    later.callback(release.set)


def test_a_thread_of_outlast_left_behind_is_named_and_drawn(later: ExitStack) -> None:
    with pytest.raises(Leak) as caught, check_leaks():
        wait_in_thread("outlast-renewal", later)
    text = str(caught.value)
    assert text.startswith("1 left behind\n\nthread 'outlast-renewal' at\n")
    assert "threading.py" in text
    assert "in wait" in text


def test_a_thread_of_outlast_that_was_joined_is_no_leak() -> None:
    with check_leaks(), ExitStack() as now:
        wait_in_thread("outlast-renewal", now)


def test_threads_that_were_there_before_may_stay(later: ExitStack) -> None:
    wait_in_thread("outlast-renewal", later)
    with check_leaks():
        pass


def test_threads_of_others_are_their_own_business(later: ExitStack) -> None:
    with check_leaks():
        wait_in_thread("a pool's", later)


async def test_an_asynchronous_check_finds_threads_too(later: ExitStack) -> None:
    with pytest.raises(Leak, match="'outlast-renewal'"):
        async with check_leaks():
            wait_in_thread("outlast-renewal", later)


# ---- files -----------------------------------------------------------------------------------------------------------


def database(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE IF NOT EXISTS runs (id)")
    return connection


@linux
def test_an_open_file_left_behind_is_told_by_its_path(tmp_path: Path, later: ExitStack) -> None:
    with pytest.raises(Leak) as caught, check_leaks():
        later.enter_context((tmp_path / "left.txt").open("w"))
    assert str(caught.value).startswith("1 left behind\n\nfile descriptor ")
    assert str(caught.value).endswith(f": {tmp_path}/left.txt")


@linux
def test_an_open_database_left_behind_is_a_leak(tmp_path: Path, later: ExitStack) -> None:
    with pytest.raises(Leak, match=r"outlast\.db"), check_leaks():
        later.enter_context(closing(database(tmp_path / "outlast.db")))


def test_a_closed_database_is_no_leak(tmp_path: Path) -> None:
    with check_leaks(), closing(database(tmp_path / "outlast.db")):
        pass


@linux
def test_a_second_connection_to_the_same_database_is_a_leak(tmp_path: Path, later: ExitStack) -> None:
    later.enter_context(closing(database(tmp_path / "outlast.db")))
    with pytest.raises(Leak, match=r"outlast\.db"), check_leaks():
        later.enter_context(closing(database(tmp_path / "outlast.db")))


@linux
def test_a_socket_left_behind_is_a_leak(later: ExitStack) -> None:
    with pytest.raises(Leak, match=r"^1 left behind\n\nfile descriptor [0-9]+: socket:"), check_leaks():
        later.enter_context(socket.socket())


def test_a_file_that_moves_to_another_descriptor_is_no_leak(tmp_path: Path, later: ExitStack) -> None:
    file = (tmp_path / "moved.txt").open("w")
    with check_leaks():
        later.callback(os.close, os.dup(file.fileno()))
        file.close()


def test_an_open_file_that_is_renamed_or_removed_is_no_leak(tmp_path: Path) -> None:
    with (tmp_path / "a").open("w"), (tmp_path / "b").open("w"), check_leaks():
        (tmp_path / "a").unlink()
        (tmp_path / "b").rename(tmp_path / "c")


async def test_a_closed_connection_gets_turns_for_its_socket() -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        await writer.wait_closed()

    async with check_leaks():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b""
        writer.close()
        server.close()


# ---- blocks and fixtures ---------------------------------------------------------------------------------------------


def test_a_check_may_end_in_another_task_than_it_began_in() -> None:
    async def fixture() -> AsyncIterator[None]:
        async with check_leaks():
            yield

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        steps = fixture()
        runner.run(step(steps))
        with pytest.raises(StopAsyncIteration):
            runner.run(step(steps))


async def step(steps: AsyncIterator[None]) -> None:
    await anext(steps)


async def test_the_failure_of_a_block_is_told_and_not_what_it_left(tasks: Tasks) -> None:
    async def fail() -> None:
        async with check_leaks():
            tasks.append(asyncio.create_task(wait_for_ever()))
            raise LookupError("the block's own")

    with pytest.raises(LookupError, match="the block's own"):
        await fail()


FIXTURE = """
import asyncio
import pytest
from outlast.testing import VirtualLoop, check_leaks

@pytest.fixture(params=["virtual", "real"])
def anyio_backend(request):
    return ("asyncio", {"loop_factory": VirtualLoop} if request.param == "virtual" else {})

@pytest.fixture(autouse=True)
async def no_leaks(anyio_backend):
    async with check_leaks():
        yield

@pytest.fixture
async def tidy():
    task = asyncio.create_task(asyncio.sleep(3600))
    yield
    task.cancel()

@pytest.mark.anyio
async def test_tidy(tidy):
    await asyncio.sleep(0)

@pytest.mark.anyio
async def test_untidy(tidy):
    asyncio.create_task(asyncio.sleep(3600), name="the-reader")

@pytest.mark.anyio
async def test_tidy_again(tidy):
    await asyncio.sleep(0)

def test_synchronous():
    pass
"""


def test_as_a_fixture_of_anyios_plugin_it_tells_the_untidy_test_alone(tmp_path: Path) -> None:
    (tmp_path / "test_fixture.py").write_text(FIXTURE)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", "-rA", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert "8 passed, 2 errors" in done.stdout, done.stdout
    assert "ERROR test_fixture.py::test_untidy[virtual]" in done.stdout
    assert "ERROR test_fixture.py::test_untidy[real]" in done.stdout
    assert "Leak: 1 left behind" in done.stdout
    assert "task 'the-reader' waits in" in done.stdout
