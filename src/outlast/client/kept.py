"""What a client has of what is kept for it, from when it connects until it is closed."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from os import PathLike

from outlast.client.keeper import Keeper
from outlast.client.outbox import Outbox
from outlast.client.places import Places
from outlast.client.supervisor import Supervisor
from outlast.errors import InputInvalid
from outlast.supervision.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The places of a client, its outbox where there is a keeper, and the numbers of whatever it asks of its server."""

    places: Places
    outbox: Outbox | None
    numbers: Iterator[int]


@asynccontextmanager
async def keeping(
    keeper: Keeper | None,
    url: str,
    supervisor: Supervisor,
    profile: Profile,
    *,
    jitter: Callable[[], float],
) -> AsyncGenerator[Kept, None]:
    """Open what keeps, and have it kept up for as long as the block lasts.

    Raises its `StoreError`s, and `InputInvalid` for the mere path of one.
    """
    if isinstance(keeper, str | PathLike):
        raise InputInvalid('A path alone keeps nothing: connect with `keep=outlast.Keep("client.db")`.')
    numbers = itertools.count(1)
    if keeper is None:
        yield Kept(places=Places(None, url), outbox=None, numbers=numbers)
        return
    server = keeper.server or url
    places = Places(keeper, server)
    outbox = Outbox(keeper, server, supervisor, profile, numbers=numbers, jitter=jitter)
    await keeper.open()
    tasks = [
        asyncio.create_task(places.run(), name="outlast places"),
        asyncio.create_task(outbox.run(), name="outlast outbox"),
    ]
    try:
        yield Kept(places=places, outbox=outbox, numbers=numbers)
    finally:
        for task in tasks:
            task.cancel()
        try:
            await asyncio.wait(tasks)  # they end at once: neither resists
            await places.end()
        finally:  # also where that is cancelled, since others may have the file locked
            await keeper.close()
