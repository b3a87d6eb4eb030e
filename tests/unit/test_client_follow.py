"""A reader that follows a run: over a scripted peer on the virtual clock, each fault and each deadline."""

import asyncio
import json
import random
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from starlette.types import Receive, Scope, Send

from outlast.client.asgi import StreamingTransport
from outlast.client.connect import connect, follow
from outlast.client.received import ReceivedEvent, ReceivedGap
from outlast.errors import (
    CursorInvalid,
    InputInvalid,
    Refusal,
    RunGone,
    RunNotFound,
    Unauthenticated,
    WireError,
    WrongServer,
)
from outlast.log.cursor import Cursor
from outlast.supervision.phase import Phase, Trouble
from outlast.supervision.profile import ESTABLISHMENT, LONGEST_ADVICE
from outlast.wire import sse
from tests.scripts import (
    ALL,
    BEAT,
    BEATING,
    GREETING,
    HELLO,
    PLACES,
    SAID,
    URL,
    Peer,
    Script,
    answer,
    collect,
    control,
    frame,
    frames,
    problem,
    refuse,
    seqs,
    stream,
    take_into,
)

if TYPE_CHECKING:
    from outlast.client.client import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


ATTEMPTS_IN_A_MINUTE = 9  # at 0, 0, 0.5, 1.5, 3.5, 7.5, 15.5, 30.5 and 45.5, with the jitter at its middle


# ---- the straight way ---------------------------------------------------------------------------


async def test_events_arrive_as_they_were_said_and_the_terminal_is_the_end() -> None:
    peer = Peer(stream(HELLO, *frames(1), then="hang"))
    received = await collect(peer.follow())
    assert [(each.cursor, each.event) for each in received if isinstance(each, ReceivedEvent)] == list(
        zip(PLACES, SAID, strict=True)
    )
    assert len(peer.times) == 1


async def test_the_request_asks_for_a_stream_of_this_run_as_it_is() -> None:
    peer = Peer(stream(*frames(1)))
    await collect(follow(URL + "/", "a b/c?d", client=httpx2.AsyncClient(transport=StreamingTransport(peer))))
    assert peer.paths == [b"/agents/runs/a%20b%2Fc%3Fd/events"]
    assert peer.headers[0]["accept"] == "text/event-stream"
    assert peer.headers[0]["accept-encoding"] == "identity"
    assert peer.cursors == [None]


@pytest.mark.parametrize("after", [PLACES[3], str(PLACES[3])], ids=["a cursor", "its text"])
async def test_following_begins_after_a_cursor(after: Cursor | str) -> None:
    peer = Peer(stream(*frames(5)))
    assert await seqs(peer.follow(after=after)) == ALL[4:]
    assert peer.cursors == [str(PLACES[3])]


async def test_a_run_of_which_everything_was_read_ends_at_once() -> None:
    peer = Peer(answer(204))
    assert await collect(peer.follow(after=PLACES[-1])) == []


async def test_an_end_without_more_events_is_the_end() -> None:
    peer = Peer(stream(HELLO, control("end"), then="hang"))
    assert await collect(peer.follow(after=PLACES[-1])) == []
    assert len(peer.times) == 1


async def test_unknown_control_frames_and_frames_without_a_place_say_nothing() -> None:
    nameless = sse.encode(event="text", data=b'"no place"')
    peer = Peer(stream(HELLO, control("from-tomorrow", x=1), nameless, *frames(1)))
    assert await seqs(peer.follow()) == ALL


# ---- exactly once, over any number of connections -----------------------------------------------


@pytest.mark.case(87)
async def test_every_reconnection_asks_from_the_last_event_that_was_taken() -> None:
    cuts = [stream(HELLO, *frames(1 + 2 * n, 2 + 2 * n), then="break") for n in range(4)]
    peer = Peer(*cuts, stream(*frames(9)))
    assert await seqs(peer.follow()) == ALL
    assert peer.cursors == [None, *(str(PLACES[seq - 1]) for seq in (2, 4, 6, 8))]


@pytest.mark.case(41, 43)
async def test_a_stream_cut_at_any_byte_gives_each_event_once_and_nothing_of_the_cut_frame() -> None:
    whole = HELLO + b"".join(frames(1))
    scripts = [(stream(whole[:place], then="break"), stream(HELLO, *frames(1))) for place in range(len(whole))]
    peer = Peer(*(script for pair in scripts for script in pair))
    async with peer.connect() as client:
        for place in range(len(whole)):
            received = await collect(client.follow("r"))
            assert [each.event for each in received if isinstance(each, ReceivedEvent)] == SAID, place


async def test_bytes_that_come_one_by_one_give_the_same_events() -> None:
    peer = Peer(stream(*(bytes([byte]) for byte in HELLO + b"".join(frames(1)))))
    assert await seqs(peer.follow()) == ALL


async def test_what_comes_again_is_dropped() -> None:
    peer = Peer(stream(*frames(1, 6), then="break"), stream(*frames(3)))
    assert await seqs(peer.follow()) == ALL


