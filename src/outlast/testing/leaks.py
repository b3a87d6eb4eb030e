"""Finds what a block leaves behind: tasks, threads of outlast, file descriptors.

As a fixture of anyio's pytest plugin, which checks synchronous tests as well:

    @pytest.fixture(autouse=True)
    async def no_leaks(anyio_backend):
        async with check_leaks():
            yield

The block itself failing is worse than what it leaves behind, so then nothing is checked.
"""

import asyncio
import faulthandler
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from outlast.testing.stack import describe

THREADS: Final = "outlast"
"""Threads with this at the start of their name are outlast's own, and end with what started them."""

TURNS: Final = 20
"""How often the loop turns before what is left counts as left: a cancelled task needs a turn for each `finally` that
waits, a closed transport one for its socket."""

_DESCRIPTORS: Final = Path("/proc/self/fd")  # where there is no such folder, descriptors are not checked

# anyio's plugin drives each step of a test, the end of a fixture too, by a new task of its own.
_DRIVER: Final = "TestRunner._call_in_runner_task"


class Leak(AssertionError):
    """Something was left behind; the text names it and draws where it stands."""


def check_leaks() -> "LeakCheck":
    """Fail when a block leaves tasks of the running loop, threads named `outlast…` or open files behind.

    Use it with `async with`, where what is about to end gets a bounded number of the loop's turns to do so, or with
    `with`. Open files are known on Linux alone; an open SQLite database is one, unless it is in memory. Raises Leak.
    """
    return LeakCheck()


class LeakCheck:
    """What was alive before a block, to compare with what is alive after it."""

    def __enter__(self) -> Self:
        self._before = _look()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None and (left := list(self._left())):
            raise Leak("\n\n".join([f"{len(left)} left behind", *left]))

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for _ in range(TURNS):
            if not any(self._left()):
                break
            await asyncio.sleep(0)
        self.__exit__(kind, error, at)

    def _left(self) -> Iterator[str]:
        return _look().beyond(self._before)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Alive:
    """What is alive at one moment; files by their identity, since a name may change, with their descriptors."""

    tasks: frozenset[asyncio.Task[Any]]
    threads: frozenset[threading.Thread]
    files: dict[tuple[int, int], list[str]]

    def beyond(self, before: "_Alive") -> Iterator[str]:
        """Describe what has come since."""
        for task in sorted(self.tasks - before.tasks, key=lambda task: task.get_name()):
            yield describe(task)
        for thread in sorted(self.threads - before.threads, key=lambda thread: thread.name):
            yield _describe(thread)
        for file, descriptors in self.files.items():
            yield from descriptors[len(before.files.get(file, ())) :]


def _look() -> _Alive:
    return _Alive(
        tasks=frozenset(_tasks()),
        threads=frozenset(thread for thread in threading.enumerate() if thread.name.startswith(THREADS)),
        files=_files(),
    )


def _tasks() -> Iterator[asyncio.Task[Any]]:
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # no loop, no tasks
        return
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        if getattr(task.get_coro(), "__qualname__", None) != _DRIVER:
            yield task


def _files() -> dict[tuple[int, int], list[str]]:
    files: dict[tuple[int, int], list[str]] = {}
    for descriptor in sorted(_DESCRIPTORS.iterdir() if _DESCRIPTORS.is_dir() else (), key=lambda path: int(path.name)):
        with suppress(FileNotFoundError):  # the descriptor that listed the folder, closed by now
            status, target = descriptor.stat(), descriptor.readlink()
            files.setdefault((status.st_dev, status.st_ino), []).append(f"file descriptor {descriptor.name}: {target}")
    return files


def _describe(thread: threading.Thread) -> str:
    # Walking the frames of a thread that runs can crash Python 3.11; faulthandler draws them while nothing runs.
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        stacks = file.read().split("\n\n")
    stack = next((stack for stack in stacks if f"Thread 0x{thread.ident:016x}" in stack), "\n  its end")
    _, _, frames = stack.partition("\n")
    return f"thread {thread.name!r} at\n{frames}"
