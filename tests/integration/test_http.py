"""The HTTP interface on a real server, over real sockets, and inside other people's applications."""

import asyncio
import json
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from outlast.client.http import direct
from outlast.log.event import Event
from outlast.server.readers import ring
from outlast.server.readers.room import Guest
from outlast.server.routes.body import BYTES
from outlast.wire.sse import Message, Parser
from tests.stage import Site, Stage, Stream, events, names, site, staged

pytestmark = pytest.mark.anyio


# ---- a server and its sockets -------------------------------------------------------------------

SMALL = 16 * 1024
"""Bytes of a socket's buffers, so that a client which does not read is felt early."""
STALLED = 128 * 1024
"""Bytes that a client which takes nothing may cost (F13)."""


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[int]:
    """Serve `app` with uvicorn in this loop, on a free port of the loopback."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)  # its connections inherit it
    config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False, ws="none")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await until(lambda: server.started)
        yield int(listener.getsockname()[1])
    finally:
        server.should_exit = server.force_exit = True
        await serving
        listener.close()


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until something is so; it is the time limit of the test that ends this otherwise."""
    while not condition():
        await asyncio.sleep(0)


async def stuck(reader: Guest) -> None:
    """Wait until a send of this reader has not returned for a good while."""
    since, turns = reader.sending_since, 0
    while since is None or turns < 300:
        await asyncio.sleep(0)
        turns = turns + 1 if reader.sending_since == since else 0
        since = reader.sending_since


