from typing import Any

import pytest

from tests.stage import Handled, site, staged

pytestmark = pytest.mark.anyio


async def test_health_tells_boot_id_workers_and_lag_and_asks_no_store() -> None:
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
