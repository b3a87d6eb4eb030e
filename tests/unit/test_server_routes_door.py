import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route, Router, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocketClose

from outlast.client.asgi import StreamingTransport
from outlast.errors import InputInvalid, RunNotFound, StoreBusy, StoreFull
from outlast.facts import StoreTroubled
from outlast.run import Run
from outlast.server.access import Access
from outlast.server.identity import Action, Identity
from outlast.server.routes.door import Door, Gate, KnownDoor, OpenDoor, Resource, RunDoor, SessionDoor, routes
from outlast.server.routes.entrance import Entrance
from outlast.server.seats import Seats
from tests.session import Line, connected, scope_of
from tests.stage import BASE, Site, Stage, site, staged

pytestmark = pytest.mark.anyio


def ignore(_fact: object) -> None:
    pass


async def nobodys(_owner: str, _id: str) -> Run:
    raise RunNotFound("There is no such run.")


def entrance(access: Access | None = None) -> Entrance:
    return Entrance(access or Access(report=ignore), nobodys, Seats())


async def by_header(connection: HTTPConnection) -> str | None:
    return connection.headers.get("x-user")


ASKING = Access(report=ignore, authenticate=by_header)
ANN, BOB = {"x-user": "ann"}, {"x-user": "bob"}


def calls(router: Any) -> Iterator[tuple[str, str, Door]]:
    """Every call that an application answers, from its router. A route that is none of our doors fails here."""
    for route in router.routes:
        if isinstance(route, WebSocketRoute):
            assert isinstance(route.app, Gate), f"{route.path} lets in whoever comes"
            continue
        assert isinstance(route, Route)
        assert isinstance(route.app, Resource), f"{route.path} lets in whoever comes"
        for method, door in route.app.doors.items():
            assert isinstance(door, Door)
            yield method, route.path, door


async def call(here: Site, method: str, path: str, id: str, headers: dict[str, str]) -> Any:
    answers = []
    for accept in ("application/json", "text/event-stream"):
        said = {"accept": accept, **headers}
        async with here.client.stream(method, path.replace("{id}", id), headers=said) as response:
            answers.append((response.status_code, response.headers.get("content-type"), await response.aread()))
    return answers


async def furnish(stage: Stage) -> None:
    run = await stage.start("anns", owner="ann", input={"secret": "marker"})
    run = await stage.claim(run)
    await stage.say(run, "marker")
    await stage.settle(run)


@pytest.mark.behaviour("A5")
async def test_every_call_decides_about_access_before_it_answers() -> None:
    async with staged() as stage, site(stage, access=ASKING) as here:
        await furnish(stage)
        open_paths = set()
        for method, path, door in calls(here.app):
            if isinstance(door, OpenDoor):
                open_paths.add(path)
                continue
            for status, kind, body in await call(here, method, path, "anns", headers={}):
                assert (status, kind) == (401, "application/problem+json"), f"{method} {path}"
                assert json.loads(body)["code"] == "unauthenticated"
        files = {path for path in open_paths if path.endswith((".js", ".css"))}
        assert open_paths == {"/healthz", "/readyz", "/metrics", "/", *files}


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FROB")


@pytest.mark.invariant("access-before-bytes")
@pytest.mark.parametrize("mount", ["", "/inner/outlast"], ids=["alone", "mounted"])
async def test_no_method_of_any_path_gives_a_byte_of_a_run_away_before_access_is_decided(mount: str) -> None:
    asked: list[str] = []

    async def nobody(connection: HTTPConnection) -> str | None:
        asked.append(f"{connection.scope['method']} {connection.scope['path']}")

    async with staged() as stage, site(stage, access=Access(report=ignore, authenticate=nobody)) as here:
        await furnish(stage)
        app = Starlette(routes=[Mount(mount, app=here.app)]) if mount else here.app
        async with here.as_client(app) as client:
            known: dict[str, dict[str, Door]] = {}
            for method, path, door in calls(here.app):
                known.setdefault(path, {})[method] = door
            for path, doors in known.items():
                for method in METHODS:
                    asked.clear()
                    place = mount + path.replace("{id}", "anns")
                    async with client.stream(method, place, headers={"accept": "text/event-stream"}) as answer:
                        body = await answer.aread()
                    door = doors.get("GET" if method == "HEAD" else method)
                    if isinstance(door, OpenDoor):
                        continue
                    assert b"marker" not in body
                    assert "etag" not in answer.headers
                    if door is not None:
                        assert (answer.status_code, asked) == (401, [f"{method} {place}"])
                    else:
                        assert (answer.status_code, asked) == (405, [])


