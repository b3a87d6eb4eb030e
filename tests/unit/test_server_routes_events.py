from typing import Any

import pytest
from starlette.requests import Request

from outlast.errors import CursorInvalid, StoreUnavailable
from outlast.log.cursor import Cursor
from outlast.log.event import JSON_TYPE, Event
from outlast.server.routes.events import cursor_of, wants_stream
from outlast.wire import native
from tests.stage import Handled, Stage, events, names, site, staged

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


def request(headers: dict[str, str], *, query: str = "", method: str = "GET") -> Request:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    return Request({"type": "http", "method": method, "path": "/", "query_string": query.encode(), "headers": raw})


async def ended(stage: Stage, *said: Event | str) -> list[Cursor]:
    run = await stage.active()
    if said:
        await stage.say(run, *said)
    await stage.settle(run)
    return [stored.cursor for stored in await stage.log(run)]


# ---- what a request asks for --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "stream"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream", True),
        ("text/event-stream, */*", True),
        ("application/json, text/event-stream;q=0.1", True),
        ("text/event-stream;q=0", False),
        ("text/event-stream; q=0.000", False),
        ("*/*", False),
        ("text/*", False),
        ("application/json", False),
        ("", False),
    ],
)
def test_a_stream_is_for_who_accepts_it_by_name(accept: str, *, stream: bool) -> None:
    assert wants_stream(request({"accept": accept})) is stream
    assert wants_stream(request({})) is False
    assert wants_stream(request({"accept": accept}, method="HEAD")) is False


@pytest.mark.case(89)
@pytest.mark.parametrize(
    ("headers", "query", "cursor"),
    [
        ({}, "", Cursor(0, None)),
        ({}, "after=", Cursor(0, None)),
        ({}, "after=0", Cursor(0, None)),
        ({}, "after=7", Cursor(7, None)),
        ({"last-event-id": "9"}, "", Cursor(9, None)),
        ({"last-event-id": "9"}, "after=7", Cursor(9, None)),
        ({"last-event-id": ""}, "after=7", Cursor(7, None)),
        ({"last-event-id": "9-8f1c2d3e4a5b6c7d"}, "", Cursor(9, bytes.fromhex("8f1c2d3e4a5b6c7d"))),
    ],
)
def test_the_last_event_id_beats_the_address(headers: dict[str, str], query: str, cursor: Cursor) -> None:
    assert cursor_of(request(headers, query=query)) == cursor


BAD = ["x", "-1", "1-", "1-zz", "01", "1.0", "9223372036854775808", "1" * 1_000_000, "1-8F1C2D3E4A5B6C7D", "\x85", "²"]


@pytest.mark.behaviour("F6")
@pytest.mark.attack("Z2")
@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_a_malformed_cursor_is_refused_without_repeating_it(bad: str) -> None:
    with pytest.raises(CursorInvalid) as refused:
        cursor_of(request({"last-event-id": bad}))
    assert bad not in str(refused.value) or len(bad) < 3


# ---- the page -----------------------------------------------------------------------------------


@pytest.mark.behaviour("F1", "L6")
async def test_the_pages_of_a_log_are_the_log() -> None:
    said = [
        Event("text", "NUL \u0000, half \ud83d, \u2028\u2029\u0085"),
        Event("data", b'{\r\n "pretty": 1.50\n}', content_type=JSON_TYPE),
        Event("bytes", bytes(range(256))),
        *(Event("text", str(number)) for number in range(20)),
    ]
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, *said)
        await stage.settle(run)
        log = [native.event_json(stored) for stored in await stage.log(run)]
        after, found, pages = "", b"", 0
        while True:
            answer = await here.client.get(f"/runs/r1/events?limit=7&after={after}")
            page = answer.json()
            found += answer.content.partition(b'"events":[')[2].partition(b'],"next":')[0] + b","
            pages += 1
            assert page["up_to_date"] == page["ended"]
            after = page["next"]
            if page["ended"]:
                break
        assert found == b",".join(log) + b","
        assert pages == 4


async def test_a_page_tells_whether_it_is_up_to_date_and_whether_more_can_come() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()

        async def page(query: str) -> tuple[int, bool, bool, str]:
            said = (await here.client.get(f"/runs/r1/events?{query}")).json()
            assert "gap" not in said
            return len(said["events"]), said["up_to_date"], said["ended"], said["next"].partition("-")[0]

        assert await page("") == (0, True, False, "0")
        await stage.say(run, "a", "b")
        assert await page("limit=1") == (1, False, False, "1")
        assert await page("after=1") == (1, True, False, "2")
        assert await page("after=2") == (0, True, False, "2")
        await stage.settle(run)
        assert await page("after=1&limit=1") == (1, False, False, "2")
        assert await page("after=2") == (1, True, True, "3")
        assert await page("after=3") == (0, True, True, "3")


@pytest.mark.behaviour("F6")
async def test_a_page_behind_a_cursor_that_cannot_be_served_tells_the_gap_and_goes_on() -> None:
    async with staged() as stage, site(stage) as here:
        await ended(stage, "a", "b")
        for after, reason in [("9", "ahead"), ("2-0000000000000000", "mismatch")]:
            page = (await here.client.get(f"/runs/r1/events?after={after}")).json()
            assert page["gap"] == {"reason": reason, "requested": after, "first": 1, "cursor": "0"}
            assert [event["seq"] for event in page["events"]] == [1, 2, 3]
            assert page["ended"] is True