async def test_a_skipped_event_is_asked_for_again() -> None:
    peer = Peer(stream(*frames(1, 3), *frames(5), then="hang"), stream(*frames(4)))
    assert await seqs(peer.follow()) == ALL
    assert peer.cursors == [None, str(PLACES[2])]


@pytest.mark.case(9)
@pytest.mark.parametrize("dropped", [{9}, {9, 10}, {10}], ids=["the last state", "and the terminal", "the terminal"])
@pytest.mark.parametrize("asked", [{}, {"after": PLACES[3]}, {"types": ["text"]}], ids=["live", "rejoined", "a view"])
async def test_an_end_is_not_believed_while_the_last_events_are_missing(dropped: set[int], asked: Any) -> None:
    first = asked.get("after", Cursor(0, None)).seq + 1
    end = control("end", head=str(PLACES[-1]))
    lossy = [frame(seq) for seq in range(first, len(SAID) + 1) if seq not in dropped]
    peer = Peer(stream(HELLO, *lossy, end, then="hang"), stream(HELLO, *frames(min(dropped)), end, then="hang"))
    seen = await seqs(peer.follow(**asked))
    if "types" in asked and 10 not in dropped:
        assert (seen, len(peer.times)) == ([*ALL[:8], 10], 1)  # to a view a number that is left out is no hole
    else:
        assert seen == ALL[first - 1 :]
        assert peer.cursors[1] == str(PLACES[min(dropped) - 2])


@pytest.mark.parametrize("head", ["soon", 7, None], ids=str)
async def test_an_end_that_does_not_tell_its_place_is_believed(head: Any) -> None:
    peer = Peer(stream(HELLO, *frames(1, 9), control("end", head=head), then="hang"))
    assert await seqs(peer.follow()) == ALL[:9]


async def test_an_end_that_comes_again_without_the_last_events_ends_the_follow() -> None:
    peer = Peer(stream(HELLO, *frames(1, 9), control("end", head=str(PLACES[-1])), then="hang"))
    taken: list[int] = []
    with pytest.raises(WireError, match="left out"):
        await take_into(taken, peer.follow())
    assert taken == ALL[:9]
    assert len(peer.times) == 2


async def test_an_event_that_is_skipped_again_ends_the_follow() -> None:
    peer = Peer(stream(*frames(1, 3), *frames(5), then="hang"))
    taken: list[int] = []
    with pytest.raises(WireError, match="left out"):
        await take_into(taken, peer.follow())
    assert taken == ALL[:3]
    assert len(peer.times) == 2


# ---- the reader's part --------------------------------------------------------------------------


@pytest.mark.behaviour("R3")
@pytest.mark.case(13)
async def test_the_cursor_moves_only_when_the_reader_comes_back() -> None:
    """The connection breaks while event 3 is being handled, and event 3 was the last that the stream carried."""
    peer = Peer(stream(*frames(1, 3), then="break"), stream(*frames(3)))
    async with aclosing(peer.follow()) as received:
        taken = [(await anext(received)).cursor.seq for _ in range(3)]
        await asyncio.sleep(60)
        assert peer.cursors == [None]
        taken += [each.cursor.seq async for each in received]
    assert taken == ALL
    assert peer.cursors == [None, str(PLACES[2])]


async def test_an_exception_in_the_readers_code_closes_the_connection() -> None:
    left = asyncio.Event()

    async def script(receive: Receive, send: Send) -> None:
        await stream(*frames(1, 3), then="hang")(receive, send)
        left.set()

    async def fail_at_the_third() -> None:
        async with aclosing(Peer(script).follow()) as received:
            async for each in received:
                assert each.cursor.seq < 3

    with pytest.raises(AssertionError):
        await fail_at_the_third()
    async with asyncio.timeout(1):
        await left.wait()


@pytest.mark.case(139)
async def test_leaving_the_loop_and_closing_from_another_task_leaves_nothing_behind() -> None:
    received = Peer(stream(*frames(1, 3), then="hang")).follow()
    await anext(received)
    await asyncio.create_task(received.aclose())
    assert await collect(received) == []


async def test_a_slow_reader_costs_no_connection() -> None:
    peer = Peer(stream(*frames(1, 5), *frames(6), then="hang"))
    taken = []
    async for received in peer.follow():
        await asyncio.sleep(10 * BEAT)
        taken.append(received.cursor.seq)
    assert taken == ALL
    assert len(peer.times) == 1


# ---- backoff ------------------------------------------------------------------------------------


