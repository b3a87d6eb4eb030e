"""The command line as real processes, one beside the other."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_numbers = count(1)
PATIENCE = 60.0
"""Seconds a process may take for one line or its end: a hang shows as a failure with what was said before."""


class Program:
    """One process of `outlast`, its lines as they come, and what it wrote to standard error."""

    def __init__(self, process: asyncio.subprocess.Process, errors: Path) -> None:
        self.process = process
        self.said = ""
        self._errors = errors

    @property
    def errors(self) -> str:
        """What it wrote to standard error so far."""
        return self._errors.read_text(encoding="utf-8")

    @property
    def url(self) -> str:
        """Where it said it serves."""
        return next(word for word in self.said.split() if word.startswith("http"))

    def facts(self, name: str) -> list[str]:
        """Return the lines it logged about one kind of fact."""
        return [line for line in self.errors.splitlines() if f": {name} " in line]

    async def line(self) -> str:
        """Return its next line; `""` at its end."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = (await self.process.stdout.readline()).decode()
        self.said += line
        return line

    async def until(self, part: str) -> str:
        """Return the first line from here on that holds `part`."""
        while line := await self.line():
            if part in line:
                return line
        raise AssertionError(f"{part!r} was never said, but:\n{self.said}\n{self.errors}")

    async def end(self) -> int:
        """Wait for its end, and return its exit code; `said` is then everything it said."""
        while await self.line():
            pass
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    async def kill(self) -> None:
        """End it as the kernel's out-of-memory killer would."""
        self.signal(signal.SIGKILL)
        assert await self.end() == -signal.SIGKILL


def outlast(folder: Path, *arguments: str, **options: Any) -> AbstractAsyncContextManager[Program]:
    """Run `outlast` with these arguments in `folder`, like `program`."""
    return program(folder, "-m", "outlast", *arguments, **options)


@asynccontextmanager
async def program(
    folder: Path, *arguments: str, environ: Mapping[str, str] | None = None, **options: Any
) -> AsyncIterator[Program]:
    """Run Python with these arguments in `folder`, and leave nothing of it behind."""
    errors = folder / f"errors-{next(_numbers)}.txt"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
    with errors.open("w") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            cwd=folder,
            env={**inherited, "PYTHONPATH": str(ROOT), **(environ or {})},
            **{"stdout": asyncio.subprocess.PIPE, "stderr": stderr, "limit": 2**24, **options},
        )
    try:
        yield Program(process, errors)
    finally:
        if process.returncode is None:
            process.kill()
        if process.stdout is not None:
            await process.stdout.read()
        await process.wait()


@dataclass
class House:
    """Servers of the test application over one SQLite file."""

    folder: Path
    environ: Mapping[str, str]
    ends: AsyncExitStack

    async def serve(self, *, port: int = 0, death: str | None = None) -> Program:
        """Start one more server, at any free port unless it is named, and return it when it answers."""
        environ = {**self.environ, "OUTLAST_STORE": f"sqlite:///{self.folder}/runs.db", "TEST_DEATH": death or ""}
        arguments = ("serve", "tests.integration.application:outlast", "--port", str(port), "--verbose")
        server = await self.ends.enter_async_context(outlast(self.folder, *arguments, environ=environ))
        await server.until("http://")  # the line comes when requests are answered
        return server


@asynccontextmanager
async def house(folder: Path, **environ: str) -> AsyncIterator[House]:
    """Yield a house whose servers have these variables, and leave nothing of it behind."""
    async with AsyncExitStack() as ends:
        yield House(folder=folder, environ=environ, ends=ends)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
