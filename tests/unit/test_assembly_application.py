"""The ASGI application of an `Outlast`, as servers see it."""

import inspect

import httpx2
import pytest
import uvicorn

from outlast import Outlast
from outlast.client.asgi import StreamingTransport
from outlast.testing.asgi import lifespan

pytestmark = pytest.mark.anyio


def test_servers_take_it_for_what_it_is() -> None:
    config = uvicorn.Config(Outlast("sqlite://").app)
    config.load()
    assert (config.interface, inspect.iscoroutinefunction(config.app)) == ("asgi3", False)


async def test_two_lives_of_one_application_are_served_by_the_same_object() -> None:
    outlast = Outlast("sqlite://")
    app = outlast.app
    transport = StreamingTransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for _ in range(2):
            assert (await client.get("/healthz")).json()["code"] == "not_started"
            async with lifespan(app):
                assert (await client.get("/healthz")).json()["status"] == "ok"
