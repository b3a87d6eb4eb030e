"""Giants: a burst of ten thousand events, and a room of readers that wait or take nothing."""

import asyncio
import gc
import math
import tracemalloc
from typing import Any

import pytest

from outlast.log.cursor import Cursor
from outlast.server.readers.place import locate
from outlast.testing.cluster import Cluster
from outlast.testing.invariants import check
from outlast.testing.worker import Return, Say, ScriptedWorker
from tests.stage import site, staged

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

IDLE_BYTES = 32 * 1024
STALLED_BYTES = 128 * 1024
HIGH_WATER = 64 * 1024  # bytes that a server lets pile up before it makes its application wait


@pytest.mark.fault("X14")
@pytest.mark.parametrize("size", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
async def test_events_in_a_burst_are_stored_in_groups_and_seen_once_by_every_reader(size: int) -> None:
    worker = ScriptedWorker(lambda _call: [*(Say(str(number)) for number in range(size)), Return(1)])
    operations: list[str] = []
    async with Cluster({"chat": worker}) as cluster:
        member = await cluster.join("a")
        member.store.on_operation = lambda operation, _arguments: operations.append(operation)
        run = await cluster.start("chat", "r1")
        reading = [
            asyncio.create_task(cluster.reader(f"reader-{n}", run).follow_log(cluster.store.logs)) for n in range(3)
        ]
        await cluster.outcome("r1", within=5)
        await asyncio.gather(*reading)
        log = await cluster.log(run)
        check(await cluster.finish())
    assert [each.event.data for each in log if each.event.type == "text"] == [str(number) for number in range(size)]
    assert operations.count("append") <= size // 20


class Client:
    """A client that holds nothing of what it takes; `takes` is how many bytes it takes before it takes no more.

    What it has not taken is held for it, as a server holds it.
    """

    def __init__(self, left: asyncio.Event, *, takes: float) -> None:
        self.left = left
        self.takes = takes
        self.held: list[bytes] = []
        self.bytes = 0

    async def receive(self) -> Any:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        body = message.get("body", b"")
        self.takes -= len(body)
        if self.takes >= 0:
            return
        self.held.append(body)
        self.bytes += len(body)
        if self.bytes >= HIGH_WATER:
            await self.left.wait()


@pytest.mark.behaviour("F13")
@pytest.mark.fault("X14")
@pytest.mark.parametrize(
    ("idle", "stalled"),
    [(200, 40), pytest.param(1000, 200, marks=pytest.mark.long)],
)
async def test_idle_and_stalled_readers_keep_to_their_memory(idle: int, stalled: int) -> None:
    left = asyncio.Event()
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, *(f"{number} " * 100 for number in range(2000)))

        async def serve(client: Client, after: int) -> None:
            place = await locate(stage.store.logs, run.log, Cursor(after, None))
            await here.hub.reader(run, place)({"type": "http"}, client.receive, client.send)

        async def traced(tasks: asyncio.TaskGroup, count: int, *, after: int, takes: float) -> float:
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(count):
                tasks.create_task(serve(Client(left, takes=takes), after))
            await asyncio.sleep(15)
            gc.collect()
            return (tracemalloc.get_traced_memory()[0] - before) / count

        tracemalloc.start(1)
        try:
            async with asyncio.TaskGroup() as tasks:
                await traced(tasks, 1, after=2000, takes=math.inf)  # the first one brings the feed
                assert await traced(tasks, idle, after=2000, takes=math.inf) <= IDLE_BYTES
                assert await traced(tasks, stalled, after=0, takes=0) <= STALLED_BYTES
                assert here.hub.readers == 1 + idle + stalled
                left.set()
        finally:
            tracemalloc.stop()
