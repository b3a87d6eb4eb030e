"""One log through every door: the same events, in the same order, for the same view."""

import asyncio
import base64
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from outlast.assembly.reading import Reading
from outlast.client.connect import follow
from outlast.client.received import Received, ReceivedEvent, ReceivedGap
from outlast.errors import CursorInvalid, RunNotFound
from outlast.log.cursor import Cursor
from outlast.log.event import JSON_TYPE, Event, StoredEvent
from outlast.log.fold import fold
from outlast.log.limits import EVENT_BYTES
from outlast.run import Run
from outlast.server.access import Access
from outlast.server.readers.place import locate
from outlast.server.seats import Seats
from outlast.wire import native
from tests.stage import BASE, Handled, Logs, Site, Stage, Stream, events, names, site, staged

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

NASTY = [
    Event("text", "NUL \u0000, half \ud83d, \u2028\u2029\u0085 CR\r LF\n CRLF\r\n \ufeff"),
    Event("text", "\U0001f469\u200d\U0001f4bb data: id: 9\n\nevent: outlast.end\n\n"),
    Event("data", b'{\r\n "pretty": 1.50, "big": 1e999 }\n', content_type=JSON_TYPE),
    Event("data", b'\t"tab"  ', content_type=JSON_TYPE),
    Event("bytes", bytes(range(256))),
    Event("image", b"\r\n\r\nevent: outlast.end\r\n\r\n", content_type="image/png"),
    Event("text", b'"text that is none"', content_type="text/plain"),
    Event("bytes", b""),
    Event("tool.call/x:y-z", {"": [None, True, {"deep": [[[1]]]}]}),
    Event("text", ""),
    Event("text", "x" * 70_000),
]
VIEWS = [None, ("text",), ("bytes", "data"), ("tool.call/x:y-z", "run.started"), ("nothing",)]

Told = tuple[str, str, Any]
"""A cursor, a type and the payload: its bytes, or the meaning of JSON that travelled as JSON."""


def meaning(type: str, payload: bytes, content_type: str) -> Any:
    try:
        return (type, json.loads(payload)) if content_type == JSON_TYPE else (type, payload, content_type)
    except ValueError:
        return (type, payload, content_type)


def told(cursor: Cursor, event: Event) -> Told:
    return str(cursor), event.type, meaning(event.type, event.payload, event.content_type)


def lines(said: Sequence[Any]) -> list[Told]:
    return [told(*native.event_from_json(each)) for each in said]


def received(taken: Sequence[Received]) -> list[Told]:
    return [told(each.cursor, each.event) for each in taken if isinstance(each, ReceivedEvent)]


class Doors:
    """The doors of one site, each followed to the end of the log."""

    def __init__(self, here: Site, types: Sequence[str] | None) -> None:
        self.here = here
        self.types = types
        self.query = "" if types is None else f"types={','.join(types)}"
        self.reading = Reading(here.stage.intake, here.store.logs, here.hub, Seats())
        self.host = Starlette(routes=[Route("/of/{id}", self._handle)])

    async def _handle(self, request: Request) -> Response:
        return await self.reading.response(request, owner="", id=request.path_params["id"])

    async def stream(self, after: str) -> list[Told]:
        async with self.here.stream(f"/runs/r1/events?{self.query}&after={after}", timeout=None) as stream:
            await stream.rest()
            return [told(cursor, event) for cursor, event in events(stream.seen)]

    async def envelope(self, after: str) -> list[Told]:
        path = f"/runs/r1/events?{self.query}&envelope=1&after={after}"
        async with self.here.stream(path, timeout=None) as stream:
            await stream.rest()
            return lines([json.loads(message.data) for message in stream.seen if message.event == "message"])

    async def pages(self, after: str) -> list[Told]:
        return await self._pages(after, accept="application/json")

    async def lines(self, after: str) -> list[Told]:
        return await self._pages(after, accept="application/x-ndjson")

    async def _pages(self, after: str, *, accept: str) -> list[Told]:
        found: list[Told] = []
        while True:
            path = f"/runs/r1/events?{self.query}&wait=60&limit=4&after={after}"
            answer = await self.here.client.get(path, headers={"accept": accept}, timeout=None)
            if accept == "application/json":
                last = answer.json()
                found += lines(last["events"])
            else:
                *said, last = map(json.loads, answer.content.splitlines())
                found += lines(said)
            after = last["next"]
            assert "gap" not in last
            if last["ended"]:
                return found

    async def follow(self, after: str) -> list[Told]:
        async with self.here.as_client() as client:
            return received([each async for each in follow(BASE, "r1", after=after, types=self.types, client=client)])

    async def inside(self, after: str) -> list[Told]:
        taking = self.reading.events(owner="", id="r1", after=Cursor.parse(after), types=self.types)
        return received([each async for each in taking])

    async def handler(self, after: str) -> list[Told]:
        headers = {"accept": "text/event-stream"}
        async with (
            self.here.as_client(self.host) as client,
            client.stream("GET", f"/of/r1?{self.query}&after={after}", headers=headers, timeout=None) as response,
        ):
            stream = Stream(response)
            await stream.rest()
            return [told(cursor, event) for cursor, event in events(stream.seen)]

    @property
    def all(self) -> list[Any]:
        return [self.stream, self.envelope, self.pages, self.lines, self.follow, self.inside, self.handler]


