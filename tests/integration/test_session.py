"""Sessions on real servers, with a client that many use: who may open one, what comes, and what the server holds."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from websockets.exceptions import ConnectionClosed, InvalidStatus

from outlast import ActiveRun, Outlast
from outlast.cli.line import Line
from outlast.cli.listener import listen, resolve
from outlast.wire.session import EXCHANGES, PIECE, WINDOW, Ask, Closing, Piece, encode
from tests.integration import programs
from tests.served import served
from tests.session import dialled

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

TOKENS = {"Bearer of-ann": "ann", "Bearer of-bob": "bob"}
ANN, BOB = ({"authorization": token} for token in TOKENS)
COOKIE = {"cookie": "who=ann"}
GIANT = 8 * 1024 * 1024 - 64


async def authenticate(connection: Any) -> str | None:
    return TOKENS.get(connection.headers.get("authorization", "")) or connection.cookies.get("who")


def application(**options: Any) -> Outlast:
    outlast = Outlast("sqlite://", websocket=True, **options)

    @outlast.worker("count")
    async def count(run: ActiveRun) -> AsyncIterator[Any]:
        for number in range(run.input):  # type: ignore[arg-type]
            yield {"n": number}
            if not number % 10:
                await asyncio.sleep(0)

    @outlast.worker("giant")
    async def giant(_run: ActiveRun) -> AsyncIterator[str]:
        yield "g" * GIANT

    @outlast.worker("talk")
    async def talk(run: ActiveRun) -> AsyncIterator[str]:
        while not run.stopping:
            yield "x" * 10_000

    return outlast


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[tuple[Outlast, str]]:
    outlast = application(**options)
    async with served(outlast) as port:
        yield outlast, f"ws://localhost:{port}/session"


# ---- who may open one ---------------------------------------------------------------------------


@pytest.mark.behaviour("A5")
@pytest.mark.attack("Z4")
async def test_another_owners_run_looks_missing_in_a_session() -> None:
    async with opened(authenticate=authenticate) as (outlast, url):
        await outlast.start("count", 3, owner="ann", id="r1")
        async with dialled(url, additional_headers=BOB) as bob, dialled(url, additional_headers=ANN) as ann:
            theirs, nobodys = [await bob.ask(path, accept="text/event-stream") for path in EVENTS]
            assert (theirs.status, theirs.body) == (nobodys.status, nobodys.body)
            assert theirs.said["code"] == "run_not_found"
            assert (await bob.ask("/runs/r1/stop", "POST", {})).status == 202  # a stop of bob's own, of no run yet
            assert (await ann.ask("/runs/r1/events", accept="text/event-stream")).status in {200, 204}
        with pytest.raises(InvalidStatus) as refused:
            async with dialled(url):
                pass
        assert refused.value.response.status_code == 401


EVENTS = ("/runs/r1/events", "/runs/none/events")


@pytest.mark.attack("Z6")
async def test_a_foreign_page_cannot_use_the_cookie_of_its_visitor_and_our_own_page_can() -> None:
    async with opened(authenticate=authenticate, origins=["https://app.example"]) as (_, url):
        for origin in ("https://evil.example", "null", "https://app.example.evil.example"):
            with pytest.raises(InvalidStatus) as refused:
                async with dialled(url, additional_headers=COOKIE, origin=origin):
                    pass
            assert refused.value.response.status_code == 403
            assert b'"peer_refused"' in (refused.value.response.body or b"")
        for origin in (url.replace("ws://", "http://").removesuffix("/session"), "https://app.example", None):
            async with dialled(url, additional_headers=COOKIE, origin=origin) as line:
                assert (await line.ask("/runs", "POST", {"worker": "count", "input": 1})).status == 201


@pytest.mark.attack("Z13")
async def test_a_frame_that_says_who_asks_ends_the_session() -> None:
    async with opened(authenticate=authenticate) as (outlast, url):
        await outlast.start("count", 3, owner="ann", id="r1")
        async with dialled(url, additional_headers=BOB) as line:
            line.say_raw(
                '{"ask": 1, "method": "GET", "path": "/runs/r1", "headers": {"authorization": "Bearer of-ann"}}'
            )
            code, reason = await line.end()
            assert (code, "no other headers" in reason) == (Closing.INVALID, True)
            assert line.heard == []


@pytest.mark.attack("Z10")
async def test_sessions_and_the_streams_in_them_are_bounded() -> None:
    async with opened(authenticate=authenticate, readers_per_owner=1) as (outlast, url):
        await outlast.start("count", 1, owner="ann", id="r1")
        async with dialled(url, additional_headers=ANN) as line:
            with pytest.raises(InvalidStatus) as refused:
                async with dialled(url, additional_headers=ANN):
                    pass
            assert refused.value.response.status_code == 429
            async with dialled(url, additional_headers=BOB) as other:
                assert (await other.ask("/runs")).status == 200
            assert (await line.ask("/runs")).status == 200


# ---- what comes ---------------------------------------------------------------------------------


@pytest.mark.behaviour("R13", "F1")
async def test_ten_live_streams_in_one_socket_are_each_whole_and_in_order() -> None:
    async with opened() as (_, url), dialled(url) as line:
        for number in range(10):
            started = await line.ask("/runs", "POST", {"worker": "count", "input": 200, "id": f"r{number}"})
            assert started.status == 201
        streams = [line.stream(f"/runs/r{number}/events") for number in range(10)]
        for stream, frames in zip(streams, await asyncio.gather(*(stream.rest() for stream in streams)), strict=True):
            assert stream.is_whole
            said = [frame.data for frame in frames if frame.event == "data"]
            assert said == [b'{"n":%d}' % number for number in range(200)]
            assert [frame.event for frame in frames][-1] == "outlast.end"


@pytest.mark.behaviour("R9", "L5")
async def test_a_giant_and_a_stalled_stream_hold_up_no_other() -> None:
    async with opened() as (outlast, url), dialled(url) as line:
        await outlast.start("talk", id="stalled")
        await outlast.start("giant", id="giant")
        stalled = line.open("/runs/stalled/events", accept="text/event-stream")
        giant = line.stream("/runs/giant/events")
        taking = asyncio.create_task(giant.rest())
        for number in range(5):
            await line.ask("/runs", "POST", {"worker": "count", "input": 50, "id": f"r{number}"})
            frames = await line.stream(f"/runs/r{number}/events").rest()
            assert len([frame for frame in frames if frame.event == "data"]) == 50
        [event] = [frame for frame in await taking if frame.event == "text"]
        assert len(event.data) == GIANT + 2
        pieces = [frame for frame in line.heard if isinstance(frame, Piece)]
        assert max(len(piece.data) for piece in pieces) <= PIECE
        assert sum(len(piece.data) for piece in pieces if piece.exchange == stalled) == WINDOW
        await outlast.stop("stalled")


@pytest.mark.attack("Z9")
async def test_a_client_that_asks_on_and_on_and_reads_nothing_is_read_no_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[Line] = []

    class Watched(Line):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            lines.append(self)

    monkeypatch.setattr("outlast.cli.line.Line", Watched)
    async with opened() as (_, url), dialled(url, max_queue=4) as line:
        line.room.clear()
        exchange = 0

        async def ask_on() -> None:
            nonlocal exchange
            with suppress(ConnectionClosed):
                while True:
                    exchange += 1
                    await line.socket.send(encode(Ask(exchange=exchange, method="GET", path="/outlast.js")))

        asking = asyncio.create_task(ask_on())
        [server] = lines
        while len(open_exchanges()) < EXCHANGES or server.writable.is_set() or not server.read_paused:
            await asyncio.sleep(0)
        for _ in range(1000):  # and there it stays
            await asyncio.sleep(0)
            assert len(open_exchanges()) == EXCHANGES
            assert server.transport.get_write_buffer_size() < 2 * PIECE + 64 * 1024
        assert server.queue.qsize() < 5000
        async with dialled(url) as other:
            assert (await other.ask("/session")).status == 200
        line.socket.transport.abort()
        await asyncio.wait({asking})
        while open_exchanges():
            await asyncio.sleep(0)
        line.room.set()


def open_exchanges() -> list[Any]:
    return [task for task in asyncio.all_tasks() if task.get_name() == "exchange"]


# ---- other servers and ways to end --------------------------------------------------------------


async def test_a_session_is_open_below_the_mount_of_a_host_with_its_own_uvicorn() -> None:
    outlast = application()
    app = FastAPI(lifespan=outlast.lifespan)
    app.mount("/agents", outlast.app)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    listener = listen(resolve("127.0.0.1", 0))
    with listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0)
        async with dialled(f"ws://localhost:{listener.getsockname()[1]}/agents/session") as line:
            started = await line.ask("/runs", "POST", {"worker": "count", "input": 5, "id": "r1"})
            assert started.headers["location"] == "/agents/runs/r1"
            frames = await line.stream("/runs/r1/events").rest()
            assert len([frame for frame in frames if frame.event == "data"]) == 5
            await outlast.close()
            assert (await line.end())[0] == Closing.DRAINED
        server.should_exit = True
        await serving


@pytest.mark.behaviour("F15")
async def test_a_server_that_is_told_to_stop_sends_its_streams_away_and_closes_the_session(tmp_path: Path) -> None:
    arguments = ("serve", "tests.integration.application:outlast", "--port", "0", "--websocket")
    async with programs.outlast(tmp_path, *arguments) as server:
        await server.until("http://")
        async with dialled(f"{server.url.replace('http', 'ws')}/session") as line:
            assert (await line.ask("/session")).said["websocket"] is True
            started = await line.ask("/runs", "POST", {"worker": "paced", "input": 100_000, "id": "r1"})
            assert started.status == 201
            stream = line.stream("/runs/r1/events")
            await stream.until("outlast.caught-up")
            server.signal(signal.SIGINT)
            frames = await stream.rest()
            assert "outlast.drain" in [frame.event for frame in frames]
            assert stream.is_whole
            assert (await line.end())[0] == Closing.DRAINED
        await server.end()
