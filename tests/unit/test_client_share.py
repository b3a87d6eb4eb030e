"""Several readers of one run in one client: one stream, and a place for each, over a scripted peer on virtual time."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from outlast.client import share
from outlast.client.received import Received, ReceivedEvent, ReceivedGap
from outlast.errors import IdConflict, RunNotFound, WireError
from outlast.log.cursor import Cursor
from tests.scripts import (
    ALL,
    BEAT,
    BEATING,
    HELLO,
    PLACES,
    Peer,
    Script,
    answer,
    collect,
    control,
    frame,
    frames,
    problem,
    seqs,
    stream,
    take_into,
)

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


def by_one(first: int = 1) -> Script:
    """Send one event a second."""
    return stream(HELLO, *(part for sent in frames(first) for part in (sent, 1.0)), then="hang")


@pytest.mark.behaviour("R10")
@pytest.mark.case(5)
async def test_three_who_attach_at_once_share_one_stream_and_each_gets_each_event_once() -> None:
    peer = Peer(by_one())
    async with peer.connect() as client:
        assert await asyncio.gather(*(seqs(client.follow("r")) for _ in range(3))) == [ALL] * 3
    assert len(peer.times) == 1


@pytest.mark.behaviour("R10")
@pytest.mark.case(91)
async def test_who_comes_later_shares_what_is_held_wherever_its_place_is_in_there() -> None:
    peer = Peer(by_one())
    async with peer.connect() as client:
        first = asyncio.create_task(seqs(client.follow("r")))
        await asyncio.sleep(4.5)
        later = [client.follow("r", after=after) for after in (None, PLACES[1], "3", PLACES[4])]
        assert await asyncio.gather(*map(seqs, later)) == [ALL, ALL[2:], ALL[3:], ALL[5:]]
        assert await first == ALL
    assert len(peer.times) == 1


async def test_readers_of_another_run_owner_or_view_share_nothing() -> None:
    peer = Peer(by_one())
    async with peer.connect() as client:
        ways: list[Any] = [{}, {"owner": "a"}, {"types": ["text"]}, {"types": ["text", "run.started"]}]
        await asyncio.gather(*(seqs(client.follow("r", **way)) for way in ways), seqs(client.follow("s")))
    assert len(peer.times) == 5


@pytest.mark.parametrize("after", [Cursor(4, bytes(8)), "9-0000000000000000", "12"])
async def test_a_place_that_is_not_known_to_be_of_this_log_is_the_servers_to_judge(after: Cursor | str) -> None:
    peer = Peer(by_one(), stream(HELLO, then="hang"))
    async with peer.connect() as client:
        first = asyncio.create_task(seqs(client.follow("r")))
        await asyncio.sleep(5.5)
        other = asyncio.create_task(collect(client.follow("r", after=after)))
        assert await first == ALL
        other.cancel()
        await asyncio.wait([other])
    assert peer.cursors == [None, str(after)]


async def test_a_stream_that_began_later_is_not_shared_by_who_begins_before_it() -> None:
    peer = Peer(by_one(4), by_one())
    async with peer.connect() as client:
        late, whole = client.follow("r", after=PLACES[2]), client.follow("r")
        assert await asyncio.gather(seqs(late), seqs(whole)) == [ALL[3:], ALL]
    assert peer.cursors == [str(PLACES[2]), None]


@pytest.mark.parametrize("leaver", [0, 1, 2])
async def test_one_who_leaves_takes_nothing_from_the_others(leaver: int) -> None:
    peer = Peer(by_one())
    async with peer.connect() as client:
        readers = [asyncio.create_task(seqs(client.follow("r"))) for _ in range(3)]
        await asyncio.sleep(3.5)
        readers.pop(leaver).cancel()
        assert await asyncio.gather(*readers) == [ALL] * 2
    assert len(peer.times) == 1


async def test_the_stream_goes_with_the_last_reader_and_another_begins_a_new_one() -> None:
    left = asyncio.Event()

    async def script(receive: Receive, send: Send) -> None:
        await stream(HELLO, *frames(1, 3), then="hang")(receive, send)
        left.set()

    peer = Peer(script, by_one())
    async with peer.connect() as client:
        readers = [asyncio.create_task(seqs(client.follow("r"))) for _ in range(2)]
        await asyncio.sleep(1)
        for reader in readers:
            assert not left.is_set()
            reader.cancel()
        await asyncio.wait(readers)
        async with asyncio.timeout(1):
            await left.wait()
        assert not client.state.record.runs
        assert await seqs(client.follow("r")) == ALL
    assert peer.cursors == [None, None]


async def test_a_reader_that_is_cancelled_while_it_leaves_ends_so_and_its_stream_is_let_go_all_the_same() -> None:
    asked, leaving, left = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(receive: Receive, _send: Send) -> None:
        asked.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        leaving.set()
        await asyncio.sleep(1)
        left.set()

    async def leave(following: AsyncGenerator[Received, None]) -> None:
        await following.aclose()
        raise AssertionError("it was cancelled")

    peer = Peer(stream(HELLO, frame(1)), slow, by_one())
    async with peer.connect() as client:
        idle, waiting = client.follow("r"), asyncio.create_task(seqs(client.follow("r")))
        await anext(idle)
        await asked.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        reading = asyncio.create_task(leave(idle))
        await leaving.wait()
        reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled()
        assert not left.is_set()
        assert not client.state.record.runs
        assert await seqs(client.follow("r")) == ALL
        await left.wait()


@pytest.mark.behaviour("R9")
async def test_nobody_waits_for_a_slow_one_which_goes_on_from_its_place_over_a_stream_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(share, "MOST_HELD", 3)
    peer = Peer(by_one(), by_one(3))
    taken: list[tuple[float, int]] = []

    async def slow(received: Any) -> None:
        async for each in received:
            taken.append((asyncio.get_running_loop().time(), each.seq))
            if each.seq == 2:
                await asyncio.sleep(100)

    async with peer.connect() as client:
        slowly = asyncio.create_task(slow(client.follow("r")))
        began = asyncio.get_running_loop().time()
        assert await seqs(client.follow("r")) == ALL
        assert asyncio.get_running_loop().time() - began < 20
        await slowly
    assert [seq for _, seq in taken] == ALL
    assert peer.cursors == [None, str(PLACES[1])]


async def test_what_came_in_one_piece_is_held_for_its_reader_whatever_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(share, "MOST_HELD", 1)
    monkeypatch.setattr(share, "MOST_BYTES", 1)
    peer = Peer(stream(HELLO + b"".join(frames(1, 6)), b"".join(frames(7)), then="hang"))
    async with peer.connect() as client:
        assert await seqs(client.follow("r")) == ALL
    assert len(peer.times) == 1


@pytest.mark.parametrize("bound", ["MOST_HELD", "MOST_BYTES"])
async def test_what_is_not_held_any_more_is_asked_for(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(share, bound, 3 if bound == "MOST_HELD" else 30)  # two or three words
    peer = Peer(by_one(), by_one(4))
    async with peer.connect() as client:
        first = asyncio.create_task(seqs(client.follow("r")))
        await asyncio.sleep(7.5)
        held, gone = client.follow("r", after=PLACES[6]), client.follow("r", after="3")
        assert await asyncio.gather(first, seqs(held), seqs(gone)) == [ALL, ALL[7:], ALL[3:]]
    assert peer.cursors == [None, "3"]


@pytest.mark.behaviour("R9")
async def test_nothing_is_received_that_nobody_comes_for() -> None:
    sent: list[int] = []

    async def counting(receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for seq in ALL:
            await send({"type": "http.response.body", "body": frame(seq), "more_body": True})
            sent.append(seq)
        await receive()

    peer = Peer(counting)
    async with peer.connect() as client, aclosing(client.follow("r")) as received:
        await anext(received)
        await asyncio.sleep(5 * BEAT)
        assert len(sent) <= 3  # the one that was taken, one on the way, one at the door
        assert [1, *(await seqs(received))] == ALL


@pytest.mark.behaviour("R3")
async def test_the_record_shows_the_place_of_the_reader_that_is_furthest_behind() -> None:
    peer = Peer(stream(HELLO, *frames(1), then="hang"))
    async with peer.connect() as client:
        async with aclosing(client.follow("r")) as ahead, aclosing(client.follow("r")) as behind:
            for _ in ALL:
                await anext(ahead)
            assert await anext(ahead, None) is None
            await anext(behind)
            assert (client.state.record.runs["r"].place, client.state.record.runs["r"].over) == (Cursor(0, None), False)
            await anext(behind)
            assert client.state.record.runs["r"].place == PLACES[0]
            assert await seqs(behind) == ALL[2:]
        assert not client.state.record.runs


async def test_a_view_moves_all_who_are_at_its_end_behind_what_it_left_out() -> None:
    beat = control("heartbeat", status="active", head=str(PLACES[6]))
    peer = Peer(stream(HELLO, frame(2), 1.0, beat, 5.0, *frames(10), then="hang"))
    async with peer.connect() as client:
        readers = [asyncio.create_task(seqs(client.follow("r", types=["text"]))) for _ in range(2)]
        await asyncio.sleep(3)
        assert client.state.record.runs["r"].place == PLACES[6]
        assert await seqs(client.follow("r", types=["text"], after=PLACES[6])) == [10]
        assert await asyncio.gather(*readers) == [[2, 10]] * 2
    assert len(peer.times) == 1


# ---- gaps and ends ------------------------------------------------------------------------------


def gap(requested: int, place: int) -> bytes:
    snapshot = {"cursor": str(PLACES[place - 1]), "events": []}
    said = {"reason": "trimmed", "requested": str(requested), "first": place, "cursor": str(PLACES[place - 1])}
    return control("gap", **said, snapshot=snapshot)


@pytest.mark.behaviour("R4")
async def test_a_gap_is_told_to_those_who_asked_for_its_place_and_others_ask_for_themselves() -> None:
    peer = Peer(stream(HELLO, gap(0, 5), 9.0, *frames(6), then="hang"), stream(HELLO, gap(2, 5), *frames(6)))
    async with peer.connect() as client:
        same = [asyncio.create_task(collect(client.follow("r"))) for _ in range(2)]
        await asyncio.sleep(1)
        behind = asyncio.create_task(seqs(client.follow("r", after=PLACES[4])))
        other = await collect(client.follow("r", after="2"))
        for received in (*await asyncio.gather(*same), other):
            assert isinstance(received[0], ReceivedGap)
            assert [each.seq for each in received[1:] if isinstance(each, ReceivedEvent)] == ALL[5:]
        assert await behind == ALL[5:]
    assert peer.cursors == [None, "2"]


@pytest.mark.behaviour("R10")
async def test_a_gap_that_leads_back_is_shared_from_behind_it_without_repeating_anything() -> None:
    back = stream(HELLO, *frames(1, 7), gap(7, 4), *frames(5, 7), 9.0, *frames(8), then="hang")
    peer = Peer(back, stream(HELLO, *frames(7)))
    async with peer.connect() as client:
        first = asyncio.create_task(collect(client.follow("r")))
        await asyncio.sleep(1)
        assert await seqs(client.follow("r", after=PLACES[5])) == ALL[6:]
        assert [each.cursor.seq for each in await first] == [*ALL[:7], 4, *ALL[4:]]
    assert len(peer.times) == 1


async def test_an_error_is_told_to_each_once_it_has_taken_what_came_before() -> None:
    wrong = b"id: no cursor\nevent: text\ndata: 1\n\n"
    peer = Peer(stream(HELLO + b"".join(frames(1, 3)) + wrong, then="hang"), by_one(4))
    async with peer.connect() as client:
        taken: tuple[list[int], list[int]] = ([], [])
        reading = (take_into(each, client.follow("r")) for each in taken)
        told = await asyncio.gather(*reading, return_exceptions=True)
        assert taken == (ALL[:3], ALL[:3])
        assert [type(error) for error in told] == [WireError, WireError]
        assert await seqs(client.follow("r", after=PLACES[2])) == ALL[3:]


async def test_who_comes_after_an_error_asks_anew_though_others_have_not_heard_of_it_yet() -> None:
    peer = Peer(stream(HELLO, frame(1), then="break"), problem(404, "run_not_found"), by_one())
    async with peer.connect() as client, aclosing(client.follow("r")) as slow:
        await anext(slow)
        with pytest.raises(RunNotFound):
            await seqs(client.follow("r"))
        assert await seqs(client.follow("r")) == ALL
        with pytest.raises(RunNotFound):
            await anext(slow)


# ---- starts -------------------------------------------------------------------------------------


class Starting(Peer):
    """Answers a start after five seconds, as `started` says."""

    def __init__(self, *scripts: Script, started: Script) -> None:
        super().__init__(*scripts)
        self.calls: list[str] = []
        self._started = started

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope["path"].endswith("/session"):
            self.calls.append(scope["method"])
        if scope["method"] == "POST":
            await asyncio.sleep(5)
            await self._started(receive, send)
        else:
            await super().__call__(scope, receive, send)


@pytest.mark.behaviour("R10")
async def test_a_follow_waits_until_the_start_of_its_run_is_answered() -> None:
    peer = Starting(by_one(), started=answer(201, json.dumps({"id": "r"}).encode()))
    async with peer.connect() as client:
        starting = asyncio.create_task(client.start("chat", id="r"))
        await asyncio.sleep(1)
        assert peer.calls == ["POST"]
        assert await seqs(client.follow("r")) == ALL
        assert (await starting, peer.calls) == ({"id": "r"}, ["POST", "GET"])


@pytest.mark.behaviour("R10")
async def test_a_start_that_is_refused_leaves_the_follow_to_the_server() -> None:
    peer = Starting(problem(404, "run_not_found"), started=problem(409, "id_conflict"))
    async with peer.connect() as client:
        starting = asyncio.create_task(client.start("chat", id="r"))
        await asyncio.sleep(1)
        with pytest.raises(RunNotFound):
            await seqs(client.follow("r"))
        with pytest.raises(IdConflict):
            await starting


async def test_a_start_of_another_run_is_not_waited_for() -> None:
    peer = Starting(by_one(), started=answer(201, json.dumps({"id": "s"}).encode()))
    async with peer.connect() as client:
        starting = asyncio.create_task(client.start("chat", id="s"))
        await asyncio.sleep(1)
        async with aclosing(client.follow("r")) as received:
            assert (await anext(received)).cursor.seq == 1
            assert not starting.done()
        await starting


async def test_heartbeats_rouse_nobody_who_waits_for_events() -> None:
    peer = Peer(stream(HELLO, *(part for _ in range(20) for part in (1.0, BEATING)), *frames(1), then="hang"))
    async with peer.connect() as client:
        assert await asyncio.gather(*(seqs(client.follow("r")) for _ in range(2))) == [ALL] * 2
    assert len(peer.times) == 1
