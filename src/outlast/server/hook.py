"""Asks a function of the application, within a deadline, and takes whatever it does wrong for a refusal.

Rules:
1. A hook that raises or hangs has not agreed. A fact names the hook and the kind of error, never its text (W17, Z3).
2. A refusal of ours, or a plain HTTP status, is an answer and no accident: it passes.
3. A cancellation that nobody asked for is an error of the hook's: some task of its own was cancelled.
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final, TypeVar

from starlette.exceptions import HTTPException

from outlast.errors import HookFailed, Refusal
from outlast.facts import HookTroubled, Report

T = TypeVar("T")

WITHIN: Final = 10.0
"""Seconds a hook may take: it asks a database or a billing service; one that takes longer has not agreed."""


class Hook(StrEnum):
    """The functions of an application that decide something."""

    AUTHENTICATE = "authenticate"
    AUTHORIZE = "authorize"
    ADMIT = "admit"


async def ask(name: Hook, hook: Callable[[], Awaitable[T]], *, report: Report) -> T:
    """Return what the hook answers. Raises the `Refusal` or `HTTPException` it raises, else `HookFailed`."""
    task = asyncio.current_task()
    cancelled = 0 if task is None else task.cancelling()
    try:
        async with asyncio.timeout(WITHIN):
            return await hook()
    except (Refusal, HTTPException, GeneratorExit, KeyboardInterrupt):
        raise
    except asyncio.CancelledError as error:
        if task is None or task.cancelling() > cancelled:
            raise
        failed: BaseException = error
    except BaseException as error:  # noqa: BLE001 - code of the application: whatever it raises, it did not agree
        failed = error
    report(HookTroubled(hook=name, error=type(failed).__name__))
    raise HookFailed("The application could not decide about this; try again in a moment.")
