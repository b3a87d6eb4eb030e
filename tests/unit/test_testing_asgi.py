"""A lifespan runs around its block, and a stage that fails is seen."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from outlast.client.asgi import StreamingTransport
from outlast.testing.asgi import lifespan
from outlast.testing.leaks import check_leaks

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


@pytest.fixture(autouse=True)
async def no_leaks(anyio_backend: Any) -> AsyncIterator[None]:
    async with check_leaks():
        yield


def connect(app: ASGIApp, **options: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=StreamingTransport(app, **options), base_url="http://outlast.example")


def living(told: list[str], *, fail: str = "") -> Starlette:
    @asynccontextmanager
    async def life(_app: Starlette) -> AsyncIterator[dict[str, Any]]:
        told.append("startup")
        if fail == "startup":
            raise LookupError("the startup's own")
        yield {"node": "a"}
        told.append("shutdown")
        if fail == "shutdown":
            raise LookupError("the shutdown's own")

    async def node(request: Request) -> PlainTextResponse:
        return PlainTextResponse(request.state.node)

    return Starlette(lifespan=life, routes=[Route("/", node)])


async def test_an_app_lives_for_the_block_and_shares_its_state() -> None:
    told: list[str] = []
    app = living(told)
    async with lifespan(app) as state, connect(app, state=state) as client:
        assert told == ["startup"]
        assert (await client.get("/")).text == "a"
    assert told == ["startup", "shutdown"]


async def test_a_failed_startup_is_raised_and_the_block_not_entered() -> None:
    told: list[str] = []
    with pytest.raises(LookupError, match="the startup's own"):
        async with lifespan(living(told, fail="startup")):
            told.append("entered")
    assert told == ["startup"]


async def test_a_failed_shutdown_is_raised() -> None:
    told: list[str] = []
    with pytest.raises(LookupError, match="the shutdown's own"):
        async with lifespan(living(told, fail="shutdown")):
            told.append("entered")
    assert told == ["startup", "entered", "shutdown"]


async def test_an_app_is_shut_down_when_the_block_fails() -> None:
    told: list[str] = []
    with pytest.raises(ValueError, match="the block's own"):
        async with lifespan(living(told)):
            raise ValueError("the block's own")
    assert told == ["startup", "shutdown"]


async def test_a_stage_that_is_said_to_have_failed_is_an_error_with_its_message() -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no disk"})
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match=r"startup with lifespan\.startup\.failed: no disk"):
        async with lifespan(app):
            pass


async def test_an_app_without_lifespan_is_an_error() -> None:
    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        assert scope["type"] == "http", "only http is spoken here"

    with pytest.raises(AssertionError, match="only http is spoken here"):
        async with lifespan(app):
            pass


async def test_an_app_may_end_in_its_own_time_after_its_shutdown() -> None:
    told: list[str] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        for stage in ("startup", "shutdown"):
            assert await receive() == {"type": f"lifespan.{stage}"}
            await send({"type": f"lifespan.{stage}.complete"})
        await asyncio.sleep(1)
        told.append("ended")

    async with lifespan(app):
        pass
    assert told == ["ended"]


async def test_an_app_that_ends_before_its_shutdown_is_an_error() -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})

    with pytest.raises(RuntimeError, match="the app answered shutdown with an end"):
        async with lifespan(app):
            await asyncio.sleep(1)
