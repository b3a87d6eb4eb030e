"""Draws where a suspended task stands: from its own coroutine down to what it awaits at last."""

import asyncio
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

DEPTH: Final = 6
"""The innermost frames tell what a task waits for; above them are the frames of test runners."""


def describe(task: asyncio.Task[Any]) -> str:
    """Name a task and draw the innermost frames of its stack, the last line the innermost."""
    frames = traceback.StackSummary.extract(iter(list(_suspended(task))[-DEPTH:]))
    return f"task {task.get_name()!r} waits in\n{''.join(frames.format())}"


def _suspended(task: asyncio.Task[Any]) -> Iterator[tuple[FrameType, int]]:
    # `Task.get_stack` shows the outermost coroutine alone. What it awaits is an attribute of it,
    # named after its kind: coroutine, async generator, generator.
    awaited: object = task.get_coro()
    while awaited is not None:
        frame = _either(awaited, "cr_frame", "ag_frame", "gi_frame")
        if isinstance(frame, FrameType):
            yield frame, frame.f_lineno
        awaited = _either(awaited, "cr_await", "ag_await", "gi_yieldfrom")


def _either(awaited: object, *names: str) -> object:
    return next((getattr(awaited, name) for name in names if hasattr(awaited, name)), None)
