"""A line does to its bytes what it is told, in each direction, and alters none."""

import asyncio
import socket
import struct
from typing import Any

import pytest

from outlast.testing.line import HELD, PIECE
from outlast.testing.network import Bandwidth, BlackHole, Chop, Cut, Fault, Latency, Stall, Way
from tests.ends import End, joined, proxied

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

BYTES = bytes(range(256)) * 1024
WINDOW = 4096


def now() -> float:
    return asyncio.get_running_loop().time()


def talks(way: Way, client: End, server: End) -> tuple[End, End]:
    """Return who speaks and who hears in a direction."""
    return (client, server) if way is Way.UP else (server, client)


WAYS = pytest.mark.parametrize("way", [Way.UP, Way.DOWN], ids=["up", "down"])
ENDS = pytest.mark.parametrize("reset", [False, True], ids=["fin", "reset"])


async def test_without_a_fault_bytes_and_ends_come_through_as_they_are() -> None:
    async with proxied() as (proxy, target), joined(proxy, target) as (client, server):
        for speaker, hearer in ((client, server), (server, client)):
            speaker.writer.write(BYTES)
            speaker.writer.write_eof()
            assert await hearer.ended() == BYTES
        await proxy.until(lambda traffic: traffic.live == 0)
        assert (proxy.traffic.up, proxy.traffic.down) == (len(BYTES), len(BYTES))


async def test_one_direction_goes_on_when_the_other_has_ended() -> None:
    async with proxied() as (proxy, target), joined(proxy, target) as (client, server):
        client.writer.write_eof()
        assert await server.ended() == b""
        server.writer.write(b"still here")
        assert await client.heard() == b"still here"


@pytest.mark.parametrize("aborted", [0, 1], ids=["the client", "the server"])
async def test_a_peer_that_breaks_off_breaks_the_other_off(aborted: int) -> None:
    async with proxied() as (proxy, target), joined(proxy, target) as pair:
        pair[aborted].writer.write(b"unread")
        await pair[1 - aborted].heard()
        reset(pair[aborted])
        assert await pair[1 - aborted].ended() == "reset"


async def test_a_reset_that_only_a_write_noticed_is_told_as_a_reset() -> None:
    async with proxied(window=WINDOW) as (proxy, target), joined(proxy, target) as (client, server):
        client.writer.write(BYTES * 20)
        await server.heard()  # and reads no more: nobody waits for what the client says
        reset(client)
        server.writer.write(b"x")
        assert await server.ended() == "reset"


def reset(end: End) -> None:
    end.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.writer.transport.abort()


# ---- later, slower, in pieces ----------------------------------------------------------------------------------------


@WAYS
async def test_latency_delays_every_byte_by_its_seconds_and_the_other_direction_by_none(way: Way) -> None:
    async with proxied() as (proxy, target), joined(proxy, target) as (client, server):
        proxy.impose(Latency(0.5, way))
        speaker, hearer = talks(way, client, server)
        began = now()
        for _ in range(3):  # a second apart would be a line of one piece: these are under way together
            speaker.writer.write(b"x")
            await asyncio.sleep(0.1)
        seen = [(await hearer.reader.readexactly(1), now() - began) for _ in range(3)]
        assert seen == [(b"x", pytest.approx(0.5)), (b"x", pytest.approx(0.6)), (b"x", pytest.approx(0.7))]
        hearer.writer.write(b"y")
        assert (await speaker.reader.readexactly(1), now() - began) == (b"y", pytest.approx(0.7))


async def test_the_end_is_as_late_as_the_bytes_before_it() -> None:
    async with proxied() as (proxy, target), joined(proxy, target) as (client, server):
        proxy.impose(Latency(2))
        server.writer.write(b"last words")
        server.writer.write_eof()
        began = now()
        assert (await client.ended(), now() - began) == (b"last words", pytest.approx(2))