@pytest.mark.case(133)
@pytest.mark.parametrize(
    ("script", "trouble"),
    [
        (stream(), Trouble.ENDED),
        (stream(HELLO), Trouble.ENDED),
        (stream(HELLO, then="break"), Trouble.BROKEN),
        (answer(200, b'{"error": "busy"}', content_type="application/json"), Trouble.FOREIGN),
        (answer(200, b"<html>", content_type="text/html"), Trouble.FOREIGN),
        (answer(503), Trouble.BUSY),
        (answer(500), Trouble.BUSY),
        (answer(429), Trouble.BUSY),
        (refuse, Trouble.UNREACHABLE),
    ],
    ids=["empty", "hello only", "broken", "json", "html", "503", "500", "429", "refused"],
)
async def test_a_server_that_gives_nothing_is_asked_ever_more_rarely(script: Script, trouble: Trouble) -> None:
    peer = Peer(script)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await collect(peer.follow())
    assert peer.gaps[:7] == [0, 0.5, 1, 2, 4, 8, 15]
    assert len(peer.times) == ATTEMPTS_IN_A_MINUTE
    greeted = {Trouble.UNREACHABLE: ATTEMPTS_IN_A_MINUTE, Trouble.BROKEN: 2}  # asked once more whether it is there
    assert len(peer.greeted) == greeted.get(trouble, 1)


@pytest.mark.behaviour("K16")
async def test_jitter_is_full() -> None:
    for jitter, expected in ((0.0, [0, 0, 0]), (0.25, [0, 0.25, 0.5])):
        peer = Peer(refuse, refuse, refuse, stream(*frames(1)))
        await collect(peer.follow(jitter=partial(float, jitter)))
        assert peer.gaps == expected


@pytest.mark.parametrize(("proof", "lived"), [((frame(1),), 0), ((10.0, BEATING), 10)], ids=["an event", "a heartbeat"])
async def test_proof_of_life_begins_the_backoff_anew(proof: tuple[bytes | float, ...], lived: float) -> None:
    peer = Peer(answer(503), answer(503), answer(503), stream(HELLO, *proof), answer(503), stream(*frames(1)))
    await collect(peer.follow())
    assert peer.gaps == [0, 0.5, 1, lived, 0.5]


async def test_an_event_that_came_before_is_no_proof_of_life() -> None:
    peer = Peer(stream(*frames(1, 3)), stream(HELLO, *frames(1, 3)), stream(HELLO, *frames(1, 3)), stream(*frames(4)))
    await collect(peer.follow())
    assert peer.gaps == [0, 0.5, 1]


@pytest.mark.parametrize(
    ("asked", "waited"),
    [("7", 7.25), ("0", 0), ("86400", LONGEST_ADVICE + 0.25), ("9" * 400, 0), ("-5", 0), ("soon", 0), ("", 0)],
)
async def test_retry_after_is_a_floor_capped_and_ignored_when_it_is_nonsense(asked: str, waited: float) -> None:
    peer = Peer(answer(503, retry_after=asked), stream(*frames(1)))
    await collect(peer.follow(jitter=lambda: 0.5))
    assert peer.gaps == [waited]


async def test_a_stream_that_asks_for_a_pause_is_left_alone_that_long() -> None:
    peer = Peer(stream(b"retry: 3000\n\n", *frames(1, 3)), stream(*frames(4)))
    await collect(peer.follow(jitter=lambda: 0.0))
    assert peer.gaps == [3]


async def test_a_draining_server_spreads_its_readers() -> None:
    for jitter, waited in ((0.0, 0), (0.5, 5)):
        drain = control("drain", reason="closing", spread=10)
        peer = Peer(stream(HELLO, *frames(1, 3), drain, then="hang"), stream(*frames(4)))
        assert await seqs(peer.follow(jitter=partial(float, jitter))) == ALL
        assert peer.gaps == [waited]
        assert len(peer.greeted) == 2, "the link is another one"


@pytest.mark.parametrize("seed", range(10))
async def test_a_reader_of_a_node_that_closes_waits_for_another_link_and_does_not_come_back_over_this_one(
    seed: int,
) -> None:
    drain = control("drain", reason="closing", spread=10)
    peer = Peer(stream(HELLO, *frames(1, 3), drain, then="hang"), stream(*frames(4)))
    assert await seqs(peer.follow(jitter=random.Random(seed).random)) == ALL
    assert (len(peer.times), len(peer.greeted)) == (2, 2), f"seed {seed}"


async def test_a_reader_for_whom_there_is_no_room_comes_back_alone() -> None:
    drain = control("drain", reason="capacity", spread=10)
    peer = Peer(stream(HELLO, *frames(1, 3), drain, then="hang"), stream(*frames(4)))
    assert await seqs(peer.follow()) == ALL
    assert peer.gaps == [5.25]
    assert len(peer.greeted) == 1


async def test_a_reader_whose_credentials_have_ended_comes_back_with_others_at_once() -> None:
    drain = control("drain", reason="expired", spread=0)
    tokens = iter(range(100))
    peer = Peer(stream(HELLO, *frames(1, 3), drain, then="hang"), stream(*frames(4)))
    assert await seqs(peer.follow(headers=lambda: {"authorization": f"{next(tokens)}"})) == ALL
    assert peer.gaps == [0]
    assert [headers["authorization"] for headers in peer.headers] == ["1", "2"]


# ---- silence ------------------------------------------------------------------------------------


