"""One life of an `Outlast`: what is left of it when its beginning is cut short."""

import asyncio
import threading
from pathlib import Path

import pytest

from outlast import Outlast

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("turns", range(12))
async def test_a_start_that_is_cancelled_leaves_nothing_running(tmp_path: Path, turns: int) -> None:
    outlast = Outlast(f"sqlite:///{tmp_path}/runs.db")
    before = asyncio.all_tasks()

    async def live() -> None:
        async with outlast:
            await asyncio.Event().wait()

    starting = asyncio.create_task(live())
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert asyncio.all_tasks() == before
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("outlast")] == []
    async with outlast:  # and it can begin again
        pass
