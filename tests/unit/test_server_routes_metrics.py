"""Numbers over HTTP: as text for Prometheus, where they were asked for, and only to those who are let in."""

import httpx2
import pytest
from starlette.routing import Router

from outlast.client.asgi import StreamingTransport
from outlast.server.routes.door import routes
from outlast.server.routes.metrics import MEDIA_TYPE, Metrics
from tests.stage import BASE, entrance

pytestmark = pytest.mark.anyio


async def test_the_numbers_are_told_as_they_are_when_somebody_asks() -> None:
    said = iter([b"first\n", b"second\n"])
    app = Router(routes(entrance(), Metrics(lambda: next(said)).doors()))
    async with httpx2.AsyncClient(transport=StreamingTransport(app), base_url=BASE) as client:
        first, second = await client.get("/metrics"), await client.get("/metrics")
    assert (first.content, second.content) == (b"first\n", b"second\n")
    assert (first.headers["content-type"], first.headers["cache-control"]) == (MEDIA_TYPE, "no-store")


@pytest.mark.attack("Z16")
async def test_who_is_not_let_in_sees_no_number() -> None:
    app = Router(routes(entrance(), Metrics(lambda: b"outlast_calls_total 1").doors()))
    async with httpx2.AsyncClient(
        transport=StreamingTransport(app, client=("203.0.113.9", 1234)), base_url=BASE
    ) as client:
        answer = await client.get("/metrics")
    assert (answer.status_code, answer.json()["code"]) == (403, "peer_refused")
    assert b"outlast_calls" not in answer.content
