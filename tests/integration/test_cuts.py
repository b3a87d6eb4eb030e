"""A reader of a real server, whose connections are cut at every byte, left half-open, or cut in the middle of TLS."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from typing import Any

import httpx2
import pytest

from outlast import Cursor, Unanswered, connect, follow
from outlast.client.client import Client
from outlast.log.event import StoredEvent, encode_json
from outlast.server.session.sessions import Sessions
from outlast.supervision.phase import Phase, Trouble, Wakeup
from outlast.testing.diary import Diary
from outlast.testing.history import History
from outlast.testing.invariants import CLIENTS, check
from outlast.testing.network import BlackHole, Cut, Fault, Refuse, Stall
from outlast.testing.peer import Answer, Asked, Raw, ScriptedPeer
from outlast.testing.proxy import FaultProxy
from tests.host import hosted
from tests.integration.stream import FRAMES, GREETING, HELLO, LOG, SAID, TEXTS
from tests.stage import site, staged
from tests.terminator import CERTIFICATE, PIECE, Closing, Terminator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual, pytest.mark.timeout(120), pytest.mark.fault("X15")]

UNMEASURED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
"""Of an answer that says nothing of its length."""
SPOKEN = [*TEXTS, "x" * 2500]
"""Texts of every kind, which make a stream of more than 4 KB."""


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust the servers of tests and nobody else: all authorities of the machine take a client longer than it lives."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))


LONG = [pytest.mark.long, pytest.mark.timeout(1800)]
GIVEN_UP = 3600.0
"""Virtual seconds after which a reader that never comes to the end fails its test: the heartbeats go on for ever."""


class Readers:
    """Reads one run over and over, each time as another application that keeps a diary."""

    def __init__(self, log: Sequence[StoredEvent]) -> None:
        self._log = log
        self._history = History()
        self._number = 0

    async def read(self, url: str, way: str = "sse", **options: Any) -> None:
        """Follow the run to its end."""
        async with connect(url, transports=[way], jitter=lambda: 0.0, **options) as client:
            await self.follow(client)

    async def follow(self, client: Client) -> None:
        """Follow the run over a client to its end."""
        self._number += 1
        diary = Diary(f"reader {self._number}", "log", note=self._history.note)
        async with asyncio.timeout(GIVEN_UP):
            await diary.read(client.follow("r1", after=diary.begin()))
        assert diary.cursor == self._log[-1].cursor

    def check(self) -> None:
        """Hold what all of them took against the log."""
        self._history.finish([], {"log": self._log})
        check(self._history, CLIENTS)


@asynccontextmanager
async def server(**options: Any) -> AsyncIterator[tuple[str, int, Readers]]:
    """Serve a run that has said everything, and yield where, and who reads it."""
    async with (
        staged() as stage,
        site(stage, sessions=Sessions()) as here,
        hosted(here.app, **options) as url,
    ):
        run = await stage.active()
        await stage.say(run, *SPOKEN, *(event for event in SAID if event.type == "audio"))
        await stage.settle(run)
        readers = Readers(await stage.log(run))
        yield url, int(url.rpartition(":")[2]), readers
        readers.check()


def first(*faults: Fault) -> Callable[[int], Sequence[Fault]]:
    """Let the first connection be under faults, and no other."""
    return lambda number: faults if number == 1 else ()


# ---- at every byte ---------------------------------------------------------------------------------------------------


async def overheard(port: int, way: str, readers: Readers) -> bytes:
    """Return what comes down the only connection of a reader."""
    said = bytearray()
    below = asyncio.Queue[asyncio.StreamWriter](maxsize=8)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        above, up = await asyncio.open_connection("127.0.0.1", port)
        below.put_nowait(writer)
        async with asyncio.TaskGroup() as ways:
            ways.create_task(_copy(reader, up, bytearray()))
            ways.create_task(_copy(above, writer, said))

    async with await asyncio.start_server(carry, "127.0.0.1", 0) as listener:
        await readers.read(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", way)
        await (await below.get()).wait_closed()
    assert below.empty()
    return bytes(said)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, copy: bytearray) -> None:
    while piece := await reader.read(PIECE):
        copy += piece
        writer.write(piece)
    writer.close()


BORDERS = {"sse": b"\n\n", "long-poll": b"\n"}


def needed(said: bytes, way: str) -> bytes:
    """Return what a reader waits for: nothing that comes behind the terminal event."""
    return said[: said.index(BORDERS[way], said.index(b"run.completed")) + len(BORDERS[way])]


def every(said: bytes, _way: str) -> Sequence[int]:
    """Return all places."""
    return range(len(said))


def telling(said: bytes, way: str) -> Sequence[int]:
    """Return the places at every edge of a frame, one byte before and behind, and inside of every character."""
    edges = [place for place in range(len(said)) if said[:place].endswith(BORDERS[way])]
    near = {edge + offset for edge in [0, *edges, len(said)] for offset in (-1, 0, 1)}
    inside = {place for place, byte in enumerate(said) if byte & 0xC0 == 0x80}
    assert len(edges) > len(SPOKEN)
    assert inside
    return sorted((near | inside) & set(range(len(said))))


def closed(place: int) -> Fault:
    return Cut(place)


def reset(place: int) -> Fault:
    return Cut(place, reset=True)


def half_open(place: int) -> Fault:
    """Nobody is told, and what is said to it is lost."""
    return BlackHole(after=place)


def held(place: int) -> Fault:
    return Stall(after=place)


@pytest.mark.parametrize("way", ["sse", "long-poll"])
@pytest.mark.parametrize(
    ("faults", "at"),
    [
        pytest.param([closed, reset, half_open, held], telling, id="in turn, at telling places"),
        pytest.param([closed, reset, held], every, id="in turn, at every byte", marks=LONG),
        pytest.param([half_open], every, id="half-open, at every byte", marks=LONG),
    ],
)
async def test_at_whatever_byte_a_connection_fails_a_reader_of_a_real_server_sees_each_event_once(
    way: str, faults: Sequence[Callable[[int], Fault]], at: Callable[[bytes, str], Sequence[int]]
) -> None:
    async with server() as (url, port, readers):
        await readers.read(url, way)  # from now on what is said comes in the same pieces
        said = needed(await overheard(port, way, readers), way)
        assert len(said) > 4096
        places = at(said, way)[:: 1 if way == "sse" else 3]  # polling takes its time
        for fault, place in zip(cycle(faults), places, strict=False):
            async with FaultProxy("127.0.0.1", port, each=first(fault(place))) as proxy:
                await readers.read(proxy.url, way)
                assert proxy.traffic.accepted > 1, place


@pytest.mark.parametrize("fault", [Refuse(), Refuse(listening=True), BlackHole(), Stall()])
@pytest.mark.parametrize("way", ["sse", "websocket"])
async def test_a_follow_that_begins_before_its_server_can_be_reached_sees_each_event_once(
    way: str, fault: Fault | Refuse
) -> None:
    async with server() as (_, port, readers), FaultProxy("127.0.0.1", port) as proxy:
        proxy.impose(fault)
        async with connect(proxy.url, transports=[way], jitter=lambda: 0.5) as client, asyncio.TaskGroup() as reading:
            reading.create_task(readers.follow(client))
            async for record in client.state:
                if record.link.phase is Phase.BACKOFF:
                    break
            proxy.lift()


# ---- TLS: who answers ------------------------------------------------------------------------------------------------


@pytest.mark.behaviour("K12")
@pytest.mark.parametrize("wakeup", [Wakeup.ONLINE, Wakeup.RESUMED])
@pytest.mark.parametrize("way", ["sse", "websocket"])
async def test_a_certificate_that_nobody_vouches_for_blocks_the_link_until_the_network_or_the_clock_is_another(
    way: str, wakeup: Wakeup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    async with (
        server(certificate=CERTIFICATE) as (url, port, readers),
        FaultProxy("127.0.0.1", port) as proxy,
        connect(url.replace(str(port), str(proxy.port)), transports=[way], jitter=lambda: 0.5) as client,
    ):
        async for record in client.state:
            if record.link.phase is Phase.BLOCKED:
                break
        await asyncio.sleep(100)
        client.wakeup(Wakeup.VISIBLE)
        await asyncio.sleep(100)
        link = client.state.record.link
        assert (link.phase, link.trouble) == (Phase.BLOCKED, Trouble.CERTIFICATE)
        assert proxy.traffic.accepted == 1, "nothing is tried that cannot succeed"
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        client.wakeup(wakeup)
        await readers.follow(client)


@pytest.mark.parametrize("way", ["sse", "websocket"])
async def test_a_certificate_for_another_name_is_not_believed_and_who_waits_is_told_so(way: str) -> None:
    async with server(certificate=CERTIFICATE) as (url, _, _readers):
        elsewhere = url.replace("127.0.0.1", "localhost")
        with pytest.raises(Unanswered, match="certificate"):
            await anext(follow(elsewhere, "r1", transports=[way]))
        async with connect(elsewhere, transports=[way]) as client:
            async for record in client.state:
                if record.link.phase is Phase.BLOCKED:
                    break
            assert client.state.record.link.trouble is Trouble.CERTIFICATE


@pytest.mark.parametrize("way", ["sse", "long-poll"])
async def test_a_client_of_the_hosts_own_trusts_whom_it_is_told_to(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    trust = ssl.create_default_context(cafile=CERTIFICATE)
    async with server(certificate=CERTIFICATE) as (url, _, readers), httpx2.AsyncClient(verify=trust) as own:
        await readers.read(url, way, client=own)


# ---- TLS: how it is cut ----------------------------------------------------------------------------------------------


HANDSHAKE = 1600
"""Bytes of a server's flights and of its first word, at least."""


