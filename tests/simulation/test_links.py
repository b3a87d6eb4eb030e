"""What becomes of a link and its streams while another one is made, and of the bytes that an application leaves."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import httpx2
import pytest

from outlast.client.client import Client
from outlast.errors import Unanswered
from outlast.log.cursor import Cursor
from outlast.supervision.phase import Phase
from tests.integration.stream import LOG
from tests.simulation.courier import SETTLED, Courier, Written, log_of

pytestmark = [pytest.mark.anyio]

WRITTEN = Written(LOG)


class Node(Courier):
    """Says an event every second, and is there, or answers, when a gate is open; `fault` is what it says instead."""

    def __init__(self) -> None:
        super().__init__(self._say)
        self.gate = asyncio.Event()
        self.gate.set()
        self.answering = asyncio.Event()
        self.fault: Exception | None = None

    async def greet(self) -> None:
        await self._pass(self.gate)

    async def answer(self) -> None:
        await self._pass(self.answering)

    async def _pass(self, gate: asyncio.Event) -> None:
        await gate.wait()
        if self.fault is not None:
            raise self.fault

    async def _say(self, cursor: Cursor) -> AsyncGenerator[bytes, None]:
        yield WRITTEN.hello
        for frame in WRITTEN.frames[cursor.seq :]:
            yield frame
            await asyncio.sleep(1.0)


async def read(client: Client, taken: list[int]) -> None:
    async with aclosing(client.follow("run")) as events:
        async for received in events:
            taken.append(received.cursor.seq)  # noqa: PERF401 - one by one, as they come


async def ask(client: Client, late: Exception | None) -> None:
    if late is None:
        assert await client.status("run") == {}
        return
    with pytest.raises(Unanswered):
        await client.status("run")


async def until(client: Client, *phases: Phase) -> None:
    while client.state.record.link.phase not in phases:
        await client.state.changed()
    await asyncio.sleep(SETTLED)


@pytest.mark.behaviour("R1")
async def test_a_link_delivers_until_the_next_one_is_there_and_a_failed_one_costs_it_nothing() -> None:
    node, taken = Node(), list[int]()
    async with node.connect() as client, asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(read(client, taken))
        await asyncio.sleep(5.5)
        node.gate.clear()
        client.wakeup("user")
        await until(client, Phase.SWITCHING)
        assert (taken, len(node.links), node.open) == ([1, 2, 3, 4, 5, 6], 2, 1)
        await asyncio.sleep(5.0)
        assert taken == list(range(1, 12)), "the old link delivers"
        node.fault = httpx2.ConnectError("away")
        node.gate.set()
        await until(client, Phase.LIVE)
        assert (client.state.record.link.generation, len(node.links), len(node.cursors)) == (1, 1, 1)
        await asyncio.sleep(5.0)
        assert taken == list(range(1, 17)), "and goes on delivering"
        node.fault = None
        client.wakeup("user")
        while client.state.record.link.generation == 1:
            await client.state.changed()
        await asyncio.sleep(SETTLED)
        assert (len(node.links), node.open, node.most) == (1, 1, 2)
        await reading
    assert taken == list(range(1, len(LOG) + 1))
    assert [cursor.seq for cursor in node.cursors] == [0, 16]


@pytest.mark.behaviour("R5", "P11")
@pytest.mark.parametrize("late", [None, httpx2.ReadError("closed late")], ids=["an answer", "a close"])
async def test_what_an_old_link_says_late_changes_nothing(late: Exception | None) -> None:
    node, taken = Node(), list[int]()
    async with node.connect() as client, asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(read(client, taken))
        await asyncio.sleep(1.5)
        asking = tasks.create_task(ask(client, late))
        await asyncio.sleep(1.0)
        client.wakeup("user")
        while client.state.record.link.generation == 1:
            await client.state.changed()
        before = client.state.record.link
        node.fault = late
        node.answering.set()
        await asking
        node.fault = None
        await asyncio.sleep(SETTLED)
        after = client.state.record.link
        assert (after.phase, after.generation, after.since) == (Phase.LIVE, 2, before.since)
        await reading
    assert taken == list(range(1, len(LOG) + 1))
    assert len(node.cursors) == 2


PIECE = 4 * 1024
LONG = log_of(5000)
SAID = Written(LONG)


@pytest.mark.behaviour("R9")
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a quick one"])
async def test_what_an_application_leaves_stays_with_the_server_and_costs_no_connection_and_no_event(
    *, beside: bool
) -> None:
    """What was taken from the server, and not by the application, is a piece of the stream, and what may be shared."""
    streams: list[int] = []

    async def stream(cursor: Cursor) -> AsyncGenerator[bytes, None]:
        said, place = SAID.after(cursor.seq), len(streams)
        streams.append(SAID.borders[cursor.seq])
        for start in range(0, len(said), PIECE):
            streams[place] += PIECE
            yield said[start : start + PIECE]

    async def read_slowly() -> int:
        count = 0
        async with aclosing(client.follow("run")) as events:
            async for received in events:
                count += 1
                if count % 500 == 1:
                    await asyncio.sleep(600.0)
                    held = streams[-1] - SAID.borders[received.cursor.seq]
                    assert held <= 2 * PIECE or beside
        return count

    async def read_quickly() -> int:
        async with aclosing(client.follow("run")) as events:
            count = len([received async for received in events])
        assert asyncio.get_running_loop().time() == 0.0, "nobody waits for another"
        return count

    courier = Courier(stream)
    async with courier.connect() as client:
        readers = [read_quickly(), read_slowly()] if beside else [read_slowly()]
        assert await asyncio.gather(*readers) == [len(LONG)] * len(readers)
        assert client.state.record.link.generation == 1
        assert len(courier.cursors) <= len(readers)
