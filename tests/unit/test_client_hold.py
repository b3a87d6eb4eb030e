"""A connection is let go when its requests are over, for some seconds at most, and never more than two are there."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from outlast.client.hold import CLOSE_WITHIN, LINGER, Hold, let_go
from outlast.client.transport import Connection

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


class Closed:
    """A connection that remembers when it was closed."""

    def __init__(self) -> None:
        self.at: list[float] = []

    async def close(self) -> None:
        self.at.append(now())

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(name)


def now() -> float:
    return asyncio.get_running_loop().time()


def held(hold: Hold, number: int) -> Closed:
    closed = Closed()
    hold.take(number, cast("Connection", closed))
    return closed


async def leave(hold: Hold, number: int) -> None:
    parting = hold.leave(number)
    assert parting is not None
    await parting


async def test_one_without_requests_is_let_go_at_once_and_once() -> None:
    hold = Hold()
    closed = held(hold, 1)
    assert hold.get(1) is closed
    await leave(hold, 1)
    assert (closed.at, hold.get(1), hold.leave(1)) == ([0.0], None, None)


@pytest.mark.parametrize(("answered", "seconds"), [(3.0, 3.0), (LINGER + 5, LINGER)])
async def test_one_with_requests_is_let_go_when_they_are_over_or_have_had_their_time(
    answered: float, seconds: float
) -> None:
    hold = Hold()
    closed = held(hold, 1)
    with hold.using(1):
        pass  # one that is over before says nothing of the next
    with hold.using(1):
        parting = asyncio.create_task(leave(hold, 1))
        await asyncio.sleep(answered)
    await parting
    assert closed.at == [seconds]


async def test_the_last_of_several_requests_is_waited_for() -> None:
    hold = Hold()
    closed = held(hold, 1)
    with hold.using(1):
        with hold.using(1):
            parting = asyncio.create_task(leave(hold, 1))
            await asyncio.sleep(1)
        await asyncio.sleep(1)
        assert closed.at == []
    await parting
    assert closed.at == [2.0]


@pytest.mark.parametrize("makes_room", [lambda hold: hold.hurry(), lambda hold: hold.leave(2).close()])
async def test_it_makes_room_for_what_comes(makes_room: Callable[[Any], None]) -> None:
    hold = Hold()
    closed = held(hold, 1)
    held(hold, 2)
    with hold.using(1):
        parting = asyncio.create_task(leave(hold, 1))
        await asyncio.sleep(1)
        makes_room(hold)
        await parting
    assert closed.at == [1.0]


async def test_a_request_over_what_is_held_no_more_is_nobodys() -> None:
    hold = Hold()
    with hold.using(7):
        await hold.close()


async def test_in_the_end_everything_is_let_go_at_once() -> None:
    hold = Hold()
    both = [held(hold, number) for number in (1, 2)]
    with hold.using(1):
        await hold.close()
    assert [closed.at for closed in both] == [[0.0], [0.0]]


async def test_letting_go_takes_no_longer_than_it_may() -> None:
    class Stuck(Closed):
        async def close(self) -> None:
            await asyncio.Event().wait()

    await let_go(cast("Connection", Stuck()))
    assert now() == CLOSE_WITHIN