@WAYS
async def test_bandwidth_lets_so_many_bytes_through_in_a_second(way: Way) -> None:
    async with proxied() as (proxy, target), joined(proxy, target) as (client, server):
        proxy.impose(Bandwidth(1000, way))
        speaker, hearer = talks(way, client, server)
        began = now()
        speaker.writer.write(BYTES[:3000])
        assert (await hearer.reader.readexactly(1000), now() - began) == (BYTES[:1000], pytest.approx(1))
        assert (await hearer.reader.readexactly(2000), now() - began) == (BYTES[1000:3000], pytest.approx(3))


@WAYS
async def test_chopped_bytes_come_in_pieces_of_the_size_at_most(way: Way) -> None:
    async with proxied() as (proxy, target), joined(proxy, target) as (client, server):
        proxy.impose(Chop(7, way), Bandwidth(100_000, way))  # so that no two pieces wait together
        speaker, hearer = talks(way, client, server)
        speaker.writer.write(BYTES[:100])
        sizes: list[int] = []
        while sum(sizes) < 100:
            sizes.append(len(await hearer.reader.read(100)))
        assert sizes == [7] * 14 + [2]


# ---- nothing comes through -------------------------------------------------------------------------------------------


@WAYS
async def test_what_is_stalled_is_held_and_its_speaker_feels_it_until_it_is_lifted(way: Way) -> None:
    async with proxied(window=WINDOW) as (proxy, target), joined(proxy, target) as (client, server):
        speaker, hearer = talks(way, client, server)
        proxy.impose(Stall(way))
        speaker.writer.write(BYTES * 20)
        draining = asyncio.create_task(speaker.writer.drain())
        assert await hearer.heard() == b""
        assert not draining.done()
        hearer.writer.write(b"the other direction")
        assert await speaker.heard() == b"the other direction"
        proxy.lift()
        assert await hearer.reader.readexactly(len(BYTES) * 20) == BYTES * 20
        await draining


@pytest.mark.parametrize("said", [b"", b"bytes"])
async def test_an_end_is_stalled_like_the_bytes_before_it(said: bytes) -> None:
    async with proxied() as (proxy, target), joined(proxy, target) as (client, server):
        proxy.impose(Stall())
        server.writer.write(said)
        await server.close()
        assert await client.heard() == b""
        assert not client.reader.at_eof()
        proxy.lift()
        assert await client.ended() == said


async def test_a_reset_is_stalled_too() -> None:
    async with proxied() as (proxy, target), joined(proxy, target) as (client, server):
        proxy.impose(Stall())
        reset(server)
        assert await client.heard() == b""
        proxy.lift()
        assert await client.ended() == "reset"


@WAYS
async def test_a_black_hole_swallows_one_direction_and_tells_nobody(way: Way) -> None:
    async with proxied() as (proxy, target), joined(proxy, target) as (client, server):
        speaker, hearer = talks(way, client, server)
        proxy.impose(BlackHole(way))
        speaker.writer.write(BYTES * 20)
        await speaker.writer.drain()  # as if all was well
        hearer.writer.write(b"heard")
        assert await speaker.heard() == b"heard"
        await speaker.close()
        assert await hearer.heard() == b""
        assert not hearer.reader.at_eof()
        assert proxy.traffic.live == 1


async def test_a_line_that_lost_bytes_stays_a_black_hole_and_one_that_lost_none_does_not() -> None:
    async with (
        proxied() as (proxy, target),
        joined(proxy, target) as (client, server),
        joined(proxy, target) as (other, its_server),
    ):
        proxy.impose(BlackHole())
        server.writer.write(b"lost")
        assert await client.heard() == b""
        proxy.lift()
        server.writer.write(b"after a hole")
        its_server.writer.write(b"whole")
        assert await client.heard() == b""
        assert await other.heard() == b"whole"


@pytest.mark.parametrize("place", [1, 1000, PIECE, PIECE + 1, HELD + 1])
@pytest.mark.parametrize("fault", [Stall, BlackHole])
async def test_a_stream_is_held_or_swallowed_from_exactly_so_many_bytes_on_and_nobody_is_told(
    fault: type[Stall | BlackHole], place: int
) -> None:
    async with (
        proxied(each=lambda _: [fault(after=place)]) as (proxy, target),
        joined(proxy, target) as (client, server),
    ):
        client.writer.write(b"up")
        assert await server.heard() == b"up"  # nothing has come down yet
        server.writer.write(BYTES)
        assert await client.reader.readexactly(place) == BYTES[:place]
        client.writer.write(b"and up")
        assert await server.heard() == b"up"
        await server.abort()
        assert await client.heard() == b""
        assert not client.reader.at_eof()
        assert proxy.traffic.down == place


