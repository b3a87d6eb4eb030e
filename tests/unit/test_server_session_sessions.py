"""The sessions of a node: bounded, for no page of another origin, and refused so that a client can tell why."""

import asyncio
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Mount

from outlast.server.access import Access
from outlast.server.identity import Identity
from outlast.server.session.sessions import Sessions
from outlast.wire.session import Closing
from tests.session import STREAM, Line, connected
from tests.stage import names, site, staged, turns

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


async def by_header(connection: Any) -> str | None:
    return connection.headers.get("x-user")


def ignore(_fact: object) -> None:
    pass


KNOWING = Access(report=ignore, authenticate=by_header, origins=["https://app.example"])
ANN, BOB = ([(b"x-user", name)] for name in (b"ann", b"bob"))


def refusal(line: Line) -> tuple[int, str]:
    assert line.refused is not None
    assert line.refused.headers["content-type"] == "application/problem+json"
    return line.refused.status, line.refused.said["code"]


# ---- who may open one ---------------------------------------------------------------------------


@pytest.mark.attack("Z6")
@pytest.mark.parametrize("access", [None, KNOWING], ids=["local", "authenticated"])
@pytest.mark.parametrize(
    "origin",
    [
        b"http://evil.example",
        b"https://evil.example:8400",
        b"null",
        b"",
        b"http://localhost",
        b"http://localhost:84000",
    ],
)
async def test_a_page_of_another_origin_opens_no_session_with_the_cookies_of_its_visitor(
    origin: bytes, access: Access | None
) -> None:
    async with staged() as stage, site(stage, access=access, sessions=Sessions()) as here:
        async with connected(here.app, headers=[*ANN, (b"origin", origin)]) as line:
            assert refusal(line) == (403, "peer_refused")
        twice = [*ANN, (b"origin", b"http://localhost:8400"), (b"origin", origin)]
        async with connected(here.app, headers=twice) as line:
            assert refusal(line) == (403, "peer_refused")


@pytest.mark.attack("Z6")
@pytest.mark.parametrize("origin", [b"http://localhost:8400", b"https://app.example", None])
async def test_a_page_of_ours_one_that_was_named_and_a_program_open_one(origin: bytes | None) -> None:
    async with staged() as stage, site(stage, access=KNOWING, sessions=Sessions()) as here:
        more = [] if origin is None else [(b"origin", origin)]
        async with connected(here.app, headers=[*ANN, *more]) as line:
            assert (await line.ask("/runs", "POST", {"worker": "chat", "input": 1, "id": "r1"})).status == 201
            assert (await stage.store.runs.load("ann", "r1")).run.owner == "ann"


@pytest.mark.attack("Z7", "Z16")
@pytest.mark.parametrize(
    ("client", "headers"),
    [(("10.0.0.7", 1), []), (("127.0.0.1", 1), [(b"x-forwarded-for", b"10.0.0.7")])],
)
async def test_without_authenticate_only_this_machine_opens_one(client: Any, headers: Any) -> None:
    async with staged() as stage, site(stage, sessions=Sessions()) as here:
        async with connected(here.app, client=client, headers=headers) as line:
            assert refusal(line) == (403, "peer_refused")
        async with connected(here.app) as line:
            assert (await line.ask("/runs")).status == 200


@pytest.mark.behaviour("A5")
async def test_a_stranger_opens_none_and_an_application_may_refuse_in_its_own_words() -> None:
    async def authenticate(connection: Any) -> str | None:
        match connection.headers.get("x-user"):
            case "banned":
                raise HTTPException(403)
            case "odd":
                raise ZeroDivisionError
            case _:
                return None

    access = Access(report=ignore, authenticate=authenticate)
    async with staged() as stage, site(stage, access=access, sessions=Sessions()) as here:
        for user, told in ((b"eve", (401, "unauthenticated")), (b"banned", (403, "not_admitted"))):
            async with connected(here.app, headers=[(b"x-user", user)]) as line:
                assert refusal(line) == told
        async with connected(here.app, headers=[(b"x-user", b"odd")]) as line:
            assert refusal(line) == (503, "hook_failed")
            assert line.refused is not None
            assert line.refused.headers["retry-after"] == "2"


async def test_a_server_that_can_tell_no_reason_refuses_all_the_same() -> None:
    foreign = {"headers": [(b"origin", b"http://evil.example")], "extensions": {}}
    async with staged() as stage, site(stage, sessions=Sessions()) as here, connected(here.app, **foreign) as line:
        assert (line.refused, line.subprotocol) == (None, None)
        assert line.closed is not None


