"""A WebSocket of `outlast serve`: what no client of ours does costs its connection, and nobody else anything."""

import asyncio
import base64
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from outlast import Outlast
from outlast.cli import guard
from outlast.cli.line import FRAGMENTS, Line
from outlast.cli.serve import Server
from outlast.wire.session import MESSAGE, SUBPROTOCOL, Closing
from tests.served import served
from tests.session import dialled

pytestmark = pytest.mark.anyio


class Hasty(guard.Guard):
    headers_within = 0.2
    body_within = 0.2


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[str]:
    outlast = Outlast("sqlite://", websocket=True)
    async with served(outlast, **options) as port:
        yield f"ws://localhost:{port}/session"


def test_uvicorn_compresses_nothing_holds_no_more_than_a_message_and_cuts_nobody_who_stands_still() -> None:
    async def greet() -> None:
        pass

    config = Server(Outlast("sqlite://", websocket=True), greet).config
    assert config.ws is Line
    assert (config.ws_max_size, config.ws_per_message_deflate, config.ws_ping_interval) == (MESSAGE, False, None)
    assert Server(Outlast("sqlite://"), greet).config.ws == "none"


async def test_a_session_outlives_the_deadlines_of_requests() -> None:
    async with opened(guard=Hasty) as url, dialled(url) as client:
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        loop.call_later(3 * Hasty.body_within, over.set)
        await over.wait()
        assert (await client.ask("/session")).status == 200


@pytest.mark.attack("Z9")
async def test_a_handshake_with_a_line_too_long_is_refused_and_never_left_hanging() -> None:
    async with opened() as url:
        for size, status in ((6000, None), (9000, 431)):
            headers = {"x-long": "x" * size}
            if status is None:
                async with dialled(url, additional_headers=headers) as client:
                    assert (await client.ask("/session")).status == 200
            else:
                with pytest.raises(InvalidStatus) as refused:
                    async with dialled(url, additional_headers=headers):
                        pass
                assert refused.value.response.status_code == status


async def test_a_refused_handshake_is_no_accident_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with opened() as url:
        uvicorn = logging.getLogger("uvicorn.error")
        uvicorn.addHandler(caplog.handler)  # uvicorn has set its loggers up by now
        with pytest.raises(InvalidStatus) as refused:
            async with dialled(url, additional_headers={"origin": "http://evil.example"}):
                pass
        assert refused.value.response.status_code == 403
    uvicorn.removeHandler(caplog.handler)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.attack("Z9")
async def test_a_message_too_large_ends_the_session() -> None:
    async with opened() as url, dialled(url) as client:
        client.say_raw(" " * (MESSAGE + 1))
        assert (await client.end())[0] == Closing.TOO_LARGE


