import asyncio
import json
from typing import Any

import httpx2
import pytest

from outlast.errors import OutlastError, RunGone, StoreCorrupt, StoreUnavailable
from outlast.facts import StoreTroubled
from outlast.log.cursor import Cursor
from outlast.log.event import JSON_TYPE, Event
from outlast.wire import native
from tests.stage import Handled, Stage, events, names, site, staged

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


async def ended(stage: Stage, *said: Event | str) -> list[Cursor]:
    run = await stage.active()
    if said:
        await stage.say(run, *said)
    await stage.settle(run)
    return [stored.cursor for stored in await stage.log(run)]


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


@pytest.mark.behaviour("F6", "F7")
async def test_a_page_behind_a_cursor_that_cannot_be_served_tells_the_gap_and_goes_on() -> None:
    async with staged() as stage, site(stage) as here:
        cursors = await ended(stage, "a", "b")
        for after, reason in [("9", "ahead"), ("2-0000000000000000", "mismatch")]:
            page = (await here.client.get(f"/runs/r1/events?wait=9&after={after}")).json()
            snapshot = page["gap"].pop("snapshot")
            assert page["gap"] == {"reason": reason, "requested": after, "first": 1, "cursor": str(cursors[1])}
            assert snapshot["cursor"] == str(cursors[1])
            assert [event["data"] for event in snapshot["events"]] == ["ab"]
            assert [event["seq"] for event in page["events"]] == [3], "the terminal event has its own place"
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


async def away(_call: str) -> None:
    """Answer for a store that does not."""
    raise StoreUnavailable("away")


@pytest.mark.behaviour("F9")
@pytest.mark.parametrize("port", ["runs", "logs"])
async def test_a_store_in_trouble_is_a_stream_that_says_to_come_again(port: str) -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        getattr(handled, port).before = away
        async with site(stage, handled=handled) as here:
            await stage.start()
            async with here.stream("/runs/r1/events") as stream:
                assert stream.response.status_code == 200
                assert stream.response.headers["content-type"] == "text/event-stream"
                assert await stream.rest() == []
                assert stream.parser.retry == 2000
            assert (await here.client.get("/runs/r1/events")).status_code == 503


@pytest.mark.behaviour("F9")
@pytest.mark.parametrize("port", ["runs", "logs"])
async def test_an_outage_is_told_once_whatever_is_asked_for_in_it(port: str) -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        getattr(handled, port).before = away
        async with site(stage, handled=handled) as here:
            await stage.start()
            for _ in range(3):
                assert (await here.client.get("/runs/r1")).status_code == 503
                async with here.stream("/runs/r1/events") as stream:
                    assert await stream.rest() == []
            told = [fact for fact in stage.facts if isinstance(fact, StoreTroubled)]
            assert told == [StoreTroubled(during="request", error="store_unavailable")]


async def test_a_stream_of_a_run_that_is_not_there_is_a_problem() -> None:
    async with staged() as stage, site(stage) as here:
        answer = await here.client.get("/runs/none/events", headers={"accept": "text/event-stream"})
        assert (answer.status_code, answer.json()["code"]) == (404, "run_not_found")


# ---- lines, views and snapshots -----------------------------------------------------------------


@pytest.mark.behaviour("F1")
@pytest.mark.parametrize("types", [None, {"text"}, {"B", "C"}, {"none"}])
async def test_pages_and_lines_are_the_same_events_for_the_same_view(types: set[str] | None) -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, *(Event("ABC"[number % 3], number) for number in range(40)), "x", "y")
        await stage.settle(run)
        shown = {*types, "run.completed"} if types else None
        wanted = [native.event_json(each) for each in await stage.log(run) if not shown or each.event.type in shown]
        query = f"&types={','.join(types)}" if types else ""
        for accept in ("application/json", "application/x-ndjson"):
            after, found, ended = "", b"", False
            while not ended:
                answer = await here.client.get(
                    f"/runs/r1/events?limit=3&after={after}{query}", headers={"accept": accept}
                )
                assert answer.headers["content-type"] == accept
                if accept == "application/json":
                    last = answer.json()
                    found += answer.content.partition(b'"events":[')[2].partition(b'],"next":')[0] + b"\n"
                else:
                    *lines, end = answer.content.splitlines()
                    last = json.loads(end)
                    found += b",".join(lines) + b"\n"
                after, ended = last["next"], last["ended"]
                assert last["up_to_date"] == ended
            assert b"\n".join(part for part in found.replace(b"},{", b"}\n{").split(b"\n") if part) == b"\n".join(
                wanted
            )


async def test_a_page_of_a_view_that_shows_nothing_leads_to_the_head() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        head = await stage.say(run, *map(str, range(30)))
        page = (await here.client.get("/runs/r1/events?types=none&limit=1")).json()
        assert page == {"events": [], "next": str(head), "up_to_date": True, "ended": False}


