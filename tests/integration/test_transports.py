"""One machine over every transport: a follow sees the same, and moves on where a transport keeps dying young."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast import Event, InputInvalid, Outlast, ReceivedEvent, ReceivedGap, RunNotFound, WireError, connect, follow
from outlast.client.received import Received
from outlast.server.access import Access
from outlast.server.identity import Identity
from outlast.server.session.sessions import Sessions
from outlast.supervision.phase import Phase
from outlast.testing.network import Cut, Fault
from outlast.testing.peer import Answer, Asked, Hold, ScriptedPeer
from outlast.testing.proxy import FaultProxy
from outlast.wire import native
from tests.host import hosted
from tests.integration.stream import LOG, PLACES, SAID
from tests.served import served as as_served
from tests.stage import Site, Stage, staged
from tests.stage import site as served_site

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

EVERY = ["websocket", "sse", "long-poll"]
EVERY_WAY = pytest.mark.parametrize("way", EVERY)
WORDS = ["a", "b", "c"]


class Door:
    """Leads to whichever application is behind it now, and remembers what was asked of its streams."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.kinds: list[str] = []
        self.queries: list[str] = []
        self.statuses = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            self.kinds.append("websocket")
        elif scope["path"].endswith("/events"):
            kind = dict(scope["headers"])[b"accept"].decode()
            self.kinds.append({"text/event-stream": "sse", "application/x-ndjson": "long-poll"}[kind])
            self.queries.append(scope["query_string"].decode())
        self.statuses += scope["path"] == "/runs/r1"
        await self.app(scope, receive, send)


def site(stage: Stage) -> AbstractAsyncContextManager[Site]:
    """Serve what is on the stage by every door there is."""
    return served_site(stage, sessions=Sessions())


async def collect(received: AsyncIterator[Received]) -> list[Received]:
    return [each async for each in received]


@asynccontextmanager
async def reached(way: str, app: ASGIApp) -> AsyncIterator[str | ASGIApp]:
    """Yield what is connected to: an application of this process is, but over what needs sockets."""
    if way == "websocket":
        async with hosted(app) as url:
            yield url
    else:
        yield app


async def by(way: str, app: ASGIApp, **options: Any) -> AsyncGenerator[Received, None]:
    async with reached(way, app) as there:
        following = follow(there, "r1", transports=[way], jitter=lambda: 0.5, **options)
        async with aclosing(following):
            async for received in following:
                yield received


def events(received: list[Received]) -> list[tuple[int, Any]]:
    return [(each.seq, each.event) for each in received if isinstance(each, ReceivedEvent)]


# ---- the same over each of them -----------------------------------------------------------------


@pytest.mark.virtual
@pytest.mark.behaviour("R13")
@EVERY_WAY
async def test_events_come_once_in_order_and_byte_for_byte_replayed_and_live(way: str) -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, *SAID[1:20])
        reading = asyncio.create_task(collect(by(way, here.app)))
        await asyncio.sleep(30)
        for event in SAID[20:-1]:
            await stage.say(run, event)
            await asyncio.sleep(0.3)
        await stage.settle(run)
        received = events(await reading)
        stored = await stage.log(run)
    assert received == [(each.seq, each.event) for each in stored]
    assert [event.payload for _, event in received[:-1]] == [event.payload for event in SAID[1:-1]]


@pytest.mark.virtual
@pytest.mark.behaviour("R4")
@EVERY_WAY
async def test_a_gap_comes_with_its_snapshot_and_what_is_behind_it(way: str) -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        head = await stage.say(run, *WORDS)
        async with aclosing(by(way, here.app, after="99")) as received:
            gap = await anext(received)
            assert isinstance(gap, ReceivedGap)
            assert (gap.reason, gap.cursor) == ("ahead", head)
            assert "abc" in [event.data for event in gap.snapshot]
            await stage.say(run, "d")
            assert (await anext(received)).cursor.seq == head.seq + 1


@pytest.mark.virtual
@EVERY_WAY
async def test_only_the_types_that_are_asked_for_come_and_the_terminal(way: str) -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, "a", Event("tool", 1), "b", Event("tool", 2))
        await stage.settle(run)
        received = await collect(by(way, here.app, types=["tool"]))
    assert [event.type for _, event in events(received)] == ["tool", "tool", "run.completed"]