async def play(stage: Stage, run: Run, dice: random.Random) -> None:
    for event in NASTY:
        await asyncio.sleep(dice.choice([0.0, 0.3, 4.0]))
        await stage.say(run, event)
    await asyncio.sleep(2)
    await stage.settle(run)


@pytest.mark.behaviour("F1", "L6")
@pytest.mark.parametrize("types", VIEWS, ids=str)
async def test_every_door_tells_the_same_log_live_resumed_and_late(types: Sequence[str] | None) -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        doors = Doors(here, types)
        async with asyncio.TaskGroup() as tasks:
            live = [tasks.create_task(door("")) for door in doors.all]
            tasks.create_task(play(stage, run, random.Random(str(types))))
        log = await stage.log(run)
        shown = [each for each in log if types is None or each.event.type in {*types, "run.completed"}]
        wanted = [told(each.cursor, each.event) for each in shown]
        for task in live:
            assert task.result() == wanted
        for seen in (0, 1, len(log) // 2, len(log) - 1):
            after = str(log[seen - 1].cursor) if seen else ""
            for door in doors.all:
                rest = [told(each.cursor, each.event) for each in shown if each.seq > seen]
                assert await door(after) == rest, (door.__name__, seen)


@pytest.mark.fault("X14")
@pytest.mark.behaviour("F1")
async def test_an_event_of_eight_mebibytes_comes_through_every_door() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        doors = Doors(here, None)
        async with asyncio.TaskGroup() as tasks:
            live = [tasks.create_task(door("")) for door in doors.all]
            await asyncio.sleep(1)
            await stage.say(run, "before", Event("text", "\u2028" + "x" * (EVENT_BYTES - 5)), "after")
            await stage.settle(run)
        log = await stage.log(run)
        assert len(log[1].event.payload) == EVENT_BYTES
        wanted = [told(each.cursor, each.event) for each in log]
        for door, task in zip(doors.all, live, strict=True):
            assert task.result() == wanted, door.__name__
            assert await door("") == wanted, door.__name__


@pytest.mark.behaviour("F1", "F7", "F8")
@pytest.mark.parametrize("size", [1, 300_000], ids=["inline", "beside"])
async def test_behind_a_gap_every_door_tells_the_snapshot_and_the_rest_of_the_log(size: int) -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, *NASTY, Event("bytes", b"x" * size))
        before = (await stage.store.runs.load("", "r1")).run
        gap = await here.client.get("/runs/r1/events?after=999")
        page = gap.json()
        fetched = page["gap"].get("snapshot") or (await here.client.get(page["gap"]["snapshot_url"])).json()
        assert ("snapshot" in page["gap"]) == (size == 1)
        lined = await here.client.get("/runs/r1/events?after=999", headers={"accept": "application/x-ndjson"})
        first, last = map(json.loads, lined.content.splitlines())
        assert (first["gap"], last["next"]) == (page["gap"], page["next"])
        async with here.as_client() as client:
            following = follow(BASE, "r1", after="999", client=client)
            inside = Doors(here, None).reading.events(owner="", id="r1", after=Cursor(999, None), types=None)
            taken, took = [await anext(following)], [await anext(inside)]
            await stage.say(run, "after", *NASTY)
            await stage.settle(run)
            taken += [each async for each in following]
            took += [each async for each in inside]
        assert took == taken
        assert isinstance(taken[0], ReceivedGap)
        log = await stage.log(run)
        folded = fold(log[: len(NASTY) + 1])
        assert lines(fetched["events"]) == [told(each.cursor, each.event) for each in folded]
        assert received(taken[0].snapshot) == lines(fetched["events"])
        assert received(taken[1:]) == [told(each.cursor, each.event) for each in log[len(NASTY) + 1 :]]
        assert before.epoch == (await stage.store.runs.load("", "r1")).run.epoch, "the run did not notice"


@pytest.mark.behaviour("F7")
async def test_an_eventsource_with_a_wrong_cursor_comes_to_the_end_and_stops() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, "a", "b")
        await stage.settle(run)
        async with here.stream("/runs/r1/events", headers={"last-event-id": "999"}) as stream:
            frames = await stream.rest()
            assert names(frames) == [
                "outlast.hello",
                "outlast.gap",
                "run.completed",
                "outlast.caught-up",
                "outlast.end",
            ]
            last = [message.id for message in frames if message.id is not None][-1]
        headers = {"accept": "text/event-stream", "last-event-id": str(last)}
        assert (await here.client.get("/runs/r1/events", headers=headers)).status_code == 204


