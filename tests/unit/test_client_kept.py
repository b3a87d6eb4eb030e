"""A client that keeps: where its follows go on, and what is left when it is closed."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from outlast.client.client import Client
from outlast.client.connect import connect
from outlast.client.received import ReceivedEvent
from outlast.errors import InputInvalid, RunGone, RunNotFound, StoreCorrupt
from outlast.stores.sqlite.keep import Keep
from outlast.testing.peer import Answer, Asked, Hold, ScriptedPeer
from tests.answers import GREETING
from tests.disk import names

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

LAST = 9


def frame(seq: int) -> bytes:
    return b'event: %b\nid: %d\ndata: {"number": %d}\n\n' % (b"run.completed" if seq == LAST else b"text", seq, seq)


class Server:
    """Holds a run of nine events, and tells what follows a cursor; behind its end there is nothing (204)."""

    def __init__(self) -> None:
        self.asked_after: list[int] = []
        self.upto = LAST
        self.refusal: Answer | None = None

    def __call__(self, asked: Asked) -> Answer:
        if asked.path.endswith("/session"):
            return GREETING
        if self.refusal is not None:
            return self.refusal
        after = int(asked.headers.get("last-event-id", "0").split("-")[0])
        self.asked_after.append(after)
        if after == LAST:
            return Answer(status=204)
        body = [frame(seq) for seq in range(after + 1, self.upto + 1)]
        return Answer(body=body if self.upto == LAST else [*body, Hold()])


@asynccontextmanager
async def client_of(server: Server, path: Path) -> AsyncIterator[Client]:
    async with ScriptedPeer(server) as peer, connect(peer.url, keep=Keep(path / "client.db", server="chat")) as client:
        yield client


async def take(client: Client, count: int = LAST) -> list[int]:
    """Take so many events: the last of them is had, and not come back for."""
    taken: list[int] = []
    async with aclosing(client.follow("r1")) as following:
        async for received in following:
            taken.append(received.cursor.seq)
            if len(taken) == count:
                break
    return taken


@pytest.mark.behaviour("R3")
async def test_a_follow_goes_on_behind_what_was_taken_in_a_client_before(tmp_path: Path) -> None:
    server = Server()
    async with client_of(server, tmp_path) as client:
        assert await take(client, 3) == [1, 2, 3]
        assert await take(client, 2) == [3, 4]  # nobody came back for the third
    async with client_of(server, tmp_path) as client:
        assert await take(client) == [4, 5, 6, 7, 8, 9]
    assert server.asked_after == [0, 2, 3]


@pytest.mark.behaviour("R3")
@pytest.mark.case(13)
async def test_what_its_reader_failed_at_comes_again(tmp_path: Path) -> None:
    server, seen = Server(), list[int]()

    async def read(client: Client, *, failing: bool) -> None:
        async with aclosing(client.follow("r1")) as following:
            async for received in following:
                seen.append(received.cursor.seq)
                if failing and received.cursor.seq == 7:
                    raise ValueError("as an application may")

    async with client_of(server, tmp_path) as client:
        with pytest.raises(ValueError, match="as an application may"):
            await read(client, failing=True)
    async with client_of(server, tmp_path) as client:
        await read(client, failing=False)
    assert seen == [1, 2, 3, 4, 5, 6, 7, 7, 8, 9]


@pytest.mark.behaviour("R3")
@pytest.mark.parametrize("while_", ["handling", "waiting"])
async def test_cancelling_a_reader_moves_no_place(tmp_path: Path, while_: str) -> None:
    server = Server()
    server.upto = 5
    reached = asyncio.Event()

    async def read(client: Client) -> None:
        async for received in client.follow("r1"):
            if received.cursor.seq == 5:
                reached.set()
                if while_ == "handling":
                    await asyncio.Event().wait()

    async with client_of(server, tmp_path) as client:
        reading = asyncio.create_task(read(client))
        await reached.wait()
        await asyncio.sleep(1)
        reading.cancel()
        await asyncio.wait([reading])
    server.upto = LAST
    async with client_of(server, tmp_path) as client:
        assert await take(client) == ([5, 6, 7, 8, 9] if while_ == "handling" else [6, 7, 8, 9])


async def test_a_run_that_was_taken_to_its_end_tells_nothing_more_unless_asked_from_a_place(tmp_path: Path) -> None:
    server = Server()
    async with client_of(server, tmp_path) as client:
        assert [received.cursor.seq async for received in client.follow("r1")] == list(range(1, 10))
        assert [received async for received in client.follow("r1")] == []
        assert len([received async for received in client.follow("r1", after="")]) == LAST
        assert len([received async for received in client.follow("r1", after="7")]) == 2
        assert [received async for received in client.follow("r1")] == []


@pytest.mark.parametrize(("status", "code", "kind"), [(410, "run_gone", RunGone), (404, "run_not_found", RunNotFound)])
async def test_the_place_in_a_run_that_is_gone_is_forgotten(
    tmp_path: Path, status: int, code: str, kind: type[Exception]
) -> None:
    server = Server()
    async with client_of(server, tmp_path) as client:
        await take(client, 3)
        server.refusal = Answer(status=status, body=[b'{"code": "%b", "detail": "No."}' % code.encode()])
        with pytest.raises(kind):
            await take(client)
        server.refusal = None  # another run of the same name
        assert await take(client) == list(range(1, 10))


async def test_places_belong_to_a_url_where_the_server_has_no_name(tmp_path: Path) -> None:
    async with ScriptedPeer(Server()) as here, ScriptedPeer(Server()) as there:
        keep = Keep(tmp_path / "client.db")
        async with connect(here.url, keep=keep) as client, connect(there.url, keep=keep) as other:
            await take(client, 5)
            assert await take(other, 2) == [1, 2]
        async with connect([f"{here.url}/", there.url], keep=keep) as client:
            assert (await take(client, 1)) == [5]


async def test_a_file_that_cannot_be_kept_in_is_told_before_anything_is_begun(tmp_path: Path) -> None:
    (tmp_path / "client.db").write_text("no database " * 100)
    async with ScriptedPeer(Server()) as peer:
        with pytest.raises(StoreCorrupt, match="begin anew"):
            async with connect(peer.url, keep=Keep(tmp_path / "client.db")):
                raise AssertionError("it was not to begin")
        assert peer.asked == []


async def test_a_place_is_written_when_the_client_is_closed_under_its_reader(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    async with client_of(server, tmp_path) as client:
        following = client.follow("r1")
        assert [(await anext(following)).cursor.seq for _ in range(5)] == [1, 2, 3, 4, 5]
    async with client_of(server, tmp_path) as client:
        assert (await take(client, 1)) == [5]
    await following.aclose()
    assert caplog.records == []


@pytest.mark.parametrize("leaving", ["reader", "client"])
async def test_who_is_cancelled_while_others_have_the_file_locked_lets_go_of_everything(
    tmp_path: Path, leaving: str
) -> None:
    server = Server()
    server.upto = 5
    locked = asyncio.Event()

    async def live(client: AbstractAsyncContextManager[Client], other: sqlite3.Connection) -> None:
        async with client as here:
            following = here.follow("r1")
            assert [(await anext(following)).cursor.seq for _ in range(4)] == [1, 2, 3, 4]
            await asyncio.sleep(1)  # what moved is written
            other.execute("BEGIN IMMEDIATE")
            await anext(following)
            if leaving == "client":
                asyncio.get_running_loop().call_soon(locked.set)
                return
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await following.aclose()
            assert here.state.record.runs == {}, "nobody follows it any more"
            other.execute("ROLLBACK")
            locked.set()
            await asyncio.Event().wait()

    path = tmp_path / "client.db"
    async with ScriptedPeer(server) as peer:
        async with connect(peer.url, keep=Keep(path)):  # makes the file
            pass
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            living = asyncio.create_task(live(connect(peer.url, keep=Keep(path)), other))
            async with asyncio.timeout(60):
                await locked.wait()
            await asyncio.sleep(0.5)
            assert not living.done()
            living.cancel()
            await asyncio.wait([living])
            assert living.cancelled()


@pytest.mark.parametrize("kind", [str, Path])
async def test_a_mere_path_is_told_what_to_give_instead(tmp_path: Path, kind: Callable[[Path], Any]) -> None:
    with pytest.raises(InputInvalid, match=r'keep=outlast\.Keep\("client\.db"\)'):
        async with connect("http://127.0.0.1:1", keep=kind(tmp_path / "client.db")):
            raise AssertionError("it was not to begin")
    assert names(tmp_path) == []


async def test_a_closed_client_leaves_no_task_and_no_open_file(tmp_path: Path) -> None:
    async with client_of(Server(), tmp_path) as client:
        following = client.follow("r1")
        received = await anext(following)
        assert isinstance(received, ReceivedEvent)
        await client.outbox.start("chat", id="r2")
    assert {task.get_name() for task in asyncio.all_tasks()} & {"outlast places", "outlast outbox"} == set()
    assert not [name for name in names(tmp_path) if name.endswith(("-wal", "-shm"))]
    await following.aclose()


async def test_without_a_keep_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with ScriptedPeer(Server()) as peer, connect(peer.url) as client:
        assert await take(client, 3) == [1, 2, 3]
        assert await take(client, 3) == [1, 2, 3]
    assert names(tmp_path) == []
