"""The simulations of clients can fail: a client that does one thing wrong is found out by a few seeds."""

from collections.abc import Sequence
from typing import Any

import pytest

from outlast.client.follow import Follow
from outlast.client.received import ReceivedEvent, event_of
from outlast.client.share import Reader
from outlast.client.stream import HTTPStream, SSEStream
from outlast.client.supervisor import Supervisor
from outlast.client.transport import Lost
from outlast.testing.clock import run
from outlast.wire.sse import Message
from tests.simulation.test_delivery import Scene, live

SEEDS = range(6)
KEPT: list[object] = []
"""What nothing else would keep from the collector of garbage, which closes what it finds."""

READ, RECEIVE, CLOSE, NEXT = Follow._read, SSEStream.receive, HTTPStream.close, Reader.next


# ---- what is wrong ----------------------------------------------------------------------------------------------


def trust_what_is_ahead(self: Follow, message: Message) -> ReceivedEvent | None:
    received = event_of(message)
    return received if received is not None and received.seq > self.cursor.seq else None


def take_what_comes_again(self: Follow, message: Message) -> ReceivedEvent | None:
    received = event_of(message)
    return received if received is not None and received.seq <= self.cursor.seq else READ(self, message)


async def believe_a_cut_frame(self: SSEStream) -> Sequence[Message]:
    try:
        return await RECEIVE(self)
    except Lost:
        if messages := self._parser.feed(b"\n\n"):
            return messages
        raise


async def keep_the_stream(self: HTTPStream) -> None:
    KEPT.append(self)


def keep_the_link(self: Supervisor, _number: int) -> None:
    KEPT.append(self)


async def move_early(self: Reader) -> Any:
    items = await NEXT(self)
    for received in items:
        self._taken = received.cursor
        self.number += 1
    return items


def stay(_self: Reader, _received: object) -> None:
    """Do not move: it was moved before."""


SABOTAGE: list[dict[tuple[type, str], Any]] = [
    {(Follow, "_read"): trust_what_is_ahead},
    {(Follow, "_read"): take_what_comes_again},
    {(SSEStream, "receive"): believe_a_cut_frame},
    {(HTTPStream, "close"): keep_the_stream},
    {(Reader, "next"): move_early, (Reader, "take"): stay},
    {(Supervisor, "_release"): lambda _self, _number: None},
]


# ---- is found out -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene(600)


def deliver(scene: Scene) -> None:
    for seed in SEEDS:
        run(live(seed, scene))


def test_a_sound_client_is_found_sound(scene: Scene) -> None:
    deliver(scene)


@pytest.mark.parametrize("wrong", SABOTAGE, ids=lambda wrong: next(iter(wrong.values())).__name__)
def test_a_client_that_is_wrong_is_found_out(
    wrong: dict[tuple[type, str], Any], scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for (owner, name), replaced in wrong.items():
        monkeypatch.setattr(owner, name, replaced)
    with pytest.raises((AssertionError, ExceptionGroup)):
        deliver(scene)
    KEPT.clear()
