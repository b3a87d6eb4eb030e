"""Serves an application as `outlast serve` does, in the loop of the test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from outlast import Outlast
from outlast.cli.guard import Guard
from outlast.cli.listener import listen, resolve
from outlast.cli.serve import Server

LIMIT = 30.0
"""Real seconds until a test gives up; what it waits for comes in a fraction of them."""


@asynccontextmanager
async def served(outlast: Outlast, *, guard: type[Guard] = Guard) -> AsyncIterator[int]:
    """Yield the port at which the application is served until the end of the block."""
    listener = listen(resolve("127.0.0.1", 0))
    ready = asyncio.Event()

    async def greet() -> None:
        ready.set()

    server = Server(outlast, greet, guard=guard)
    with listener:
        async with outlast, asyncio.timeout(LIMIT):
            task = asyncio.create_task(server.serve(sockets=[listener]))
            await ready.wait()
            try:
                yield listener.getsockname()[1]
            finally:
                server.should_exit = True
                await task
