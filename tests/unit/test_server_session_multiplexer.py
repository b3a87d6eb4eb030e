"""One session: many exchanges that hold each other up as little as connections would, and end with it."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from outlast.errors import Refusal
from outlast.facts import Departure, ReaderClosed
from outlast.log.event import Event
from outlast.server.access import Access
from outlast.server.identity import Identity
from outlast.server.readers.room import SEND_WITHIN
from outlast.server.routes.door import Resource, RunDoor
from outlast.server.routes.problem import problem
from outlast.server.seats import Seats
from outlast.server.session.exchange import GRANTED_WITHIN
from outlast.server.session.multiplexer import GRACE, IDLE
from outlast.server.session.sessions import Sessions
from outlast.wire.session import (
    EXCHANGES,
    MESSAGE,
    PIECE,
    WINDOW,
    Answer,
    Ask,
    Broken,
    Closing,
    End,
    Grant,
    Leave,
    Piece,
)
from tests.session import Line, connected, scope_of
from tests.stage import GIVEN_UP, Site, Stage, names, site, staged, turns, until

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

ANN = [(b"x-user", b"ann")]


async def by_header(connection: Any) -> str | None:
    return connection.headers.get("x-user")


@asynccontextmanager
async def inside(**options: Any) -> AsyncIterator[tuple[Stage, Site, Line, Sessions]]:
    """A stage, its site, and one session of it."""
    sessions = Sessions()
    handshake = options.pop("handshake", {})
    async with (
        staged() as stage,
        site(stage, sessions=sessions, **options) as here,
        connected(here.app, **handshake) as line,
        asyncio.timeout(GIVEN_UP),
    ):
        yield stage, here, line, sessions


@asynccontextmanager
async def alone(app: ASGIApp, **handshake: Any) -> AsyncIterator[Line]:
    """A session whose exchanges are answered by this application, and the last of them by a problem."""
    sessions = Sessions()

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await sessions.begin(app, problem(Refusal("No more.")), scope, owner="", left=None)(scope, receive, send)

    async with connected(serve, **handshake) as line:
        yield line
    assert len(sessions) == 0


def now() -> float:
    return asyncio.get_running_loop().time()


# ---- the doors ----------------------------------------------------------------------------------


@pytest.mark.behaviour("F1", "R13")
@pytest.mark.parametrize(
    "accept", ["application/json", "application/x-ndjson", "text/event-stream"], ids=["page", "lines", "stream"]
)
async def test_every_get_is_answered_in_a_session_as_it_is_over_http(accept: str) -> None:
    async with inside() as (stage, here, line, _):
        run = await stage.active("r1")
        await stage.say(run, "one", Event("data", {"a": "\u2028"}), Event("bytes", bytes(range(256))))
        await stage.settle(run)
        app: Any = here.app
        paths = {route.path for route in app.routes if isinstance(route.app, Resource)}
        for path in sorted(paths - {"/session"}):
            for method in ("GET", "HEAD"):
                place = path.replace("{id}", "r1")
                answer = await line.ask(place, method, accept=accept)
                async with here.client.stream(method, place, headers={"accept": accept}) as other:
                    assert (answer.status, answer.is_whole) == (other.status_code, True), place
                    assert answer.body == await other.aread(), place
                    told = {name: value for name, value in other.headers.items() if name in answer.headers}
                    assert answer.headers == told
                    assert "content-type" in answer.headers or answer.status in {204, 405}


@pytest.mark.behaviour("A5")
@pytest.mark.attack("Z4")
async def test_another_owners_run_is_not_there_at_any_door() -> None:
    access = Access(report=lambda _fact: None, authenticate=by_header)
    async with inside(access=access, handshake={"headers": [(b"x-user", b"bob")]}) as (stage, here, line, _):
        run = await stage.claim(await stage.start("anns", owner="ann", input="marker"))
        await stage.say(run, "marker")
        app: Any = here.app
        resources = [route.app for route in app.routes if isinstance(route.app, Resource)]
        doors = [door for resource in resources for door in resource.doors.values()]
        about = [door for door in doors if isinstance(door, RunDoor) and "{id}" in door.path]
        assert len(about) >= 5
        for door in about:
            anns, none = [await line.ask(door.path.replace("{id}", id), door.method, {}) for id in ("anns", "none")]
            assert (anns.status, anns.body) == (none.status, none.body), door.path
            assert b"marker" not in anns.body
        async with connected(here.app, headers=ANN) as anns_line:
            assert (await anns_line.ask("/runs/anns")).status == 200


async def test_a_run_is_started_followed_and_stopped_in_one_session() -> None:
    async with inside() as (_, _, line, _):
        started = await line.ask("/runs", "POST", {"worker": "chat", "input": "hi", "id": "r1"})
        assert (started.status, started.headers["location"]) == (201, "/runs/r1")
        stream = line.stream("/runs/r1/events")
        assert names(await stream.until("outlast.caught-up")) == ["outlast.hello", "outlast.caught-up"]
        assert (await line.ask("/runs/r1/stop", "POST", {})).said["answer"] == "settled"
        assert names(await stream.rest())[-2:] == ["run.cancelled", "outlast.end"]
        assert stream.is_whole
        assert (await line.ask("/runs", "POST", "{")).said["code"] == "input_invalid"
        assert (await line.ask("/runs", "POST", " " * (1024 * 1024 + 1))).said["code"] == "too_large"
        assert (await line.ask("/nothing")).said["code"] == "not_found"
        assert (await line.ask("/session", "DELETE")).headers["allow"] == "GET"


@pytest.mark.behaviour("R13")
async def test_ten_streams_in_one_session_each_get_their_own_events() -> None:
    async with inside() as (stage, here, line, _):
        runs = [await stage.active(f"r{number}") for number in range(10)]
        streams = [line.stream(f"/runs/{run.id}/events") for run in runs]
        for stream in streams:
            await stream.until("outlast.caught-up")
        for run in runs:
            await stage.say(run, f"of {run.id}")
            await stage.settle(run)
        for run, stream in zip(runs, streams, strict=True):
            found = [message.data for message in await stream.rest() if message.event == "text"]
            assert found == [json.dumps(f"of {run.id}").encode()]
        assert here.hub.readers == 0


# ---- nobody holds up another --------------------------------------------------------------------


@pytest.mark.behaviour("F13", "R9")
async def test_a_stream_that_is_not_granted_holds_up_no_other_and_is_dropped_by_the_rule() -> None:
    async with inside() as (stage, here, line, _):
        run, other = await stage.active("r1"), await stage.active("r2")
        stalled = line.open("/runs/r1/events", accept="text/event-stream")
        flowing = line.stream("/runs/r2/events")
        await flowing.until("outlast.caught-up")
        for _ in range(8):
            await stage.say(run, "x" * WINDOW)
        await turns(200)
        sent = sum(len(frame.data) for frame in line.heard if isinstance(frame, Piece) and frame.exchange == stalled)
        assert sent == WINDOW
        began = now()
        await stage.say(other, "at once")
        await flowing.until("text")
        assert now() == began
        while not any(isinstance(frame, Broken) and frame.exchange == stalled for frame in line.heard):
            await until(now() + 1)
        assert SEND_WITHIN <= now() - began <= SEND_WITHIN + 6
        closed = [fact for fact in stage.facts if isinstance(fact, ReaderClosed)]
        assert closed == [ReaderClosed(run=run.log, departure=Departure.STALLED)]
        await stage.say(other, "still there")
        await flowing.until("text")
        assert here.hub.readers == 1


@pytest.mark.behaviour("R9", "L5")
async def test_a_giant_event_comes_in_pieces_with_the_others_between_them() -> None:
    async with inside() as (stage, _, line, _):
        run, other = await stage.active("r1"), await stage.active("r2")
        small = line.stream("/runs/r2/events")
        await small.until("outlast.caught-up")
        await stage.say(run, "g" * (4 * 1024 * 1024))
        giant = line.stream("/runs/r1/events")
        taking = asyncio.create_task(giant.until("text"))
        while sum(len(frame.data) for frame in line.heard if isinstance(frame, Piece)) < 1024 * 1024:
            await asyncio.sleep(0)
        await stage.say(other, "between")
        await small.until("text")
        assert not taking.done()
        [*_, event] = await taking
        assert len(event.data) == 4 * 1024 * 1024 + 2
        assert max(len(frame.data) for frame in line.heard if isinstance(frame, Piece)) == PIECE


async def test_one_exchange_too_many_is_refused_alone() -> None:
    release = asyncio.Event()

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        await release.wait()
        await PlainTextResponse("there")(scope, receive, send)

    async with alone(wait) as line:
        held = [line.open("/") for _ in range(EXCHANGES)]
        assert (await line.ask("/")).status == 500
        release.set()
        for exchange in held:
            assert (await line.rest(exchange)).body == b"there"
        assert (await line.ask("/")).body == b"there"


async def test_the_refusal_of_one_too_many_is_the_problem_of_too_many() -> None:
    async with inside(seats=Seats(per_node=2 * EXCHANGES)) as (stage, _, line, _):
        await stage.start("r1")
        for _ in range(EXCHANGES):
            line.open("/runs/r1/events", accept="text/event-stream")
        refused = await line.ask("/runs/r1")
        assert (refused.status, refused.said["code"], refused.headers["retry-after"]) == (429, "too_many", "2")


@pytest.mark.attack("Z10")
async def test_streams_of_a_session_take_seats_like_all_others() -> None:
    async with inside(seats=Seats(per_node=1)) as (stage, here, line, _):
        await stage.start("r1")
        first, second = line.stream("/runs/r1/events"), line.stream("/runs/r1/events")
        await first.until("outlast.caught-up")
        [drain] = [message for message in await second.rest() if message.event == "outlast.drain"]
        assert json.loads(drain.data)["reason"] == "capacity"
        async with here.stream("/runs/r1/events") as outside:
            assert names(await outside.rest()) == ["outlast.drain"]
        waited = await line.ask("/runs/r1/events?wait=5")
        assert (waited.status, waited.said["code"]) == (503, "capacity")


# ---- leaving ------------------------------------------------------------------------------------


@pytest.mark.behaviour("F11")
async def test_leaving_one_exchange_ends_its_reader_alone() -> None:
    async with inside() as (stage, here, line, _):
        await stage.start("r1")
        one, two = line.stream("/runs/r1/events"), line.stream("/runs/r1/events")
        for stream in (one, two):
            await stream.until("outlast.caught-up")
        assert here.hub.readers == 2
        one.leave()
        assert names(await one.rest()) == []
        assert not one.is_whole
        one.leave()  # it has passed what the server said meanwhile
        await turns()
        assert here.hub.readers == 1
        assert line.closed is None


@pytest.mark.behaviour("F11", "F14")
@pytest.mark.parametrize("end", ["hangs up", "is cancelled", "takes nothing"])
async def test_nothing_of_its_exchanges_survives_a_session(end: str) -> None:
    sessions = Sessions()
    async with staged() as stage, site(stage, sessions=sessions) as here:
        run = await stage.active("r1")
        line = Line()
        app: Any = here.app
        serving = asyncio.create_task(app(scope_of(), line.receive, line.send))
        streams = [line.stream("/runs/r1/events") for _ in range(20)]
        for stream in streams:
            await stream.until("outlast.caught-up")
        waiting = line.open("/runs/r1/events?wait=60")
        await turns()
        assert (here.hub.readers, len(sessions)) == (21, 1)
        began = now()
        match end:
            case "hangs up":
                line.hang_up()
                await serving
                assert now() == began
            case "is cancelled":
                serving.cancel()
                await asyncio.wait({serving})
                assert now() == began
            case _:
                line.room.clear()
                await stage.say(run, "nobody takes this")
                await asyncio.wait({serving})
                assert SEND_WITHIN <= now() - began <= SEND_WITHIN + GRACE + 2
        await turns()
        assert (here.hub.readers, len(sessions)) == (0, 0)
        assert not any(frame.exchange == waiting for frame in line.heard)


async def test_an_exchange_that_does_not_hear_of_the_end_is_cancelled() -> None:
    began = asyncio.Event()
    ended: list[float] = []

    async def deaf(_scope: Scope, _receive: Receive, _send: Send) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(now())

    async with alone(deaf) as line:
        line.open("/")
        await began.wait()
        left = now()
    assert ended == [left + GRACE]


async def test_who_leaves_an_exchange_is_told_its_end_once_and_sends_late_grants_for_nothing() -> None:
    async with alone(PlainTextResponse("x" * 100)) as line:
        exchange = line.open("/")
        line.say(Leave(exchange=exchange))
        await turns()
        assert [frame for frame in line.heard if isinstance(frame, End | Broken)] != []
        line.say(Leave(exchange=exchange))
        line.say(Grant(exchange=exchange, size=100))
        assert (await line.ask("/")).body == b"x" * 100
        ends = [frame.exchange for frame in line.heard if isinstance(frame, End | Broken)]
        assert ends == [exchange, exchange + 1]


# ---- what breaks --------------------------------------------------------------------------------


async def failing(scope: Scope, _receive: Receive, send: Send) -> None:
    match scope["path"]:
        case "/before":
            raise ZeroDivisionError("marker")
        case "/after":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
            raise ZeroDivisionError
        case "/silent":
            return
        case "/left":
            raise ClientDisconnect
        case "/cancelled":
            raise asyncio.CancelledError
        case "/odd":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"etag", b"a\r\nb")]})
        case _:
            await PlainTextResponse("well")(scope, _receive, send)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/before", ["ZeroDivisionError"]),
        ("/after", ["ZeroDivisionError"]),
        ("/silent", []),
        ("/left", []),
        ("/cancelled", []),
        ("/odd", ["WireError"]),
    ],
)
async def test_an_application_that_fails_breaks_its_exchange_and_no_other(path: str, told: list[str]) -> None:
    seen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: seen.append(context))
    async with alone(failing) as line:
        answer = await line.ask(path)
        assert not answer.is_whole
        assert answer.body == (b"half" if path == "/after" else b"")
        assert (await line.ask("/")).body == b"well"
    assert [type(context["exception"]).__name__ for context in seen] == told
    assert {context["message"] for context in seen} <= {"An exchange of a session failed"}


GARBAGE: list[tuple[dict[str, Any], Closing, str]] = [
    ({"text": "{"}, Closing.INVALID, "JSON"),
    ({"text": "{}"}, Closing.INVALID, "ask, grant, leave"),
    ({"bytes": b"\x00\x00\x00\x01piece"}, Closing.INVALID, "text"),
    ({"text": "x" * (MESSAGE + 1)}, Closing.TOO_LARGE, str(MESSAGE)),
    ({"text": '{"leave": 99}'}, Closing.INVALID, "not been asked"),
    ({"text": '{"grant": 99, "bytes": 1}'}, Closing.INVALID, "not been asked"),
    ({"text": '{"grant": 1, "bytes": 262144}'}, Closing.INVALID, "granted"),
    ({"text": '{"ask": 1, "method": "GET", "path": "/session"}'}, Closing.INVALID, "larger"),
    ({"text": '{"ask": 2, "method": "GET", "path": "//\\u0000"}'}, Closing.INVALID, "path"),
    (
        {"text": '{"ask": 2, "method": "GET", "path": "/runs", "headers": {"authorization": "Bearer of-ann"}}'},
        Closing.INVALID,
        "no other headers",
    ),
    (
        {"text": '{"ask": 2, "method": "GET", "path": "/runs", "headers": {"x-user": "ann"}}'},
        Closing.INVALID,
        "no other headers",
    ),
]


@pytest.mark.attack("Z9", "Z13")
@pytest.mark.parametrize(("message", "closing", "reason"), GARBAGE)
async def test_what_is_no_frame_ends_the_session_and_the_close_says_why(
    message: dict[str, Any], closing: Closing, reason: str
) -> None:
    async with inside() as (stage, here, line, sessions):
        await stage.start("r1")
        stream = line.stream("/runs/r1/events")
        await stream.until("outlast.caught-up")
        line.say_raw(**message)
        code, sentence = await line.end()
        assert code == closing
        assert reason in sentence
        assert len(sentence.encode()) <= 123
        await turns()
        assert (here.hub.readers, len(sessions)) == (0, 0)


@pytest.mark.behaviour("F14")
@pytest.mark.parametrize("seed", range(30))
async def test_whatever_a_client_says_its_session_ends_typed_or_serves_it_and_leaves_nothing(seed: int) -> None:
    chance = random.Random(seed)
    async with staged() as stage, site(stage, sessions=(sessions := Sessions())) as here:
        run = await stage.active("r1")
        await stage.say(run, "x" * WINDOW, "one", "two")
        async with connected(here.app) as line:
            asked = line.open("/runs/r1")
            for _ in range(chance.randrange(1, 120)):
                exchange = chance.randint(1, asked + (chance.random() < 0.02))
                match chance.randrange(8):
                    case 0 | 1 | 2:
                        path = chance.choice(["/runs/r1/events", "/runs/r1/events?wait=5", "/runs/r1", "/none", "/"])
                        accept = chance.choice(["text/event-stream", "application/json"])
                        asked = line.open(path, chance.choice(["GET", "GET", "HEAD", "POST", "FROB"]), accept=accept)
                    case 3 | 4:
                        line.say(Leave(exchange=exchange))
                    case 5:
                        line.say(Grant(exchange=exchange, size=chance.choice([1, 100, PIECE])))
                    case 6:
                        await stage.say(run, "live")
                    case _:
                        await turns(chance.randrange(20))
            await turns()
            codes = {None, Closing.INVALID}
            assert (None if line.closed is None else line.closed[0]) in codes
            ends = [frame.exchange for frame in line.heard if isinstance(frame, End | Broken)]
            assert len(ends) == len(set(ends)), "an exchange ends once"
            for exchange in set(ends):
                [*_, last] = [frame for frame in line.heard if frame.exchange == exchange]
                assert isinstance(last, End | Broken), "and nothing of it comes afterwards"
        await turns()
        assert (here.hub.readers, len(sessions)) == (0, 0)


async def test_a_reason_never_repeats_what_was_said() -> None:
    for message in ('{"marker": 1}', '{"ask": "marker"}', '{"ask": 1, "method": "marker", "path": "marker"}', "marker"):
        async with alone(PlainTextResponse("")) as line:
            line.say_raw(text=message)
            assert "marker" not in (await line.end())[1]


@pytest.mark.attack("Z9")
async def test_a_flood_of_frames_lets_the_loop_turn() -> None:
    async with inside() as (_, _, line, _):
        await line.ask("/session")
        for _ in range(1000):
            line.say(Leave(exchange=1))
        turned = 0
        line.open("/session")
        while not any(isinstance(frame, End) and frame.exchange == 2 for frame in line.heard):
            turned += 1
            await asyncio.sleep(0)
        assert turned >= 1000


async def test_a_server_that_finds_the_client_gone_ends_the_session() -> None:
    async with staged() as stage, site(stage, sessions=Sessions()) as here:
        await stage.start("r1")
        line = Line()

        async def send(message: Any) -> None:
            if len(line.heard) >= 3:
                raise OSError
            await line.send(message)

        app: Any = here.app
        serving = asyncio.create_task(app(scope_of(), line.receive, send))
        line.open("/runs/r1/events", accept="text/event-stream")
        await serving
        assert here.hub.readers == 0


async def test_one_message_is_sent_at_a_time_so_that_a_full_socket_keeps_one_of_them() -> None:
    under_way, most = 0, 0

    async with staged() as stage, site(stage, sessions=Sessions()) as here:
        line = Line()

        async def send(message: Any) -> None:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await turns(5)
            await line.send(message)
            under_way -= 1

        app: Any = here.app
        serving = asyncio.create_task(app(scope_of(), line.receive, send))
        for exchange in [line.open("/session") for _ in range(20)]:
            assert (await line.rest(exchange)).status == 200
        line.hang_up()
        await serving
    assert most == 1


async def test_a_session_is_cancelled_also_while_it_refuses_what_is_too_much() -> None:
    async def wait(_scope: Scope, _receive: Receive, _send: Send) -> None:
        await asyncio.Event().wait()

    async with alone(wait) as line:
        for _ in range(EXCHANGES):
            line.open("/")
        await turns(2 * EXCHANGES)
        line.room.clear()
        line.open("/")
        await turns()
        [serving] = [task for task in asyncio.all_tasks() if task.get_name() == "a WebSocket"]
        serving.cancel()
        await asyncio.wait({serving}, timeout=1)
        assert serving.cancelled()


async def test_one_that_is_gone_before_it_was_accepted_is_no_accident() -> None:
    async with staged() as stage, site(stage, sessions=(sessions := Sessions())) as here:

        async def send(_message: Any) -> None:
            raise OSError

        await here.app(scope_of(), Line().receive, send)
        assert len(sessions) == 0


async def test_what_waits_for_grants_without_being_a_reader_waits_no_longer_than_it_is_told() -> None:
    async with alone(PlainTextResponse("x" * (2 * WINDOW))) as line:
        exchange, began = line.open("/"), now()
        while not any(isinstance(frame, Broken) for frame in line.heard):
            await until(now() + 1)
        assert now() - began == pytest.approx(GRANTED_WITHIN, abs=1)
        assert not (await line.rest(exchange)).is_whole


# ---- the end of a session in which nothing is open ----------------------------------------------


async def test_a_session_in_which_nothing_is_asked_ends() -> None:
    async with inside() as (_, _, line, sessions):
        await until(200)
        await line.ask("/session")
        assert await line.end() == (Closing.IDLE, "Nothing was asked for a long while.")
        assert now() == 200 + IDLE
        await turns()
        assert len(sessions) == 0


async def test_a_stream_keeps_its_session_for_as_long_as_it_is_open() -> None:
    async with inside() as (stage, _, line, _):
        await stage.start("r1")
        stream = line.stream("/runs/r1/events")
        while now() < 3 * IDLE:
            await stream.until("outlast.heartbeat")
        stream.leave()
        await stream.rest()
        left = now()
        await line.end()
        assert now() == left + IDLE


@pytest.mark.behaviour("F15")
async def test_a_drain_sends_the_streams_away_and_ends_the_session_when_nothing_is_open() -> None:
    async with inside() as (stage, here, line, sessions):
        await stage.start("r1")
        stream = line.stream("/runs/r1/events")
        await stream.until("outlast.caught-up")
        async with connected(here.app) as quiet:
            here.hub.drain()
            sessions.drain()
            assert (await quiet.end())[0] == Closing.DRAINED
        [*_, drain] = await stream.rest()
        assert (drain.event, stream.is_whole) == ("outlast.drain", True)
        assert (await line.end())[0] == Closing.DRAINED


@pytest.mark.attack("Z13")
async def test_expired_credentials_end_the_streams_then_the_session() -> None:
    clock: Callable[[], float] = asyncio.get_running_loop().time

    async def authenticate(_connection: Any) -> Identity:
        return Identity(owner="ann", expires_at=100.0)

    access = Access(report=lambda _fact: None, authenticate=authenticate, clock=clock)
    async with inside(access=access) as (stage, _, line, _):
        await stage.start("r1", owner="ann")
        stream = line.stream("/runs/r1/events")
        [*_, drain] = await stream.until("outlast.drain")
        assert json.loads(drain.data)["reason"] == "expired"
        assert now() == pytest.approx(130.0)
        assert (await line.end())[0] == Closing.EXPIRED
        assert now() == pytest.approx(130.0)


@pytest.mark.attack("Z13")
async def test_every_exchange_is_asked_for_its_credentials_and_refused_once_they_are_withdrawn() -> None:
    good = [True]

    async def authenticate(connection: Any) -> str | None:
        return connection.headers.get("x-user") if good[0] else None

    access = Access(report=lambda _fact: None, authenticate=authenticate)
    async with inside(access=access, handshake={"headers": ANN}) as (_, _, line, _):
        assert (await line.ask("/runs")).status == 200
        good[0] = False
        assert (await line.ask("/runs")).status == 401


async def test_a_session_is_one_of_outlasts_own_wire() -> None:
    async with staged() as stage, site(stage, sessions=Sessions()) as here, connected(here.app) as line:
        assert line.subprotocol == "outlast.v1"
        line.say(Ask(exchange=5, method="GET", path="/healthz"))
        assert isinstance(await line.hear(5), Answer)