@pytest.mark.behaviour("A5")
async def test_another_owners_run_is_asked_for_by_its_owner_by_every_request() -> None:
    async with staged() as stage:
        run = await stage.active(owner="a&b")
        await stage.say(run, "x" * 300_000)

        async def may(*_asked: object) -> bool:
            return True

        access = Access(report=stage.facts.append, authorize=may)
        async with site(stage, access=access) as here, here.as_client() as client:
            with pytest.raises(RunNotFound):
                await anext(follow(BASE, "r1", client=client))
            following = follow(BASE, "r1", owner="a&b", after="99", client=client)
            gap = await anext(following)
            assert isinstance(gap, ReceivedGap)
            assert len(gap.snapshot) == 1
            await stage.settle(run)
            assert [each.type async for each in following if isinstance(each, ReceivedEvent)] == ["run.completed"]


# ---- cursors from outside -----------------------------------------------------------------------

DIGITS = "0123456789abcdefABCDEF-+. \x00\r\n\u0661\u00b2"


def fuzzed(dice: random.Random, known: Sequence[str]) -> str:
    match dice.randrange(6):
        case 0:
            return "".join(dice.choice(DIGITS) for _ in range(dice.randrange(24)))
        case 1:
            return f"{dice.randrange(-3, 12)}-{dice.getrandbits(64):016x}"
        case 2:
            return str(dice.choice([2**31, 2**32, 2**63 - 1, 2**63, 2**64, 10**18, 10**19, -1, dice.getrandbits(70)]))
        case 3:
            return dice.choice(known)
        case 4:
            text = list(dice.choice(known))
            text[dice.randrange(len(text))] = dice.choice(DIGITS)
            return "".join(text)
        case _:
            return base64.b64encode(dice.randbytes(dice.randrange(20))).decode()


async def scene(stage: Stage) -> tuple[Run, list[StoredEvent], list[str]]:
    run, other = await stage.active("r1"), await stage.active("r2")
    await stage.say(run, "mine", "mine too", "and mine")
    await stage.say(other, "theirs", "theirs too", "and theirs", "all theirs")
    known = [str(each.cursor) for each in [*await stage.log(run), *await stage.log(other)]]
    return run, list(await stage.log(run)), known


@pytest.mark.attack("Z5")
@pytest.mark.behaviour("F6")
async def test_a_hundred_thousand_cursors_are_refused_told_or_served_at_one_indexed_read_each() -> None:
    async with staged() as stage:
        run, log, known = await scene(stage)
        logs, dice = Logs(stage.store.logs), random.Random(66)
        mine, seen = {str(each.cursor) for each in log}, set[str]()
        for number in range(100_000):
            text = fuzzed(dice, known)
            try:
                cursor = Cursor.parse(text)
            except CursorInvalid:
                seen.add("refused")
                continue
            if number % (400 if cursor.seq > 9 else 8):
                continue  # all are read; some are looked up, of those far ahead few, since each is like the other
            logs.calls.clear()
            place = await locate(logs, run.log, cursor)
            assert (logs.calls["head"], logs.calls["read"]) == (1, 0)
            assert logs.calls["chain_at"] <= 1
            served = cursor.seq == 0 or str(cursor) in mine or (cursor.chain is None and cursor.seq <= 3)
            assert (place.gap is None) == served, text
            seen.add("served" if place.gap is None else place.gap.reason.value)
        assert seen == {"refused", "served", "ahead", "mismatch"}


@pytest.mark.attack("Z5")
@pytest.mark.behaviour("F6")
async def test_no_cursor_gets_another_runs_event_through_any_door() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here:
            _, _, known = await scene(stage)
            dice = random.Random(6)
            accepts = ["application/json", "application/x-ndjson"]
            for _ in range(300):
                handled.logs.calls.clear()
                text = fuzzed(dice, known)
                answer = await here.client.get(
                    "/runs/r1/events", params={"after": text}, headers={"accept": dice.choice(accepts)}
                )
                assert answer.status_code in {200, 400}
                assert b"theirs" not in answer.content
                assert handled.logs.calls["chain_at"] <= 1
                assert handled.logs.calls["read"] <= 2, "the page, and the snapshot once per head"
                if answer.status_code == 400:
                    assert answer.json()["code"] == "cursor_invalid"
            giant = await here.client.get("/runs/r1/events", headers={"last-event-id": "1" * 1_000_000})
            assert (giant.status_code, giant.json()["code"]) == (400, "cursor_invalid")


@given(st.text(max_size=40))
@pytest.mark.behaviour("F6")
def test_a_text_is_a_cursor_that_writes_itself_again_or_is_refused(text: str) -> None:
    try:
        cursor = Cursor.parse(text)
    except CursorInvalid:
        return
    assert str(cursor) == (text or "0") or cursor.seq == 0
