"""A reader over real sockets, whose connections are cut at every byte."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import accumulate

import httpx2
import pytest

from outlast import Cursor, Event, ReceivedEvent, follow
from outlast.log.cursor import chain, origin
from outlast.log.event import StoredEvent
from outlast.wire import native

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

TEXTS = [
    "plain",
    "héllo",
    "漢字",
    "\U0001f469\u200d\U0001f4bb",
    "line\nend\r\n\u2028",
    "lone \ud83d",
    "\x00",
    "x" * 300,
]
SAID = [
    Event("run.started", {"epoch": 1, "attempt": 1}),
    *(Event("text", f"{text} {number}") for number in range(5) for text in TEXTS),
    Event("audio", bytes(range(256)), content_type="audio/ogg"),
    Event("run.completed", {}),
]
PLACES = chain(origin("log"), SAID)
FRAMES = [
    native.event_frame(StoredEvent(cursor=place, event=event, epoch=1, time=0.0))
    for place, event in zip(PLACES, SAID, strict=True)
]
HELLO = native.hello(boot_id="peer", heartbeat=10, head=PLACES[-1])
WHOLE = HELLO + b"".join(FRAMES)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
TOGETHER = 128  # readers at the same time: the pool of their client grows slow with many connections


class CuttingPeer:
    """Cuts the first stream of run `7` after 7 bytes: by turns with a clean end, inside a chunk, and by a reset."""

    def __init__(self) -> None:
        self.begun: set[int] = set()
        self.cursors: dict[int, str] = {}

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        place = int(request.split("/runs/")[1].split("/")[0])
        headers = dict(line.lower().split(": ", 1) for line in request.split("\r\n")[1:] if ": " in line)
        cursor = Cursor.parse(headers.get("last-event-id", ""))
        if place not in self.begun:
            self.begun.add(place)
            await self._cut(writer, WHOLE[:place], place % 3)
        else:
            self.cursors[place] = str(cursor)
            body = HELLO + b"".join(FRAMES[cursor.seq :])
            writer.write(HEAD + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        writer.close()

    async def _cut(self, writer: asyncio.StreamWriter, body: bytes, how: int) -> None:
        writer.write(HEAD)
        if body:
            writer.write(b"%x\r\n%b" % (len(body) + (how == 1), body))
        if how == 0:
            writer.write((b"\r\n" if body else b"") + b"0\r\n\r\n")
        await writer.drain()
        if how == 2:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


@asynccontextmanager
async def peer() -> AsyncIterator[tuple[CuttingPeer, str]]:
    cutting = CuttingPeer()
    async with await asyncio.start_server(cutting, "127.0.0.1", 0, backlog=TOGETHER * 2) as server:
        yield cutting, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def read(url: str, place: int, client: httpx2.AsyncClient) -> list[ReceivedEvent]:
    stream = follow(url, str(place), client=client, jitter=lambda: 0.0)
    return [each async for each in stream if isinstance(each, ReceivedEvent)]


def telling() -> list[int]:
    """Return the places around the borders of frames, and some in every frame."""
    borders = accumulate(map(len, [HELLO, *FRAMES[:-1]]))
    near = {border + offset for border in borders for offset in range(-2, 3)}
    return sorted(near | set(range(0, len(WHOLE), 20)))  # no multiple of 3: all three ways of cutting occur


@pytest.mark.case(41, 43, 87)
@pytest.mark.parametrize(
    "places",
    [
        pytest.param(telling(), id="at the borders of frames"),
        pytest.param(range(len(WHOLE)), id="at every byte", marks=pytest.mark.long),
    ],
)
async def test_however_a_stream_is_cut_a_reader_sees_each_event_once_and_in_order(places: Sequence[int]) -> None:
    assert len(WHOLE) >= 4096
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    async with peer() as (cutting, url), httpx2.AsyncClient(limits=limits) as client:
        for first in range(0, len(places), TOGETHER):
            some = places[first : first + TOGETHER]
            for place, received in zip(
                some, await asyncio.gather(*(read(url, place, client) for place in some)), strict=True
            ):
                assert [(each.cursor, each.event) for each in received] == list(zip(PLACES, SAID, strict=True)), place
    assert set(cutting.cursors.values()) == {"0", *(str(place) for place in PLACES[:-1])}
