"""Clients that die for real, by `kill -9`, and go on in their next process: nothing missed, nothing started twice."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from outlast import Cursor, Keep, Send
from outlast.place import Place
from tests.disk import behind
from tests.integration.programs import House, Program, free_port, house, program
from tests.integration.readers import start

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

PROLOGUE = """
import asyncio, os, signal, sys
from contextlib import suppress
import outlast

class Doomed(outlast.Keep):
    '''Kills its process around the n-th call of an operation: `settle:before:3`.'''

    def __init__(self, path, death):
        super().__init__(path, server="chat")
        self.operation, self.side, number = death.split(":")
        self.left = int(number)

    async def doomed(self, operation, call):
        self.left -= operation == self.operation
        dies = operation == self.operation and self.left == 0
        if dies and self.side == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await call
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    async def mark_sent(self, send):
        return await self.doomed("mark_sent", super().mark_sent(send))

    async def settle(self, server, send, *, code):
        return await self.doomed("settle", super().settle(server, send, code=code))

def connect(death="nothing:after:0"):
    return outlast.connect(sys.argv[1], keep=Doomed("client.db", death), hints=False)
"""
FOLLOWING = """
async def main():
    async with connect() as client:
        async for received in client.follow("r1"):
            print(received.cursor.seq, flush=True)
            if received.cursor.seq == int(sys.argv[2]):
                os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
SENDING = """
async def main():
    async with connect(sys.argv[2]) as client:
        sends = [await client.outbox.start("paced", 1, id=each) for each in sys.argv[3:]]
        print("kept", flush=True)
        for send in sends:
            settled = await client.outbox.settled(send)
            print(settled.run, settled.state, flush=True)
asyncio.run(main())
"""
QUEUEING = """
async def main():
    async with connect() as client:
        for each in sys.argv[3:]:
            await client.outbox.start("paced", 1, id=each)
        print("kept", flush=True)
asyncio.run(main())
"""


def client(folder: Path, source: str, *arguments: str) -> AbstractAsyncContextManager[Program]:
    return program(folder, "-c", PROLOGUE + source, *arguments)


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path) as built:
        yield built


async def kept(folder: Path) -> tuple[int, list[Send]]:
    """Return what is in the client's file: the place in the run, and all sends."""
    keep = Keep(folder / "client.db")
    await keep.open()
    place = await keep.place("chat", Place(run="r1", owner=None, types=None, cursor=Cursor(0, None)))
    sends = [*await keep.sends("chat")]
    await keep.close()
    return (0 if place is None else place.cursor.seq), sends


async def runs(server: Program) -> dict[str, dict[str, Any]]:
    """Return the status document of every run there is."""
    async with httpx2.AsyncClient() as http:
        listed = (await http.get(f"{server.url}/runs?limit=200")).json()["runs"]
    assert len({run["id"] for run in listed}) == len(listed)
    return {run["id"]: run for run in listed}


@pytest.mark.behaviour("R3")
async def test_a_reader_that_is_killed_again_and_again_misses_nothing_and_repeats_little(
    servers: House, tmp_path: Path
) -> None:
    server = await servers.serve()
    await start(server, "paced", 300, id="r1")
    taken = list[int]()
    for last in (1, 40, 41, 170, 302):
        place, _ = await kept(tmp_path)
        assert place <= max(taken, default=0)
        async with client(tmp_path, FOLLOWING, server.url, str(last) if last < 302 else "0") as reader:
            assert (await reader.end() == 0) is (last == 302)
        mine = [int(seq) for seq in reader.said.split()]
        assert mine == list(range(place + 1, last + 1))
        taken += mine
    assert sorted(set(taken)) == list(range(1, 303))
    assert (await kept(tmp_path))[0] == 302


@pytest.mark.behaviour("R11")
async def test_an_outbox_that_is_killed_at_every_moment_starts_each_run_once(servers: House, tmp_path: Path) -> None:
    server = await servers.serve()
    names = [f"m{number}" for number in range(6)]
    for death in ("mark_sent:before:1", "mark_sent:after:2", "settle:before:2", "settle:after:1"):
        async with client(tmp_path, SENDING, server.url, death, *names) as sender:
            assert await sender.end() < 0
    _, sends = await kept(tmp_path)
    assert [send.run for send in sends] == names
    assert [send.state for send in sends] == ["accepted"] * 3 + ["queued"] * 3
    assert sum(send.tries for send in sends) > 3
    async with client(tmp_path, SENDING, server.url, "nothing:after:0", *names) as sender:
        assert await sender.end() == 0
        assert sender.said.split() == ["kept", *(word for name in names for word in (name, "accepted"))]
    found = await runs(server)
    assert found.keys() == set(names)
    with behind(tmp_path / "client.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


@pytest.mark.behaviour("R11")
async def test_two_processes_on_one_file_send_each_start_once(servers: House, tmp_path: Path) -> None:
    server = await servers.serve()
    mine, yours, ours = ([f"{who}{number}" for number in range(10)] for who in ("mine-", "yours-", "ours-"))
    async with (
        client(tmp_path, SENDING, server.url, "nothing:after:0", *mine, *ours) as one,
        client(tmp_path, SENDING, server.url, "nothing:after:0", *yours, *ours) as other,
    ):
        assert await asyncio.gather(one.end(), other.end()) == [0, 0]
    _, sends = await kept(tmp_path)
    assert {(send.run, send.state) for send in sends} == {(run, "accepted") for run in (*mine, *yours, *ours)}
    assert sum(send.tries for send in sends) <= len(sends) + 1  # one may be cut off where the first process ends
    assert (await runs(server)).keys() == {*mine, *yours, *ours}


@pytest.mark.behaviour("R11")
async def test_what_was_queued_while_its_server_was_away_is_sent_by_the_next_process(
    servers: House, tmp_path: Path
) -> None:
    port = free_port()
    async with client(tmp_path, QUEUEING, f"http://127.0.0.1:{port}", "", "m1", "m2") as first:
        assert await first.end() == 0
    assert [(send.state, send.tries) for send in (await kept(tmp_path))[1]] == [("queued", 0)] * 2
    server = await servers.serve(port=port)
    async with client(tmp_path, SENDING, server.url, "nothing:after:0", "m3") as second:
        assert await second.end() == 0
    assert (await runs(server)).keys() == {"m1", "m2", "m3"}
    _, sends = await kept(tmp_path)
    assert [(send.run, send.state) for send in sends] == [(run, "accepted") for run in ("m1", "m2", "m3")]