@pytest.mark.virtual
@pytest.mark.behaviour("R8")
@EVERY_WAY
async def test_a_refusal_is_typed_and_a_log_read_to_its_end_is_over(way: str) -> None:
    async with staged() as stage, site(stage) as here:
        with pytest.raises(RunNotFound):
            await collect(by(way, here.app))
        run = await stage.active()
        await stage.settle(run)
        (*_, last) = await stage.log(run)
        assert await collect(by(way, here.app, after=last.cursor)) == []


@pytest.mark.virtual
@EVERY_WAY
async def test_a_node_that_closes_sends_its_readers_to_the_next(way: str) -> None:
    async with staged() as stage, site(stage) as first, site(stage) as second:
        run = await stage.active()
        await stage.say(run, "a")
        door = Door(first.app)
        async with reached(way, door) as there, connect(there, transports=[way], jitter=lambda: 0.5) as client:
            reading = asyncio.create_task(collect(client.follow("r1")))
            await asyncio.sleep(20)
            first.hub.close()
            await asyncio.sleep(0.1)
            door.app = second.app
            await asyncio.sleep(20)
            assert client.state.record.link.generation == 2, "the link moved, and not its stream alone"
            await stage.say(run, "b")
            await stage.settle(run)
            received = events(await reading)
    assert [event.data for _, event in received][:-1] == ["a", "b"]


@pytest.mark.virtual
@pytest.mark.behaviour("M5")
@EVERY_WAY
async def test_the_record_shows_how_a_run_recovers(way: str) -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        async with reached(way, here.app) as there, connect(there, transports=[way], jitter=lambda: 0.5) as client:
            reading = asyncio.create_task(collect(client.follow("r1")))
            await asyncio.sleep(1)
            await stage.release(run)
            await asyncio.sleep(12)
            record = client.state.record.runs["r1"]
            reading.cancel()
    assert record.status == "active"
    assert record.recovering is not None
    assert record.recovering["takeover"] == 1
    assert record.budget is not None


