"""In a handler of the host's own application: the answer of the routes, decided about by the handler."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from outlast.errors import StoreUnavailable
from outlast.server.readers.feed import LINGER
from outlast.server.routes.events import Events
from outlast.server.routes.handler import Handler
from outlast.server.seats import Seats
from tests.stage import Handled, Site, Stage, Stream, names, site, staged

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]
STREAM = {"accept": "text/event-stream"}


class Host:
    """An application whose one handler answers for ann's runs."""

    def __init__(self, here: Site, handled: Handled, seats: Seats) -> None:
        self.handler = Handler(Events(here.stage.intake, handled.logs, here.hub), seats)
        self.done = asyncio.Event()
        self.before_sending = 0.0
        self.app = Starlette(routes=[Route(path, self.chat) for path in ("/chats/{id}", "/{room}/chats/{id}")])

    async def chat(self, request: Request) -> Response:
        response = await self.handler.answer(request, owner="ann", id=request.path_params["id"])
        await asyncio.sleep(self.before_sending)
        response.headers["x-app"] = "theirs"
        response.background = BackgroundTask(self.finish)
        return response

    async def finish(self) -> None:
        self.done.set()


@asynccontextmanager
async def scene(seats: Seats | None = None) -> AsyncIterator[tuple[Stage, Handled, Host, httpx2.AsyncClient]]:
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here:
            host = Host(here, handled, seats or Seats())
            async with here.as_client(host.app) as client:
                yield stage, handled, host, client


@pytest.mark.behaviour("F3", "F10")
async def test_a_response_that_waits_while_its_feed_ends_is_live_all_the_same() -> None:
    async with scene() as (stage, _, host, client):
        run = await stage.active(owner="ann")
        host.before_sending = LINGER + 1
        async with client.stream("GET", "/chats/r1", headers=STREAM, timeout=60) as response:
            stream = Stream(response)
            await stream.until("outlast.caught-up")
            await stage.say(run, "a")
            await stream.until("text")
            await stream.until("outlast.heartbeat")
            await stage.settle(run)
            assert names(await stream.rest())[-1] == "outlast.end"


async def test_it_streams_with_what_the_framework_adds() -> None:
    async with scene() as (stage, _, host, client):
        run = await stage.active(owner="ann")
        await stage.say(run, "a")
        await stage.settle(run)
        async with client.stream("GET", "/chats/r1", headers=STREAM) as response:
            assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream")
            assert response.headers["x-app"] == "theirs"
            assert "content-length" not in response.headers
            frames = await Stream(response).rest()
        assert names(frames) == ["outlast.hello", "text", "run.completed", "outlast.caught-up", "outlast.end"]
        await asyncio.wait_for(host.done.wait(), 1)
        last = str(next(message.id for message in reversed(frames) if message.id))
        assert (await client.get("/chats/r1", headers={**STREAM, "last-event-id": last})).status_code == 204


async def test_it_answers_pages_and_lines_and_waits() -> None:
    async with scene() as (stage, _, _, client):
        run = await stage.active(owner="ann")
        await stage.say(run, "a")
        page = (await client.get("/chats/r1")).json()
        assert ([event["data"] for event in page["events"]], page["ended"]) == (["a"], False)
        lines = await client.get("/chats/r1", headers={"accept": "application/x-ndjson"})
        assert json.loads(lines.text.splitlines()[0])["data"] == "a"
        waited = await client.get(f"/chats/r1?wait=7&after={page['next']}", timeout=None)
        assert waited.json()["events"] == []


@pytest.mark.parametrize("headers", [{}, STREAM])
async def test_what_is_not_there_and_what_is_no_cursor_are_problems(headers: dict[str, str]) -> None:
    async with scene() as (stage, _, _, client):
        await stage.active("bobs", owner="bob")
        for path, status, code in (
            ("/chats/bobs", 404, "run_not_found"),
            ("/chats/none", 404, "run_not_found"),
            ("/chats/bobs?after=x", 400, "cursor_invalid"),
        ):
            answer = await client.get(path, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (status, code)
            assert answer.headers["content-type"] == "application/problem+json"


async def test_a_store_in_trouble_is_a_hint_to_come_again_for_a_stream_and_a_problem_for_a_page() -> None:
    async with scene() as (stage, handled, _, client):
        await stage.active(owner="ann")

        async def fail(_call: str) -> Any:
            raise StoreUnavailable("away")

        handled.logs.before = fail
        stream = await client.get("/chats/r1", headers=STREAM)
        assert (stream.status_code, b"retry: " in stream.content) == (200, True)
        page = await client.get("/chats/r1")
        assert (page.status_code, page.json()["code"]) == (503, "store_unavailable")


@pytest.mark.parametrize("below", ["", "/a%20b%3Fc%23d%25", "/%E2%82%AC"])
async def test_the_snapshot_behind_a_large_gap_is_at_the_handlers_own_address(below: str) -> None:
    async with scene() as (stage, _, _, client):
        run = await stage.active(owner="ann")
        await stage.say(run, "x" * 300_000, "y")
        gap = (await client.get(f"{below}/chats/r1?after=99&types=text&limit=5&mine=a%26b")).json()["gap"]
        assert gap["snapshot_url"] == f"{below}/chats/r1?types=text&mine=a%26b&snapshot=1"
        snapshot = (await client.get(gap["snapshot_url"])).json()
        assert [len(event["data"]) for event in snapshot["events"]] == [300_000, 1]


@pytest.mark.attack("Z10")
async def test_its_readers_take_seats() -> None:
    async with scene(Seats(per_owner=1)) as (stage, _, _, client):
        run = await stage.active(owner="ann")
        async with client.stream("GET", "/chats/r1", headers=STREAM, timeout=None) as response:
            stream = Stream(response)
            await stream.until("outlast.caught-up")
            turned_away = await client.get("/chats/r1", headers=STREAM)
            assert b'"reason":"capacity"' in turned_away.content
            refused = await client.get("/chats/r1?wait=5")
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many")
            await stage.settle(run)
            await stream.rest()


async def test_fastapi_lets_its_answer_through() -> None:
    async with scene() as (stage, handled, host, _), site(stage, handled=handled) as here:
        app = FastAPI()

        @app.get("/mine/{id}")
        async def mine(id: str, request: Request) -> Response:
            return await host.handler.answer(request, owner="ann", id=id)

        run = await stage.active(owner="ann")
        await stage.settle(run)
        async with here.as_client(app) as client, client.stream("GET", "/mine/r1", headers=STREAM) as answer:
            assert names(await Stream(answer).rest())[-1] == "outlast.end"
