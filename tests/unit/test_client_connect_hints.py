"""A client that is hinted at what its machine goes through, by scripted sources on the virtual clock."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from outlast import connect
from outlast.client.client import Client
from outlast.client.hints.path import Address, Path
from outlast.client.hints.sleep import NOTICED, Clocks
from outlast.client.hints.watch import LOOK_EVERY, SETTLE, watching
from outlast.supervision.phase import Phase
from outlast.testing.peer import Answer, ScriptedPeer

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

HOME = Path(addresses=frozenset({Address(interface=2, packed=b"\x01")}), routes=frozenset())
AWAY = Path(addresses=frozenset({Address(interface=2, packed=b"\x02")}), routes=frozenset())
GREETING = json.dumps({"boot_id": "b00t", "protocol": 1, "heartbeat": 10}).encode()


class Surroundings:
    """A machine whose network and sleep are a test's; what is left of the real one is a socket that rings."""

    def __init__(self) -> None:
        self.path = HOME
        self.asleep = 0.0
        self.subscribed = False
        self._ours, self._theirs = socket.socketpair()

    def wander(self) -> None:
        self.path = AWAY
        self._theirs.send(b"!")

    def subscribe(self) -> "Surroundings":
        self.subscribed = True
        return self

    def clocks(self) -> Clocks:
        now = asyncio.get_running_loop().time
        return Clocks(awake=now, always=lambda: now() + self.asleep, noticed=NOTICED, is_exact=True)

    def fileno(self) -> int:
        return self._ours.fileno()

    def heard(self) -> bool:
        return bool(self._ours.recv(100))

    def read(self) -> Path:
        return self.path

    def close(self) -> None:
        self.subscribed = False

    def end(self) -> None:
        self._ours.close()
        self._theirs.close()


@pytest.fixture
def surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Surroundings]:
    around = Surroundings()
    watched = partial(watching, subscribe=around.subscribe, clocks=around.clocks)
    monkeypatch.setattr("outlast.client.connect.watching", watched)
    yield around
    around.end()


@asynccontextmanager
async def connected(*, hints: bool = True) -> AsyncIterator[tuple[Client, ScriptedPeer]]:
    """Yield a client whose link is live, and the peer that it is live to."""
    headers = {"content-type": "application/json", "content-length": str(len(GREETING))}
    async with (
        ScriptedPeer([Answer(headers=headers, body=[GREETING])]) as peer,
        connect(peer.url, hints=hints) as client,
    ):
        await until(client, generation=1)
        yield client, peer


async def until(client: Client, *, generation: int) -> None:
    async for record in client.state:
        if (record.link.phase, record.link.generation) == (Phase.LIVE, generation):
            return


@pytest.mark.behaviour("N6")
async def test_a_client_moves_to_another_connection_when_the_network_is_another(surroundings: Surroundings) -> None:
    async with connected() as (client, peer):
        surroundings.wander()
        await until(client, generation=2)
        assert peer.most == 2, "made before the old one is broken"
    assert not surroundings.subscribed


@pytest.mark.behaviour("N6")
async def test_a_client_moves_to_another_connection_after_a_sleep(surroundings: Surroundings) -> None:
    async with connected() as (client, _):
        surroundings.asleep = 60.0
        await until(client, generation=2)


async def test_without_hints_nobody_looks_and_nothing_is_told(surroundings: Surroundings) -> None:
    async with connected(hints=False) as (client, _):
        assert not surroundings.subscribed
        surroundings.asleep = 60.0
        await asyncio.sleep(3 * max(LOOK_EVERY, SETTLE))
        assert client.state.record.link.generation == 1