@pytest.mark.virtual
@pytest.mark.behaviour("N3")
@EVERY_WAY
async def test_credentials_that_run_out_and_are_renewed_cost_no_link_and_no_event(way: str) -> None:
    clock = asyncio.get_running_loop().time

    def token() -> int:
        return int(clock() // 50)

    async def authenticate(connection: HTTPConnection) -> Identity | None:
        said = int(connection.headers["x-token"])
        tokens.add(said)
        return Identity(owner="ann", expires_at=said * 50 + 60.0) if said >= token() else None

    tokens: set[int] = set()
    asking = Access(report=lambda _fact: None, authenticate=authenticate, clock=clock)
    async with staged() as stage, served_site(stage, access=asking, sessions=Sessions()) as here:
        run = await stage.active("r1", owner="ann")
        headers = {"headers": lambda: {"x-token": str(token())}, "jitter": lambda: 0.5}
        async with reached(way, here.app) as there, connect(there, transports=[way], **headers) as client:
            reading = asyncio.create_task(collect(client.follow("r1")))
            for number in range(120):
                await stage.say(run, str(number))
                await asyncio.sleep(5)
            assert client.state.record.link.generation == 1
            await stage.settle(run)
            received = events(await reading)
    assert [event.data for _, event in received][:-1] == [str(number) for number in range(120)]
    assert len(tokens) > 5


@pytest.mark.virtual
async def test_a_poll_waits_for_less_than_a_heartbeat_and_asks_for_the_status_every_ten_seconds_at_most() -> None:
    async with staged() as stage, site(stage) as here:
        await stage.active()
        door = Door(here.app)
        async with connect(door, transports=["long-poll"], jitter=lambda: 0.5) as client:
            reading = asyncio.create_task(collect(client.follow("r1")))
            await asyncio.sleep(61)
            link = client.state.record.link
            reading.cancel()
    assert (link.phase, link.generation) == (Phase.LIVE, 1)
    waits = [query.rpartition("wait=")[2] for query in door.queries]
    assert waits[1:5] == ["8", "2", "8", "2"]
    assert door.statuses == 7
    assert all("limit=500" in query for query in door.queries)


async def test_an_application_of_this_process_is_used_without_sockets() -> None:
    outlast = Outlast("sqlite://", signals=False)

    @outlast.worker("echo")
    async def echo(run: Any) -> AsyncIterator[str]:
        yield run.input
        while run.input == "on":
            await asyncio.sleep(0.01)

    async with outlast, connect(outlast.app) as client:
        await client.start("echo", "hello", id="r1")
        assert [event.data for _, event in events(await collect(client.follow("r1")))][1] == "hello"
        await client.start("echo", "on", id="r2")
        async for received in client.follow("r2"):
            if isinstance(received, ReceivedEvent) and received.event.type == "text":
                await client.stop("r2")
        assert (await client.status("r2"))["status"] == "cancelled"


async def test_an_application_that_closes_is_lost_and_a_follow_goes_on_once_it_runs_again(tmp_path: Path) -> None:
    outlast = Outlast(f"sqlite:///{tmp_path / 'runs.db'}", signals=False, grace=1.0)

    @outlast.worker("wait")
    async def wait(run: Any) -> AsyncIterator[str]:
        yield "a"
        await asyncio.Event().wait()

    async with connect(outlast.app, jitter=lambda: 0.0) as client:
        seen = asyncio.Queue[str](maxsize=100)

        async def read() -> None:
            async for received in client.follow("r1"):
                if isinstance(received, ReceivedEvent):
                    await seen.put(received.event.type)

        async with outlast:
            await client.start("wait", id="r1")
            reading = asyncio.create_task(read())
            while await seen.get() != "text":
                pass
        async with outlast:
            while await seen.get() != "text":
                pass
            assert client.state.record.link.generation > 1
            await client.stop("r1")
            await reading
    assert seen.get_nowait() == "run.cancelled"


@pytest.mark.parametrize("named", [[], ["carrier pigeon"], ["sse", "SSE"]], ids=str)
async def test_a_transport_that_there_is_not_is_refused_with_a_sentence(named: list[str]) -> None:
    with pytest.raises(InputInvalid, match="websocket, sse, long-poll"):
        await collect(follow("http://localhost", "r1", transports=named))


# ---- a transport that dies young ----------------------------------------------------------------


class Buffering:
    """Hands on the head of an event stream, and of its body nothing, as a proxy does that waits for all of it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_stream = (b"accept", b"text/event-stream") in scope["headers"]

        async def held(message: Message) -> None:
            if not is_stream or message["type"] == "http.response.start":
                await send(message)

        await self._app(scope, receive, held)


@pytest.mark.virtual
@pytest.mark.behaviour("R13")
async def test_behind_what_holds_streams_back_a_follow_ends_up_polling_and_sees_each_event_once() -> None:
    async with staged() as stage, site(stage) as here:
        door = Door(Buffering(here.app))
        run = await stage.active()
        await stage.say(run, *WORDS)
        async with connect(door, jitter=lambda: 0.0) as client:
            reading = asyncio.create_task(collect(client.follow("r1")))
            await asyncio.sleep(4.9)
            assert client.state.record.link.generation == 1
            await asyncio.sleep(0.2)
            assert client.state.record.link.generation == 2, "five seconds are enough"
            await asyncio.sleep(15)
            await stage.say(run, "d")
            await stage.settle(run)
            received = events(await reading)
        stored = await stage.log(run)
    assert received == [(each.seq, each.event) for each in stored]
    assert door.kinds[:4] == ["sse", "sse", "sse", "long-poll"]
    assert set(door.kinds[4:]) == {"long-poll"}


class Busy:
    """Answers nobody while it is `blocked`; the first stream it blocks right behind its head."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.free = asyncio.Event()
        self.free.set()
        self._has_blocked = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def slow(message: Message) -> None:
            await self.free.wait()
            await send(message)
            is_head = message["type"] == "http.response.start"
            if is_head and scope["path"].endswith("/events") and not self._has_blocked:
                self._has_blocked = True
                self.free.clear()

        await self.free.wait()
        await self._app(scope, receive, slow)


@pytest.mark.virtual
@pytest.mark.behaviour("R13")
@pytest.mark.parametrize("seconds", [4, 8, 19])
async def test_a_server_that_is_merely_busy_does_not_cost_the_transport(seconds: float) -> None:
    async with staged() as stage, site(stage) as here:
        busy = Busy(here.app)
        door = Door(busy)
        run = await stage.active()
        async with connect(door, jitter=lambda: 0.5) as client:
            reading = asyncio.create_task(collect(client.follow("r1")))
            await asyncio.sleep(seconds)
            busy.free.set()
            await asyncio.sleep(10)
            assert client.state.record.link.generation == 1
            await stage.settle(run)
            await reading
    assert door.kinds == ["sse"]


@pytest.mark.virtual
@pytest.mark.behaviour("R13")
async def test_a_greeting_that_comes_a_little_behind_the_answer_is_in_time() -> None:
    async with staged() as stage, site(stage) as here:

        async def late(scope: Scope, receive: Receive, send: Send) -> None:
            async def slow(message: Message) -> None:
                is_body = message["type"] == "http.response.body"
                await asyncio.sleep(4.5 if is_body and scope["path"].endswith("/events") else 0)
                await send(message)

            await here.app(scope, receive, slow)

        run = await stage.active()
        await stage.settle(run)
        door = Door(late)
        assert events(await collect(follow(door, "r1", jitter=lambda: 0.5)))
    assert door.kinds == ["sse"]


@pytest.mark.behaviour("R13")
async def test_over_real_sockets_the_same_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.client.follow.MUTE_AFTER", 0.01)
    monkeypatch.setattr("outlast.client.supervisor.SETTLED", 0.01)
    async with ScriptedPeer(held_back) as peer:
        received = [each async for each in follow(peer.url, "r1", jitter=lambda: 0.0)]
    assert [(each.cursor, each.event) for each in received if isinstance(each, ReceivedEvent)] == list(
        zip(PLACES, SAID, strict=True)
    )
    kinds = [asked.headers["accept"] for asked in peer.asked if "/events" in asked.path]
    assert kinds.count("text/event-stream") == 3


def held_back(asked: Asked) -> Answer:
    """Answer as a server whose event streams are held back on the way; its pages have seven events."""
    if asked.path == "/session":
        said = b'{"boot_id":"b00t","protocol":1,"heartbeat":10}'
        return Answer(headers={"content-type": "application/json"}, body=[said])
    if asked.headers["accept"] == "text/event-stream":
        return Answer(body=[Hold()])
    after = int(asked.path.partition("after=")[2].partition("-")[0].partition("&")[0])
    page = LOG[after : after + 7]
    is_last = after + 7 >= len(LOG)
    body = native.lines(
        [native.event_json(each) for each in page], next=page[-1].cursor, up_to_date=is_last, ended=is_last
    )
    return Answer(headers={"content-type": "application/x-ndjson"}, body=[body])


# ---- a transport that is not spoken there -------------------------------------------------------


@pytest.mark.virtual
@pytest.mark.behaviour("R13")
async def test_a_server_without_sessions_is_connected_to_by_the_next_transport_at_once() -> None:
    async with staged() as stage, served_site(stage) as here, hosted(door := Door(here.app)) as url:
        run = await stage.active()
        await stage.say(run, *WORDS)
        await stage.settle(run)
        began = asyncio.get_running_loop().time()
        received = events(await collect(follow(url, "r1", transports=EVERY, jitter=lambda: 1.0)))
        assert [event.data for _, event in received][:-1] == WORDS
        assert door.kinds == ["websocket", "sse"]
        assert asyncio.get_running_loop().time() - began < 0.5, "no rung of the ladder was waited for"


@pytest.mark.virtual
@pytest.mark.behaviour("R13")
async def test_where_websocket_is_all_that_is_allowed_a_server_without_sessions_says_what_it_needs() -> None:
    async with staged() as stage, served_site(stage) as here, hosted(here.app) as url:
        with pytest.raises(WireError, match="websocket=True"):
            await collect(follow(url, "r1", transports=["websocket"]))


@pytest.mark.virtual
@pytest.mark.behaviour("R13")
async def test_a_server_that_comes_back_without_sessions_is_followed_over_the_next_transport() -> None:
    async with staged() as stage, site(stage) as here, served_site(stage) as without:
        door = Door(here.app)
        async with hosted(door) as url, FaultProxy("127.0.0.1", int(url.rpartition(":")[2])) as proxy:
            run = await stage.active()
            async with connect(proxy.url, transports=EVERY, jitter=lambda: 0.5) as client:
                reading = asyncio.create_task(collect(client.follow("r1")))
                await stage.say(run, "a")
                await asyncio.sleep(70)
                door.app = without.app
                proxy.cut()
                await stage.say(run, "b")
                await asyncio.sleep(120)
                assert client.state.record.link.phase is Phase.LIVE
                await stage.say(run, "c")
                await stage.settle(run)
                received = events(await reading)
    assert [event.data for _, event in received][:-1] == ["a", "b", "c"]
    assert (door.kinds[0], door.kinds[-1]) == ("websocket", "sse")


@pytest.mark.behaviour("R13")
@pytest.mark.parametrize("websocket", [True, False])
async def test_what_outlast_serve_speaks_is_connected_to_whether_it_has_a_websocket_or_not(websocket: bool) -> None:
    outlast = Outlast("sqlite://", signals=False, websocket=websocket)

    @outlast.worker("echo")
    async def echo(run: Any) -> AsyncIterator[str]:
        yield run.input

    async with as_served(outlast) as port:
        url = f"http://127.0.0.1:{port}"
        async with connect(url, transports=EVERY) as client:
            await client.start("echo", "hello", id="r1")
            received = events(await collect(client.follow("r1")))
        assert [event.data for _, event in received][1] == "hello"
        alone = collect(follow(url, "r1", transports=["websocket"]))
        if websocket:
            assert events(await alone) == received
        else:
            with pytest.raises(WireError, match="websocket=True"):
                await alone


class Deaf:
    """Lets a WebSocket through and holds all its frames back, as a proxy does that waits for the end of an answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def held(message: Message) -> None:
            if message["type"] != "websocket.send":
                await send(message)

        await self._app(scope, receive, held if scope["type"] == "websocket" else send)


@pytest.mark.virtual
@pytest.mark.behaviour("R13")
async def test_where_frames_are_held_back_a_follow_ends_up_with_event_streams() -> None:
    async with staged() as stage, site(stage) as here, hosted(door := Door(Deaf(here.app))) as url:
        run = await stage.active()
        await stage.say(run, *WORDS)
        await stage.settle(run)
        received = events(await collect(follow(url, "r1", transports=EVERY, jitter=lambda: 0.0)))
        assert [event.data for _, event in received][:-1] == WORDS
        assert door.kinds == ["websocket", "websocket", "websocket", "sse"]


# ---- and one that is cut, or slow ---------------------------------------------------------------


def first(fault: Fault) -> Callable[[int], list[Fault]]:
    """Let the first connection be under a fault, and no other."""
    return lambda number: [fault] if number == 1 else []


@pytest.mark.virtual
@pytest.mark.behaviour("R2")
@pytest.mark.fault("X15")
@pytest.mark.parametrize(
    "step",
    [
        pytest.param(251, id="at some bytes"),
        pytest.param(5, id="at every fifth byte", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    ],
)
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_wherever_a_websocket_is_cut_a_follow_sees_each_event_once(step: int, reset: bool) -> None:
    async with staged() as stage, site(stage) as here, hosted(here.app) as url:
        port = int(url.rpartition(":")[2])
        run = await stage.active()
        await stage.say(run, *SAID[1:-1])
        await stage.settle(run)
        stored = [(each.seq, each.event) for each in await stage.log(run)]
        place, is_cut = 0, True
        while is_cut:
            async with FaultProxy("127.0.0.1", port, each=first(Cut(place, reset=reset))) as proxy:
                received = await collect(follow(proxy.url, "r1", transports=["websocket"], jitter=lambda: 0.0))
                is_cut = proxy.traffic.accepted > 1
            assert events(received) == stored, place
            place += step
    assert place > 4096, "there was something to cut"


@pytest.mark.virtual
@pytest.mark.behaviour("R9")
@EVERY_WAY
async def test_an_application_that_takes_its_time_costs_no_connection_and_no_event(way: str) -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        for number in range(40):
            await stage.say(run, f"{number}:{'x' * 20_000}")
        taken: list[str] = []
        async with reached(way, here.app) as there, connect(there, transports=[way], jitter=lambda: 0.5) as client:
            async for received in client.follow("r1"):
                assert isinstance(received, ReceivedEvent)
                if received.event.type == "text":
                    taken.append(str(received.data).partition(":")[0])
                    if len(taken) in {1, 20}:
                        await asyncio.sleep(300)
                if len(taken) == 40:
                    break
            assert client.state.record.link.generation == 1
    assert taken == [str(number) for number in range(40)]
