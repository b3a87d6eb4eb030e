import asyncio
from typing import Any

import pytest

from outlast.server.readers.room import Room

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


async def test_a_room_is_emptied_when_the_last_one_has_left() -> None:
    nobody: Any = None
    first, second = Guest(), Guest()
    room = Room(logs=nobody, report=nobody, jitter=lambda: 0.5)
    room.readers = {first: None, second: None}
    emptied = asyncio.create_task(room.emptied())
    room.leave(first)
    room.leave(first)
    await asyncio.sleep(1)
    assert not emptied.done()
    room.leave(second)
    await emptied


class Guest:
    sending_since: float | None = None

    def wake(self) -> None: ...

    def drop(self) -> None: ...