@pytest.mark.case(27)
@pytest.mark.parametrize(
    ("told", "limit"),
    [(None, 22.0), (2, 6.0), (0, 22.0), (-1, 22.0), (1e9, 22.0), ("x", 22.0)],
)
async def test_a_silent_stream_on_a_link_that_lives_is_asked_for_again_after_two_heartbeats(
    told: Any, limit: float
) -> None:
    """Alone on its link its silence is the link's own: that answers first, and what it held up has two seconds."""
    said = {} if told is None else {"heartbeat": told}
    hello, greeting = control("hello", **said), json.dumps({"boot_id": "b00t", "protocol": 1, **said}).encode()
    peer = Peer(stream(hello, *frames(1, 3), then="hang"), stream(*frames(4)), session=(answer(200, greeting),))
    assert await seqs(peer.follow()) == ALL
    assert peer.gaps == [limit]


async def test_heartbeats_keep_a_silent_run_connected() -> None:
    beats = [part for _ in range(30) for part in (BEAT, BEATING)]
    peer = Peer(stream(HELLO, *beats, *frames(1), then="hang"))
    assert await seqs(peer.follow()) == ALL
    assert len(peer.times) == 1


@pytest.mark.case(47)
@pytest.mark.parametrize(
    "byte", [b":", b"x", b"\xff", b"\n"], ids=["a comment's", "a word's", "no text's", "a line's end"]
)
async def test_any_byte_is_a_sign_of_life_whatever_it_is_good_for(byte: bytes) -> None:
    signs = [part for _ in range(20) for part in (1.9 * BEAT, byte)]
    peer = Peer(stream(HELLO, *frames(1, 3), *signs, b"\n\n", *frames(4), then="hang"))
    assert await seqs(peer.follow()) == ALL
    assert len(peer.times) == 1


@pytest.mark.timeout(20)
async def test_a_moment_of_which_a_difference_falls_short_is_a_moment_all_the_same() -> None:
    spoken = 40.0 + 5.34316974827042
    assert spoken + 2 * BEAT - spoken < 2 * BEAT
    beats = [part for _ in range(4) for part in (BEAT, BEATING)]
    peer = Peer(stream(HELLO, *frames(1, 3), *beats, spoken - 40.0, BEATING, then="hang"), stream(*frames(4)))
    assert await seqs(peer.follow()) == ALL


@pytest.mark.case(129)
async def test_half_a_frame_before_a_silence_is_thrown_away() -> None:
    peer = Peer(stream(*frames(1, 3), frame(4)[:-5], then="hang"), stream(*frames(4)))
    assert await seqs(peer.follow()) == ALL
    assert peer.cursors == [None, str(PLACES[2])]


async def nothing(receive: Receive, send: Send) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@pytest.mark.behaviour("K7")
async def test_a_greeting_that_does_not_come_is_given_up_at_the_deadline() -> None:
    peer = Peer(stream(*frames(1)), session=(nothing, GREETING))
    assert await seqs(peer.follow()) == ALL
    assert peer.greeted == [0, ESTABLISHMENT + 0.25]


async def test_a_stream_that_does_not_begin_is_the_services_trouble_and_moves_with_the_link() -> None:
    """The link answers, so the stream waits; in the end the link that never served it is replaced."""
    peer = Peer(nothing, stream(*frames(1)))
    phases = []
    async with peer.connect() as client:
        telling = asyncio.create_task(tell_phases(client, phases))
        assert await seqs(client.follow("r")) == ALL
        telling.cancel()
    assert phases == [Phase.CONNECTING, Phase.LIVE, Phase.SLOW, Phase.BUSY, Phase.SWITCHING, Phase.LIVE]
    assert peer.gaps == [130]


async def tell_phases(client: "Client", phases: list[Phase]) -> None:
    async for record in client.state:
        if [record.link.phase] != phases[-1:]:
            phases.append(record.link.phase)


@pytest.mark.behaviour("K8")
async def test_headers_that_do_not_come_are_cut_by_the_same_deadline() -> None:
    asked = []

    async def headers() -> dict[str, str]:
        asked.append(asyncio.get_running_loop().time())
        if len(asked) == 1:
            await asyncio.Event().wait()
        return {}

    peer = Peer(stream(*frames(1)))
    assert await seqs(peer.follow(headers=headers)) == ALL
    assert peer.greeted[0] - asked[0] == ESTABLISHMENT + 0.25


@pytest.mark.behaviour("K8")
async def test_a_name_that_is_not_resolved_is_cut_by_the_same_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    asked = []

    async def getaddrinfo(*_: object, **__: object) -> None:
        asked.append(loop.time())
        await loop.create_future()

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
    async with connect("http://agents.example", hints=False, jitter=lambda: 0.5) as client:
        await asyncio.sleep(ESTABLISHMENT - 0.01)
        assert client.state.record.link.phase is Phase.CONNECTING
        await asyncio.sleep(0.02)
        link = client.state.record.link
        assert (link.phase, link.trouble) == (Phase.BACKOFF, Trouble.SILENT)
        await asyncio.sleep(1)
        assert asked == [0.0, ESTABLISHMENT + 0.25]


# ---- credentials and refusals -------------------------------------------------------------------


