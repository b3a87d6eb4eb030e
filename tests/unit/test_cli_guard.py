"""Guarded connections: clients that are slow, silent or too loud end, and nobody else notices (Z8, Z9)."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress

import httpx2
import pytest

from outlast import Outlast
from outlast.cli.guard import BODY_WITHIN, HEADER_BYTES, HEADERS_WITHIN, Guard
from outlast.server.routes import body
from tests import served as serving

pytestmark = pytest.mark.anyio

START = b"POST /runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


class Hasty(Guard):
    headers_within = 0.3
    body_within = 0.3


def served(guard: type[Guard] = Guard) -> AbstractAsyncContextManager[int]:
    """Serve an application as `outlast serve` does, and yield the port."""
    outlast = Outlast("sqlite://")
    outlast.worker("chat")(lambda _run: None)
    return serving.served(outlast, guard=guard)


async def exchange(port: int, *parts: bytes) -> bytes:
    """Send parts and return all that is answered until the server ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def test_the_limits_are_those_that_are_promised_and_the_routes_answer_first() -> None:
    assert (Guard.headers_within, Guard.body_within) == (HEADERS_WITHIN, BODY_WITHIN) == (10.0, 30.0)
    assert body.WITHIN < BODY_WITHIN
    assert HEADER_BYTES == 64 * 1024


@pytest.mark.attack("Z8")
async def test_silent_sockets_and_slow_headers_are_closed_while_others_are_answered() -> None:
    async with served(Hasty) as port, httpx2.AsyncClient(base_url=f"http://localhost:{port}") as client:
        silent = [asyncio.create_task(exchange(port)) for _ in range(500)]
        slow = [asyncio.create_task(exchange(port, b"GET /healthz HTTP/1.1\r\n", b"x: 1\r\n")) for _ in range(50)]
        answered = 0
        while not all(task.done() for task in (*silent, *slow)):
            assert (await client.get("/healthz")).status_code == 200
            answered += 1
        assert answered > 1
        assert [task.result() for task in (*silent, *slow)] == [b""] * 550


@pytest.mark.attack("Z8")
async def test_five_hundred_silent_sockets_that_still_hang_keep_nobody_waiting(
    record_property: Callable[[str, object], None],
) -> None:
    async with served() as port, httpx2.AsyncClient(base_url=f"http://localhost:{port}") as client:
        clock = asyncio.get_running_loop().time

        async def answered_within() -> float:
            """Ask two hundred times, and return in how many seconds all but one in a hundred were answered."""
            took = list[float]()
            for _ in range(200):
                began = clock()
                assert (await client.get("/healthz")).status_code == 200
                took.append(clock() - began)
            return sorted(took)[-3]

        alone = await answered_within()
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(450)]
        slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
        for _, writer in slow:
            writer.write(b"GET /healthz HTTP/1.1\r\nx: 1\r\n")
        among = await answered_within()
        assert not any(reader.at_eof() for reader, _ in (*silent, *slow)), "the four hundred were answered before"
        record_property("p99_alone", alone)
        record_property("p99_among_five_hundred", among)
        for _, writer in (*silent, *slow):
            writer.close()


@pytest.mark.attack("Z8")
async def test_a_byte_now_and_then_is_no_progress() -> None:
    heard, lost = asyncio.Event(), asyncio.Event()

    class Hearing(Hasty):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            heard.set()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()
            heard.set()

    async with served(Hearing) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        ended = asyncio.create_task(reader.read())
        sent = 0
        while not lost.is_set():
            heard.clear()
            writer.write(b"GET " if not sent else b"x")
            sent += 1
            await heard.wait()
        assert sent > 1
        with suppress(ConnectionError):
            assert await ended == b"", "it was not refused for its size"
        writer.close()


@pytest.mark.attack("Z8")
@pytest.mark.parametrize("call", [START, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"])
async def test_a_body_that_does_not_come_ends_the_connection_whoever_it_is_for(call: bytes) -> None:
    async with served(Hasty) as port:
        answer = await exchange(port, call + b"content-length: 10\r\n\r\n", b"{")
        assert answer == b"" or answer.startswith(b"HTTP/1.1 200")


@pytest.mark.attack("Z9")
@pytest.mark.parametrize("length", [HEADER_BYTES, 5_000_000])
@pytest.mark.parametrize("at_once", [True, False])
async def test_headers_of_more_than_the_limit_are_refused(length: int, *, at_once: bool) -> None:
    head, long = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n", b"x-marker: " + b"m" * length
    parts = [head + long + b"\r\n\r\n"] if at_once else [head, long, b"\r\n\r\n"]
    async with served() as port, httpx2.AsyncClient(base_url=f"http://localhost:{port}") as client:
        answer = await exchange(port, *parts)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")  # empty: cut while it was still sending
        assert b"mm" not in answer
        assert (await client.get("/healthz", headers={"x-long": "m" * 60_000})).status_code == 200


@pytest.mark.attack("Z9")
async def test_chunks_without_an_end_are_refused_and_cut() -> None:
    async with served(Hasty) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(START + b"transfer-encoding: chunked\r\n\r\n")
        answer = asyncio.create_task(reader.readline())
        sent = 0
        while not answer.done() and sent < 64:
            writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
            with suppress(ConnectionError):  # the answer came before
                await writer.drain()
            sent += 1
        assert (await answer).startswith(b"HTTP/1.1 413 ")
        await asyncio.gather(reader.read(), return_exceptions=True)  # and it ends
        writer.close()


async def test_what_is_no_http_is_refused_and_a_broken_body_cuts_its_stream() -> None:
    async with served() as port:
        assert (await exchange(port, b"\x16\x03\x01\x00marker\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
        async with httpx2.AsyncClient(base_url=f"http://localhost:{port}") as client:
            assert (await client.get("/healthz")).status_code == 200
