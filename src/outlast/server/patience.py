"""Keep asking a store that does not answer: what was asked may have happened, and only an answer decides."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from outlast.backoff import delay
from outlast.errors import StoreUnavailable
from outlast.facts import StoreTroubled
from outlast.server.conditions import Conditions

T = TypeVar("T")

BASE: Final = 0.05
"""Seconds before the second try: a busy file is free again in milliseconds."""
CAP: Final = 1.0
"""Seconds between tries at most, so that work goes on within a second of the store's return."""


async def insist(operation: Callable[[], Awaitable[T]], *, during: str, conditions: Conditions) -> T:
    """Repeat `operation` until the store answers it, and return or raise that answer.

    Only for operations that recognise their own earlier work (promise 4 of `stores.base`). There is no deadline: the
    caller's node ends this wait when it ends. Reported once per trouble. Source: H8, H18, H21.
    """
    attempt = 0
    while True:
        try:
            return await operation()
        except StoreUnavailable as error:
            attempt += 1
            if attempt == 1:
                conditions.report(StoreTroubled(during=during, error=error.code))
        await asyncio.sleep(delay(attempt, base=BASE, cap=CAP, jitter=conditions.jitter()))