async def test_another_wire_is_refused() -> None:
    async with staged() as stage, site(stage, sessions=Sessions()) as here:
        for subprotocols in ((), ("outlast.v2",), ("graphql-ws",)):
            async with connected(here.app, subprotocols=subprotocols) as line:
                assert refusal(line) == (400, "input_invalid")
        async with connected(here.app, subprotocols=("outlast.v2", "outlast.v1")) as line:
            assert line.subprotocol == "outlast.v1"


async def test_where_sessions_were_not_asked_for_there_are_none() -> None:
    async with staged() as stage, site(stage) as here, connected(here.app) as line:
        assert refusal(line) == (404, "not_found")
        assert "websocket" not in (await here.client.get("/session")).json()


async def test_a_session_is_at_the_place_where_the_routes_are() -> None:
    async with staged() as stage, site(stage, sessions=Sessions()) as here:
        run = await stage.active("r1")
        await stage.say(run, "x" * (300 * 1024))
        app = Starlette(routes=[Mount("/inner/outlast", app=here.app)])
        async with connected(app, path="/inner/outlast/session") as line:
            assert (await line.ask("/session")).said["websocket"] is True
            assert (
                (await line.ask("/runs", "POST", {"worker": "chat", "input": 1, "id": "r2"}))
                .headers["location"]
                .endswith("/runs/r2")
            )
            gap = (await line.ask("/runs/r1/events?after=99")).said["gap"]
            assert gap["snapshot_url"] == "/inner/outlast/runs/r1/snapshot"
            stream = line.stream("/runs/r1/events")
            assert names(await stream.until("outlast.caught-up"))[1] == "text"
        async with connected(app, path="/inner/session") as line:
            assert line.subprotocol is None


# ---- how many -----------------------------------------------------------------------------------


@pytest.mark.attack("Z10")
async def test_an_owner_has_so_many_sessions_and_a_node_so_many_and_those_that_are_there_stay() -> None:
    sessions = Sessions(per_owner=2, per_node=3)
    async with staged() as stage, site(stage, access=KNOWING, sessions=sessions) as here:
        async with connected(here.app, headers=ANN) as one, connected(here.app, headers=ANN):
            async with connected(here.app, headers=ANN) as line:
                assert refusal(line) == (429, "too_many")
            async with connected(here.app, headers=BOB), connected(here.app, headers=BOB) as line:
                assert refusal(line) == (503, "capacity")
                assert line.refused is not None
                assert line.refused.headers["retry-after"] == "2"
                assert "sessions" in line.refused.said["detail"]
            assert (await one.ask("/runs")).status == 200
            assert len(sessions) == 2
        assert len(sessions) == 0
        async with connected(here.app, headers=ANN) as line:
            assert line.subprotocol is not None


# ---- when the node closes -----------------------------------------------------------------------


async def test_a_node_that_drains_opens_none() -> None:
    sessions = Sessions()
    async with staged() as stage, site(stage, sessions=sessions) as here:
        sessions.drain()
        async with connected(here.app) as line:
            assert refusal(line) == (503, "draining")


async def test_what_is_open_is_served_until_it_ends_and_no_longer_than_the_node() -> None:
    sessions = Sessions()
    async with staged() as stage, site(stage, sessions=sessions) as here:
        await stage.start("r1")
        async with connected(here.app) as line:
            waiting = line.open("/runs/r1/events?wait=60")
            await turns()
            sessions.drain()
            sessions.drain()
            assert (await line.ask("/runs/r1")).status == 200
            assert line.closed is None
            sessions.close()
            assert (await line.end())[0] == Closing.DRAINED
            assert not any(frame.exchange == waiting for frame in line.heard)
            sessions.close()


async def test_who_may_stay_no_longer_is_let_go_when_nothing_is_open() -> None:
    clock = asyncio.get_running_loop().time

    async def authenticate(_connection: Any) -> Identity:
        return Identity(owner="ann", expires_at=10.0)

    access = Access(report=ignore, authenticate=authenticate, clock=clock)
    here_too = Sessions()
    async with staged() as stage, site(stage, access=access, sessions=here_too) as here, connected(here.app) as line:
        assert (await line.ask("/runs")).status == 200
        reached = asyncio.Event()
        asyncio.get_running_loop().call_at(41.0, reached.set)
        await reached.wait()
        assert (await line.ask("/runs", **STREAM)).status == 401
        assert (await line.end())[0] == Closing.EXPIRED
