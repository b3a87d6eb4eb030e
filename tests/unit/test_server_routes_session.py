"""A client is greeted with who answers, and asks nothing of the store by that."""

import httpx2
import pytest
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from outlast.client.asgi import StreamingTransport
from outlast.server.access import Access
from outlast.server.routes.door import routes
from outlast.server.routes.session import Session
from tests.stage import BASE, entrance, site, staged

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


async def test_whoever_may_come_in_is_told_who_answers() -> None:
    async with staged() as stage, site(stage) as here:
        answer = await here.client.get("/session")
        who = {"boot_id": "b00t", "protocol": 1, "heartbeat": 10.0, "store": stage.store.id}
        assert answer.json() == {**who, "peer": "127.0.0.1:50000"}
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.attack("Z4")
async def test_a_stranger_is_greeted_no_more_than_at_any_other_door() -> None:
    async def nobody(_connection: object) -> None:
        return None

    async with staged() as stage, site(stage, access=Access(report=stage.facts.append, authenticate=nobody)) as here:
        answer = await here.client.get("/session")
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


async def told(client: tuple[str, int] | None) -> httpx2.Response:
    """Return what is told to whoever asks from this address."""
    parts = Session(lambda: {"boot_id": "b00t"}).doors()
    app = Router(routes(entrance(allow_anonymous=True), parts))

    async def seen(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "client": client}, receive, send)

    async with httpx2.AsyncClient(transport=StreamingTransport(seen), base_url=BASE) as asking:
        return await asking.get("/session")


async def test_whoever_asks_is_told_who_answers_and_from_where_it_was_asked() -> None:
    answer = await told(("192.0.2.7", 50123))
    assert answer.json() == {"boot_id": "b00t", "peer": "192.0.2.7:50123"}
    assert answer.headers["cache-control"] == "no-store"


async def test_an_address_of_the_newer_kind_is_told_as_the_client_writes_its_own() -> None:
    assert (await told(("2001:db8::7", 50123))).json()["peer"] == "2001:db8::7:50123"


async def test_where_there_is_no_address_there_is_none() -> None:
    assert (await told(None)).json()["peer"] is None