@pytest.mark.case(53)
async def test_headers_are_asked_for_before_every_try() -> None:
    tokens = iter(range(100))
    peer = Peer(stream(*frames(1, 3), then="break"), answer(503), stream(*frames(4)))
    assert await seqs(peer.follow(headers=lambda: {"authorization": f"Bearer {next(tokens)}"})) == ALL
    assert [headers["authorization"] for headers in peer.headers] == ["Bearer 1", "Bearer 2", "Bearer 3"]


async def test_plain_headers_are_sent_and_ours_are_not_overruled() -> None:
    peer = Peer(stream(*frames(3)))
    await collect(peer.follow(after=PLACES[1], headers={"x-mine": "1", "Last-Event-ID": "7", "Accept": "text/html"}))
    assert peer.headers[0]["x-mine"] == "1"
    assert peer.headers[0]["accept"] == "text/event-stream"
    assert peer.cursors == [str(PLACES[1])]


@pytest.mark.case(7)
async def test_a_rotated_token_is_asked_for_once_more_after_a_401() -> None:
    tokens = iter(["old", "old", "old", "new"])
    peer = Peer(stream(*frames(1, 3), then="break"), problem(401, "unauthenticated"), stream(*frames(4)))
    assert await seqs(peer.follow(headers=lambda: {"authorization": next(tokens)})) == ALL
    assert peer.gaps == [0, 0]


@pytest.mark.case(7)
@pytest.mark.parametrize(
    ("headers", "requests"), [(lambda: {"authorization": "old"}, 4), ({"authorization": "old"}, 2)]
)
async def test_a_token_that_stays_refused_ends_the_follow(headers: Any, requests: int) -> None:
    peer = Peer(problem(401, "unauthenticated"))
    with pytest.raises(Unauthenticated, match=r"Said by unauthenticated\."):
        await collect(peer.follow(headers=headers))
    assert len(peer.times) == requests


@pytest.mark.behaviour("N4")
async def test_credentials_that_change_before_their_refusal_is_judged_end_no_follow() -> None:
    peer = Peer(stream(*frames(1, 3), then="break"), problem(401, "unauthenticated"), stream(*frames(4)))
    assert await seqs(peer.follow(headers={"authorization": "of a session that is signed in anew"})) == ALL
    assert len(peer.greeted) == 2


@pytest.mark.behaviour("R8")
@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (404, "run_not_found", RunNotFound),
        (403, "peer_refused", Refusal),
        (410, "run_gone", RunGone),
        (400, "cursor_invalid", CursorInvalid),
        (418, "from_tomorrow", Refusal),
    ],
)
async def test_a_refusal_is_told_typed_at_once_also_in_mid_stream(status: int, code: str, error: type[Refusal]) -> None:
    peer = Peer(stream(*frames(1, 3), then="break"), problem(status, code))
    taken: list[int] = []
    with pytest.raises(error, match=rf"Said by {code}\."):
        await take_into(taken, peer.follow())
    assert taken == ALL[:3]
    assert len(peer.times) == 2


async def test_a_redirect_is_not_followed() -> None:
    peer = Peer(answer(307, location="http://elsewhere/"), stream(*frames(1)))
    assert await seqs(peer.follow()) == ALL
    assert set(peer.paths) == {b"/agents/runs/r/events"}


@pytest.mark.parametrize("status", [403, 404])
async def test_a_proxys_page_in_the_servers_place_is_borne_for_a_while(status: int) -> None:
    page = answer(status, b"<html>")
    peer = Peer(stream(HELLO, *frames(1, 3), then="break"), page, answer(502), page, stream(HELLO, *frames(4)))
    assert await seqs(peer.follow()) == ALL
    assert len(peer.greeted) == 1


@pytest.mark.behaviour("R8")
async def test_a_page_that_stays_in_the_servers_place_ends_the_follow_after_a_minute() -> None:
    peer = Peer(stream(HELLO, *frames(1, 3), then="break"), answer(403, b"<html>"))
    taken: list[int] = []
    with pytest.raises(Refusal, match="403 Forbidden, and not in the way of Outlast"):
        await take_into(taken, peer.follow())
    assert taken == ALL[:3]
    assert 60.0 <= peer.times[-1] - peer.times[1] <= 90.0


REFUSED = problem(401, "unauthenticated")


@pytest.mark.behaviour("N4", "R8")
async def test_a_run_that_credentials_are_refused_for_is_nothing_to_the_link_that_they_are_accepted_on() -> None:
    peer = Peer(stream(HELLO, *frames(1, 3), then="break"), REFUSED)
    async with peer.connect() as client:
        taken: list[int] = []
        with pytest.raises(Unauthenticated, match="Said by"):
            await take_into(taken, client.follow("r"))
        link = client.state.record.link
        assert (taken, link.phase, link.generation) == (ALL[:3], Phase.LIVE, 1)
        assert len(peer.greeted) == 3, "the greeting tells whom it concerns, twice"


