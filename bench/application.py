"""The application that is measured: workers as users write them."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, cast

from bench.record import PACE, say
from outlast import ActiveRun, Event, Outlast

outlast = Outlast()


@outlast.worker("burst")
async def burst(run: ActiveRun) -> AsyncIterator[str]:
    """Say known texts as fast as they are taken."""
    for number in range(asked(run)):
        yield say(number)


@outlast.worker("paced")
async def paced(run: ActiveRun) -> AsyncIterator[Event]:
    """Say when it is, again and again."""
    for number in range(asked(run)):
        await asyncio.sleep(PACE)
        yield Event("text", {"number": number, "at": time.monotonic_ns(), "text": say(number)})


def asked(run: ActiveRun) -> int:
    """Return how many events the run is to have."""
    return int(cast("Any", run.input)["events"])