@pytest.mark.behaviour("A5")
@pytest.mark.attack("Z4")
@pytest.mark.case(137)
async def test_another_owners_run_is_answered_like_one_that_never_was() -> None:
    async with staged() as stage, site(stage, access=ASKING) as here:
        await furnish(stage)
        before = (await stage.store.runs.load("ann", "anns")).run
        with_id = [(method, path) for method, path, _ in calls(here.app) if "{id}" in path]
        assert len(with_id) >= 3
        for method, path in with_id:
            anns, none = [await call(here, method, path, id, BOB) for id in ("anns", "none")]
            assert anns == none, f"{method} {path}"
            if method == "GET":
                assert [status for status, _, _ in anns] == [404, 404]
            assert b"marker" not in b"".join(body for _, _, body in anns)
        listed = await here.client.get("/runs", headers=BOB)
        assert listed.json()["runs"] == []
        assert (await stage.store.runs.load("ann", "anns")).run == before
        assert (await here.client.get("/runs/anns", headers=ANN)).status_code == 200


@pytest.mark.behaviour("A5")
@pytest.mark.attack("Z4")
async def test_every_call_about_runs_asks_the_applications_hook_for_its_action_first() -> None:
    asked: list[tuple[Action, str | None]] = []

    async def deny(_identity: Identity, action: Action, _owner: str, run: Run | None) -> bool:
        asked.append((action, None if run is None else run.id))
        return False

    denying = Access(report=ignore, authenticate=by_header, authorize=deny)
    async with staged() as stage, site(stage, access=denying) as here:
        await furnish(stage)
        for method, path, door in calls(here.app):
            if not isinstance(door, RunDoor):
                continue
            asked.clear()
            answers = await call(here, method, path, "anns", ANN)
            about = "anns" if path.startswith("/runs/{id}") else None
            assert asked == [(door.action, about)] * len(answers), f"{method} {path}"
            for status, kind, body in answers:
                assert (status, kind) == (403 if about is None else 404, "application/problem+json")
                assert b"marker" not in body
            if about is not None and door.action is not Action.STOP:
                assert answers == await call(here, method, path, "none", ANN)


@pytest.mark.attack("Z6")
@pytest.mark.behaviour("A4")
async def test_a_get_changes_nothing_whatever_it_asks() -> None:
    async with staged() as stage, site(stage) as here:
        await stage.active("r1")
        await stage.start("r2")
        connection = stage.store._ground.connection  # type: ignore[attr-defined]
        before = connection.total_changes
        for method, path, door in calls(here.app):
            if method == "GET":
                assert not isinstance(door, RunDoor) or door.action in {Action.READ, Action.LIST}
                for id in ("r1", "r2", "none"):
                    place = path.replace("{id}", id)
                    await here.client.get(place)
                    await here.client.head(place)
                    async with here.stream(place) as stream:
                        await anext(stream.response.aiter_raw(), b"")
        assert connection.total_changes == before


@pytest.mark.attack("Z7", "Z16")
@pytest.mark.parametrize(
    ("client", "headers"),
    [
        (("10.0.0.7", 1), {}),
        (("127.0.0.1", 1), {"host": "evil.example"}),
        (("127.0.0.1", 1), {"x-forwarded-for": "10.0.0.7"}),
    ],
)
async def test_without_authenticate_every_call_refuses_what_is_not_this_machine(
    client: tuple[str, int], headers: dict[str, str]
) -> None:
    async with staged() as stage, site(stage) as here, here.as_client(client=client) as far:
        for method, path, _ in calls(here.app):
            answer = await far.request(method, path.replace("{id}", "r1"), headers=headers)
            assert answer.status_code == 403, f"{method} {path}"
            assert answer.json()["code"] == "peer_refused"
            assert "authenticate=…" in answer.json()["detail"]


async def test_a_foreign_page_can_post_nothing() -> None:
    async with staged() as stage, site(stage) as here:
        for method, path, _ in calls(here.app):
            if method != "GET":
                answer = await here.client.request(
                    method, path.replace("{id}", "r1"), headers={"origin": "http://evil.example"}
                )
                assert (answer.status_code, answer.json()["code"]) == (403, "peer_refused")


async def test_a_path_tells_which_methods_it_knows() -> None:
    async with staged() as stage, site(stage) as here:
        answer = await here.client.delete("/runs")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
        assert answer.json()["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    "path", ["/nothing", "/runs/", "/runs/r1/", "/runs/r1/nothing", "/runs/a%2Fb", "/nothing/runs"]
)
async def test_what_no_path_knows_is_a_problem_too(path: str) -> None:
    async with staged() as stage, site(stage) as here:
        answer = await here.client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert answer.headers["content-type"] == "application/problem+json"