@pytest.mark.behaviour("N4")
@pytest.mark.parametrize(
    ("said", "trouble"), [(REFUSED, Trouble.CREDENTIALS), (problem(403, "forbidden"), Trouble.REVOKED)]
)
async def test_credentials_that_the_whole_link_is_refused_for_block_it_until_there_are_others(
    said: Script, trouble: Trouble
) -> None:
    steady = stream(HELLO, *frames(1, 3), *[15.0, BEATING] * 3, then="break")
    peer = Peer(steady, REFUSED, stream(HELLO, *frames(4)), session=(GREETING, said, GREETING))
    async with peer.connect() as client:
        following = asyncio.create_task(seqs(client.follow("r")))
        while client.state.record.link.phase is not Phase.BLOCKED:
            await client.state.changed()
        assert client.state.record.link.trouble is trouble
        await asyncio.sleep(3600)
        assert len(peer.greeted) == 2, "there is no try until a wakeup"
        client.wakeup("credentials-changed")
        assert await following == ALL


@pytest.mark.behaviour("M2")
async def test_a_stream_that_another_server_begins_is_left_before_anything_of_it_is_taken() -> None:
    def hello(store: str) -> bytes:
        return control("hello", heartbeat=BEAT, store=store)

    greeting = answer(200, json.dumps({"boot_id": "b00t", "protocol": 1, "store": "ours"}).encode())
    peer = Peer(
        stream(hello("ours"), *frames(1, 3), then="break"), stream(hello("theirs"), *frames(4)), session=(greeting,)
    )
    taken: list[int] = []
    with pytest.raises(WrongServer):
        await take_into(taken, peer.follow())
    assert taken == ALL[:3]


