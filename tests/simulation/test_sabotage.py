"""The simulations of clients can fail: a client that does one thing wrong is found out by a few seeds."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import pytest

from outlast.client.follow import Follow
from outlast.client.received import Received, ReceivedEvent, event_of
from outlast.client.share import Reader
from outlast.client.stream import HTTPStream, SSEStream
from outlast.client.supervisor import Supervisor
from outlast.client.transport import Lost
from outlast.errors import OutlastError
from outlast.supervision.ladder import Ladder
from outlast.testing.clock import run
from outlast.wire.sse import Message
from tests.simulation.crowd import history_of
from tests.simulation.test_delivery import Scene, live

SEEDS = range(6)
KEPT: list[object] = []
"""What nothing else would keep from the collector of garbage, which closes what it finds."""
FOUND = (AssertionError, OutlastError, TimeoutError)
"""How a simulation says that a client is wrong."""

READ, RECEIVE, NEXT, TAKE = Follow._read, SSEStream.receive, Reader.next, Reader.take


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


async def move_early(self: Reader) -> Sequence[Received]:
    received = await NEXT(self)
    for each in received:
        TAKE(self, each)
    return received


def stay(_self: Reader, _received: object) -> None:
    """Do not move: it was moved before."""


def hardly_wait(_self: Ladder, _profile: object, *, now: float, jitter: float) -> float:
    del now
    return 0.1 + 0.1 * jitter


Wrong: TypeAlias = dict[tuple[type, str], Any]

OF_DELIVERY: list[Wrong] = [
    {(Follow, "_read"): trust_what_is_ahead},
    {(Follow, "_read"): take_what_comes_again},
    {(SSEStream, "receive"): believe_a_cut_frame},
    {(HTTPStream, "close"): keep_the_stream},
    {(Reader, "next"): move_early, (Reader, "take"): stay},
    {(Supervisor, "_release"): keep_the_link},
]
OF_THE_CROWD: list[Wrong] = [
    {(SSEStream, "receive"): believe_a_cut_frame},
    {(Ladder, "wait"): hardly_wait},
]


# ---- is found out -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene(600)


@pytest.fixture
def wrong(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for (owner, name), replaced in request.param.items():
        monkeypatch.setattr(owner, name, replaced)
    yield
    KEPT.clear()


def name_of(wrong: Wrong) -> str:
    return next(iter(wrong.values())).__name__


def check_found(live: Callable[[int], object]) -> None:
    """Check that one of the seeds fails, and that it fails by what it is there to find."""
    for seed in SEEDS:
        try:
            live(seed)
        except FOUND:
            return
        except BaseExceptionGroup as errors:
            _, others = errors.split(FOUND)
            if others is not None:
                raise others from None
            return
    pytest.fail("nobody has found it")


def test_a_sound_client_is_found_sound(scene: Scene) -> None:
    for seed in SEEDS:
        run(live(seed, scene))


@pytest.mark.parametrize("wrong", OF_DELIVERY, ids=name_of, indirect=True)
@pytest.mark.usefixtures("wrong")
def test_a_wrong_client_is_found_out_by_what_is_delivered(scene: Scene) -> None:
    check_found(lambda seed: run(live(seed, scene)))


@pytest.mark.parametrize("wrong", OF_THE_CROWD, ids=name_of, indirect=True)
@pytest.mark.usefixtures("wrong")
def test_a_wrong_client_is_found_out_in_a_whole_world() -> None:
    check_found(history_of)
