"""A link by HTTP: established by a greeting, probed by another, and what else may answer in a server's place."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from outlast.client.answers import MAX_ANSWER
from outlast.client.credentials import Credentials
from outlast.client.http import HTTPConnection, HTTPTransport, address_of, direct, is_local, path_of
from outlast.client.transport import Lost
from outlast.errors import InputInvalid, RunNotFound, WireError
from outlast.supervision.phase import Trouble
from outlast.testing.faults import Gate
from outlast.testing.peer import Answer, Close, ScriptedPeer
from tests.answers import said

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


GREETING = {"boot_id": "b00t", "protocol": 1, "heartbeat": 5.0, "beacon": 8401, "from_tomorrow": True}


@asynccontextmanager
async def connected(*script: Answer) -> AsyncIterator[tuple[HTTPConnection, ScriptedPeer]]:
    async with ScriptedPeer(script) as peer:
        connection = await HTTPTransport([peer.url], Credentials({"authorization": "me"})).connect(1)
        try:
            yield connection, peer
        finally:
            await connection.close()
        await peer.until(lambda peer: peer.open == 0)


@pytest.mark.behaviour("M3")
async def test_a_link_begins_with_a_greeting_whose_unknown_members_are_skipped() -> None:
    async with connected(said(GREETING)) as (connection, peer):
        greeting = connection.greeting
        assert (greeting.boot_id, greeting.heartbeat, greeting.beacon) == ("b00t", 5.0, 8401)
        assert (peer.asked[0].path, peer.asked[0].headers["authorization"]) == ("/session", "me")


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (said({"boot_id": "b", "protocol": 2}), Trouble.VERSION),
        (said({"status": "ok"}), Trouble.FOREIGN),
        (said([1]), Trouble.FOREIGN),
        (Answer(body=[b"<html>"]), Trouble.FOREIGN),
        (said({"code": "unauthenticated", "detail": "Who?"}, 401), Trouble.CREDENTIALS),
        (said({"code": "forbidden", "detail": "Gone."}, 403), Trouble.REVOKED),
        (said({"code": "not_admitted", "detail": "Gone."}, 403), Trouble.REVOKED),
        (said({"code": "peer_refused", "detail": "Here."}, 403), Trouble.ADDRESS),
        (Answer(status=403, body=[b"<html>"]), Trouble.ADDRESS),
        (said({"detail": "Not Found"}, 404), Trouble.ADDRESS),
        (said({"code": "draining"}, 503), Trouble.BUSY),
        (Answer(status=307, headers={"location": "http://elsewhere/"}), Trouble.ADDRESS),
        (Answer(body=[Close(reset=True)]), Trouble.BROKEN),
    ],
)
async def test_what_answers_in_a_servers_place_is_told_apart(answer: Answer, trouble: Trouble) -> None:
    async with ScriptedPeer([answer]) as peer:
        with pytest.raises(Lost) as lost:
            await HTTPTransport([peer.url], Credentials(None)).connect(1)
        assert lost.value.trouble is trouble
        assert len(peer.asked) == 1
        await peer.until(lambda peer: peer.open == 0)


async def test_of_a_greeting_without_end_only_so_much_is_read() -> None:
    endless = Answer(body=[b" " * MAX_ANSWER, b" ", Gate()])
    async with ScriptedPeer([endless]) as peer:
        with pytest.raises(Lost) as lost:
            await HTTPTransport([peer.url], Credentials(None)).connect(1)
        assert lost.value.trouble is Trouble.FOREIGN
        await peer.until(lambda peer: peer.open == 0)


async def test_nobody_there_is_unreachable() -> None:
    with pytest.raises(Lost) as lost:
        await HTTPTransport(["http://127.0.0.1:1"], Credentials(None)).connect(1)
    assert lost.value.trouble is Trouble.UNREACHABLE


async def test_attempts_take_the_nodes_in_turn() -> None:
    async with ScriptedPeer([said(GREETING)]) as first, ScriptedPeer([said(GREETING)]) as second:
        transport = HTTPTransport([first.url, second.url], Credentials(None))
        for attempt in (1, 2, 3):
            await (await transport.connect(attempt)).close()
        assert (len(first.asked), len(second.asked)) == (2, 1)


async def test_any_answer_to_a_probe_is_a_sign_of_life_and_none_is_the_end() -> None:
    async with connected(said(GREETING), said({}, 503), Answer(body=[Close(reset=True)])) as (connection, _peer):
        await connection.probe()
        with pytest.raises(Lost):
            await connection.probe()


@pytest.mark.behaviour("M2")
@pytest.mark.parametrize(
    ("answer", "store"),
    [
        (said({**GREETING, "store": "theirs"}), "theirs"),
        (said(GREETING), None),
        (said({**GREETING, "store": 7}), None),
        (said({**GREETING, "store": "theirs"}, 503), None),
        (Answer(body=[b"<html>"]), None),
        (Answer(body=[b"[" * 100_000]), None),
    ],
)
async def test_a_probe_tells_the_store_that_answers_it(answer: Answer, store: str | None) -> None:
    async with connected(said(GREETING), answer) as (connection, _peer):
        assert await connection.probe() == store


@pytest.mark.behaviour("N4")
async def test_a_probe_asks_nobody_for_credentials_and_says_what_was_said_last() -> None:
    asked: list[str] = []

    def provider() -> dict[str, str]:
        if asked:
            raise LookupError("nobody is signed in")
        asked.append("once")
        return {"authorization": "the last that was sent"}

    async with ScriptedPeer([said(GREETING), said({}, 401)]) as peer:
        connection = await HTTPTransport([peer.url], Credentials(provider)).connect(1)
        await connection.probe()
        assert [request.headers["authorization"] for request in peer.asked] == ["the last that was sent"] * 2
        await connection.close()


@pytest.mark.behaviour("K18")
@pytest.mark.parametrize("shared", [True, False])
async def test_a_request_ends_with_its_connection_whoever_owns_the_client(shared: bool) -> None:
    async with ScriptedPeer([said(GREETING), Answer(body=[b"{", Gate()])]) as peer, direct() as theirs:
        make = (lambda _address: theirs) if shared else (lambda _address: direct())
        connection = await HTTPTransport([peer.url], Credentials(None), make=make, is_shared=shared).connect(1)
        asking = asyncio.create_task(connection.ask("GET", "/runs/r1"))
        await peer.until(lambda peer: len(peer.asked) == 2)
        await connection.close()
        with pytest.raises(Lost):
            await asking
        assert theirs.is_closed is False


async def test_an_answer_is_what_was_said_and_a_refusal_is_raised() -> None:
    script = (
        said(GREETING),
        said({"id": "r1"}, 201),
        Answer(status=204),
        said({"code": "run_not_found"}, 404),
        Answer(body=[b"{"]),
    )
    async with connected(*script) as (connection, peer):
        assert await connection.ask("POST", "/runs", {"id": "r1"}) == {"id": "r1"}
        assert (peer.asked[1].method, json.loads(peer.asked[1].body)) == ("POST", {"id": "r1"})
        assert await connection.ask("DELETE", "/runs/r1") is None
        with pytest.raises(RunNotFound):
            await connection.ask("GET", "/runs/r1")
        with pytest.raises(WireError):
            await connection.ask("GET", "/runs/r1")


@pytest.mark.parametrize(
    ("url", "local"), [("http://127.0.0.1:1", True), ("http://[::1]/a", True), ("https://example.org", False)]
)
def test_a_server_on_this_machine_needs_no_network(url: str, local: bool) -> None:
    assert is_local(url) is local


def test_an_address_is_a_url_and_a_run_has_a_path_of_its_own() -> None:
    assert address_of("http://here/agents/") == "http://here/agents"
    assert path_of("a b/c") == "/runs/a%20b%2Fc"
    for url in ("", "here", "ftp://here", "http://"):
        with pytest.raises(InputInvalid):
            address_of(url)
    for run in ("", ".", ".."):
        with pytest.raises(InputInvalid):
            path_of(run)