async def test_an_endless_refusal_is_not_read_to_its_end() -> None:
    async def endless(receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": b"x" * 4096, "more_body": True})

    with pytest.raises(Refusal):
        await collect(Peer(endless).follow())


@pytest.mark.parametrize("url", ["", "peer", "ftp://peer", "http://", "http://[::1", "file:///etc/passwd"])
async def test_an_impossible_url_is_refused_with_a_sentence(url: str) -> None:
    with pytest.raises(InputInvalid, match="http://127"):
        await collect(follow(url, "r"))


@pytest.mark.parametrize("run", ["", ".", "..", "half a \ud800"])
async def test_an_id_that_would_lead_elsewhere_is_refused(run: str) -> None:
    with pytest.raises(InputInvalid):
        await collect(follow(URL, run))


async def test_a_malformed_cursor_is_refused() -> None:
    with pytest.raises(CursorInvalid):
        await collect(follow(URL, "r", after="yesterday"))


# ---- gaps ---------------------------------------------------------------------------------------


async def test_a_gap_is_told_and_the_stream_goes_on_from_where_it_says() -> None:
    wrong = f"3-{'0' * 16}"
    gap = control("gap", reason="mismatch", requested=wrong, first=1, cursor="0")
    peer = Peer(stream(HELLO, gap, *frames(1, 2), then="break"), stream(*frames(3)))
    first, *others = await collect(peer.follow(after=wrong))
    assert first == ReceivedGap(reason="mismatch", requested=Cursor.parse(wrong), first=1, cursor=Cursor(0, None))
    assert [each.cursor.seq for each in others] == ALL
    assert peer.cursors == [wrong, str(PLACES[1])]


async def test_a_gap_that_the_reader_did_not_come_back_from_is_told_again() -> None:
    gap = control("gap", reason="trimmed", requested="1", first=5, cursor=str(PLACES[3]))
    peer = Peer(stream(gap, *frames(5), then="hang"))
    async with aclosing(peer.follow(after="1")) as received:
        assert isinstance(await anext(received), ReceivedGap)
    async with aclosing(peer.follow(after="1")) as received:
        assert [type(await anext(received)) for _ in range(2)] == [ReceivedGap, ReceivedEvent]


def snapshot_of(seq: int, *kept: int) -> dict[str, Any]:
    lines = [{"cursor": str(PLACES[at - 1]), "type": SAID[at - 1].type, "data": SAID[at - 1].data} for at in kept]
    return {"cursor": str(PLACES[seq - 1]), "events": lines}


@pytest.mark.behaviour("R4", "F7")
async def test_a_gap_is_handed_over_with_its_snapshot_and_the_events_behind_it_follow() -> None:
    gap = control("gap", reason="ahead", requested="99", first=1, cursor=str(PLACES[4]), snapshot=snapshot_of(5, 1, 5))
    peer = Peer(stream(HELLO, gap, *frames(6, 7), then="break"), stream(*frames(8)))
    first, *others = await collect(peer.follow(after="99"))
    assert isinstance(first, ReceivedGap)
    assert (first.cursor, [event.seq for event in first.snapshot]) == (PLACES[4], [1, 5])
    assert [each.cursor.seq for each in others] == [6, 7, 8, 9, 10]
    assert peer.cursors == ["99", str(PLACES[6])]


FAR = control("gap", reason="ahead", requested="99", first=1, cursor=str(PLACES[4]), snapshot_url="http://evil/x")


def found(seq: int, *kept: int) -> Script:
    return answer(200, json.dumps(snapshot_of(seq, *kept)).encode())


@pytest.mark.behaviour("R4", "F7")
async def test_a_large_snapshot_is_fetched_where_the_log_is_and_may_be_newer() -> None:
    peer = Peer(stream(HELLO, FAR, *frames(6)), found(7, 2, 7))
    first, *others = await collect(
        peer.follow(after="99", headers={"authorization": "mine"}, types=["text"], owner="a&b")
    )
    assert isinstance(first, ReceivedGap)
    assert (first.cursor, [event.seq for event in first.snapshot]) == (PLACES[6], [2, 7])
    assert [each.cursor.seq for each in others] == [8, 9, 10]
    assert peer.paths == [b"/agents/runs/r/events", b"/agents/runs/r/snapshot"]
    assert peer.queries == [b"owner=a%26b&types=text"] * 2
    assert [headers["authorization"] for headers in peer.headers] == ["mine", "mine"]


async def test_a_snapshot_with_the_end_of_the_log_in_it_is_the_end() -> None:
    peer = Peer(stream(HELLO, FAR, then="hang"), found(10, 2, 10))
    (gap,) = await collect(peer.follow(after="99"))
    assert isinstance(gap, ReceivedGap)
    assert gap.is_end


@pytest.mark.behaviour("R4")
@pytest.mark.parametrize(
    ("trouble", "script"),
    [
        (Trouble.BUSY, answer(503, retry_after="3")),
        (Trouble.FOREIGN, answer(404)),
        (Trouble.BROKEN, refuse),
        (Trouble.FOREIGN, found(4, 2, 4)),
    ],
)
async def test_a_gap_whose_snapshot_cannot_be_had_is_not_passed_over(trouble: Trouble, script: Script) -> None:
    peer = Peer(stream(HELLO, FAR, *frames(6), then="hang"), script, stream(HELLO, FAR, *frames(6)), found(5, 5))
    first, *others = await collect(peer.follow(after="99"))
    assert isinstance(first, ReceivedGap)
    assert [event.seq for event in first.snapshot] == [5]
    assert [each.cursor.seq for each in others] == [6, 7, 8, 9, 10]
    assert peer.cursors == ["99", None, "99", None], "the place is still the one before the gap"


@pytest.mark.behaviour("R8")
@pytest.mark.parametrize(
    ("status", "code", "error"),
    [(404, "run_not_found", RunNotFound), (410, "run_gone", RunGone), (401, "unauthenticated", Unauthenticated)],
)
async def test_a_snapshot_that_is_refused_ends_the_follow_as_the_stream_would(
    status: int, code: str, error: type[Refusal]
) -> None:
    peer = Peer(stream(HELLO, FAR, then="hang"), problem(status, code))
    with pytest.raises(error, match=f"Said by {code}"):
        await collect(peer.follow(after="99"))
    assert len(peer.times) == (3 if error is Unauthenticated else 2)


async def test_a_snapshot_that_is_no_json_ends_the_follow_typed() -> None:
    peer = Peer(stream(HELLO, FAR, then="hang"), answer(200, b"<html>"))
    with pytest.raises(WireError):
        await collect(peer.follow(after="99"))


@pytest.mark.case(121)
async def test_a_snapshot_older_than_what_was_read_is_passed_over() -> None:
    late = control("gap", reason="trimmed", requested="1", first=3, cursor=str(PLACES[2]), snapshot=snapshot_of(3, 3))
    peer = Peer(stream(HELLO, *frames(1, 6), late, *frames(7)))
    received = await collect(peer.follow())
    assert [each.cursor.seq for each in received] == ALL
    assert not any(isinstance(each, ReceivedGap) for each in received)


# ---- only some types ----------------------------------------------------------------------------


@pytest.mark.case(111)
async def test_with_types_numbers_that_are_left_out_are_no_hole_and_the_place_moves_behind_them() -> None:
    far = control("heartbeat", status="active", head=str(PLACES[6]))
    old = control("heartbeat", status="active", head=str(PLACES[0]))
    odd = control("heartbeat", status="active", head="soon") + control("heartbeat", status="active")
    peer = Peer(
        stream(HELLO, frame(2), frame(4), then="break"),
        stream(HELLO, control("caught-up", head=str(PLACES[4])), then="break"),
        stream(HELLO, far, old, odd, then="break"),
        stream(HELLO, frame(10)),
    )
    assert await seqs(peer.follow(types=["text", "tool"])) == [2, 4, 10]
    assert peer.cursors == [None, str(PLACES[3]), str(PLACES[4]), str(PLACES[6])]
    assert peer.queries == [b"types=text%2Ctool"] * 4


async def test_without_types_a_heartbeat_moves_nothing() -> None:
    far = control("heartbeat", status="active", head=str(PLACES[6])) + control("caught-up", head=str(PLACES[6]))
    peer = Peer(stream(HELLO, *frames(1, 2), far, then="break"), stream(*frames(3)))
    assert await seqs(peer.follow()) == ALL
    assert peer.cursors == [None, str(PLACES[1])]


# ---- a peer that lies ---------------------------------------------------------------------------


@pytest.mark.case(117)
async def test_an_event_too_large_ends_the_follow_and_says_where() -> None:
    giant = sse.encode(event="text", id="4", data=b'"' + b"x" * sse.MAX_FRAME + b'"')
    peer = Peer(stream(*frames(1, 2), frame(3) + giant[: sse.MAX_FRAME + 100], then="hang"))
    taken: list[int] = []
    with pytest.raises(sse.FrameTooLarge, match=str(PLACES[2])) as caught:
        await take_into(taken, peer.follow())
    assert taken == ALL[:3]
    assert caught.value.last_id == "4"
    assert len(peer.times) == 1


@pytest.mark.parametrize(
    "lie",
    [
        sse.encode(event="text", id="1-nonsense", data=b'"x"'),
        sse.encode(event="text", id="-1", data=b'"x"'),
        sse.encode(event="bytes", id="1", data=b'{"data_base64":"%%%"}', content_type="audio/ogg"),
        sse.encode(event="outlast.hello", data=b"not JSON"),
        sse.encode(event="outlast.hello", data=b"[]"),
        control("gap"),
        control("gap", reason="ahead", requested="9", first=1),
        control("gap", reason="ahead", requested="nonsense", first=1, cursor="1"),
    ],
)
async def test_bytes_that_are_not_of_the_wire_end_the_follow_typed(lie: bytes) -> None:
    peer = Peer(stream(lie, *frames(1)))
    with pytest.raises(WireError):
        await collect(peer.follow())
    assert len(peer.times) == 1


# ---- several on one link -------------------------------------------------------------------------


@pytest.mark.behaviour("R6")
@pytest.mark.parametrize(
    ("told", "seconds"), [(BEAT, 2 * BEAT), (3.0, 6.0), (0.1, 2.2), (0.099, 2 * BEAT), (120.001, 2 * BEAT)]
)
async def test_one_dead_stream_beside_another_that_flows_is_opened_anew_alone_after_two_heartbeats(
    told: float, seconds: float
) -> None:
    class Two(Peer):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            if "/runs/flows/" in scope["path"]:
                beats = [part for _ in range(60) for part in (1.0, BEATING)]
                await stream(HELLO, *beats, *frames(1), then="hang")(receive, send)
                return
            await super().__call__(scope, receive, send)

    hello = sse.HELLO_COMMENT + control("hello", heartbeat=told)
    peer = Two(stream(hello, *frames(1, 3), then="hang"), stream(HELLO, *frames(4), then="hang"))
    async with peer.connect() as client:
        both = await asyncio.gather(seqs(client.follow("r")), seqs(client.follow("flows")))
        assert both == [ALL, ALL]
        assert peer.gaps == [pytest.approx(seconds)]
        assert (len(peer.greeted), client.state.record.link.generation) == (1, 1)


async def test_one_mute_stream_is_no_fault_of_a_link_over_which_another_speaks() -> None:
    class Two(Peer):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            if "/runs/flows/" in scope["path"]:
                await stream(HELLO, 15.0, *frames(1), then="hang")(receive, send)
                return
            await super().__call__(scope, receive, send)

    peer = Two(stream(then="hang"))
    async with peer.connect() as client:
        mute = asyncio.create_task(seqs(client.follow("r")))
        assert await seqs(client.follow("flows")) == ALL
        assert client.state.record.link.generation == 1
        mute.cancel()
        await asyncio.wait([mute])


@pytest.mark.behaviour("R9")
async def test_a_slow_application_holds_the_stream_back_and_loses_no_connection() -> None:
    peer = Peer(stream(HELLO, *frames(1), then="hang"))
    async with peer.connect() as client:
        taken: list[int] = []
        async for received in client.follow("r"):
            await asyncio.sleep(5 * BEAT)
            taken.append(received.cursor.seq)
        assert taken == ALL
        assert (len(peer.times), client.state.record.link.generation) == (1, 1)


async def test_a_refused_run_ends_its_own_follow_alone() -> None:
    peer = Peer(problem(404, "run_not_found"), stream(HELLO, *frames(1)))
    async with peer.connect() as client:
        with pytest.raises(RunNotFound):
            await seqs(client.follow("none"))
        assert await seqs(client.follow("r")) == ALL
        assert client.state.record.link.phase is Phase.LIVE


# ---- servers that would be pressed ---------------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [stream(HELLO, BEATING), stream(HELLO, control("drain", reason="closing", spread=0), then="hang")],
    ids=["says something and ends", "sends away at once"],
)
async def test_a_server_that_ends_every_stream_is_not_pressed(script: Script) -> None:
    peer = Peer(script)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await collect(peer.follow())
    assert len(peer.times) <= 4 * 60


@pytest.mark.parametrize("number", [10**400, float("inf"), 1e-9, -1])
async def test_numbers_that_make_no_sense_change_nothing(number: float) -> None:
    hello = sse.HELLO_COMMENT + control("hello", heartbeat=number)
    drain = control("drain", reason="closing", spread=number)
    greeting = json.dumps({"boot_id": "b00t", "protocol": 1, "heartbeat": number}).encode()
    peer = Peer(stream(hello, *frames(1, 3), drain), stream(hello, *frames(4)), session=(answer(200, greeting),))
    assert await seqs(peer.follow()) == ALL
