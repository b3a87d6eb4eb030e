"""Links to many servers stand side by side, and each ends with what it owned."""

import asyncio
from pathlib import Path

import pytest

from outlast.client.client import Client
from outlast.client.registry import Registry
from outlast.errors import ClientClosed, InputInvalid
from outlast.stores.sqlite.keep import Keep
from outlast.supervision.phase import Phase
from outlast.testing.peer import Answer, Hold, ScriptedPeer
from tests.answers import GREETING

pytestmark = [pytest.mark.anyio, pytest.mark.virtual, pytest.mark.behaviour("M1")]


async def come_to(client: Client, phase: Phase) -> None:
    async for record in client.state:
        if record.link.phase is phase:
            return


async def test_what_becomes_of_one_server_touches_no_other() -> None:
    async with ScriptedPeer([GREETING]) as there, Registry() as servers:
        living = await servers.add("living", there.url)
        missing = await servers.add("missing", "http://127.0.0.1:1")
        await come_to(missing, Phase.BACKOFF)
        await come_to(living, Phase.LIVE)
        await servers.remove("missing")
        assert missing.state.record.link.phase is Phase.CLOSED
        assert living.state.record.link.phase is Phase.LIVE
        assert list(servers) == ["living"]


async def test_the_same_server_added_again_keeps_its_link_and_another_replaces_it() -> None:
    async with ScriptedPeer([GREETING]) as there, Registry() as servers:
        first = await servers.add("here", there.url, headers={"authorization": "a"})
        await come_to(first, Phase.LIVE)
        assert await servers.add("here", there.url, headers={"authorization": "a"}) is first
        assert (first.state.record.link.generation, len(there.asked)) == (1, 1)
        other = await servers.add("here", there.url, headers={"authorization": "a"}, transports=["long-poll"])
        assert other is not first
        await come_to(other, Phase.LIVE)
        second = await servers.add("here", there.url, headers={"authorization": "b"})
        assert second is not other
        assert first.state.record.link.phase is Phase.CLOSED
        await come_to(second, Phase.LIVE)
        assert [asked.headers["authorization"] for asked in there.asked] == ["a", "a", "b"]
        await there.until(lambda peer: peer.open == 1)
        assert (len(servers), servers["here"]) == (1, second)


async def test_servers_may_share_what_is_kept_and_each_has_its_own(tmp_path: Path) -> None:
    keep = Keep(tmp_path / "client.db")
    async with ScriptedPeer([GREETING]) as there, Registry() as servers:
        first = await servers.add("here", there.url, keep=keep)
        assert await servers.add("here", there.url, keep=keep) is first
        missing = await servers.add("missing", "http://127.0.0.1:1", keep=keep)
        send = await missing.outbox.start("chat", id="r1")
        await come_to(first, Phase.LIVE)
        assert (await first.outbox.sends(), await missing.outbox.sends()) == ([], [send])
        assert await servers.add("here", there.url) is not first


async def test_what_is_removed_ends_what_hung_on_it() -> None:
    async with ScriptedPeer([GREETING, Answer(body=[Hold()])]) as there, Registry() as servers:
        client = await servers.add("here", there.url)
        following = asyncio.create_task(anext(client.follow("r")))
        await there.until(lambda peer: len(peer.asked) == 2)
        await servers.remove("here")
        with pytest.raises(ClientClosed):
            await following
        await there.until(lambda peer: peer.open == 0)
        await servers.remove("here")  # harmless twice
        with pytest.raises(KeyError):
            servers["here"]


async def test_nothing_begins_once_it_is_closed() -> None:
    async with ScriptedPeer([GREETING]) as there:
        async with Registry() as servers:
            client = await servers.add("here", there.url)
            await come_to(client, Phase.LIVE)
        await there.until(lambda peer: peer.open == 0)
        asked = len(there.asked)
        with pytest.raises(ClientClosed):
            await servers.add("again", there.url)
        await asyncio.sleep(3600)
        assert len(there.asked) == asked


async def test_a_server_that_cannot_be_added_leaves_nothing() -> None:
    async with Registry() as servers:
        with pytest.raises(InputInvalid):
            await servers.add("here", "no url")
        assert not servers


async def test_a_server_that_is_added_twice_at_once_is_held_once() -> None:
    async with ScriptedPeer([GREETING]) as there, Registry() as servers:
        adding = (servers.add("here", there.url, headers={"authorization": name}) for name in "ab")
        first, second = await asyncio.gather(*adding)
        await come_to(second, Phase.LIVE)
        assert (first.state.record.link.phase, servers["here"]) == (Phase.CLOSED, second)
        await there.until(lambda peer: peer.open == 1)