@pytest.mark.behaviour("F8")
async def test_a_snapshot_is_the_fold_and_its_tag_spares_it() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        head = await stage.say(run, "a", "b", Event("tool", 1), "c")
        answer = await here.client.get("/runs/r1/snapshot")
        assert [event["data"] for event in answer.json()["events"]] == ["ab", 1, "c"]
        assert answer.json()["cursor"] == str(head) == (await here.client.get("/runs/r1")).json()["snapshot"]
        tag = answer.headers["etag"]
        assert (tag, answer.headers["cache-control"]) == (f'"{head}"', "no-cache")
        same = await here.client.get("/runs/r1/snapshot", headers={"if-none-match": tag})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
        only = await here.client.get("/runs/r1/snapshot?types=tool", headers={"if-none-match": tag})
        assert [event["data"] for event in only.json()["events"]] == [1]
        await stage.say(run, "d")
        newer = await here.client.get("/runs/r1/snapshot", headers={"if-none-match": tag})
        assert [event["data"] for event in newer.json()["events"]] == ["ab", 1, "cd"]
        headed = await here.client.head("/runs/r1/snapshot")
        assert (headed.status_code, headed.content, headed.headers["etag"]) == (200, b"", newer.headers["etag"])
        assert (await here.client.get("/runs/none/snapshot")).status_code == 404


async def test_the_snapshot_of_an_empty_log_is_empty() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.start()
        head = (await stage.store.logs.head(run.log)).cursor
        assert (await here.client.get("/runs/r1/snapshot")).json() == {"cursor": str(head), "events": []}


@pytest.mark.behaviour("F9")
@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (StoreUnavailable("away"), [StoreTroubled(during="snapshot", error="store_unavailable")]),
        (StoreCorrupt("odd"), [StoreTroubled(during="snapshot", error="store_corrupt")]),
        (RunGone("erased"), []),
    ],
    ids=["away", "corrupt", "erased"],
)
async def test_a_snapshot_that_cannot_be_read_to_its_end_is_cut_and_nothing_is_raised(
    trouble: OutlastError, told: list[StoreTroubled]
) -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here:
            run = await stage.active()
            await stage.say(run, *(Event("note", "x" * 50_000) for _ in range(20)))
            reads: list[str] = []

            async def fail(call: str) -> None:
                reads.append(call)
                if reads.count("read") > 6:  # in the second of its two passes
                    raise trouble

            handled.logs.before = fail
            async with here.client.stream("GET", "/runs/r1/snapshot") as answer:
                assert answer.status_code == 200
                with pytest.raises(httpx2.RemoteProtocolError) as cut:
                    await answer.aread()
            assert cut.value.__cause__ is None, "what the application raises is a traceback in its server's log"
            assert [fact for fact in stage.facts if isinstance(fact, StoreTroubled)] == told


async def test_a_snapshot_that_cannot_be_read_is_a_problem_and_not_a_broken_answer() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)

        async def fail(call: str) -> None:
            if call == "read":
                raise StoreUnavailable("away")

        async with site(stage, handled=handled) as here:
            run = await stage.active()
            await stage.say(run, "a")
            handled.logs.before = fail
            answer = await here.client.get("/runs/r1/snapshot")
            assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")


# ---- pages that wait ----------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["wait=61", "wait=x", "wait=-1", "types=", "envelope=x"])
async def test_a_wait_or_a_view_that_is_none_is_refused(query: str) -> None:
    async with staged() as stage, site(stage) as here:
        await stage.start()
        answer = await here.client.get(f"/runs/r1/events?{query}")
        assert (answer.status_code, answer.json()["code"]) == (400, "input_invalid")


async def test_a_page_that_has_events_or_an_end_does_not_wait() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, "a")
        assert len((await here.client.get("/runs/r1/events?wait=60")).json()["events"]) == 1
        await stage.settle(run)
        assert (await here.client.get("/runs/r1/events?wait=60&after=2")).json()["ended"] is True
        assert (await here.client.head("/runs/r1/events?wait=60")).status_code == 200
        assert asyncio.get_running_loop().time() == 0


@pytest.mark.behaviour("F1")
async def test_a_log_followed_by_waiting_pages_is_the_log() -> None:
    said = ["a\r\n\u2028", Event("bytes", bytes(range(256))), Event("data", b"{ }\n", content_type=JSON_TYPE), "b"]
    async with staged() as stage, site(stage) as here:
        run = await stage.active()

        async def poll(accept: str, query: str = "") -> list[bytes]:
            after, found, ended = "", [], False
            while not ended:
                answer = await here.client.get(
                    f"/runs/r1/events?wait=20&after={after}{query}", headers={"accept": accept}, timeout=None
                )
                *lines, end = answer.content.splitlines()
                found += lines
                after, ended = json.loads(end)["next"], json.loads(end)["ended"]
            return found

        async with asyncio.TaskGroup() as tasks:
            whole = tasks.create_task(poll("application/x-ndjson"))
            only = tasks.create_task(poll("application/x-ndjson", "&types=bytes"))
            for event in said:
                await asyncio.sleep(30)
                await stage.say(run, event)
            await asyncio.sleep(1)
            await stage.settle(run)
        log = await stage.log(run)
        assert whole.result() == [native.event_json(stored) for stored in log]
        assert only.result() == [native.event_json(stored) for stored in log if stored.seq in {2, 5}]