@pytest.mark.parametrize(
    "step", [pytest.param(997, id="at some bytes"), pytest.param(7, id="at every seventh byte", marks=LONG)]
)
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("way", ["sse", "websocket"])
async def test_wherever_tls_is_cut_a_reader_sees_each_event_once(way: str, reset: bool, step: int) -> None:
    async with server(certificate=CERTIFICATE) as (url, port, readers):
        place, is_cut = 0, True
        while is_cut:
            async with FaultProxy("127.0.0.1", port, each=first(Cut(place, reset=reset))) as proxy:
                await readers.read(url.replace(str(port), str(proxy.port)), way)
                is_cut = proxy.traffic.accepted > 1
            place += step if place > HANDSHAKE else max(step // 5, 1)
        assert place > 5000, "the handshake, the greeting and all of the stream"


@pytest.mark.parametrize("closing", list(Closing))
@pytest.mark.parametrize("way", ["sse", "long-poll", "websocket"])
async def test_however_tls_ends_in_the_middle_of_a_frame_nothing_of_it_counts(way: str, closing: Closing) -> None:
    async with server() as (_, port, readers):
        for place in (100, 1000, 4000):
            async with (
                FaultProxy("127.0.0.1", port, each=first(Cut(place))) as proxy,
                Terminator(proxy.port, closing) as terminator,
            ):
                await readers.read(terminator.url, way)
                assert proxy.traffic.accepted > 1, place


@pytest.mark.parametrize("closing", list(Closing))
@pytest.mark.parametrize("offset", [-1, 0, 1, len(FRAMES[4]) // 2])
async def test_a_stream_whose_only_end_is_that_of_its_connection_is_not_over_when_somebody_ends_that(
    closing: Closing, offset: int
) -> None:
    begun = list[int]()
    border = len(HELLO) + len(b"".join(FRAMES[:4]))

    def script(asked: Asked) -> Raw | Answer:
        if asked.path == "/session":
            return Answer(body=[encode_json(GREETING)])
        begun.append(Cursor.parse(asked.headers.get("last-event-id", "")).seq)
        said = HELLO + b"".join(FRAMES[begun[-1] :])
        return Raw(steps=[UNMEASURED + (said if len(begun) > 1 else said[: border + offset])])

    readers = Readers(LOG)
    async with ScriptedPeer(script) as peer, Terminator(peer.port, closing) as terminator:
        await readers.read(terminator.url)
    assert begun == [0, 3 if offset < 0 else 4]
    readers.check()
