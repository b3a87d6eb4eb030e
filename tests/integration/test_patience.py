"""A client on the virtual clock, over real sockets: after how many seconds it calls a server busy, and leaves it."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from outlast.log.cursor import Cursor
from outlast.log.event import encode_json
from outlast.supervision.phase import Grade, Phase, Wakeup
from outlast.supervision.profile import DESKTOP, STANDARD
from outlast.testing.faults import Gate
from outlast.testing.network import BlackHole, Refuse
from outlast.testing.peer import Answer, Asked, Close, Hold, Raw, ScriptedPeer, Step
from outlast.testing.proxy import FaultProxy
from outlast.wire import native
from tests.integration.busy import Watch, watching
from tests.integration.stream import FRAMES, PLACES

pytestmark = [pytest.mark.anyio, pytest.mark.virtual, pytest.mark.fault("X16")]

KNOWN = 3
"""Events that a server says before something happens to it."""
JSON_HEADERS = {"content-type": "application/json"}


@dataclass
class Node:
    """A node whose streams do what `course` says after the first events, and which answers while it is not `mute`."""

    name: str
    course: Sequence[Step] = (Hold(),)
    is_mute: bool = False
    keeps_streams: bool = False
    beacon: int | None = None
    nodes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    places: list[int] = field(default_factory=list[int])
    greeting: Gate | None = None

    def __call__(self, asked: Asked) -> Answer | Raw:
        """Answer as a node does; one that is mute accepts, and says nothing."""
        if self.is_mute:
            return Raw(steps=[Hold()])
        if asked.path == "/nodes":
            return says({"nodes": self.nodes})
        if not asked.path.endswith("/events"):
            return says(native.greeting(boot_id=self.name, heartbeat=10, beacon=self.beacon), before=self.greeting)
        place = Cursor.parse(asked.headers.get("last-event-id", "")).seq
        self.places.append(place)
        hello = native.hello(boot_id=self.name, heartbeat=10, head=PLACES[-1])
        if len(self.places) > 1 or place:
            return Answer(body=[hello + b"".join(FRAMES[place:])])
        self.is_mute = not self.keeps_streams
        return Answer(body=[hello + b"".join(FRAMES[:KNOWN]), *self.course])


def says(said: Any, *, before: Gate | None = None) -> Answer:
    """Return an answer of JSON, given at a gate where there is one."""
    return Answer(headers=JSON_HEADERS, body=[*([] if before is None else [before]), encode_json(said)])


def lapsed(name: str) -> dict[str, Any]:
    """Return a node's row in the list of another one, after its lease."""
    return {"id": name, "live": False, "stalled": False}


async def at(watch: Watch, phase: Phase) -> float:
    """Return when a phase is shown that was not yet."""
    await watch.until(lambda watch: phase in watch.phases)
    return watch.shown[-1].at


async def said(watch: Watch, count: int = KNOWN) -> float:
    """Return when so many events have come."""
    await watch.until(lambda watch: len(watch.received) >= count)
    return watch.taken_at[count - 1]


def prove(watch: Watch, *phases: Phase, generations: int = 2) -> None:
    """Hold against the log what has come, and against what was to be what was shown."""
    assert [each.cursor for each in watch.received] == PLACES
    assert watch.phases == [Phase.LIVE, *phases, Phase.LIVE]
    assert watch.generations == generations


# ---- two nodes ----------------------------------------------------------------------------------


@pytest.mark.behaviour("R7")
@pytest.mark.parametrize("late", [False, True], ids=["while the other is asked", "when the other is the link"])
async def test_of_two_nodes_the_stopped_one_is_left_after_25_seconds_and_may_wake_when_it_likes(late: bool) -> None:
    waking, ready = Gate(), Gate()
    stopped = Node("stopped", course=[waking, b"".join(FRAMES[KNOWN : KNOWN + 2]), Hold()])
    other = Node("other", nodes=[lapsed("stopped")], greeting=ready)
    async with (
        ScriptedPeer(stopped) as first,
        ScriptedPeer(other) as second,
        watching([first.url, second.url], "run", profile=STANDARD) as watch,
    ):
        last = await said(watch)
        assert await at(watch, Phase.SWITCHING) - last == 25.0
        await ready.entered.wait()
        if not late:
            waking.open()
            await said(watch, KNOWN + 2)
        ready.open()
        await watch.until(lambda watch: watch.generations == 2)
        waking.open()
    prove(watch, Phase.SLOW, Phase.SWITCHING)
    assert watch.mute == 0.0
    assert other.places == [KNOWN if late else KNOWN + 2]


# ---- busy ---------------------------------------------------------------------------------------


@pytest.mark.behaviour("P14", "P15")
@pytest.mark.parametrize("grade", [Grade.BEACON, Grade.WITNESS])
async def test_a_server_is_busy_within_30_seconds_for_two_minutes_and_then_another_link_is_made(grade: Grade) -> None:
    async with ScriptedPeer(lambda _: says({"boot_id": "node", "loop_lag": 25.0})) as beacon:
        node = Node("node", beacon=beacon.port if grade is Grade.BEACON else None)
        other = Node("other", nodes=[{"id": "node", "live": True, "loop_lag": 25.0}])
        async with ScriptedPeer(node) as first, ScriptedPeer(other) as second:
            urls = [first.url] if grade is Grade.BEACON else [first.url, second.url]
            async with watching(urls, "run", profile=STANDARD) as watch:
                last = await said(watch)
                assert await at(watch, Phase.BUSY) - last == 25.0
                assert await at(watch, Phase.SWITCHING) - last == 145.0
                node.is_mute = False
    prove(watch, Phase.SLOW, Phase.BUSY, Phase.SWITCHING)
    assert watch.evidence == {grade}
    assert watch.mute == 0.0


