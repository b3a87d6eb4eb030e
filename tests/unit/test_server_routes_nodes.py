import asyncio

import pytest

from outlast.server.access import Access
from outlast.server.routes.nodes import LATELY
from tests.stage import NODE, TTL, site, staged

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


async def test_nodes_are_told_with_what_is_left_of_their_leases_and_how_late_their_loops_are() -> None:
    async with staged() as stage, site(stage) as here:
        assert (await here.client.get("/nodes")).json() == {"nodes": []}
        await stage.store.runs.join("a-gone", ttl=1.0, workers=[])
        await stage.store.runs.join("b-stalled", ttl=TTL, workers=[])
        await stage.store.runs.join("c-late", ttl=TTL, workers=["fax", "chat"])
        for node, workers, stalled, lag in (
            ("b-stalled", [], True, 130.5),
            ("c-late", ["fax", "chat"], False, 0.12345),
        ):
            renewer = stage.store.renewer(node, ttl=TTL, workers=workers)
            renewer.renew(stalled=stalled, lag=lag)
            renewer.close()
        await stage.store.runs.drain("c-late")
        await asyncio.sleep(2.5)
        answer = await here.client.get("/nodes")
        assert answer.headers["cache-control"] == "no-store"
        none = {"workers": [], "draining": False}
        known = {"workers": ["chat", "fax"], "draining": True}
        lapsed = {"live": False, "lease_left": None}
        held = {"live": True, "lease_left": 12.5, "lapsed_for": None}
        assert answer.json()["nodes"] == [
            {"id": "a-gone", **lapsed, "lapsed_for": 1.5, "stalled": False, "loop_lag": 0.0, **none},
            {"id": "b-stalled", **lapsed, "lapsed_for": 2.5, "stalled": True, "loop_lag": 130.5, **none},
            {"id": "c-late", **held, "stalled": False, "loop_lag": 0.123, **known},
        ]


async def test_a_node_that_died_is_told_of_for_some_minutes_and_one_that_left_not_at_all() -> None:
    async with staged() as stage, site(stage) as here:
        for node in ("died", "left", "lives"):
            await stage.store.runs.join(node, ttl=1.0 if node == "died" else 2 * LATELY, workers=[])
        await stage.store.runs.leave("left")

        async def told() -> list[str]:
            return [node["id"] for node in (await here.client.get("/nodes")).json()["nodes"]]

        await asyncio.sleep(LATELY)
        assert await told() == ["died", "lives"]
        await asyncio.sleep(1.0)
        assert await told() == ["lives"]


async def test_nodes_say_nothing_of_anybodys_runs() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active("marker", input="marker", thread="marker")
        await stage.say(run, "marker")
        answer = await here.client.get("/nodes")
        assert [node["id"] for node in answer.json()["nodes"]] == [NODE]
        assert "marker" not in answer.text


async def test_who_may_not_list_runs_does_not_see_the_nodes() -> None:
    async def nobody(*_asked: object) -> bool:
        return False

    async with staged() as stage, site(stage, access=Access(report=stage.facts.append, authorize=nobody)) as here:
        assert (await here.client.get("/nodes")).status_code == 403
