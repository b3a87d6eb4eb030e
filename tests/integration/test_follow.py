"""A reader over real sockets: its connections are replaced, robbed, and their server restarts."""

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx2
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast import Cursor, Event, ReceivedEvent, connect, follow
from outlast.client.asgi import StreamingTransport
from outlast.client.received import Received
from outlast.log.event import encode_json
from outlast.supervision.phase import Phase, Trouble
from outlast.wire import native
from tests.integration.stream import FRAMES, GREETING, HEAD, HELLO, PLACES, SAID
from tests.stage import BASE, site, staged

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]


async def read(url: str, place: int, client: httpx2.AsyncClient) -> list[ReceivedEvent]:
    stream = follow(url, str(place), client=client, jitter=lambda: 0.0)
    return [each async for each in stream if isinstance(each, ReceivedEvent)]


# ---- a server that is replaced, and one that restarts -------------------------------------------


async def asked(reader: asyncio.StreamReader) -> Cursor | None:
    """Return the cursor that a request asks from; None where it asks who is there."""
    request = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    if "/session " in request:
        return None
    return Cursor.parse(request.partition("last-event-id: ")[2].partition("\r\n")[0])


GREETED = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + encode_json(GREETING)


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection as a machine does that knows nothing of it any more."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Overlapping:
    """Sends its reader away after three events, and goes on talking on the old connection while the new one is up."""

    def __init__(self, ending: str) -> None:
        self.cursors: list[Cursor] = []
        self._ending = ending
        self._replaced = asyncio.Event()
        self._late = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cursor = await asked(reader)
        if cursor is None:
            writer.write(GREETED)
            writer.close()
            return
        self.cursors.append(cursor)
        if len(self.cursors) == 1:
            writer.write(HEAD + chunk(HELLO + b"".join(FRAMES[:3]) + native.drain(0.0, retry=0.0)))
            await self._replaced.wait()
            await self._talk_on(writer)
            return
        writer.write(HEAD + chunk(HELLO + b"".join(FRAMES[cursor.seq : 6])))
        await writer.drain()
        self._replaced.set()
        await self._late.wait()
        writer.write(chunk(b"".join(FRAMES[6:])) + b"0\r\n\r\n")
        writer.close()

    async def _talk_on(self, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # nobody listens any more
            for body in (b"".join(FRAMES[:8]), b"event: nonsense\ndata: {\n\n", native.end(PLACES[2])):
                writer.write(chunk(body))
                await writer.drain()
        with suppress(OSError):
            if self._ending == "reset":
                reset(writer)
            writer.close()
            await writer.wait_closed()
        self._late.set()


@pytest.mark.case(47)
@pytest.mark.parametrize("ending", ["reset", "finished"])
async def test_late_bytes_and_the_late_close_of_a_replaced_connection_change_nothing(ending: str) -> None:
    overlapping = Overlapping(ending)
    async with await asyncio.start_server(overlapping, "127.0.0.1", 0) as server, httpx2.AsyncClient() as client:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        received = await read(url, 1, client)
    assert [(each.cursor, each.event) for each in received] == list(zip(PLACES, SAID, strict=True))
    assert overlapping.cursors == [Cursor(0, None), PLACES[2]]


class Restarting:
    """A server with several lives at one port: each tells a little more to whoever comes, and ends in the midst."""

    def __init__(self, *, lives: int, dice: random.Random) -> None:
        self.connections = 0
        self.most = 0
        self.left = lives
        self.port = 0
        self._dice = dice
        self._open = 0
        self._server: asyncio.Server | None = None

    async def begin(self) -> None:
        """Begin the next life."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cursor = await asked(reader)
        if cursor is None:
            writer.write(GREETED)
            writer.close()
            return
        self.connections += 1
        self._open += 1
        self.most = max(self.most, self._open)
        whole = HELLO + b"".join(FRAMES[cursor.seq :])
        self.left -= 1
        last = self.left == 0
        place = len(whole) if last else len(HELLO) + len(FRAMES[cursor.seq]) + self._dice.randrange(400)
        writer.write(HEAD + chunk(whole[:place]) + (b"0\r\n\r\n" if last else b""))
        await writer.drain()
        assert self._server is not None
        self._server.close()
        if not last and self._dice.random() < 0.5:
            reset(writer)
        else:
            writer.write_eof()
            await reader.read()  # until its reader has closed it too: the time limit of the test bounds it
            writer.close()
        self._open -= 1


@pytest.mark.case(135)
@pytest.mark.parametrize("seed", range(3))
async def test_a_server_that_restarts_never_sees_two_connections_of_a_reader_and_nothing_comes_twice(seed: int) -> None:
    restarting, restarts = Restarting(lives=7, dice=random.Random(seed)), 0
    await restarting.begin()

    async def restart() -> None:
        nonlocal restarts
        async for record in client.state:
            if record.link.phase is Phase.BACKOFF and record.link.trouble is Trouble.UNREACHABLE:
                restarts += 1
                await restarting.begin()

    async with connect(f"http://127.0.0.1:{restarting.port}", jitter=lambda: 0.1) as client:
        restarter = asyncio.create_task(restart())
        received = await collect(client.follow("r1"))
        restarter.cancel()
    assert [each.cursor for each in received] == list(PLACES), f"seed {seed}"
    assert (restarting.connections, restarting.most, restarting.left, restarts) == (7, 1, 0, 6), f"seed {seed}"


# ---- a proxy that loses what came last ----------------------------------------------------------


class Lossy:
    """Stands before an application, and loses frames of the first stream by what is in them."""

    def __init__(self, app: ASGIApp, *lost: bytes) -> None:
        self._app = app
        self._lost = lost
        self.streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_stream = scope["path"].endswith("/events")
        self.streams += is_stream
        if not is_stream or self.streams > 1:
            await self._app(scope, receive, send)
            return

        async def robbed(message: Message) -> None:
            frames = message.get("body", b"").split(b"\n\n")
            kept = [frame for frame in frames if not any(lost in frame for lost in self._lost)]
            await send({**message, "body": b"\n\n".join(kept)} if "body" in message else message)

        await self._app(scope, receive, robbed)


@pytest.mark.case(9)
@pytest.mark.parametrize("rejoined", [False, True], ids=["live", "rejoined"])
@pytest.mark.parametrize("lost", [("final",), ("final", "run.completed")], ids=["the last state", "and the terminal"])
async def test_a_reader_whose_last_state_was_lost_on_the_way_ends_with_the_servers(
    lost: tuple[str, ...], *, rejoined: bool
) -> None:
    async with staged() as stage, site(stage) as here:
        lossy = Lossy(here.app, *map(str.encode, lost))
        run = await stage.active()
        before = await stage.say(run, "a", Event("state", "first"))
        transport = StreamingTransport(lossy)
        async with httpx2.AsyncClient(transport=transport, base_url=BASE) as client:
            stream = follow(BASE, "r1", client=client, after=before if rejoined else None, jitter=lambda: 0.0)
            following = asyncio.create_task(collect(stream))
            while not here.hub.readers:
                await asyncio.sleep(0)
            await stage.say(run, Event("state", "final"))
            await stage.settle(run)
            received = await following
            final = (await client.get("/runs/r1/snapshot")).json()["events"]
            status = (await client.get("/runs/r1")).json()
    states = [each.data for each in received if each.type == "state"]
    assert states == (["final"] if rejoined else ["first", "final"])
    assert states[-1] == [event["data"] for event in final if event["type"] == "state"][-1]
    assert str(received[-1].cursor) == status["head"]
    assert lossy.streams == 2


async def collect(received: AsyncIterator[Received]) -> list[ReceivedEvent]:
    return [each async for each in received if isinstance(each, ReceivedEvent)]