@pytest.mark.behaviour("P13")
async def test_a_server_whose_handlers_stand_still_while_it_beats_is_busy_after_ten_seconds() -> None:
    beats = [Gate() for _ in range(5)]
    beat = native.heartbeat(dict.fromkeys(native.BEAT), loop_lag=0.0, now=0.0)
    course = [step for gate in beats for step in (gate, beat)]
    node = Node("node", course=[*course, b"".join(FRAMES[KNOWN:])])
    async with ScriptedPeer(node) as peer, watching([peer.url], "run", profile=STANDARD) as watch:
        asked = await said(watch)
        asking = asyncio.create_task(watch.client.status("run"))
        for gate in beats[:-1]:
            await asyncio.sleep(3.0)
            gate.open()
        assert (watch.first(Phase.SLOW), watch.first(Phase.BUSY)) == (asked + 5.0, asked + 10.0)
        asking.cancel()
        beats[-1].open()
    prove(watch, Phase.SLOW, Phase.BUSY, generations=1)
    assert watch.evidence == {Grade.FRAMES}


@pytest.mark.behaviour("P2", "P15")
async def test_desktop_leaves_a_server_35_seconds_after_somebody_looked_whatever_speaks_for_it() -> None:
    async with ScriptedPeer(lambda _: says({"boot_id": "node", "loop_lag": 25.0})) as beacon:
        node = Node("node", beacon=beacon.port)
        async with ScriptedPeer(node) as peer, watching([peer.url], "run", profile=DESKTOP) as watch:
            await said(watch)
            watch.client.wakeup(Wakeup.VISIBLE)
            looked = asyncio.get_running_loop().time()
            assert await at(watch, Phase.SWITCHING) - looked == 35.0
            assert watch.mute == 0.0
            node.is_mute = False
    assert [each.cursor for each in watch.received] == PLACES


# ---- gone ---------------------------------------------------------------------------------------


def look(watch: Watch) -> None:
    watch.client.wakeup(Wakeup.VISIBLE)


def wake(watch: Watch) -> None:
    watch.client.wakeup(Wakeup.RESUMED, seconds=5.0)


@pytest.mark.fault("X15")
@pytest.mark.behaviour("P16")
@pytest.mark.parametrize(
    ("start", "seconds"),
    [
        pytest.param(lambda _: None, 30.0, id="in silence"),
        pytest.param(look, 10.0, id="when somebody looks"),
        pytest.param(wake, 8.0, id="after a short sleep"),
    ],
)
async def test_a_black_hole_is_left_in_time_although_the_beacon_is_reached_past_it(
    start: Callable[[Watch], None], seconds: float
) -> None:
    async with (
        ScriptedPeer(lambda _: says({"boot_id": "node", "loop_lag": 0.0})) as beacon,
        ScriptedPeer(Node("node", keeps_streams=True, beacon=beacon.port)) as peer,
        FaultProxy("127.0.0.1", peer.port) as proxy,
        watching([proxy.url], "run", profile=STANDARD) as watch,
    ):
        last = await said(watch)
        swallowed = proxy.connections
        proxy.impose(BlackHole())
        start(watch)
        assert await at(watch, Phase.SWITCHING) - last == seconds
        proxy.lift()
        for connection in swallowed:
            connection.impose(BlackHole())
    assert [each.cursor for each in watch.received] == PLACES
    assert watch.phases[:3] == [Phase.LIVE, Phase.SLOW, Phase.SWITCHING]
    assert watch.generations == 2


@pytest.mark.fault("X15")
@pytest.mark.behaviour("P16")
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_server_that_is_killed_is_tried_again_at_once(reset: bool) -> None:
    node = Node("node", keeps_streams=True)
    async with (
        ScriptedPeer(node) as peer,
        FaultProxy("127.0.0.1", peer.port) as proxy,
        watching([proxy.url], "run", profile=STANDARD) as watch,
    ):
        await said(watch)
        await asyncio.sleep(1.0)
        killed = asyncio.get_running_loop().time()
        proxy.impose(Refuse())
        proxy.cut(reset=reset)
        assert await at(watch, Phase.CONNECTING) - killed < 0.1
        await at(watch, Phase.BACKOFF)
        proxy.lift()
    assert [each.cursor for each in watch.received] == PLACES
    assert watch.phases[:3] == [Phase.LIVE, Phase.CONNECTING, Phase.BACKOFF]


@pytest.mark.fault("X15")
@pytest.mark.behaviour("P16")
async def test_a_server_whose_connections_die_one_after_the_other_is_tried_again_at_once_as_well() -> None:
    dying = Gate()
    node = Node("node", course=[dying, Close(reset=True)], keeps_streams=True)
    killed: list[float] = []

    def script(asked: Asked) -> Answer | Raw:
        if node.places and not killed:  # its stream has died, and what is asked over another connection dies with that
            killed.append(asyncio.get_running_loop().time())
            proxy.impose(Refuse())
            proxy.cut(reset=True)
        return node(asked)

    async with (
        ScriptedPeer(script) as peer,
        FaultProxy("127.0.0.1", peer.port) as proxy,
        watching([proxy.url], "run", profile=STANDARD) as watch,
    ):
        await said(watch)
        await asyncio.sleep(1.0)
        dying.open()
        assert await at(watch, Phase.CONNECTING) - 1.0 < 0.1
        proxy.lift()
    assert killed == [1.0]
    assert [each.cursor for each in watch.received] == PLACES
