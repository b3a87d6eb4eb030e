"""What to do while other processes hold the file's lock: try again soon, a little later each time, and not for ever."""

import asyncio
import random
from collections.abc import Callable
from typing import Final, TypeVar

from outlast.backoff import delay
from outlast.stores.sqlite.connection import is_busy, translate

T = TypeVar("T")

BUSY_LIMIT: Final = 5.0
"""Seconds: a hundred times what eight busy writers need, and well within a lease."""
BASE: Final = 0.001
"""Seconds before the second try: about as long as one group commit takes."""
CAP: Final = 0.05
"""Seconds between two tries at most: below what a reader notices."""

_jitter = random.random


def pause(attempt: int) -> float:
    """Return the seconds to wait after the `attempt`th refusal, from 1."""
    return delay(attempt, base=BASE, cap=CAP, jitter=_jitter())


async def patiently(work: Callable[[], T]) -> T:
    """Return what `work` returns, trying again while the file is locked; it must be harmless to repeat.

    Raises SQLite's errors as ours, `StoreBusy` after `BUSY_LIMIT` seconds.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + BUSY_LIMIT
    attempt = 0
    while True:
        try:
            return work()
        except Exception as error:
            if not is_busy(error) or loop.time() >= deadline:
                raise translate(error) from error
        attempt += 1
        await asyncio.sleep(pause(attempt))
