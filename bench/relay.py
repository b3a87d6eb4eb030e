"""Ours before a crowd: one run that says whatever is posted to the application beside it."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from starlette.types import ASGIApp

from bench.counting import CountedStore, Statements, told
from bench.record import say
from bench.stage import Stage, server
from outlast import ActiveRun, Event, Outlast
from outlast.stores.base import Store
from outlast.stores.sqlite import SQLiteStore

RUN = "crowd"
"""The id of the run that speaks."""


class Relay:
    """An `Outlast` with one run that speaks when it is told to, and runs that are only held."""

    def __init__(self, path: str, *, power: bool = False) -> None:
        self._statements = Statements()
        self._calls: Counter[str] = Counter()
        store = cast(
            "Store", CountedStore(SQLiteStore(Path(path), durability="power" if power else "process"), self._calls)
        )
        self.outlast = Outlast(store, readers_per_owner=100_000, readers_per_node=100_000)
        self.outlast.worker("speak")(self._speak)
        self.outlast.worker("hold")(self._hold)
        self._speaker: asyncio.Future[ActiveRun] = asyncio.get_running_loop().create_future()
        self._holding = 0
        self._held = asyncio.Event()

    async def begin(self, *, held: int = 0) -> None:
        """Start the run that speaks, and so many that are held."""
        await self.outlast.start("speak", id=RUN)
        await self._speaker
        for number in range(held):
            await self.outlast.start("hold", id=f"held{number}")
        while self._holding < held:
            self._held.clear()
            await self._held.wait()

    async def say(self, first: int, events: int) -> None:
        """Say texts, one batch of them, and return when they are durable."""
        speaker = await self._speaker
        for number in range(first, first + events - 1):
            await speaker.say(Event("text", say(number)))
        await speaker.emit(Event("text", say(first + events - 1)))

    async def take(self, text: str) -> None:
        """Say one text, and return when it is durable."""
        speaker = await self._speaker
        await speaker.emit(Event("text", text))

    def count(self) -> Mapping[str, float]:
        """Return what the store was asked so far."""
        return told(self._calls, self._statements)

    async def _speak(self, run: ActiveRun) -> None:
        self._speaker.set_result(run)
        await asyncio.Event().wait()

    async def _hold(self, _run: ActiveRun) -> None:
        self._holding += 1
        self._held.set()
        await asyncio.Event().wait()


@asynccontextmanager
async def relayed(path: str, *options: str) -> AsyncIterator[ASGIApp]:
    """Run it all from the file at `path`; `held=N` has so many runs beside, `power` waits for the disk."""
    relay = Relay(path, power="power" in options)
    held = sum(int(option.removeprefix("held=")) for option in options if option.startswith("held="))
    async with relay.outlast:
        await relay.begin(held=held)
        yield Stage(relay.outlast.app, relay.say, taking=relay.take, telling={"/count": relay.count})


async def main(*arguments: str) -> None:
    """Serve until killed."""
    async with relayed(*arguments) as application:
        await server(application).serve()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
