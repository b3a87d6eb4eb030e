"""The reader model: what it takes and writes down, over connections that break."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from outlast.log.cursor import Cursor
from outlast.run import Run
from outlast.testing.cluster import Cluster
from outlast.testing.observation import EventTaken, GapTold, ReadingEnded
from outlast.testing.process import Process
from outlast.testing.reader import PATIENCE, ModelReader
from outlast.testing.worker import Emit, Return, ScriptedWorker, Work

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    worker = ScriptedWorker(lambda _call: [Emit("a"), Work(5), Emit("b"), Work(5), Return("c")])
    async with Cluster({"chat": worker}) as cluster:
        yield cluster


async def settled(cluster: Cluster) -> Run:
    await cluster.join("a")
    run = await cluster.start("chat", "r1")
    await cluster.outcome("r1", within=20)
    return run


def seqs(reader: ModelReader) -> list[int]:
    return [stored.seq for stored in reader.taken]


@pytest.mark.parametrize("through", ["log", "stream"])
async def test_it_follows_over_cut_connections_and_takes_each_event_once(cluster: Cluster, through: str) -> None:
    member = await cluster.join("a")
    run = await cluster.start("chat", "r1")
    reader = cluster.reader("reader", run)
    connections = 0
    while not reader.ended:
        connections += 1
        try:
            async with asyncio.timeout(3):
                if through == "log":
                    await reader.follow_log(cluster.store.logs)
                else:
                    await reader.follow_stream(member.process, member.response(run, reader.cursor))
        except TimeoutError:
            continue
    assert connections == 4
    assert seqs(reader) == [1, 2, 3, 4]
    assert [each.durable for each in cluster.history.of(EventTaken)] == [True] * 4
    assert len(list(cluster.history.of(ReadingEnded))) == 1


@pytest.mark.parametrize("through", ["log", "stream"])
async def test_it_goes_on_where_a_gap_tells_it_to(cluster: Cluster, through: str) -> None:
    run = await settled(cluster)
    reader = cluster.reader("reader", run)
    reader.cursor = Cursor(3, bytes(8))
    (member,) = cluster.members
    if through == "log":
        await reader.follow_log(cluster.store.logs)
    else:
        await reader.follow_stream(member.process, member.response(run, reader.cursor))
    (told,) = cluster.history.of(GapTold)
    assert (told.gap.reason.value, told.gap.requested, told.gap.first) == ("mismatch", Cursor(3, bytes(8)), 1)
    assert seqs(reader) == [1, 2, 3, 4]
    assert reader.ended


async def test_it_writes_down_what_the_store_does_not_hold(cluster: Cluster) -> None:
    run = await settled(cluster)
    nothing: Any = Nothing()
    liar = ModelReader("liar", run, nothing, note=cluster.history.note)
    await liar.follow_log(cluster.store.logs)
    assert [each.durable for each in cluster.history.of(EventTaken)] == [False] * 4


class Nothing:
    """A log store that holds nothing."""

    async def chain_at(self, log: str, seq: int) -> bytes | None:
        return None


async def test_a_silent_server_is_given_up_and_a_dead_one_at_once(cluster: Cluster) -> None:
    run = await settled(cluster)
    reader, loop = cluster.reader("reader", run), asyncio.get_running_loop()

    async def silent(_scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()

    server = Process("server")
    began_at = loop.time()
    await reader.follow_stream(server, silent)
    assert loop.time() == began_at + PATIENCE
    loop.call_later(1, server.kill)
    await reader.follow_stream(server, silent)
    assert loop.time() == began_at + PATIENCE + 1
    await server.gone()
    assert not reader.ended


async def test_a_response_that_fails_is_a_connection_that_ends(cluster: Cluster) -> None:
    run = await settled(cluster)
    reader, server = cluster.reader("reader", run), Process("server")

    async def failing(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise ValueError("broken")

    await reader.follow_stream(server, failing)
    assert not reader.taken
