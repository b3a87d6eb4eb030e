"""A fault proxy does what it is told to all of its connections, counts them, and leaves nothing behind."""

import asyncio
from collections.abc import Callable

import pytest

from outlast.testing.line import HELD
from outlast.testing.network import Chop, Cut, Fault, Latency, Refuse, Stall, Way
from outlast.testing.proxy import FaultProxy, Traffic
from tests.ends import End, connect, joined, proxied, served

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


async def test_it_listens_on_this_machine_and_counts_what_goes_through() -> None:
    async with proxied() as (proxy, target):
        assert proxy.url == f"http://127.0.0.1:{proxy.port}"
        assert proxy.traffic == Traffic(accepted=0, live=0, most=0, up=0, down=0)
        async with joined(proxy, target) as (client, server), joined(proxy, target):
            client.writer.write(b"four")
            server.writer.write(b"sixsix")
            assert (await server.heard(), await client.heard()) == (b"four", b"sixsix")
            assert proxy.traffic == Traffic(accepted=2, live=2, most=2, up=4, down=6)
        await proxy.until(lambda traffic: traffic.live == 0)
        async with joined(proxy, target):
            assert proxy.traffic == Traffic(accepted=3, live=1, most=2, up=4, down=6)


async def test_what_is_imposed_holds_for_connections_that_are_there_and_for_those_that_come() -> None:
    async with proxied() as (proxy, target), joined(proxy, target) as (client, server):
        proxy.impose(Stall(Way.DOWN))
        server.writer.write(b"before")
        async with joined(proxy, target) as (late_client, late_server):
            late_server.writer.write(b"after")
            assert (await client.heard(), await late_client.heard()) == (b"", b"")
            proxy.impose(Chop(1))  # in place of the stall
            assert (await client.heard(), await late_client.heard()) == (b"before", b"after")
            proxy.lift()
            assert all(not each._faults for each in proxy.connections)


async def test_each_connection_is_born_with_faults_of_its_own_besides_the_common_ones() -> None:
    def each(number: int) -> list[Fault]:
        return [Cut(number)] if number < 3 else []

    async with proxied(each=each) as (proxy, target):
        proxy.impose(Latency(1))
        began = asyncio.get_running_loop().time()
        for number in (1, 2):
            async with joined(proxy, target) as (client, server):
                server.writer.write(b"a stream")
                assert await client.ended() == b"a stream"[:number]
        assert asyncio.get_running_loop().time() - began >= 2
        async with joined(proxy, target) as (client, server):
            server.writer.write(b"a stream")
            assert await client.reader.readexactly(8) == b"a stream"


async def test_refused_means_that_nobody_listens_until_it_is_lifted() -> None:
    async with proxied() as (proxy, target), joined(proxy, target) as (client, server):
        port = proxy.port
        proxy.impose(Refuse())
        with pytest.raises(ConnectionRefusedError):
            await connect(port)
        server.writer.write(b"still open")
        assert await client.heard() == b"still open"
        proxy.lift()
        async with joined(proxy, target):
            assert (proxy.port, proxy.traffic.accepted) == (port, 2)


async def test_refused_while_listening_means_that_each_is_reset() -> None:
    async with proxied() as (proxy, target):
        proxy.impose(Refuse(listening=True))
        with pytest.raises(ConnectionResetError):  # while it connects, or right after
            await (await connect(proxy.port)).reader.read()
        assert proxy.traffic == Traffic(accepted=1, live=0, most=0, up=0, down=0)
        proxy.lift()
        async with joined(proxy, target) as (client, server):
            server.writer.write(b"open")
            assert await client.heard() == b"open"


async def test_a_retarget_leads_those_who_come_elsewhere_and_leaves_the_others() -> None:
    async with proxied() as (proxy, target), served() as other, joined(proxy, target) as (client, server):
        proxy.retarget(other.port)
        async with joined(proxy, other) as (late_client, late_server):
            server.writer.write(b"one")
            late_server.writer.write(b"other")
            assert (await client.heard(), await late_client.heard()) == (b"one", b"other")


async def test_a_target_where_nobody_listens_resets_its_clients() -> None:
    async with served() as gone:
        pass
    async with FaultProxy("127.0.0.1", gone.port) as proxy:
        client = await connect(proxy.port)
        assert await client.ended() == "reset"
        await client.close()


def idle(_proxy: FaultProxy, _client: End, _server: End) -> None:
    """Leave the connection open and silent."""


def full(proxy: FaultProxy, client: End, server: End) -> None:
    proxy.impose(Latency(3600))
    for end in (client, server):
        end.writer.write(bytes(4 * HELD))


def cut(proxy: FaultProxy, client: End, server: End) -> None:
    proxy.cut()


def refusing(proxy: FaultProxy, client: End, server: End) -> None:
    proxy.impose(Refuse())


@pytest.mark.parametrize("leave", [idle, full, cut, refusing])
async def test_everything_ends_when_it_is_left(leave: Callable[[FaultProxy, End, End], None]) -> None:
    async with served() as target:
        async with FaultProxy("127.0.0.1", target.port) as proxy:
            client = await connect(proxy.port)
            server = await target.arrived.get()
            leave(proxy, client, server)
            await client.heard()
        assert proxy.connections == ()
        with pytest.raises(ConnectionRefusedError):
            await connect(proxy.port)
        client.writer.transport.abort()
        await client.close()


async def test_a_connection_that_came_just_before_the_end_is_closed_too() -> None:
    async with served() as target:
        async with FaultProxy("127.0.0.1", target.port) as proxy:
            client = await connect(proxy.port)
            await proxy.until(lambda traffic: traffic.accepted == 1)
        assert await client.ended() in {b"", "reset"}
        await client.close()
