"""A stream of pages over real sockets, with a peer that answers each of them as it likes."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from outlast.client.credentials import Credentials
from outlast.client.evidence import Evidence
from outlast.client.http import direct
from outlast.client.poll import PolledConnection, PolledStream
from outlast.client.transport import Lost
from outlast.errors import Refusal, RunNotFound, Unauthenticated
from outlast.log.cursor import Cursor
from outlast.supervision.phase import Trouble
from outlast.supervision.profile import HEARTBEAT
from outlast.testing.faults import Gate
from outlast.testing.peer import Answer, Asked, Close, ScriptedPeer, Step
from outlast.wire.sse import MAX_FRAME, FrameTooLarge, Message

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

START = Cursor(0, None)
NDJSON = {"content-type": "application/x-ndjson"}
JSON_ = {"content-type": "application/json"}


def event(seq: int) -> bytes:
    return json.dumps({"cursor": str(seq), "type": "text", "data": "a"}).encode() + b"\n"


def last(seq: int, *, up_to_date: bool = True, ended: bool = False) -> bytes:
    return json.dumps({"next": str(seq), "up_to_date": up_to_date, "ended": ended}).encode() + b"\n"


def page(*body: Step) -> Answer:
    return Answer(headers=NDJSON, body=body)


def problem(status: int, code: str, **headers: str) -> Answer:
    said = json.dumps({"code": code, "detail": "Said."}).encode()
    return Answer(status=status, headers={**JSON_, **headers}, body=[said])


NOBODY = Evidence([], Credentials(None), make=direct)
"""Nobody is asked what speaks for the peer."""


@asynccontextmanager
async def asking(*answers: Answer) -> AsyncIterator[tuple[PolledStream, ScriptedPeer]]:
    """Poll a peer that gives one answer after the other."""
    async with ScriptedPeer(answers) as peer, direct() as client:
        connection = PolledConnection(client, peer.url, Credentials(None), NOBODY, is_shared=False)
        stream = connection.stream("r", owner="me", types=None)
        yield stream, peer
        await stream.close()


async def take(stream: PolledStream, number: int) -> list[Message]:
    """Return the next frames, so many that came together."""
    found: list[Message] = []
    while len(found) < number:
        found += await stream.receive()
    return found


def told(messages: Sequence[Message]) -> list[Any]:
    return [(each.event, json.loads(each.data)) if each.id is None else each.id for each in messages]


HELLO = ("outlast.hello", {"heartbeat": HEARTBEAT})


async def test_pages_follow_each_other_by_cursor_until_the_end_is_told() -> None:
    pages = [page(event(1), event(2), last(2, up_to_date=False)), page(event(3), last(3)), page(last(3, ended=True))]
    async with asking(*pages) as (stream, peer):
        assert await stream.open(START)
        assert told(await take(stream, 6)) == [
            HELLO, "1", "2", "3", ("outlast.caught-up", {"head": "3"}), ("outlast.end", {"head": "3"}),
        ]  # fmt: skip
    assert [asked.path for asked in peer.asked] == [
        "/runs/r/events?owner=me&after=0&limit=500",
        "/runs/r/events?owner=me&after=2&limit=500&wait=1",
        "/runs/r/events?owner=me&after=3&limit=500&wait=1",
    ]
    assert peer.most == 1, "one connection carries them all"


async def test_the_status_is_told_as_a_heartbeat_whose_head_is_no_further_than_the_pages() -> None:
    status = {"head": "9", "status": "active", "recovering": {"takeover": 2}, "budget": {}, "lease_left": None, "x": 1}
    document = Answer(headers=JSON_, body=[json.dumps(status).encode()])
    async with asking(page(last(4)), document, page(event(5), last(5)), page(last(5))) as (stream, peer):
        await stream.open(Cursor(4, None))
        messages = told(await take(stream, 3))
        assert messages[2] == (
            "outlast.heartbeat",
            {"head": "4", "status": "active", "recovering": {"takeover": 2}, "budget": {}, "lease_left": None},
        )
        assert told(await take(stream, 3)) == ["5", *[("outlast.caught-up", {"head": "5"})] * 2]
    assert peer.asked[1].path == "/runs/r?owner=me"
    assert peer.asked[2].path.endswith("&wait=8")


@pytest.mark.virtual
async def test_a_server_that_does_not_wait_for_news_is_not_pressed() -> None:
    document = Answer(headers=JSON_, body=[b"{}"])
    async with asking(page(last(1)), document, page(last(1))) as (stream, peer):
        loop = asyncio.get_running_loop()
        await stream.open(Cursor(1, None))
        await take(stream, 3)
        began = loop.time()
        await take(stream, 5)
        assert loop.time() - began == 4.0
        assert len([asked for asked in peer.asked if "wait=" in asked.path]) == 5


async def test_a_closing_node_is_told_as_the_word_to_go() -> None:
    closing = problem(503, "draining", **{"retry-after": "5"})
    async with asking(page(event(1), last(1, up_to_date=False)), closing) as (stream, _):
        await stream.open(START)
        assert told(await take(stream, 3)) == [HELLO, "1", ("outlast.drain", {"reason": "closing", "spread": 5.0})]


@pytest.mark.parametrize(
    ("answer", "trouble", "pause"),
    [
        (problem(503, "busy", **{"retry-after": "7"}), Trouble.BUSY, 7.0),
        (problem(500, "internal"), Trouble.BUSY, 0.0),
        (problem(401, "unauthenticated"), Trouble.CREDENTIALS, 0.0),
        (Answer(headers=JSON_, body=[b"{}"]), Trouble.FOREIGN, 0.0),
        (Answer(headers={"content-type": "text/html"}, body=[b"<html>"]), Trouble.FOREIGN, 0.0),
    ],
    ids=["503", "500", "401", "a page of JSON", "html"],
)
async def test_an_answer_that_is_no_page_is_a_loss_with_its_reason(
    answer: Answer, trouble: Trouble, pause: float
) -> None:
    async with asking(answer) as (stream, _):
        with pytest.raises(Lost) as caught:
            await stream.open(START)
    assert (caught.value.trouble, caught.value.pause) == (trouble, pause)
    assert isinstance(caught.value.error, Unauthenticated) == (trouble is Trouble.CREDENTIALS)


@pytest.mark.parametrize(("code", "error"), [("run_not_found", RunNotFound), ("from_tomorrow", Refusal)])
async def test_a_refusal_is_typed_on_every_page(code: str, error: type[Refusal]) -> None:
    async with asking(page(event(1), last(1)), problem(404, code)) as (stream, _):
        await stream.open(START)
        with pytest.raises(error):
            await take(stream, 99)


@pytest.mark.parametrize(
    "cut",
    [page(event(1), Close()), page(event(1), Close(reset=True)), page(event(1)), page(event(1), last(1)[:-1])],
    ids=["closed", "reset", "no last line", "half of it"],
)
async def test_a_page_that_breaks_off_is_a_loss_behind_the_events_it_brought(cut: Answer) -> None:
    async with asking(cut) as (stream, _):
        await stream.open(START)
        assert told(await take(stream, 2)) == [HELLO, "1"]
        with pytest.raises(Lost) as caught:
            await take(stream, 1)
    assert caught.value.trouble is Trouble.BROKEN


@pytest.mark.parametrize("said", [b"no json", b"[]"])
async def test_a_status_that_is_none_is_a_loss(said: bytes) -> None:
    async with asking(page(last(0)), Answer(headers=JSON_, body=[said])) as (stream, _):
        await stream.open(START)
        with pytest.raises(Lost) as caught:
            await take(stream, 3)
    assert caught.value.trouble is Trouble.FOREIGN


async def test_a_waiting_poll_is_interrupted_and_stays_so() -> None:
    gate = Gate()
    async with asking(page(event(1), last(1)), page(gate)) as (stream, peer):
        await stream.open(START)
        await take(stream, 3)
        waiting = asyncio.create_task(take(stream, 1))
        await gate.entered.wait()
        stream.interrupt(Trouble.ENDED)
        with pytest.raises(Lost) as caught:
            await waiting
        assert caught.value.trouble is Trouble.ENDED
        with pytest.raises(Lost):
            await stream.receive()
    assert len(peer.asked) == 2


async def test_an_event_too_large_is_told_behind_the_events_before_it() -> None:
    giant = b'{"cursor":"2","type":"text","data":"' + b"x" * MAX_FRAME
    async with asking(page(event(1) + giant)) as (stream, _):
        await stream.open(START)
        assert told(await take(stream, 2)) == [HELLO, "1"]
        with pytest.raises(FrameTooLarge):
            await take(stream, 1)


async def test_the_connection_promises_the_rhythm_of_its_polls_whatever_the_server_promises() -> None:
    def greet(_asked: Asked) -> Answer:
        return Answer(headers=JSON_, body=[b'{"boot_id":"b","protocol":1,"heartbeat":2}'])

    async with ScriptedPeer(greet) as peer, direct() as client:
        connection = PolledConnection(client, peer.url, Credentials(None), NOBODY, is_shared=False)
        await connection.greet()
    assert connection.greeting.heartbeat == HEARTBEAT