class Raw:
    """A client that sends what frames it likes, and reads when it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def frame(self, opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
        return Frame(opcode, data, fin=fin).serialize(mask=True)


@asynccontextmanager
async def raw(url: str) -> AsyncIterator[Raw]:
    uri = parse_uri(url)
    reader, writer = await asyncio.open_connection("127.0.0.1", uri.port)
    protocol = ClientProtocol(uri, subprotocols=[Subprotocol(SUBPROTOCOL)])
    protocol.send_request(protocol.connect())
    writer.write(b"".join(protocol.data_to_send()))
    try:
        assert b"101" in await reader.readuntil(b"\r\n\r\n")
        yield Raw(reader, writer)
    finally:
        writer.close()


@pytest.mark.attack("Z9")
@pytest.mark.parametrize("data", [b"", b"x"], ids=["empty", "of one byte"])
async def test_a_message_of_endless_fragments_ends_its_session_and_no_other(data: bytes) -> None:
    async with opened() as url, dialled(url) as other, raw(url) as client:
        client.writer.write(client.frame(Opcode.TEXT, data, fin=False))
        client.writer.write(client.frame(Opcode.CONT, data, fin=False) * (2 * FRAGMENTS))
        answer = await client.reader.read()
        assert answer[:2] == bytes([0x80 | Opcode.CLOSE, len(answer) - 2])
        assert int.from_bytes(answer[2:4]) == Closing.TOO_LARGE
        assert (await other.ask("/session")).status == 200


class Impatient(Line):
    message_within = 0.3


@pytest.mark.attack("Z8")
@pytest.mark.parametrize("way", ["one frame", "fragments and pings"])
async def test_a_message_that_never_becomes_whole_is_not_kept_and_a_silent_client_is(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.cli.line.Line", Impatient)
    async with opened() as url, dialled(url) as silent, raw(url) as client, raw(url) as alive:
        message = b" " * 100_000
        if way == "one frame":
            parts = [client.frame(Opcode.TEXT, message)[:90_000]] + [b" "] * 10_000
        else:
            fragment = client.frame(Opcode.CONT, b" ", fin=False) + client.frame(Opcode.PING, b"")
            parts = [client.frame(Opcode.TEXT, b" ", fin=False)] + [fragment] * FRAGMENTS
        ending = asyncio.create_task(client.reader.read())
        pinging = client.frame(Opcode.PING, b"")
        for part in parts:  # byte after byte, until the server has had enough
            if ending.done():
                break
            client.writer.write(part)
            alive.writer.write(pinging)
            await asyncio.wait({ending}, timeout=0.01)
        with suppress(ConnectionError):
            assert Opcode.CLOSE not in {byte & 0x0F for byte in (await ending)[:1]}
        assert (await silent.ask("/session")).status == 200
        alive.writer.write(alive.frame(Opcode.TEXT, b'{"ask": 1, "method": "GET", "path": "/healthz"}'))
        assert b'"answer":1' in await alive.reader.readuntil(b'"answer":1')


async def test_who_is_not_read_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[Line] = []

    class Watched(Impatient):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            lines.append(self)

    monkeypatch.setattr("outlast.cli.line.Line", Watched)
    async with opened() as url, raw(url) as client:
        [line] = lines
        half = client.frame(Opcode.TEXT, b'{"ask": 1, "method": "GET", "path": "/healthz"}')
        client.writer.write(half[:10])
        while line._deadline is None:
            await asyncio.sleep(0)
        line.read_paused = True  # as where the session has not taken what came before
        over = asyncio.Event()
        asyncio.get_running_loop().call_later(3 * Impatient.message_within, over.set)
        await over.wait()
        line.read_paused = False
        client.writer.write(half[10:])
        assert b'"answer":1' in await client.reader.readuntil(b'"answer":1')


async def test_a_message_of_a_few_fragments_is_whole() -> None:
    async with opened() as url, raw(url) as client:
        parts = b'{"ask": 1, "method": "GET", "path": "/healthz"}'.split(b" ")
        for place, part in enumerate(parts):
            opcode = Opcode.CONT if place else Opcode.TEXT
            client.writer.write(client.frame(opcode, part + b" ", fin=part is parts[-1]))
        assert b'"answer":1' in await client.reader.readuntil(b"}")


@pytest.mark.attack("Z9")
async def test_pings_are_answered_and_nothing_is_kept_for_who_takes_no_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[int] = []

    class Watched(Line):
        def handle_ping(self) -> None:
            super().handle_ping()
            kept.append(self.transport.get_write_buffer_size())

    monkeypatch.setattr("outlast.cli.line.Line", Watched)
    async with opened() as url, raw(url) as client:
        ping = client.frame(Opcode.PING, os.urandom(100))
        client.writer.write(ping)
        assert (await client.reader.readexactly(102))[0] == 0x80 | Opcode.PONG
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        while len(kept) < 60_000:
            client.writer.write(ping * 100)
            await client.writer.drain()
            await asyncio.sleep(0)
        assert max(kept) < 256 * 1024
        assert kept[-1] > 0, "nothing was kept at all: the client took it"


async def test_what_is_no_handshake_is_refused_as_ever() -> None:
    async with opened() as url:
        uri = parse_uri(url)
        key = base64.b64encode(os.urandom(16)).decode()
        with pytest.raises(InvalidStatus):
            async with connect(url, proxy=None, additional_headers={"Sec-WebSocket-Key": key}, subprotocols=None):
                pass
        reader, writer = await asyncio.open_connection("127.0.0.1", uri.port)
        writer.write(b"GET /session HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 4")
        writer.close()
