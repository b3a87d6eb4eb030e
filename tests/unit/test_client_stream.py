"""One stream over real sockets, with a peer that breaks it in every way a network can."""

import asyncio
import gzip
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest

from outlast.client.credentials import Credentials, Headers
from outlast.client.http import direct
from outlast.client.stream import SSEStream
from outlast.client.transport import Lost
from outlast.errors import InputInvalid
from outlast.log.cursor import Cursor
from outlast.supervision.phase import Trouble
from outlast.wire.sse import FrameTooLarge

pytestmark = pytest.mark.anyio

START = Cursor(0, None)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
FRAME = b'event: text\nid: 1\ndata: "a"\n\n'

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def address_of(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}/runs/r"


@asynccontextmanager
async def peer(handler: Handler) -> AsyncIterator[str]:
    """Serve raw bytes on a real socket."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await handler(reader, writer)
        finally:
            writer.close()
            ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield address_of(server.sockets[0])
        async with asyncio.timeout(10):
            await ended.wait()


def stream_of(client: httpx2.AsyncClient, address: str, headers: Headers | None = None) -> SSEStream:
    return SSEStream(client, address, Credentials(headers), {})


def says(*parts: bytes, reset: bool = False) -> Handler:
    async def handler(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if reset:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    return handler


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[SSEStream]:
    async with direct() as client:
        stream = stream_of(client, address)
        try:
            assert await stream.open(START)
            yield stream
        finally:
            await stream.close()


async def read(stream: SSEStream) -> tuple[list[bytes], Trouble]:
    """Read until the stream is lost."""
    data: list[bytes] = []
    while True:
        try:
            data += [message.data for message in await stream.receive()]
        except Lost as lost:
            return data, lost.trouble


@pytest.mark.parametrize(
    ("parts", "trouble"),
    [
        ([HEAD, chunked(FRAME), b"0\r\n\r\n"], Trouble.ENDED),
        ([HEAD, chunked(FRAME)], Trouble.BROKEN),
        ([HEAD, chunked(FRAME), b"7f\r\nhalf a chu"], Trouble.BROKEN),
        ([HEAD, chunked(FRAME), b"no length\r\n"], Trouble.BROKEN),
    ],
    ids=["a clean end", "closed", "closed in a chunk", "no chunk"],
)
async def test_what_ends_a_stream_is_told_apart(parts: list[bytes], trouble: Trouble) -> None:
    async with peer(says(*parts)) as address, opened(address) as stream:
        assert await read(stream) == ([b'"a"'], trouble)


async def test_a_reset_connection_is_lost() -> None:
    async with peer(says(HEAD, chunked(FRAME), reset=True)) as address, opened(address) as stream:
        _, trouble = await read(stream)  # a reset may overtake what was sent before it
        assert trouble is Trouble.BROKEN


async def test_a_stream_that_a_proxy_compressed_is_read_all_the_same() -> None:
    head = HEAD.replace(b"transfer", b"content-encoding: gzip\r\ntransfer")
    async with peer(says(head, chunked(gzip.compress(FRAME)), b"0\r\n\r\n")) as address, opened(address) as stream:
        assert await read(stream) == ([b'"a"'], Trouble.ENDED)


async def test_a_stream_that_is_not_compressed_as_it_says_is_lost() -> None:
    head = HEAD.replace(b"transfer", b"content-encoding: gzip\r\ntransfer")
    async with peer(says(head, chunked(FRAME), b"0\r\n\r\n")) as address, opened(address) as stream:
        assert await read(stream) == ([], Trouble.BROKEN)


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200"], ids=["nothing", "not HTTP", "half"])
async def test_an_answer_that_is_no_http_is_lost(said: bytes) -> None:
    async with peer(says(said)) as address, direct() as client:
        with pytest.raises(Lost) as caught:
            await stream_of(client, address).open(START)
        assert caught.value.trouble is Trouble.BROKEN


async def test_a_port_where_nobody_listens_is_unreachable() -> None:
    with socket.socket() as taken:  # bound and not listening: nobody else can take the port meanwhile
        taken.bind(("127.0.0.1", 0))
        async with direct() as client:
            with pytest.raises(Lost) as caught:
                await stream_of(client, address_of(taken)).open(START)
    assert caught.value.trouble is Trouble.UNREACHABLE


async def test_frames_before_one_that_is_too_large_are_handed_over_first() -> None:
    giant = b"data: " + b"x" * (13 * 1024 * 1024)
    async with peer(says(HEAD, chunked(FRAME + giant))) as address, opened(address) as stream:
        taken: list[bytes] = []

        async def take() -> None:
            while True:
                taken.extend(message.data for message in await stream.receive())

        with pytest.raises(FrameTooLarge):
            await take()
        assert taken == [b'"a"']


async def test_a_header_that_cannot_be_sent_is_the_callers_mistake() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with direct() as client:
            with pytest.raises(InputInvalid):
                await stream_of(client, address_of(listener), {"x-mine": "a\r\nb: c"}).open(START)


async def test_closing_twice_is_harmless() -> None:
    async with peer(says(HEAD, chunked(FRAME))) as address, opened(address) as stream:
        await stream.close()
        await stream.close()


async def test_this_machine_is_reached_without_the_environments_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with peer(says(HEAD, chunked(FRAME), b"0\r\n\r\n")) as address, opened(address) as stream:
        assert await read(stream) == ([b'"a"'], Trouble.ENDED)
    async with direct() as client:
        with pytest.raises(Lost) as caught:  # the proxy is asked for everything else, and is not there
            await stream_of(client, "http://outlast.invalid/").open(START)
    assert isinstance(caught.value.__cause__, httpx2.ConnectError)