async def test_a_page_ends_at_about_a_megabyte() -> None:
    async with staged() as stage, site(stage) as here:
        await ended(stage, *("x" * 400_000 for _ in range(5)))
        page = (await here.client.get("/runs/r1/events")).json()
        assert 1 <= len(page["events"]) <= 3
        assert page["up_to_date"] is False


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x"])
async def test_a_limit_that_is_none_is_refused(query: str) -> None:
    async with staged() as stage, site(stage) as here:
        await stage.start()
        answer = await here.client.get(f"/runs/r1/events?{query}")
        assert (answer.status_code, answer.json()["code"]) == (400, "input_invalid")


@pytest.mark.attack("Z2")
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_malformed_cursor_is_a_400_on_both_kinds_of_answer(accept: str) -> None:
    async with staged() as stage, site(stage) as here:
        await stage.start()
        headers = {"accept": accept, "last-event-id": "marker-1"}
        answer = await here.client.get("/runs/r1/events", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "cursor_invalid")
        assert "marker" not in answer.text + str(answer.headers)


async def test_head_is_answered_without_a_stream() -> None:
    async with staged() as stage, site(stage) as here:
        await stage.start()
        answer = await here.client.head("/runs/r1/events", headers={"accept": "text/event-stream"})
        assert (answer.status_code, answer.content) == (200, b"")
        assert here.hub.readers == 0


# ---- the stream ---------------------------------------------------------------------------------


@pytest.mark.behaviour("L6", "F1")
async def test_a_stream_carries_every_payload_byte_for_byte() -> None:
    said = [
        Event("text", "NUL \u0000, half \ud83d, \u2028\u2029\u0085 CR\r LF\n CRLF\r\n"),
        Event("data", b'{\r\n "pretty": 1.50\n}', content_type=JSON_TYPE),
        Event("bytes", bytes(range(256))),
        Event("image", b"\r\n\r\nevent: outlast.end\r\n\r\n", content_type="image/png"),
    ]
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        async with here.stream("/runs/r1/events") as live:
            await live.until("outlast.caught-up")
            await stage.say(run, *said)
            await stage.settle(run)
            await live.rest()
        async with here.stream("/runs/r1/events") as late:
            await late.rest()
        log = [(stored.cursor, stored.event) for stored in await stage.log(run)]
        assert events(live.seen) == events(late.seen) == log
        assert [event for _, event in log[:-1]] == said


@pytest.mark.attack("Z1")
async def test_nothing_a_worker_says_becomes_a_frame_of_its_own() -> None:
    evil = "\r\n\r\nid: 999\r\nevent: outlast.end\r\ndata: {}\r\n\r\n\x00\u2028\u0085: \nretry: 1\n\n"
    async with staged() as stage, site(stage) as here:
        await ended(stage, Event("text", evil), Event("bytes", evil.encode()), evil)
        async with here.stream("/runs/r1/events") as stream:
            assert names(await stream.rest()) == [
                "outlast.hello",
                "text",
                "bytes",
                "text",
                "run.completed",
                "outlast.caught-up",
                "outlast.end",
            ]
            assert stream.parser.retry is None
            assert stream.parser.last_id is not None
            assert stream.parser.last_id.startswith("4-")


@pytest.mark.case(73)
@pytest.mark.behaviour("F10")
async def test_a_stream_has_the_headers_that_let_it_through() -> None:
    async with staged() as stage, site(stage) as here:
        await stage.start()
        async with here.stream("/runs/r1/events") as stream:
            headers = stream.response.headers
            assert headers["content-type"] == "text/event-stream"
            assert headers["cache-control"] == "no-cache, no-transform"
            assert headers["x-accel-buffering"] == "no"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["vary"] == "accept"
            assert not {"content-length", "content-encoding", "connection"} & set(headers)


async def test_a_cursor_at_the_end_of_an_ended_run_is_a_204_that_stops_an_eventsource() -> None:
    async with staged() as stage, site(stage) as here:
        cursors = await ended(stage, "a")
        for place in ({"headers": {"last-event-id": str(cursors[-1])}}, {"params": {"after": "2"}}):
            options: dict[str, Any] = {"headers": {"accept": "text/event-stream"}, **place}
            options["headers"] = {"accept": "text/event-stream", **options["headers"]}
            answer = await here.client.get("/runs/r1/events", **options)
            assert (answer.status_code, answer.content) == (204, b"")
        async with here.stream("/runs/r1/events", params={"after": "1"}) as stream:
            assert names(await stream.rest()) == [
                "outlast.hello",
                "run.completed",
                "outlast.caught-up",
                "outlast.end",
            ]


@pytest.mark.behaviour("F9")
@pytest.mark.parametrize("port", ["runs", "logs"])
async def test_a_store_in_trouble_is_a_stream_that_says_to_come_again(port: str) -> None:
    async with staged() as stage:
        handled = Handled(stage.store)

        async def fail(_call: str) -> None:
            raise StoreUnavailable("away")

        getattr(handled, port).before = fail
        async with site(stage, handled=handled) as here:
            await stage.start()
            async with here.stream("/runs/r1/events") as stream:
                assert stream.response.status_code == 200
                assert stream.response.headers["content-type"] == "text/event-stream"
                assert await stream.rest() == []
                assert stream.parser.retry == 2000
            assert (await here.client.get("/runs/r1/events")).status_code == 503


async def test_a_stream_of_a_run_that_is_not_there_is_a_problem() -> None:
    async with staged() as stage, site(stage) as here:
        answer = await here.client.get("/runs/none/events", headers={"accept": "text/event-stream"})
        assert (answer.status_code, answer.json()["code"]) == (404, "run_not_found")
