"""Origins: pages that were named exactly may use the routes, no other may change or read anything."""

import pytest

from outlast.errors import SettingsError
from outlast.server.access import Access
from outlast.server.origins import EXPOSED, HEADERS, check
from tests.stage import site, staged

pytestmark = pytest.mark.anyio

OURS, OTHER = "https://app.example", "https://evil.example"


def naming(*origins: str) -> Access:
    return Access(report=[].append, origins=origins)


@pytest.mark.attack("Z6")
async def test_a_named_front_end_is_told_before_it_sends_what_it_may_send() -> None:
    async with staged() as stage, site(stage, access=naming(OURS)) as here:
        asks = {"origin": OURS, "access-control-request-method": "POST", "access-control-request-headers": "x-marker"}
        told = await here.client.options("/runs", headers=asks)
        assert told.status_code == 204
        assert told.headers["access-control-allow-origin"] == OURS
        assert told.headers["access-control-allow-credentials"] == "true"
        assert told.headers["access-control-allow-methods"] == "GET, POST"
        assert told.headers["access-control-allow-headers"] == HEADERS
        assert {"last-event-id", "content-type", "authorization"} <= set(HEADERS.split(", "))
        assert told.headers["vary"] == "origin"
        assert "x-marker" not in str(told.headers)


@pytest.mark.attack("Z6")
async def test_a_named_front_end_may_start_a_run_and_read_what_is_answered() -> None:
    async with staged() as stage, site(stage, access=naming("http://localhost:3000", OURS)) as here:
        made = await here.client.post("/runs", json={"worker": "chat", "input": 1}, headers={"origin": OURS})
        assert made.status_code == 201
        assert made.headers["access-control-allow-origin"] == OURS
        assert made.headers["access-control-expose-headers"] == EXPOSED
        assert {"location", "outlast-run", "retry-after", "etag"} == set(EXPOSED.split(", "))
        async with here.stream(made.headers["location"] + "/events", headers={"origin": OURS}) as stream:
            assert stream.response.headers["access-control-allow-origin"] == OURS
            assert stream.response.headers.get_list("vary") == ["accept", "origin"]
        refused = await here.client.get("/runs/none", headers={"origin": OURS})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (404, OURS)


@pytest.mark.attack("Z6")
@pytest.mark.parametrize(
    "origin", [OTHER, "null", "https://app.example.evil.example", "https://app.example:444", "http://app.example", "*"]
)
async def test_a_page_that_was_not_named_changes_nothing_and_reads_nothing(origin: str) -> None:
    async with staged() as stage, site(stage, access=naming(OURS)) as here:
        posted = await here.client.post("/runs", json={"worker": "chat", "input": 1}, headers={"origin": origin})
        assert (posted.status_code, posted.json()["code"]) == (403, "peer_refused")
        assert (await here.client.get("/runs")).json()["runs"] == []
        asks = {"origin": origin, "access-control-request-method": "POST"}
        told = await here.client.options("/runs", headers=asks)
        assert told.status_code == 405
        read = await here.client.get("/runs", headers={"origin": origin})
        for answer in (posted, told, read):
            assert not [name for name in answer.headers if name.startswith("access-control-")]
            assert "origin" in answer.headers.get_list("vary")


async def test_without_names_nothing_is_said_of_origins() -> None:
    async with staged() as stage, site(stage) as here:
        answer = await here.client.get("/runs", headers={"origin": OURS})
        assert "origin" not in answer.headers.get("vary", "")
        assert "access-control-allow-origin" not in answer.headers
        asks = {"origin": OURS, "access-control-request-method": "POST"}
        assert (await here.client.options("/runs", headers=asks)).status_code == 405


async def test_who_brings_two_origins_brings_none() -> None:
    async with staged() as stage, site(stage, access=naming(OURS)) as here:
        posted = await here.client.post(
            "/runs", json={"worker": "chat", "input": 1}, headers=[("origin", OURS), ("origin", OTHER)]
        )
        assert posted.status_code == 403


@pytest.mark.parametrize("name", ["https://app.example", "http://localhost:3000", "http://[::1]:5173", "HTTPS://A.B"])
def test_an_origin_is_a_scheme_a_host_and_perhaps_a_port(name: str) -> None:
    assert check(name) == name.lower()


@pytest.mark.parametrize(
    "name",
    [
        "*",
        "null",
        "",
        "app.example",
        "https://app.example/",
        "https://*.example",
        "https://a/b",
        "ftp://a",
        "https://a\n",
    ],
)
def test_what_is_no_origin_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(SettingsError, match="such as https://app"):
        check(name)
