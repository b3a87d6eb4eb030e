from typing import Any

import httpx2
import pytest
from starlette.routing import Router

from outlast.client.asgi import StreamingTransport
from outlast.errors import Draining, NotStarted, OutlastError, StoreUnavailable
from outlast.server.routes.door import routes
from outlast.server.routes.health import Health
from tests.stage import BASE, Handled, entrance, site, staged

pytestmark = pytest.mark.anyio


async def test_health_tells_boot_id_workers_and_lag_and_neither_it_nor_readiness_asks_the_store() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)

        async def fail(_call: str) -> Any:
            raise AssertionError("the store was asked")

        handled.logs.before = handled.runs.before = fail
        async with site(stage, handled=handled) as here:
            answer = await here.client.get("/healthz")
            assert answer.status_code == 200
            assert answer.json() == {"status": "ok", "boot_id": "b00t", "workers": ["chat"], "loop_lag": 0.25}
            assert answer.headers["cache-control"] == "no-store"
            assert (await here.client.get("/readyz")).status_code == 200


async def test_a_node_that_takes_runs_is_ready() -> None:
    async with staged() as stage, site(stage) as here:
        ready = await here.client.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
        assert ready.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotStarted("not yet"), "not_started"),
        (Draining("closing"), "draining"),
        (StoreUnavailable("away"), "store_unavailable"),
    ],
)
async def test_why_a_node_is_not_ready_is_told_by_a_code(error: OutlastError, code: str) -> None:
    def check() -> None:
        raise error

    health = Health(dict, check)
    (door,) = [each for each in health.doors() if each.path == "/readyz"]
    app = Router(routes(entrance(), [door]))
    async with httpx2.AsyncClient(transport=StreamingTransport(app), base_url=BASE) as client:
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, code, "2")
