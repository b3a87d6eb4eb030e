"""A suspended task is drawn down to what it waits for."""

import asyncio
from collections.abc import AsyncIterator, Generator
from types import coroutine
from typing import Any

import pytest

from outlast.testing.stack import DEPTH, describe

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


async def drawn(awaited: Any, name: str = "the-reader") -> str:
    task = asyncio.create_task(awaited, name=name)
    await asyncio.sleep(0)
    text = describe(task)
    task.cancel()
    await asyncio.wait([task])
    return text


async def innermost() -> None:
    await asyncio.Event().wait()


async def middle() -> None:
    await innermost()


async def outermost() -> None:
    await middle()


async def test_every_coroutine_is_followed_from_the_task_to_what_it_waits_for() -> None:
    text = await drawn(outermost())
    assert text.startswith("task 'the-reader' waits in\n")
    places = [text.index(f"in {name}\n") for name in ("outermost", "middle", "innermost", "wait")]
    assert places == sorted(places)


async def test_only_the_innermost_frames_are_drawn() -> None:
    async def nested(depth: int) -> None:
        await (nested(depth - 1) if depth else innermost())

    text = await drawn(nested(50))
    assert "in innermost\n" in text
    assert f"[Previous line repeated {DEPTH - 5} more time]" in text  # two frames are others, three are written out


async def test_a_generator_in_between_is_followed_too() -> None:
    @coroutine
    def between() -> Generator[Any, None, None]:
        yield from innermost().__await__()

    async def outer() -> None:
        await between()

    text = await drawn(outer())
    assert "in between\n" in text


async def test_a_task_that_iterates_is_drawn_where_it_does() -> None:
    async def events() -> AsyncIterator[int]:
        yield 1
        await innermost()

    async def read() -> None:
        async for _ in events():
            pass

    assert "in read\n    async for _ in events():" in await drawn(read())


async def test_a_task_that_has_not_begun_is_drawn_at_its_beginning() -> None:
    task = asyncio.create_task(outermost())
    text = describe(task)
    task.cancel()
    await asyncio.wait([task])
    assert "in outermost\n" in text


async def test_a_task_that_has_ended_is_only_named() -> None:
    task = asyncio.create_task(asyncio.sleep(0), name="the-reader")
    await task
    assert describe(task) == "task 'the-reader' waits in\n"
