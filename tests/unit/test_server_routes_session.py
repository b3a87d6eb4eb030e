"""A client is greeted with who answers, and asks nothing of the store by that."""

import pytest

from outlast.server.access import Access
from tests.stage import site, staged

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


async def test_whoever_may_come_in_is_told_who_answers() -> None:
    async with staged() as stage, site(stage) as here:
        answer = await here.client.get("/session")
        assert answer.json() == {"boot_id": "b00t", "protocol": 1, "heartbeat": 10.0}
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.attack("Z4")
async def test_a_stranger_is_greeted_no_more_than_at_any_other_door() -> None:
    async def nobody(_connection: object) -> None:
        return None

    async with staged() as stage, site(stage, access=Access(report=stage.facts.append, authenticate=nobody)) as here:
        answer = await here.client.get("/session")
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