@asynccontextmanager
async def connected(port: int, request: bytes) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Send a request as it is, and have the connection in hand; what is not read soon fills the kernel's buffers."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
    plain.connect(("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=plain, limit=1024)
    writer.write(request)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n".encode()


@asynccontextmanager
async def streaming(port: int, path: str, **headers: str) -> AsyncIterator[Stream]:
    async with direct() as client:
        said = {"accept": "text/event-stream", "accept-encoding": "gzip, deflate, br", **headers}
        async with client.stream("GET", f"http://127.0.0.1:{port}{path}", headers=said) as response:
            yield Stream(response)


# ---- on a real server ---------------------------------------------------------------------------


@pytest.mark.behaviour("F1", "F10")
async def test_a_run_is_started_streamed_and_stopped_over_real_sockets() -> None:
    async with staged() as stage, site(stage) as here, served(here.app) as port, direct() as client:
        base = f"http://127.0.0.1:{port}"
        started = await client.post(f"{base}/runs", json={"id": "r1", "worker": "chat", "input": 1})
        assert (started.status_code, started.headers["location"]) == (201, "/runs/r1")
        run = await stage.claim((await stage.store.runs.load("", "r1")).run)
        async with streaming(port, "/runs/r1/events") as stream:
            await stream.until("outlast.caught-up")
            await stage.say(run, "a", Event("bytes", bytes(range(256))))
            await stream.until("bytes")
            stopped = await client.post(f"{base}/runs/r1/stop", json={"reason": "enough"})
            assert (stopped.status_code, stopped.json()["answer"]) == (202, "accepted")
            await stage.settle(run)
            assert names(await stream.rest()) == ["run.completed", "outlast.end"]
            assert events(stream.seen) == [(stored.cursor, stored.event) for stored in await stage.log(run)]
        again = await client.get(
            f"{base}/runs/r1/events",
            headers={"accept": "text/event-stream", "last-event-id": str((await stage.log(run))[-1].cursor)},
        )
        assert again.status_code == 204


@pytest.mark.behaviour("F10")
async def test_the_first_bytes_of_a_body_are_the_comment() -> None:
    async with staged() as stage, site(stage) as here, served(here.app) as port:
        await stage.start()
        async with connected(port, get("/runs/r1/events")) as (reader, _):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"content-type: text/event-stream\r\n" in head
            await reader.readuntil(b"\r\n")  # the size of the chunk
            assert await reader.readexactly(9) == b": hello\n\n"


@pytest.mark.behaviour("F1", "F10")
async def test_a_client_of_the_older_http_gets_the_log_as_it_comes_and_an_end() -> None:
    async with staged() as stage, site(stage) as here, served(here.app) as port:
        run = await stage.active()
        request = get("/runs/r1/events").replace(b"HTTP/1.1", b"HTTP/1.0")
        async with connected(port, request) as (reader, _):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"transfer-encoding" not in head.lower()
            body = await reader.readuntil(b"outlast.caught-up")
            await stage.say(run, "a")
            await stage.settle(run)
            body += await reader.read(-1)
        frames = Parser().feed(body)
        assert names(frames) == ["outlast.hello", "outlast.caught-up", "text", "run.completed", "outlast.end"]


async def test_a_connection_is_good_for_more_after_an_answer_without_a_body() -> None:
    async with staged() as stage, site(stage) as here, served(here.app) as port:
        run = await stage.active()
        await stage.settle(run)
        last = str((await stage.log(run))[-1].cursor).encode()
        ended = get("/runs/r1/events")[:-2] + b"last-event-id: " + last + b"\r\n\r\n"
        erase = b"DELETE /runs/r1 HTTP/1.1\r\nhost: localhost\r\n\r\n"
        async with connected(port, ended * 2 + erase + get("/runs/r1/events")) as (reader, _):
            told = [(await reader.readuntil(b"\r\n\r\n")).split(b" ")[1] for _ in range(4)]
        assert told == [b"204", b"204", b"204", b"410"]


@pytest.mark.behaviour("F11")
@pytest.mark.parametrize("way", ["reset", "finished", "half"])
async def test_a_client_that_goes_away_frees_its_reader_and_the_run_goes_on(way: str) -> None:
    async with staged() as stage, site(stage) as here, served(here.app) as port:
        run = await stage.active()
        async with connected(port, get("/runs/r1/events")) as (reader, writer):
            await reader.readuntil(b"outlast.caught-up")
            assert here.hub.readers == 1
            match way:
                case "reset":
                    writer.transport.abort()
                case "half":  # it says nothing more: to a server of HTTP that is who leaves
                    writer.write_eof()
                case _:
                    writer.close()
            await until(lambda: here.hub.readers == 0)
        await stage.say(run, "a")
        assert (await stage.store.runs.load("", "r1")).run.epoch == run.epoch


@pytest.mark.behaviour("F14")
@pytest.mark.case(15)
async def test_two_hundred_readers_that_come_and_go_at_random_moments_leave_no_task() -> None:
    dice = random.Random(1402)
    async with staged() as stage, site(stage) as here, served(here.app) as port:
        run = await stage.active()

        async def visit() -> None:
            async with connected(port, get("/runs/r1/events")) as (reader, writer):
                if dice.random() < 0.9:
                    await reader.read(dice.randrange(1, 900))
                for _ in range(dice.randrange(20)):
                    await asyncio.sleep(0)
                if dice.random() < 0.3:
                    writer.transport.abort()

        await visit()  # whatever is made once is there
        await until(lambda: here.hub.readers == 0)
        before = {task.get_name() for task in asyncio.all_tasks()}
        for block in range(10):
            async with asyncio.TaskGroup() as visits:
                for _ in range(20):
                    visits.create_task(visit())
                await stage.say(run, str(block))
        await until(lambda: here.hub.readers == 0)
        await until(lambda: {task.get_name() for task in asyncio.all_tasks()} <= before)


@pytest.mark.behaviour("F13")
@pytest.mark.case(69)
async def test_clients_that_read_nothing_cost_little_and_hold_nobody_else_up() -> None:
    cycles: list[Any] = []
    async with staged() as stage, site(stage) as here:

        async def noting(scope: Scope, receive: Receive, send: Send) -> None:
            cycles.append(getattr(send, "__self__", None))  # uvicorn's, which knows the transport
            await here.app(scope, receive, send)

        async with served(noting) as port:
            await stalling(stage, here, port, cycles)


@pytest.mark.behaviour("F13")
@pytest.mark.case(49)
async def test_a_client_that_reads_nothing_and_says_nothing_is_left_alone_while_there_is_little_to_send() -> None:
    async with staged() as stage, site(stage, heartbeat=0.01) as here, served(here.app) as port:
        run = await stage.active()
        async with connected(port, get("/runs/r1/events")) as (reader, _), streaming(port, "/runs/r1/events") as stream:
            for number in range(9):  # as in a minute and a half, with heartbeats ten seconds apart
                await stream.until("outlast.heartbeat")
                await stage.say(run, str(number))
                await stream.until("text")
            assert here.hub.readers == 2
            await stage.settle(run)
            body = b""
            while b"outlast.end" not in body:
                body += await reader.read(SMALL)
            assert b"event: outlast.drain" not in body
            assert [body.count(b'data: "%d"' % number) for number in range(9)] == [1] * 9
        await until(lambda: here.hub.readers == 0)


async def stalling(stage: Stage, here: Site, port: int, cycles: list[Any]) -> None:
    """Let two clients take nothing, and one take all, of a megabyte; see what waits for those who take nothing."""
    run = await stage.active()
    async with (
        connected(port, get("/runs/r1/events")),
        connected(port, get("/runs/r1/events")),
        streaming(port, "/runs/r1/events") as stream,
    ):
        await until(lambda: here.hub.readers == 3)
        await stream.until("outlast.caught-up")
        for number in range(60):
            await stage.say(run, f"{number:02}" * 10_000)
            await stream.until("text")
        readers = tuple(here.hub._room.readers)
        await until(lambda: sum(reader.sending_since is not None for reader in readers) == 2)
        assert len(events(stream.seen)) == 60
        waiting = sorted(cycle.transport.get_write_buffer_size() for cycle in cycles)
        assert waiting[0] == 0
        assert all(0 < size <= STALLED - ring.CHUNK for size in waiting[1:]), "and a chunk waits behind that"


@pytest.mark.behaviour("F15")
@pytest.mark.case(21)
async def test_a_closing_hub_ends_every_stream_cleanly() -> None:
    async with staged() as stage, site(stage) as here, served(here.app) as port:
        await stage.start()
        async with streaming(port, "/runs/r1/events") as one, streaming(port, "/runs/r1/events") as other:
            for stream in (one, other):
                await stream.until("outlast.caught-up")
            here.hub.close()
            for stream in (one, other):
                assert names(await stream.rest()) == ["outlast.drain"]


# ---- hostile requests ---------------------------------------------------------------------------


async def answer_to(port: int, *parts: bytes) -> tuple[int, bytes]:
    """Send the parts for as long as they are taken; return the status and all of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sending = asyncio.create_task(_send(writer, parts))
    try:
        answer = await reader.read()
    except ConnectionResetError:  # the server did not wait for the rest
        answer = b""
    sending.cancel()
    await asyncio.wait([sending])
    writer.transport.abort()
    return int(answer.split(b" ")[1]) if answer else 0, answer


async def _send(writer: asyncio.StreamWriter, parts: tuple[bytes, ...]) -> None:
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
    except OSError:  # it has hung up on us, as it should
        return


POST = b"POST /runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n"


@pytest.mark.attack("Z9")
async def test_a_chunked_body_without_an_end_is_cut_and_the_connection_closed() -> None:
    async with staged() as stage, site(stage) as here, served(here.app) as port:
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        endless = (POST + b"transfer-encoding: chunked\r\n\r\n", *(chunk for _ in range(1000)))
        status, answer = await answer_to(port, *endless)
        assert status in {413, 0}  # 0: reset before we could read it
        assert status == 0 or b'"code":"too_large"' in answer


@pytest.mark.attack("Z9")
async def test_a_body_that_says_it_is_giant_is_refused_unread() -> None:
    async with staged() as stage, site(stage) as here, served(here.app) as port:
        status, answer = await answer_to(port, POST + f"content-length: {BYTES + 1}\r\n\r\n".encode())
        assert status == 413
        assert b'"code":"too_large"' in answer


@pytest.mark.attack("Z9")
async def test_five_megabytes_of_headers_are_refused() -> None:
    async with staged() as stage, site(stage) as here, served(here.app) as port:
        lines = (b"x-%d: %b\r\n" % (number, b"y" * 65000) for number in range(80))
        status, _ = await answer_to(port, b"GET /runs HTTP/1.1\r\nhost: localhost\r\n", *lines, b"\r\n")
        assert status in {400, 431, 0}


@pytest.mark.attack("Z2")
async def test_nothing_of_a_request_comes_back_in_a_header() -> None:
    async with staged() as stage, site(stage) as here, served(here.app) as port:
        await stage.start()
        for path in ("/runs/r1%0d%0amarker:%201/events", "/marker", "/runs/marker%00", "/runs?after=marker%0d%0a"):
            status, answer = await answer_to(
                port, f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
            )
            assert status in {400, 404}
            assert b"marker" not in answer


# ---- inside other people's applications ---------------------------------------------------------


async def pass_on(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    response.headers["x-passed"] = "1"
    return response


def in_fastapi(app: ASGIApp) -> ASGIApp:
    host = FastAPI(
        middleware=[Middleware(GZipMiddleware, minimum_size=1), Middleware(BaseHTTPMiddleware, dispatch=pass_on)]
    )
    host.mount("/agents", app)
    return host


def in_starlette(app: ASGIApp) -> ASGIApp:
    within = Starlette(
        routes=[Mount("/agents", app)],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=pass_on), Middleware(GZipMiddleware, minimum_size=1)],
    )
    return Starlette(routes=[Mount("/", within)], middleware=[Middleware(BaseHTTPMiddleware, dispatch=pass_on)])


hosts = pytest.mark.parametrize("host", [in_fastapi, in_starlette])
Hosting = Callable[[ASGIApp], ASGIApp]


@hosts
@pytest.mark.case(71)
@pytest.mark.behaviour("F10", "F11")
async def test_a_stream_gets_through_middleware_that_buffers_and_compresses(host: Hosting) -> None:
    async with staged() as stage, site(stage) as here, served(host(here.app)) as port:
        run = await stage.active()
        async with streaming(port, "/agents/runs/r1/events") as stream:
            assert "content-encoding" not in stream.response.headers
            assert stream.response.headers["cache-control"] == "no-cache, no-transform"
            assert stream.response.headers["x-passed"] == "1"
            await stream.until("outlast.caught-up")
            await stage.say(run, "a" * 1000)
            await stream.until("text")
            assert here.hub.readers == 1
        await until(lambda: here.hub.readers == 0)  # its leaving was noticed
        async with streaming(port, "/agents/runs/r1/events") as stream:
            await stream.until("text")
            await stage.settle(run)
            assert names(await stream.rest())[-2:] == ["run.completed", "outlast.end"]


@hosts
@pytest.mark.case(71)
async def test_a_stalled_client_behind_middleware_is_felt(host: Hosting) -> None:
    async with staged() as stage, site(stage) as here, served(host(here.app)) as port:
        run = await stage.active()
        async with connected(port, get("/agents/runs/r1/events")) as (reader, _):
            await reader.readuntil(b"outlast.caught-up")
            (served_reader,) = here.hub._room.readers
            for number in range(60):
                await stage.say(run, f"{number:02}" * 10_000)
            await stuck(served_reader)
        await until(lambda: here.hub.readers == 0)


@hosts
async def test_calls_and_problems_are_ours_under_a_prefix(host: Hosting) -> None:
    async with staged() as stage, site(stage) as here, served(host(here.app)) as port, direct() as client:
        base = f"http://127.0.0.1:{port}/agents"
        started = await client.post(f"{base}/runs", json={"id": "r1", "worker": "chat", "input": 1})
        assert (started.status_code, started.headers["location"]) == (201, "/agents/runs/r1")
        for path, status, code in [
            ("/runs/none", 404, "run_not_found"),
            ("/nothing", 404, "not_found"),
            ("/runs?limit=x", 400, "input_invalid"),
        ]:
            answer = await client.get(base + path)
            assert (answer.status_code, answer.json()["code"]) == (status, code)
            assert answer.headers["content-type"] == "application/problem+json"
        assert (await client.put(f"{base}/runs")).status_code == 405
        assert (await client.get(f"{base}/")).headers["content-type"].startswith("text/html")
        assert (await client.get(f"{base}/healthz")).json()["status"] == "ok"


@hosts
@pytest.mark.attack("Z16", "Z7")
async def test_a_mounted_application_answers_this_machine_alone(host: Hosting) -> None:
    async with staged() as stage, site(stage) as here:
        app = host(here.app)
        for client, headers in [
            (("10.0.0.7", 1), {}),
            (("127.0.0.1", 1), {"host": "evil.example"}),
            (("127.0.0.1", 1), {"x-forwarded-for": "127.0.0.1"}),
        ]:
            async with here.as_client(app, client=client) as far:
                for path in ("/agents/runs", "/agents/healthz", "/agents/", "/agents/runs/r1/events"):
                    answer = await far.get(path, headers=headers)
                    assert (answer.status_code, answer.json()["code"]) == (403, "peer_refused")


# ---- every front door tells the same log --------------------------------------------------------


@pytest.mark.behaviour("F1", "L6")
async def test_live_late_resumed_and_paged_are_one_log() -> None:
    said = ["a\u0000\ud83d\u2028", Event("bytes", b"\r\n\xff"), *(str(number) for number in range(50))]
    async with staged() as stage, site(stage) as here, served(here.app) as port:
        run = await stage.active()
        async with streaming(port, "/runs/r1/events") as live:
            await live.until("outlast.caught-up")
            for each in said:
                await stage.say(run, each)
            await stage.settle(run)
            await live.rest()
        log = [(stored.cursor, stored.event) for stored in await stage.log(run)]
        async with streaming(port, "/runs/r1/events") as late:
            await late.rest()
        assert events(live.seen) == events(late.seen) == log
        pieces: list[Message] = []
        while len(events(pieces)) < len(log):
            pieces += await _a_piece(port, str(events(pieces)[-1][0]) if pieces else "")
        assert events(pieces) == log
        assert await _paged(here) == [str(cursor) for cursor, _ in log]


async def _a_piece(port: int, last: str) -> list[Message]:
    """Read a few frames and hang up in the middle of one."""
    async with streaming(port, "/runs/r1/events", **({"last-event-id": last} if last else {})) as stream:
        data = b""
        async for chunk in stream.response.aiter_raw():
            data += chunk
            if len(data) > 900:
                break
        return [message for message in Parser().feed(data[:900]) if message.id is not None]


async def _paged(here: Site) -> list[str]:
    found: list[Any] = []
    page: dict[str, Any] = {"next": "", "ended": False}
    while not page["ended"]:
        answer = await here.client.get("/runs/r1/events", params={"after": page["next"], "limit": 9})
        page = json.loads(answer.content)
        found += [event["cursor"] for event in page["events"]]
    return found