# ---- doors of this test's own -------------------------------------------------------------------


def app(*doors: Door, access: Access | None = None) -> Router:
    return Router(routes(entrance(access), doors))


async def ask(router: Router, method: str = "GET", headers: dict[str, str] | None = None) -> Any:
    async with httpx2.AsyncClient(transport=StreamingTransport(router), base_url=BASE) as client:
        return await client.request(method, "/", headers=headers)


async def test_a_run_door_is_answered_for_an_owner_and_an_open_one_for_nobody() -> None:
    async def whom(_request: Request, owner: str) -> ASGIApp:
        return PlainTextResponse(f"owner {owner!r}")

    async def anyone(_request: Request) -> ASGIApp:
        return PlainTextResponse("open")

    doors = (
        RunDoor(method="GET", path="/", action=Action.LIST, answer=whom),
        OpenDoor(method="POST", path="/", answer=anyone),
    )
    assert (await ask(app(*doors))).text == "owner ''"
    assert (await ask(app(*doors), "POST")).text == "open"
    assert (await ask(app(*doors), "HEAD")).status_code == 200


async def test_a_known_door_is_for_those_alone_whose_identity_is_known() -> None:
    async def greet(_request: Request) -> ASGIApp:
        return PlainTextResponse("known")

    router = app(KnownDoor(method="GET", path="/", answer=greet), access=ASKING)
    assert (await ask(router)).status_code == 401
    assert (await ask(router, headers=ANN)).text == "known"


async def test_a_refusal_becomes_a_problem_and_an_accident_is_raised_as_well() -> None:
    async def refuse(_request: Request) -> ASGIApp:
        raise InputInvalid("A sentence.")

    async def stumble(_request: Request) -> ASGIApp:
        raise ZeroDivisionError

    assert (await ask(app(OpenDoor(method="GET", path="/", answer=refuse)))).json()["detail"] == "A sentence."
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    resource = Resource(entrance(), [OpenDoor(method="GET", path="/", answer=stumble)])
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
    }
    with pytest.raises(ZeroDivisionError):
        await resource(scope, lambda: None, send)  # type: ignore[arg-type, return-value]
    assert sent[0]["status"] == 500
    assert json.loads(sent[1]["body"])["code"] == "internal"


async def test_a_session_is_begun_for_who_is_known_and_refused_to_who_is_not() -> None:
    begun: list[str] = []

    def begin(handshake: Any, owner: str, _left: Any) -> ASGIApp:
        begun.append(owner)
        assert handshake["type"] == "websocket"
        return WebSocketClose(4000)

    [route] = routes(entrance(ASKING), [SessionDoor(path="/line", begin=begin)])
    async with connected(Router([route]), path="/line", headers=[(b"x-user", b"ann")]) as line:
        assert line.closed == (4000, "")
    async with connected(Router([route]), path="/line") as line:
        assert line.refused is not None
        assert line.refused.status == 401
    assert begun == ["ann"]


async def test_an_accident_at_a_handshake_is_raised_as_well() -> None:
    def stumble(_handshake: Any, _owner: str, _left: Any) -> ASGIApp:
        raise ZeroDivisionError

    gate = Gate(entrance(), SessionDoor(path="/line", begin=stumble))
    line = Line()
    with pytest.raises(ZeroDivisionError):
        await gate(scope_of(path="/line"), line.receive, line.send)
    assert line.refused is not None
    assert (line.refused.status, line.refused.said["code"]) == (500, "internal")


async def test_a_store_that_fails_under_requests_is_told_once_until_one_succeeds() -> None:
    facts: list[object] = []
    answers: list[Exception | None] = [StoreFull("no room"), StoreFull("no room"), None, StoreBusy("locked")]

    async def look(_request: Request, _owner: str) -> ASGIApp:
        if (error := answers.pop(0)) is not None:
            raise error
        return PlainTextResponse("there")

    door = RunDoor(method="GET", path="/runs", action=Action.LIST, answer=look)
    way = Entrance(Access(report=facts.append), nobodys, Seats())
    async with httpx2.AsyncClient(transport=StreamingTransport(Router(routes(way, [door]))), base_url=BASE) as client:
        statuses = [(await client.get("/runs")).status_code for _ in range(4)]
    assert statuses == [503, 503, 200, 503]
    assert facts == [
        StoreTroubled(during="request", error="store_full"),
        StoreTroubled(during="request", error="store_busy"),
    ]
