"""A reader over real sockets, whose connections are cut at every byte, swallowed, held and refused."""

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from itertools import accumulate

import httpx2
import pytest

from outlast import Cursor, ReceivedEvent, connect
from outlast.client.client import Client
from outlast.client.received import Received
from outlast.log.event import encode_json
from outlast.supervision.phase import Phase
from outlast.testing.diary import Diary
from outlast.testing.history import History
from outlast.testing.invariants import CLIENTS, check
from outlast.testing.network import BlackHole, Cut, Fault, Refuse, Stall, Way
from outlast.testing.peer import Answer, Asked, Hold, Raw, ScriptedPeer
from outlast.testing.proxy import FaultProxy
from tests.integration.stream import FRAMES, GREETING, HEAD, HELLO, LOG, PLACES, SAID, TEXTS, WHOLE

pytestmark = [pytest.mark.anyio, pytest.mark.virtual, pytest.mark.timeout(180), pytest.mark.fault("X15")]

BEGINNING = HEAD + b"%x\r\n" % len(WHOLE)  # before the first byte of the body
BORDERS = list(accumulate(map(len, FRAMES), initial=len(BEGINNING + HELLO)))
TOGETHER = 128  # readers at the same time: the pool of their client grows slow with many connections


def is_whole(received: Sequence[Received]) -> bool:
    """Tell whether this is what was said, each event once and in order."""
    taken = [(each.cursor, each.event) for each in received if isinstance(each, ReceivedEvent)]
    return len(taken) == len(received) and taken == list(zip(PLACES, SAID, strict=True))


WHO = Answer(body=[encode_json(GREETING)])


def asks_who(asked: Asked) -> bool:
    """Tell whether it is asked who is there, and nothing of a run."""
    return asked.path.endswith("/session")


def after(asked: Asked) -> bytes:
    """Return the stream that a request asks for."""
    return HELLO + b"".join(FRAMES[Cursor.parse(asked.headers.get("last-event-id", "")).seq :])


# ---- cut at every byte -----------------------------------------------------------------------------------------------


class Ending(Enum):
    """How an answer breaks off: its connection closed, reset, or it ends in peace in the middle of a frame."""

    FIN = auto()
    RESET = auto()
    PEACE = auto()


def telling() -> list[int]:
    """Return the places around the borders of frames of every kind, and some in every frame and in the head."""
    borders = [*BORDERS[: len(TEXTS) + 2], *BORDERS[-3:]]
    near = {border + offset for border in borders for offset in range(-2, 3)}
    return sorted((near | set(range(0, BORDERS[-1], 41))) & set(range(BORDERS[-1])))


def answer(body: bytes) -> Raw:
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return Raw(steps=[HEAD + chunk + b"0\r\n\r\n"])


async def read_cut(peer: ScriptedPeer, place: int, ending: Ending, client: httpx2.AsyncClient) -> None:
    """Read through an answer that breaks off after `place` bytes, and judge what was seen of it."""
    cut = [] if ending is Ending.PEACE else [Cut(place, reset=ending is Ending.RESET)]

    def each(number: int) -> Iterable[Fault]:
        return cut if number == 2 else ()  # the first one is asked who is there

    async with FaultProxy("127.0.0.1", peer.port, each=each) as proxy:
        async with connect(proxy.url, client=client, jitter=lambda: 0.0) as connected:
            received = [each async for each in connected.follow(str(place))]
        assert is_whole(received), place
        assert proxy.traffic.accepted == 3, place


@pytest.mark.case(41, 43, 87)
@pytest.mark.parametrize("ending", list(Ending))
@pytest.mark.parametrize(
    "places",
    [
        pytest.param(telling(), id="at telling places"),
        pytest.param(range(BORDERS[-1]), id="at every byte", marks=pytest.mark.long),
    ],
)
async def test_however_a_stream_is_cut_a_reader_sees_each_event_once_and_none_of_a_cut_frame(
    places: Sequence[int], ending: Ending
) -> None:
    assert len(WHOLE) >= 4096
    begun: dict[int, list[int]] = {place: [] for place in places}

    def script(asked: Asked) -> Raw | Answer:
        if asks_who(asked):
            return WHO
        place = int(asked.path.split("/")[2])
        begun[place].append(Cursor.parse(asked.headers.get("last-event-id", "")).seq)
        if ending is Ending.PEACE and len(begun[place]) == 1:
            return answer(WHOLE[: max(place - len(BEGINNING), 0)])
        return answer(after(asked) if place % 2 else WHOLE)  # by turns what was asked for, and everything once more

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    async with ScriptedPeer(script) as peer, httpx2.AsyncClient(limits=limits) as client:
        for first in range(0, len(places), TOGETHER):
            async with asyncio.TaskGroup() as readers:
                for place in places[first : first + TOGETHER]:
                    readers.create_task(read_cut(peer, place, ending, client))
    for place, (*first, last) in begun.items():
        complete = max(bisect_right(BORDERS, place) - 1, 0)  # frames: a cut one comes again
        assert first in ([0], []), place  # a cut at the first byte may come before the request
        assert last == complete or (ending is Ending.RESET and last < complete), place  # it may overtake the bytes


# ---- swallowed, held, refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "is_cut"),
    [
        pytest.param(BlackHole(), False, id="a black hole"),
        pytest.param(BlackHole(Way.DOWN), False, id="a black hole downwards"),
        pytest.param(BlackHole(Way.UP), True, id="a black hole upwards"),
        pytest.param(Stall(), False, id="held"),
        pytest.param(Refuse(), True, id="refused"),
        pytest.param(Refuse(listening=True), True, id="reset when it comes"),
    ],
)
@pytest.mark.invariant("client-exactly-once")
@pytest.mark.parametrize("known", [0, 1, 20, len(SAID) - 1])
async def test_through_a_network_that_says_nothing_a_reader_comes_back_and_sees_each_event_once(
    fault: Fault | Refuse, is_cut: bool, known: int
) -> None:
    left: list[Phase] = []
    half = len(FRAMES[known]) // 2

    def script(asked: Asked) -> Answer:
        if asks_who(asked):
            return WHO
        streams.append(asked)
        if len(streams) == 1:  # up to the middle of a frame, and no more
            return Answer(body=[HELLO + b"".join(FRAMES[:known]) + FRAMES[known][:half], Hold()])
        return Answer(body=[after(asked)])

    streams: list[Asked] = []
    async with ScriptedPeer(script) as peer, FaultProxy("127.0.0.1", peer.port) as proxy:

        async def fail(client: Client) -> None:
            arrived = len(HELLO + b"".join(FRAMES[:known])) + half
            await proxy.until(lambda traffic: traffic.down >= arrived)
            proxy.impose(fault)
            if is_cut:
                proxy.cut()
            async for record in client.state:
                if record.link.phase is Phase.BACKOFF:  # the link was given up, and so was the first try of another
                    left.append(record.link.phase)
                    proxy.lift()
                    return

        history = History()
        diary = Diary("reader", "log", note=history.note)
        async with connect(proxy.url, jitter=lambda: 0.5) as client:
            failing = asyncio.create_task(fail(client))
            await diary.read(client.follow("run", after=diary.begin()))
            await failing
        history.finish([], {"log": LOG})
        check(history, CLIENTS)
    assert left == [Phase.BACKOFF]
    assert diary.cursor == PLACES[-1]
    place = str(PLACES[known - 1]) if known else "0"
    assert {each.headers.get("last-event-id", "0") for each in streams[1:]} == {place}
