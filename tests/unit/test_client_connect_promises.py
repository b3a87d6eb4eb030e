"""What a whole client promises about its ends, its failures and its patience: over a scripted peer, in virtual time."""

import asyncio
import gc
import json
import logging
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from starlette.types import Receive, Send

from outlast import ReceivedEvent, ReceivedGap, RunNotFound, Unanswered, connect
from outlast.client.asgi import StreamingTransport
from outlast.client.client import Client
from outlast.client.evidence import Evidence
from outlast.supervision.phase import Phase
from outlast.supervision.profile import DESKTOP, STANDARD
from outlast.testing.faults import Gate
from outlast.testing.peer import Answer, Asked, ScriptedPeer
from tests.scripts import (
    ALL,
    GREETING,
    HELLO,
    PLACES,
    URL,
    Peer,
    Script,
    answer,
    collect,
    control,
    frames,
    problem,
    seqs,
    stream,
)

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


def now() -> float:
    return asyncio.get_running_loop().time()


async def mute(receive: Receive, _send: Send) -> None:
    """Take a request and say nothing, until whoever asked has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def client_of(peer: Peer, **options: Any) -> Any:
    carrier = httpx2.AsyncClient(transport=StreamingTransport(peer))
    return connect(URL, **{"transports": ["sse"], "jitter": lambda: 0.5, "client": carrier, **options})


# ---- what hangs, and what fails below -------------------------------------------------------------


@pytest.mark.behaviour("K8")
async def test_credentials_that_do_not_come_are_cut_at_the_deadline_and_asked_for_anew() -> None:
    asked: list[float] = []

    async def provider() -> dict[str, str]:
        asked.append(now())
        if len(asked) == 1:
            await asyncio.Event().wait()
        return {}

    peer = Peer(stream(HELLO, *frames(1)))
    async with client_of(peer, headers=provider) as client:
        assert await seqs(client.follow("r")) == ALL
    assert asked[:2] == [0.0, STANDARD.establishment + 0.25]
    assert len(peer.greeted) == 1


@pytest.mark.behaviour("K9")
async def test_whatever_fails_below_is_reported_and_the_link_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = iter([True, False])

    def provider() -> dict[str, str]:
        if next(failing, False):
            raise LookupError("somebody's secret")
        return {}

    async def look(*_: object) -> None:
        raise ZeroDivisionError("in the looking")

    monkeypatch.setattr(Evidence, "look", look)
    peer = Peer(
        stream(HELLO, *frames(1, 3), then="hang"), stream(HELLO, *frames(4)), session=(GREETING, mute, GREETING)
    )
    caplog.set_level(logging.WARNING)
    async with client_of(peer, headers=provider) as client:
        assert await seqs(client.follow("r")) == ALL
        assert client.state.record.link.generation == 2
    assert caplog.messages == [
        "an attempt to connect failed unexpectedly (LookupError)",
        "evidence could not be looked for (ZeroDivisionError)",
    ]


# ---- the end ---------------------------------------------------------------------------------------


async def idle(_client: Client) -> None:
    """Do nothing."""


async def linked(client: Client) -> None:
    await client.status("r")


async def probing(client: Client) -> None:
    await client.status("r")
    client.wakeup("visible")
    await asyncio.sleep(1)


async def replacing(client: Client) -> None:
    await client.status("r")
    client.wakeup("user")
    await asyncio.sleep(1)


async def following(client: Client) -> None:
    follow = client.follow("r")
    await anext(follow)
    client.wakeup("resumed", seconds=5)


@pytest.mark.behaviour("K18")
@pytest.mark.parametrize(
    ("doing", "session"),
    [
        (idle, (mute,)),
        (idle, (answer(503),)),
        (idle, (problem(401, "unauthenticated"),)),
        (linked, (GREETING,)),
        (probing, (GREETING, mute)),
        (replacing, (GREETING, mute)),
        (following, (GREETING, mute)),
    ],
)
async def test_after_the_end_nothing_is_asked_called_or_left(
    doing: Callable[[Client], Any], session: tuple[Script, ...]
) -> None:
    calls, before = 0, asyncio.all_tasks()

    def provider() -> dict[str, str]:
        nonlocal calls
        calls += 1
        return {"authorization": "me"}

    status = answer(200, b'{"id": "r"}')
    hanging = stream(HELLO, *frames(1, 3), then="hang")
    peer = Peer(hanging if doing is following else status, session=session)
    seen: list[Phase] = []
    async with client_of(peer, headers=provider) as client:

        async def show() -> None:
            async for record in client.state:
                seen.append(record.link.phase)  # noqa: PERF401 - one by one, as they come

        showing = asyncio.create_task(show())
        await asyncio.sleep(0.1)
        await doing(client)
    await showing
    counted = calls, len(peer.greeted), len(peer.times)
    for wakeup in ("user", "visible", "online", "credentials-changed"):
        client.wakeup(wakeup, seconds=60)
    with pytest.raises(Unanswered):
        await client.status("r")
    gc.collect()
    await asyncio.sleep(3600)
    assert (calls, len(peer.greeted), len(peer.times)) == counted
    assert (seen[-1], seen.count(Phase.CLOSED), client.state.record.link.phase) == (Phase.CLOSED, 1, Phase.CLOSED)
    assert asyncio.all_tasks() == before


@pytest.mark.behaviour("R1", "K18")
async def test_a_request_ends_with_the_client_also_over_a_carrier_that_is_not_its_own() -> None:
    peer = Peer(mute)
    async with client_of(peer) as client:
        asking = asyncio.create_task(client.status("r"))
        await asyncio.sleep(1)
    with pytest.raises(Unanswered):
        await asking
    assert now() == 1.0


@pytest.mark.behaviour("R1")
async def test_a_request_that_is_under_way_is_answered_over_the_link_that_is_replaced() -> None:
    gate = Gate()

    def server(asked: Asked) -> Answer:
        if asked.path.endswith("/session"):
            return Answer(body=[b'{"boot_id": "b", "protocol": 1}'])
        return Answer(body=[b'{"id": ', gate, b'"r"}'])

    async with ScriptedPeer(server) as peer, connect(peer.url, jitter=lambda: 0.5) as client:
        asking = asyncio.create_task(client.status("r"))
        await peer.until(lambda peer: len(peer.asked) == 2)
        client.wakeup("user")
        while client.state.record.link.generation == 1:
            await client.state.changed()
        gate.open()
        assert await asking == {"id": "r"}


# ---- patience --------------------------------------------------------------------------------------


@pytest.mark.behaviour("P3")
async def test_an_answer_to_the_second_probe_keeps_the_link_and_the_stream_over_it() -> None:
    late = 20.0 + 15.0 + 5.0  # two heartbeats of silence, a probe that is missed, and the pause before the other one
    peer = Peer(
        stream(HELLO, *frames(1, 3), late + 1, *frames(4)),
        answer(200, b'{"id": "r"}'),
        session=(GREETING, mute, GREETING),
    )
    async with client_of(peer, profile=DESKTOP) as client:
        reading = asyncio.create_task(collect(client.follow("r")))
        await asyncio.sleep(late - 0.5)
        link = client.state.record.link
        assert (link.phase, link.can_send, link.generation) == (Phase.SLOW, True, 1)
        await asyncio.sleep(1.0)
        link = client.state.record.link
        assert (link.phase, link.can_send, link.generation) == (Phase.LIVE, True, 1)
        assert await client.status("r") == {"id": "r"}
        received = await reading
        assert [each.cursor.seq for each in received] == ALL
    assert peer.paths.count(b"/agents/runs/r/events") == 1, "it is the same stream"


@pytest.mark.behaviour("R8")
async def test_the_terminal_ends_a_follow_at_once_though_the_stream_stays_open() -> None:
    peer = Peer(stream(HELLO, *frames(1), then="hang"))
    async with client_of(peer) as client:
        assert await seqs(client.follow("r")) == ALL
        assert (now(), len(peer.times)) == (0.0, 1)


@pytest.mark.behaviour("R8")
async def test_a_log_that_was_read_to_its_end_is_over_with_one_question() -> None:
    peer = Peer(answer(204))
    async with client_of(peer) as client:
        assert await collect(client.follow("r", after=PLACES[-1])) == []
        assert (now(), len(peer.times)) == (0.0, 1)


@pytest.mark.behaviour("R8")
async def test_a_stream_that_is_never_answered_is_not_waited_for_for_ever() -> None:
    peer = Peer(mute, stream(HELLO, *frames(1)))
    async with client_of(peer) as client:
        assert await seqs(client.follow("r")) == ALL
        assert 0 < now() < 2 * STANDARD.busy_budget


@pytest.mark.behaviour("R8")
async def test_a_refusal_comes_also_where_the_link_has_been_busy_before() -> None:
    peer = Peer(stream(HELLO, *frames(1, 3), then="break"), answer(503, retry_after="3"), problem(404, "run_not_found"))
    async with client_of(peer) as client:
        with pytest.raises(RunNotFound):
            await collect(client.follow("r"))
        assert now() < STANDARD.establishment


# ---- a newer server --------------------------------------------------------------------------------


@pytest.mark.behaviour("M3")
async def test_what_a_newer_server_says_besides_is_skipped_wherever_it_says_it() -> None:
    newer: dict[str, Any] = {"from_tomorrow": {"deep": [1]}}
    greeting = answer(200, json.dumps({"boot_id": "b", "protocol": 1, "heartbeat": 10.0, "peer": 7, **newer}).encode())
    snapshot = {"cursor": str(PLACES[4]), "events": [], **newer}
    gap = control(
        "gap", reason="from_tomorrow", requested="99", first=1, cursor=str(PLACES[4]), snapshot=snapshot, **newer
    )
    peer = Peer(
        stream(
            b"from: tomorrow\n" + control("hello", heartbeat=10.0, head=str(PLACES[-1]), **newer),
            control("from-tomorrow", **newer),
            gap,
            control("heartbeat", status="dreaming", recovering=7, budget="much", loop_lag="x", head=7, **newer),
            *frames(6),
            control("end", **newer),
        ),
        answer(201, json.dumps({"id": "r", **newer}).encode()),
        session=(greeting,),
    )
    async with client_of(peer) as client:
        first, *others = await collect(client.follow("r", after="99"))
        assert isinstance(first, ReceivedGap)
        assert [each.seq for each in others if isinstance(each, ReceivedEvent)] == ALL[5:]
        assert (await client.start("chat", id="r"))["id"] == "r"
        assert client.state.record.link.generation == 1
