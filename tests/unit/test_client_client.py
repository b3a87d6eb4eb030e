"""What an application holds of a server: requests that end in an answer or an error, and one record of it all."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from outlast.client.client import ANSWER_WITHIN, Client
from outlast.client.connect import connect
from outlast.client.record import ClientRecord
from outlast.errors import ClientClosed, IdConflict, InputInvalid, Unanswered, Unauthenticated
from outlast.supervision.phase import Phase
from outlast.testing.peer import Answer, Asked, Close, Hold, ScriptedPeer
from tests.answers import GREETING, said

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


@asynccontextmanager
async def client_of(*script: Answer) -> AsyncIterator[tuple[Client, ScriptedPeer]]:
    async with ScriptedPeer([GREETING, *script]) as peer, connect(peer.url) as client:
        yield client, peer


async def test_calls_are_requests_and_answers_are_what_was_said() -> None:
    run = {"id": "r1", "status": "queued"}
    async with client_of(said(run, 201), said(run), said({"answer": "accepted"}, 202)) as (client, peer):
        started = await client.start("chat", {"text": "hi"}, id="r1", thread="t", metadata={"a": 1}, owner="a&b")
        assert started == run
        assert await client.status("r1") == run
        assert await client.stop("r1", reason="enough") == {"answer": "accepted"}
        calls = [(each.method, each.path, json.loads(each.body or b"null")) for each in peer.asked[1:]]
    body = {"worker": "chat", "input": {"text": "hi"}, "id": "r1", "thread": "t", "metadata": {"a": 1}}
    assert calls == [
        ("POST", "/runs?owner=a%26b", body),
        ("GET", "/runs/r1", None),
        ("POST", "/runs/r1/stop", {"reason": "enough"}),
    ]


@pytest.mark.behaviour("R11")
async def test_a_start_is_sent_once_with_a_key_of_its_own_and_a_lost_answer_is_told() -> None:
    async with client_of(Answer(body=[Close(reset=True)]), said({"id": "r1"})) as (client, peer):
        with pytest.raises(Unanswered, match="may have happened"):
            await client.start("chat")
        assert len(peer.asked) == 2
        assert json.loads(peer.asked[1].body)["id"]


@pytest.mark.behaviour("R11")
@pytest.mark.parametrize("ask", [lambda client: client.start("chat"), lambda client: client.stop("r1")])
async def test_what_was_asked_once_is_never_asked_again_by_the_links_that_follow(
    ask: Callable[[Client], Awaitable[Any]],
) -> None:
    def script(asked: Asked) -> Answer:
        return GREETING if asked.path.endswith("/session") else Answer(body=[Close(reset=True)])

    async with ScriptedPeer(script) as peer, connect(peer.url) as client:
        with pytest.raises(Unanswered):
            await ask(client)
        for _ in range(3):
            client.wakeup("user")
            await asyncio.sleep(60)
        assert client.state.record.link.generation > 3
        assert [asked.method for asked in peer.asked].count("POST") == 1


async def test_an_owner_that_cannot_be_sent_is_refused_here() -> None:
    async with client_of() as (client, peer):
        for ask in (client.status, client.stop, lambda run, owner: anext(client.follow(run, owner=owner))):
            with pytest.raises(InputInvalid, match="owner"):
                await ask("r1", owner="half a \ud800")
        assert len(peer.asked) <= 1  # who is there


async def test_a_refusal_is_raised_typed() -> None:
    async with client_of(said({"code": "id_conflict", "detail": "Another run has it."}, 409)) as (client, _peer):
        with pytest.raises(IdConflict, match="Another run"):
            await client.start("chat", id="r1")


async def test_a_request_without_an_answer_shows_that_it_waits_and_ends_with_the_link_it_hangs_on() -> None:
    async with client_of(Answer(body=[Hold()])) as (client, _peer):
        asking = asyncio.create_task(client.status("r1"))
        await asyncio.sleep(6)
        assert client.state.record.link.phase is Phase.SLOW
        with pytest.raises(Unanswered):
            await asking
        assert asyncio.get_running_loop().time() < ANSWER_WITHIN


async def test_without_a_link_a_request_is_unanswered_after_a_minute() -> None:
    async with connect("http://127.0.0.1:1") as client:
        with pytest.raises(Unanswered):
            await client.status("r1")
        assert asyncio.get_running_loop().time() >= ANSWER_WITHIN


@pytest.mark.behaviour("M4")
async def test_two_views_never_differ_and_each_ends_with_the_client() -> None:
    seen: tuple[list[ClientRecord], list[ClientRecord]] = ([], [])

    async def view(client: Client, into: list[ClientRecord]) -> None:
        async for record in client.state:
            assert record == client.state.record
            into.append(record)

    async with client_of(said({"id": "r1"})) as (client, _peer):
        views = [asyncio.create_task(view(client, into)) for into in seen]
        await client.status("r1")
        client.wakeup("visible", seconds=60)
        await asyncio.sleep(1)
    await asyncio.gather(*views)
    assert seen[0] == seen[1]
    phases = [record.link.phase for record in seen[0]]
    assert (phases[0], phases[-1]) == (Phase.CONNECTING, Phase.CLOSED)


async def test_an_unknown_wakeup_is_refused_with_those_there_are() -> None:
    async with client_of() as (client, _peer):
        with pytest.raises(InputInvalid, match="credentials-changed"):
            client.wakeup("tomorrow")


@pytest.mark.behaviour("K18")
async def test_what_is_asked_of_a_closed_client_is_told_so() -> None:
    async with client_of() as (client, _peer):
        pass
    with pytest.raises(ClientClosed):
        await client.status("r1")
    with pytest.raises(ClientClosed):
        await anext(client.follow("r1"))


async def test_the_record_tells_of_a_run_for_as_long_as_it_is_followed() -> None:
    beat = b'event: outlast.heartbeat\ndata: {"status": "active", "recovering": {"takeover": 2}, "loop_lag": 0.5}\n\n'
    body = [b'event: text\nid: 1\ndata: "a"\n\n', beat, b"event: outlast.caught-up\ndata: {}\n\n", Hold()]
    async with client_of(Answer(body=body)) as (client, _peer):
        following = client.follow("r1")
        await anext(following)
        reading = asyncio.create_task(anext(following))
        while not client.state.record.runs["r1"].caught_up:
            await client.state.changed()
        run = client.state.record.runs["r1"]
        assert (run.place.seq, run.status, run.recovering, run.loop_lag) == (1, "active", {"takeover": 2}, 0.5)
        reading.cancel()
        await asyncio.wait([reading])
        await following.aclose()
        assert client.state.record.runs == {}


async def test_a_request_that_is_withdrawn_is_nothing_against_the_server() -> None:
    async with client_of(Answer(body=[Hold()]), GREETING) as (client, peer):
        asking = asyncio.create_task(client.status("r1"))
        await peer.until(lambda peer: len(peer.asked) == 2)
        asking.cancel()
        await asyncio.sleep(15)
        assert client.state.record.link.phase is Phase.LIVE


async def test_credentials_that_are_refused_for_a_request_are_told_as_that() -> None:
    async with client_of(said({"code": "unauthenticated", "detail": "Who?"}, 401)) as (client, _peer):
        with pytest.raises(Unauthenticated, match="Who"):
            await client.start("chat")