# ---- the end ---------------------------------------------------------------------------------------------------------


@ENDS
@pytest.mark.parametrize("place", [0, 1, 1000, PIECE, PIECE + 1, HELD + 1])
async def test_a_stream_is_cut_after_exactly_so_many_bytes(place: int, reset: bool) -> None:
    async with proxied(each=lambda _: [Cut(place, reset=reset)]) as (proxy, target):
        async with joined(proxy, target) as (client, server):
            client.writer.write(b"up")  # does not count
            server.writer.write(BYTES)
            came = bytearray()
            try:
                while some := await client.reader.read(PIECE):
                    came += some
                ending = "fin"
            except ConnectionResetError:
                ending = "reset"
            assert ending == ("reset" if reset else "fin")
            assert bytes(came) == BYTES[: len(came)]
            assert len(came) == place or (reset and len(came) < place)  # a reset may overtake what was sent before it
        await proxy.until(lambda traffic: traffic.live == 0)
        assert proxy.traffic.down == place


async def test_a_cut_that_is_imposed_too_late_cuts_at_once() -> None:
    async with proxied() as (proxy, target), joined(proxy, target) as (client, server):
        server.writer.write(b"12345")
        assert await client.heard() == b"12345"
        proxy.impose(Cut(6))
        server.writer.write(b"67")
        assert await client.heard() == b"123456"
        assert client.reader.at_eof() or await client.ended() == b"123456"


@ENDS
@pytest.mark.parametrize("fault", [None, Latency(9), Stall(), BlackHole()], ids=lambda fault: type(fault).__name__)
async def test_a_cut_now_ends_both_directions_under_any_fault(fault: Fault | None, reset: bool) -> None:
    async with proxied() as (proxy, target), joined(proxy, target) as (client, server):
        if fault is not None:
            proxy.impose(fault)
        proxy.cut(reset=reset)
        assert (await client.ended(), await server.ended()) == (("reset", "reset") if reset else (b"", b""))
        await client.close()
        await server.close()
        await proxy.until(lambda traffic: traffic.live == 0)


async def test_after_a_cut_what_a_peer_still_says_is_swallowed_until_the_client_closes() -> None:
    async with proxied() as (proxy, target), joined(proxy, target) as (client, server):
        proxy.cut()
        server.writer.write(BYTES)
        client.writer.write(BYTES)
        assert (await client.ended(), await server.ended()) == (b"", b"")
        assert proxy.traffic.live == 1
        await client.close()
        await proxy.until(lambda traffic: traffic.live == 0)
        assert (proxy.traffic.up, proxy.traffic.down) == (0, 0)


async def test_faults_of_one_connection_leave_the_others_alone() -> None:
    async with proxied() as (proxy, target), joined(proxy, target) as pair, joined(proxy, target) as other:
        first, second = proxy.connections
        first.impose(Stall())
        for _, server in (pair, other):
            server.writer.write(b"said")
        assert [await client.heard() for client, _ in (pair, other)] == [b"", b"said"]
        assert [(each.number, each.up, each.down) for each in (first, second)] == [(1, 0, 0), (2, 0, 4)]
        second.cut(reset=True)
        assert await other[0].ended() == "reset"
        first.impose()
        assert await pair[0].heard() == b"said"


@WAYS
async def test_what_is_held_has_a_bound(way: Way) -> None:
    async with proxied(window=WINDOW) as (proxy, target), joined(proxy, target) as (client, server):
        proxy.impose(Latency(3600, way))
        speaker, hearer = talks(way, client, server)
        speaker.writer.write(BYTES * 20)
        await hearer.heard()
        (connection,) = proxy.connections
        line: Any = connection._up if way is Way.UP else connection._down
        assert HELD <= line._size < HELD + PIECE
