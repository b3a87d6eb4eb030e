import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlencode

import anyio
import pytest
from starlette.requests import Request

from outlast.errors import StoreUnavailable
from outlast.facts import Departure, ReaderClosed, ReaderOpened, StoreTroubled
from outlast.log.cursor import Cursor
from outlast.log.event import Event, StoredEvent
from outlast.run import TERMINALS, Cancelled, Completed, Failed, FailureCode, Outcome, Run
from outlast.server.readers import ring
from outlast.server.readers.feed import PAGE
from outlast.server.readers.place import Place, locate
from outlast.server.readers.reader import Reader
from outlast.server.readers.room import SEND_WITHIN
from outlast.server.readers.snapshot import Snapshots
from outlast.server.readers.view import WHOLE, View
from outlast.server.routes.events import Events
from outlast.server.seats import Seats
from outlast.stores.base import LogStore
from outlast.wire import native
from outlast.wire.sse import Message
from tests.stage import Handled, Logs, Site, Stage, Wire, events, names, site, staged, turns

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


async def everything(stage: Stage, run: Run) -> list[tuple[Cursor, Event]]:
    return [(stored.cursor, stored.event) for stored in await stage.log(run)]


async def open_reader(here: Site, run: Run, after: Cursor | None = None) -> Reader:
    place = await locate(here.hub._room.logs, run.log, after or Cursor(0, None))
    return here.hub.reader(run, place)


@asynccontextmanager
async def reading(here: Site, run: Run, wire: Wire, after: Cursor | None = None) -> AsyncIterator[asyncio.Task[None]]:
    """Serve one reader in a task, as a server does; the block's end is the client's leaving."""
    reader = await open_reader(here, run, after)
    serving = asyncio.create_task(reader({"type": "http"}, wire.receive, wire.send))
    try:
        yield serving
    finally:
        wire.left.set()
        await serving


# ---- the order of a stream ----------------------------------------------------------------------


@pytest.mark.behaviour("F1", "F10")
async def test_a_stream_is_hello_then_the_log_then_live_then_the_end() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, "a", "b")
        async with here.stream("/runs/r1/events") as stream:
            assert names(await stream.until("outlast.caught-up")) == [
                "outlast.hello",
                "text",
                "text",
                "outlast.caught-up",
            ]
            await stage.say(run, "c")
            await stream.until("text")
            await stage.settle(run)
            assert names(await stream.rest()) == ["run.completed", "outlast.end"]
            assert events(stream.seen) == await everything(stage, run)
            assert stream.raw.startswith(b": hello\n\n")
            assert b"\r" not in stream.raw
        await turns()  # the server is told of the end after its client
        assert stage.facts == [
            ReaderOpened(run=run.log),
            ReaderClosed(run=run.log, departure=Departure.ENDED),
        ]


@pytest.mark.behaviour("F1")
async def test_what_is_said_last_comes_along_with_the_last_events() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, "a")
        live = Wire()
        async with reading(here, run, live):
            await turns()
            await stage.settle(run)
            await turns()
            assert live.complete
        late = Wire()
        async with reading(here, run, late):
            await turns()
            assert late.complete
        for wire in (live, late):
            assert b"event: run.completed\n" in wire.sent[-1]["body"]
            assert wire.sent[-1]["body"].count(b"event: outlast.end\n") == 1
            bodies = [message.get("body", b"") for message in wire.sent]
            assert not any(body.startswith((b"event: outlast.caught-up", b"event: outlast.end")) for body in bodies)


@pytest.mark.behaviour("F10")
async def test_the_first_frame_comes_at_once_of_a_run_that_says_nothing() -> None:
    async with staged() as stage, site(stage) as here:
        await stage.start()
        async with here.stream("/runs/r1/events") as stream:
            hello = native.control_from_frame(await stream.next())  # type: ignore[arg-type]
            assert asyncio.get_running_loop().time() == 0
            assert hello is not None
            assert (hello.said["boot_id"], hello.said["heartbeat"]) == ("b00t", 10.0)
            assert str(hello.said["head"]).startswith("0-")


@pytest.mark.behaviour("F1")
async def test_resumed_at_every_place_it_is_the_same_log() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, *"abcdefgh")
        await stage.settle(run)
        log = await everything(stage, run)
        for seen, (cursor, _) in enumerate(log[:-1], start=1):
            async with here.stream("/runs/r1/events", headers={"last-event-id": str(cursor)}) as stream:
                assert events(await stream.rest()) == log[seen:]


@pytest.mark.behaviour("F4", "F5")
@pytest.mark.parametrize(
    "outcome",
    [Completed(), Completed(result=b"1"), Cancelled(reason="x"), Failed(code=FailureCode.WORKER_ERROR, message="m")],
)
async def test_every_terminal_closes_the_live_and_the_late_stream(outcome: Outcome) -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        async with here.stream("/runs/r1/events") as live:
            await live.until("outlast.caught-up")
            await stage.settle(run, outcome)
            terminal, end = names(await live.rest())
        assert terminal in TERMINALS
        assert end == "outlast.end"
        async with here.stream("/runs/r1/events") as late:
            assert names(await late.rest()) == ["outlast.hello", terminal, "outlast.caught-up", "outlast.end"]


@pytest.mark.behaviour("F10")
async def test_what_is_at_hand_comes_in_one_piece_with_the_hello() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, "a")
        await stage.settle(run)
        first, second = Wire(), Wire()
        for wire in (first, second):
            await (await open_reader(here, run))({"type": "http"}, wire.receive, wire.send)
        assert (len(first.sent), len(second.sent)) == (3, 2), "the first one waited for the store, after its hello"
        assert first.messages == second.messages
        assert names(second.messages)[0] == "outlast.hello"


@pytest.mark.behaviour("F10")
async def test_who_waits_for_the_store_has_heard_the_hello() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, "a")
        wire = Wire()
        async with here.hub._room.reading, reading(here, run, wire):
            await turns()
            assert names(wire.messages) == ["outlast.hello"]


@pytest.mark.behaviour("F7", "F8")
async def test_a_gap_is_told_with_the_snapshot_and_the_stream_goes_on_behind_it() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        head = await stage.say(run, "a", "b")
        row = (await stage.store.runs.load("", "r1")).run
        async with here.stream("/runs/r1/events?after=9") as stream:
            before = await stream.until("outlast.caught-up")
            assert names(before) == ["outlast.hello", "outlast.gap", "outlast.caught-up"]
            gap = native.control_from_frame(before[1])
            assert gap is not None
            snapshot: Any = gap.said["snapshot"]
            assert {**gap.said, "snapshot": 0} == {
                "reason": "ahead",
                "requested": "9",
                "first": 1,
                "cursor": str(head),
                "snapshot": 0,
            }
            assert [(event["seq"], event["data"]) for event in snapshot["events"]] == [(2, "ab")]
            await stage.say(run, "c")
            assert [event.data for _, event in events(await stream.until("text"))] == ["c"]
        assert (await stage.store.runs.load("", "r1")).run == row, "the run does not notice"


@pytest.mark.behaviour("F16")
async def test_a_snapshot_that_was_sent_is_held_by_nobody() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, "x" * 100_000)
        async with here.stream("/runs/r1/events?after=9") as stream:
            await stream.until("outlast.caught-up")
            (reader,) = here.hub._room.readers
            held = [getattr(reader, name, None) for name in Reader.__slots__ if name != "__weakref__"]
            assert not [each for each in held if isinstance(each, bytes) and len(each) > 1000]


async def test_behind_a_gap_without_a_bridge_comes_everything_that_is_left() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, "a", "b")
        await stage.settle(run)
        wire = Wire()
        await (await open_reader(here, run, Cursor(9, None)))({"type": "http"}, wire.receive, wire.send)
        assert names(wire.messages)[:2] == ["outlast.hello", "outlast.gap"]
        assert events(wire.messages) == await everything(stage, run)


@pytest.mark.behaviour("F1")
@pytest.mark.case(111)
async def test_a_view_is_the_same_events_live_resumed_and_late_and_no_gap_is_told() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        path = "/runs/r1/events?types=A"
        seen: list[Message] = []
        cursor = ""
        for part in range(6):
            await stage.say(run, *(Event("ABC"[number % 3], [part, number]) for number in range(200)))
            async with here.stream(path, headers={"last-event-id": cursor} if cursor else {}) as stream:
                await stream.until("outlast.caught-up")
                await stage.say(run, Event("B"), Event("A", "live"))
                await stream.until("A")
                seen += [message for message in stream.seen if message.id is not None]
                assert "outlast.gap" not in names(stream.seen)
                cursor = str(seen[-1].id)
        await stage.settle(run)
        wanted = [each for each in await everything(stage, run) if each[1].type in {"A", "run.completed"}]
        async with here.stream(path) as late:
            assert events(await late.rest()) == wanted
        assert events(seen) == wanted[:-1]
        async with here.stream(path, headers={"last-event-id": cursor}) as last:
            assert names(await last.rest()) == ["outlast.hello", "run.completed", "outlast.caught-up", "outlast.end"]


@pytest.mark.case(111)
async def test_a_heartbeat_tells_a_place_behind_what_a_view_left_out() -> None:
    async with staged() as stage, site(stage, heartbeat=5.0) as here:
        run = await stage.active()
        async with here.stream("/runs/r1/events?types=A", timeout=None) as stream:
            await stream.until("outlast.heartbeat")
            head = await stage.say(run, *(Event("B", number) for number in range(3)))
            beat: native.Control | None = None
            while beat is None or beat.said["head"] != str(head):
                beat = native.control_from_frame((await stream.until("outlast.heartbeat"))[-1])
            assert not events(stream.seen)
        async with here.stream("/runs/r1/events?types=A", headers={"last-event-id": str(head)}) as resumed:
            assert names(await resumed.until("outlast.caught-up")) == ["outlast.hello", "outlast.caught-up"]


async def test_a_view_that_shows_nothing_of_a_long_log_reads_through_it() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, *map(str, range(2000)))
        await stage.settle(run)
        async with here.stream("/runs/r1/events?types=none") as stream:
            assert names(await stream.rest()) == ["outlast.hello", "run.completed", "outlast.caught-up", "outlast.end"]


@pytest.mark.behaviour("F1")
async def test_envelopes_are_the_events_of_a_page_live_and_late() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        async with here.stream("/runs/r1/events?envelope=1") as live:
            await live.until("outlast.caught-up")
            await stage.say(run, "a\r\n", Event("bytes", bytes(range(256))))
            await stage.settle(run)
            await live.rest()
        async with here.stream("/runs/r1/events?envelope=1") as late:
            await late.rest()
        log = [native.event_json(stored) for stored in await stage.log(run)]
        for stream in (live, late):
            stored = [message for message in stream.seen if message.id is not None]
            assert [message.data for message in stored] == log
            assert {message.event for message in stored} == {"message"}


@pytest.mark.behaviour("F2")
@pytest.mark.case(23, 151)
async def test_nothing_is_seen_that_is_not_stored() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        wire = Wire()
        async with reading(here, run, wire):
            for number in range(20):
                await stage.say(run, str(number))
                await turns(3)
                stored = await everything(stage, run)
                seen = events(wire.messages)
                assert seen == stored[: len(seen)]
        assert len(events(wire.messages)) > 0


@pytest.mark.behaviour("F5")
async def test_a_replay_needs_the_store_and_no_controller() -> None:
    async with staged() as stage:
        run = await stage.active()
        await stage.say(run, *map(str, range(1000)))
        await stage.release(run)  # its controller is gone
        async with site(stage) as here, here.stream("/runs/r1/events") as stream:
            assert events(await stream.until("outlast.caught-up")) == await everything(stage, run)
            assert asyncio.get_running_loop().time() == 0


# ---- the seam -----------------------------------------------------------------------------------


class Seam:
    """Orders the store's calls by a seed: each waits a while before and after, or lets the writer go first.

    What wake-ups bring along is lost, late or cut short, and sometimes comes as it should.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._late: Sequence[StoredEvent] = []

    async def dawdle(self, _call: str = "") -> None:
        for _ in range(self.random.choice((0, 0, 0, 1, 2, 5))):
            await asyncio.sleep(0)

    def news(self, news: Sequence[StoredEvent]) -> Sequence[StoredEvent]:
        late, self._late = self._late, []
        match self.random.choice(("whole", "lost", "late", "short")):
            case "lost":
                return []
            case "late":
                self._late = news
                return late
            case "short":
                return news[: self.random.randint(0, len(news))]
            case _:
                return news


VIEWS = [WHOLE, WHOLE, View(types=frozenset({"text"})), View(types=frozenset({"odd"})), View(types=frozenset({"none"}))]


async def write(stage: Stage, run: Run, seam: Seam, total: int) -> None:
    said = 0
    while said < total:
        batch = min(seam.random.choice((1, 1, 2, 7)), total - said)
        texts = [f"{said + number}" * seam.random.choice((1, 40)) for number in range(batch)]
        await stage.say(run, *(Event(seam.random.choice(("text", "text", "odd")), text) for text in texts))
        said += batch
        await seam.dawdle()
    await stage.settle(run)


Taken = list[tuple[Cursor, Event]]


async def stream(reader: Reader, seed: int) -> Taken:
    """Take a log from a stream, which is whole."""
    wire = Wire()
    await reader({"type": "http"}, wire.receive, wire.send)
    controls = [name for name in names(wire.messages) if name.startswith("outlast.")]
    assert controls == ["outlast.hello", "outlast.caught-up", "outlast.end"], f"seed {seed}"
    assert wire.complete
    return events(wire.messages)


async def tapped(here: Site, logs: LogStore, run: Run, place: Place, view: View) -> Taken:
    """Take a log in this process's own code."""
    flow = here.hub.tap(run, place, view=view).flow(Snapshots(logs))
    return [(each.cursor, each.event) async for each in flow if isinstance(each, StoredEvent)]


async def paged(here: Site, logs: LogStore, run: Run, after: Cursor, view: View, *, limit: int = 3) -> Taken:
    """Take a log by pages that wait."""
    doors, seats, found, ended = Events(here.stage.intake, logs, here.hub), Seats(), Taken(), False
    types = {} if view.types is None else {"types": ",".join(view.types)}
    while not ended:
        query = urlencode({"wait": 60, "limit": limit, "after": str(after), **types}).encode()
        scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": query}
        answer: Any = await seats.seat(
            await doors.tell(Request(scope, Wire().receive), owner="", id=run.id, snapshot=""), owner=""
        )
        page = json.loads(answer.body)
        found += [native.event_from_json(each) for each in page["events"]]
        after, ended = Cursor.parse(page["next"]), page["ended"]
    return found


async def interleave(here: Site, logs: Logs, seed: int) -> None:
    stage, seam = here.stage, Seam(seed)
    logs.before = logs.after = seam.dawdle
    logs.news = seam.news
    logs.deaf = seed % 5 == 0
    run = await stage.active(f"r{seed}")
    writer = asyncio.create_task(write(stage, run, seam, seam.random.randrange(1, 16)))
    taking: list[tuple[View, Cursor, asyncio.Task[Taken]]] = []
    for kind in ("stream", "stream", "tap", "pages"):
        await seam.dawdle()
        after = seam.random.choice([Cursor(0, None), *(cursor for cursor, _ in await everything(stage, run))])
        view = seam.random.choice(VIEWS)
        place = await locate(logs, run.log, after)
        if place.is_end:
            continue
        reader = here.hub.reader(run, place, view=view)
        feed = here.hub._feed(run, place.head)  # where the log goes on, the one that all of them get
        feed.ring._limit = seam.random.choice((60, 300, ring.LIMIT))
        feed.ring._chunk = seam.random.choice((30, 200, ring.CHUNK))
        match kind:
            case "tap":
                taken = tapped(here, logs, run, place, view)
            case "pages":
                taken = paged(here, logs, run, after, view)
            case _:
                taken = stream(reader, seed)
        taking.append((view, after, asyncio.create_task(taken)))
    await writer
    log = await everything(stage, run)
    for view, after, task in taking:
        assert await task == [each for each in log[after.seq :] if view.shows(each[1].type)], f"seed {seed}"


@pytest.mark.behaviour("F3")
@pytest.mark.case(61, 143)
@pytest.mark.parametrize("block", range(10))
async def test_no_hole_and_no_double_where_replay_meets_live(block: int) -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here:
            for seed in range(block * 100, block * 100 + 100):
                await interleave(here, handled.logs, seed)


@pytest.mark.behaviour("F3")
@pytest.mark.case(61)
async def test_an_event_written_between_the_replay_and_the_live_part_comes_once() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here:
            run = await stage.active()
            await stage.say(run, "a")
            wire, replayed, go_on = Wire(), asyncio.Event(), asyncio.Event()

            async def hold(call: str) -> None:
                if call == "read" and not replayed.is_set():
                    replayed.set()
                    await go_on.wait()

            handled.logs.after = hold
            async with reading(here, run, wire):
                await replayed.wait()  # the replay has been read, the feed has not
                await stage.say(run, "between")
                go_on.set()
                await turns()
                assert events(wire.messages) == await everything(stage, run)


@pytest.mark.behaviour("F4")
async def test_with_every_wake_up_lost_an_event_and_the_end_come_within_a_poll() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        handled.logs.deaf = True
        async with site(stage, handled=handled) as here:
            run = await stage.active()
            clock = asyncio.get_running_loop().time
            async with here.stream("/runs/r1/events") as stream:
                await stream.until("outlast.caught-up")
                said_at = clock()
                await stage.say(run, "a")
                await stream.until("text")
                assert clock() - said_at <= 1.0
                settled_at = clock()
                await stage.settle(run)
                assert names(await stream.rest()) == ["run.completed", "outlast.end"]
                assert clock() - settled_at <= 1.0


async def test_a_reader_that_fell_behind_the_ring_goes_on_from_the_log() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        wire = Wire.stalled()
        async with reading(here, run, wire):
            await turns()
            for number in range(40):
                await stage.say(run, str(number) * 30_000)
                await turns(5)
            assert wire.room is not None
            wire.room.set()
            await turns(500)
            assert events(wire.messages) == await everything(stage, run)


@pytest.mark.behaviour("F3")
@pytest.mark.case(109)
async def test_a_cursor_from_before_the_ring_gets_everything_from_the_log_and_no_gap_at_any_door() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        live = Wire()
        async with reading(here, run, live):
            for _ in range(ring.LIMIT // 4096 // 50 + 11):
                await stage.say(run, *(str(number % 10) * 4096 for number in range(50)))
                await turns(20)
            kept = here.hub._feed(run, (await locate(stage.store.logs, run.log, Cursor(0, None))).head).ring
            assert kept.base > 505
            log = await everything(stage, run)
            assert kept.tail == len(log)
            old = log[4][0]
            async with here.stream("/runs/r1/events", headers={"last-event-id": str(old)}) as stream:
                told = await stream.until("outlast.caught-up")
                assert "outlast.gap" not in names(told)
                assert events(told) == log[5:]
            await stage.settle(run)
            log = await everything(stage, run)
            assert await paged(here, stage.store.logs, run, old, WHOLE, limit=500) == log[5:]
            place = await locate(stage.store.logs, run.log, old)
            assert await tapped(here, stage.store.logs, run, place, WHOLE) == log[5:]


async def test_a_client_that_takes_all_at_once_does_not_keep_the_loop_to_itself() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here:
            run = await stage.active()
            await stage.say(run, *map(str, range(3000)))
            await stage.settle(run)
            wire, reader = Wire(), await open_reader(here, run)
            serving = asyncio.create_task(reader({"type": "http"}, wire.receive, wire.send))
            others = 0
            while not serving.done():
                others += 1
                await asyncio.sleep(0)
            assert len(events(wire.messages)) == 3001
            assert others >= handled.logs.calls["read"] >= 10


async def cold(here: Site, logs: Logs, id: str, count: int) -> tuple[int, int]:
    """Read a finished run of so many tokens from its start; return the pages of the log and the turns that it took."""
    stage, tokens = here.stage, [f"{number % 10} " for number in range(count)]
    run = await stage.active(id)
    for start in range(0, count, 500):
        await stage.say(run, *tokens[start : start + 500])
    await stage.settle(run)
    logs.calls.clear()
    wire, reader, turned = Wire(), await open_reader(here, run), 0
    serving = asyncio.create_task(reader({"type": "http"}, wire.receive, wire.send))
    while not serving.done():
        turned += 1
        await asyncio.sleep(0)
    pages = logs.calls["read"]
    assert max(len(message.get("body", b"")) for message in wire.sent) <= 2 * ring.CHUNK
    received = [event.data for _, event in events(wire.messages) if event.type == "text"]
    assert received == tokens
    whole, end = (await here.client.get(f"/runs/{id}/snapshot")).json()["events"]  # what a page shows first
    assert (whole["type"], whole["seq"], whole["data"]) == ("text", count, "".join(tokens))
    assert end["type"] == "run.completed"
    return pages, turned


@pytest.mark.behaviour("F8")
@pytest.mark.case(141)
@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
async def test_four_times_as_many_tokens_are_replayed_in_four_times_as_many_pages_and_turns(count: int) -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here:
            few, many = await cold(here, handled.logs, "few", count), await cold(here, handled.logs, "many", 4 * count)
    for once, fourfold in zip(few, many, strict=True):
        assert 3 * once < fourfold < 5 * once
    assert few[0] >= count / PAGE, "a page is bounded"
    assert few[1] >= few[0], "and the loop turns between two pages"


class Sated(Wire):
    """A client that takes nothing more once it has been sent an event."""

    async def send(self, message: Any) -> None:
        await super().send(message)
        if events(self.messages):
            await self.left.wait()


@pytest.mark.behaviour("F13")
async def test_a_crowd_at_the_same_place_of_an_ended_log_shares_what_is_read_of_it() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here, AsyncExitStack() as crowd:
            run = await stage.active()
            await stage.say(run, *(str(number) * ring.CHUNK for number in range(3)))
            await stage.settle(run)
            wires = [Sated() for _ in range(20)]
            for wire in wires:
                await crowd.enter_async_context(reading(here, run, wire))
            await turns(500)
            assert all(events(wire.messages) for wire in wires)
            assert handled.logs.calls["read"] == 1
            await crowd.aclose()
            late = Sated()
            async with reading(here, run, late):
                await turns(500)
                assert events(late.messages)
                assert handled.logs.calls["read"] == 1  # kept for those who come next


async def test_of_a_crowd_at_many_places_one_reads_per_turn_of_the_loop_and_each_gets_its_own() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here, AsyncExitStack() as crowd:
            run = await stage.active()
            await stage.say(run, *(str(number) for number in range(60)))
            await stage.settle(run)
            log = await everything(stage, run)
            wires = [Wire() for _ in range(40)]
            for seen, wire in enumerate(wires, start=1):
                await crowd.enter_async_context(reading(here, run, wire, log[seen - 1][0]))
            for _ in range(200):
                before = handled.logs.calls["read"]
                await asyncio.sleep(0)
                assert handled.logs.calls["read"] - before <= 1
            assert [events(wire.messages) for wire in wires] == [log[seen:] for seen in range(1, 41)]


async def test_a_huge_event_travels_in_parts_that_a_server_can_hold() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, Event("bytes", b"\x00" * (8 * 1024 * 1024)))
        wire = Wire()
        async with reading(here, run, wire):
            await turns()
            assert events(wire.messages) == await everything(stage, run)
            assert max(len(message.get("body", b"")) for message in wire.sent) <= 2 * ring.CHUNK


# ---- leaving, stalling, failing -----------------------------------------------------------------


@pytest.mark.behaviour("F11")
async def test_a_client_that_leaves_frees_its_reader_and_touches_nothing() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        wire = Wire()
        serving = asyncio.create_task((await open_reader(here, run))({"type": "http"}, wire.receive, wire.send))
        await turns()
        assert here.hub.readers == 1
        wire.left.set()
        await serving
        assert here.hub.readers == 0
        assert stage.facts[-1] == ReaderClosed(run=run.log, departure=Departure.LEFT)
        assert not wire.complete
        assert asyncio.get_running_loop().time() == 0
        assert (await stage.store.runs.load("", "r1")).run == run


@pytest.mark.behaviour("F11")
async def test_a_client_that_leaves_while_it_is_sent_to_or_the_store_is_asked_frees_its_reader() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here:
            run = await stage.active()
            await stage.say(run, "a")
            wire = Wire.stalled()
            async with reading(here, run, wire):
                await turns()
            assert here.hub.readers == 0

            async def never(call: str) -> None:
                if call == "read":
                    await asyncio.get_running_loop().create_future()

            handled.logs.before = never
            async with reading(here, run, Wire()):
                await turns()
                assert here.hub.readers == 1
            assert here.hub.readers == 0


@pytest.mark.behaviour("F11")
@pytest.mark.case(15)
async def test_a_reader_whose_send_swallows_its_cancellation_ends() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        wire, reader = Wire(), await open_reader(here, run)
        stuck = asyncio.Event()

        async def deaf(message: Any) -> None:
            await wire.send(message)
            with suppress(asyncio.CancelledError):
                stuck.set()
                await asyncio.get_running_loop().create_future()

        serving = asyncio.create_task(reader({"type": "http"}, wire.receive, deaf))
        await stuck.wait()
        wire.left.set()
        await serving
        assert len(wire.sent) == 1
        assert here.hub.readers == 0


@pytest.mark.behaviour("F11")
async def test_a_server_that_raises_from_send_ends_the_reader() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        reader, wire = await open_reader(here, run), Wire()

        async def broken(message: Any) -> None:
            if message["type"] == "http.response.body":
                raise BrokenPipeError

        await reader({"type": "http"}, wire.receive, broken)
        assert here.hub.readers == 0


@pytest.mark.behaviour("F11", "F14")
async def test_a_server_that_can_no_longer_tell_who_left_ends_the_reader() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()

        async def receive() -> Any:
            raise ConnectionError("lost")

        reader = await open_reader(here, run)
        await reader({"type": "http"}, receive, Wire().send)
        assert here.hub.readers == 0
        assert stage.facts[-1] == ReaderClosed(run=run.log, departure=Departure.LEFT)


async def test_cancellation_that_comes_again_at_every_wait_ends_the_reader() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        reader, wire = await open_reader(here, run), Wire()
        async with anyio.create_task_group() as group:  # as in Starlette's own middleware
            group.start_soon(reader, {"type": "http"}, wire.receive, wire.send)
            await turns()
            assert here.hub.readers == 1
            group.cancel_scope.cancel()
        assert here.hub.readers == 0


@pytest.mark.behaviour("F14")
async def test_two_hundred_readers_that_come_and_go_leave_nothing() -> None:
    dice = random.Random(14)
    async with staged() as stage:
        async with site(stage) as here:
            run = await stage.active()

            async def visit() -> None:
                wire = Wire()
                async with reading(here, run, wire):
                    await turns(dice.randrange(60))

            async with asyncio.TaskGroup() as visits:
                for number in range(200):
                    visits.create_task(visit())
                    if number % 10 == 0:
                        await stage.say(run, str(number))
                    await turns(dice.randrange(5))
            assert here.hub.readers == 0
        assert here.hub.feeds == 0


@pytest.mark.behaviour("F13")
@pytest.mark.case(49)
async def test_a_client_that_never_says_a_word_stays_for_as_long_as_its_sends_return() -> None:
    """What it does not read lies in the kernel's buffers; nobody asks it for a sign of life."""
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        wire = Wire()
        async with reading(here, run, wire):
            for number in range(9):
                await asyncio.sleep(2 * SEND_WITHIN)
                await stage.say(run, str(number))
            await turns()
            assert here.hub.readers == 1
            assert events(wire.messages) == await everything(stage, run)
            wire.room = asyncio.Event()  # from now on the buffers are full
            await stage.say(run, "more than fits")
            await asyncio.sleep(2 * SEND_WITHIN)
            assert here.hub.readers == 0


@pytest.mark.behaviour("F13")
async def test_a_client_that_takes_nothing_is_dropped_and_the_others_are_not() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        stalled, other = Wire.stalled(), Wire()
        clock = asyncio.get_running_loop().time
        async with reading(here, run, other), reading(here, run, stalled) as serving:
            await serving
            assert SEND_WITHIN <= clock() <= SEND_WITHIN + 5
            assert not stalled.complete
            assert here.hub.readers == 1
            assert stage.facts[-1] == ReaderClosed(run=run.log, departure=Departure.STALLED)
            await stage.say(run, "a")
            await turns()
            assert [event for _, event in events(other.messages)] == [Event("text", "a")]


@pytest.mark.behaviour("F13")
@pytest.mark.parametrize("stalled", [0, 60])
async def test_an_event_is_at_its_readers_after_as_many_turns_whoever_stalls_beside_them(stalled: int) -> None:
    async with staged() as stage, site(stage) as here, AsyncExitStack() as crowd:
        run = await stage.active()
        for _ in range(stalled):
            await crowd.enter_async_context(reading(here, run, Wire.stalled()))
        wires = [Wire() for _ in range(3)]
        for wire in wires:
            await crowd.enter_async_context(reading(here, run, wire))
        await turns()
        assert here.hub.readers == stalled + 3
        for number in range(1, 100):
            await stage.say(run, "x" * 10_000)
            await turns(4)
            assert [len(events(wire.messages)) for wire in wires] == [number] * 3
        assert asyncio.get_running_loop().time() == 0


@pytest.mark.behaviour("F9")
@pytest.mark.parametrize("call", ["read", "head"])
async def test_a_store_that_fails_sends_the_reader_away_to_come_again(call: str) -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here:
            run = await stage.active()
            async with here.stream("/runs/r1/events") as stream:
                await stream.until("outlast.caught-up")

                async def fail(asked: str) -> None:
                    if asked == call:
                        raise StoreUnavailable("away")

                handled.logs.before = fail
                await stage.settle(run)
                # What was read is durable and is told; that nothing follows it was not read, and is not.
                assert names(await stream.rest()) == {"read": [], "head": ["run.completed"]}[call]
                assert stream.parser.retry == 2000
        assert StoreTroubled(during="feed", error="store_unavailable") in stage.facts


@pytest.mark.behaviour("F9")
async def test_a_store_that_fails_a_replay_sends_the_reader_away_to_come_again() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here:
            run = await stage.active()
            await stage.say(run, *(str(number) for number in range(600)))
            await stage.settle(run)

            async def fail_later(call: str) -> None:
                if call == "read" and handled.logs.calls["read"] > 1:
                    raise StoreUnavailable("away")

            handled.logs.before = fail_later
            async with here.stream("/runs/r1/events") as stream:
                seen = events(await stream.rest())
                assert seen == (await everything(stage, run))[: len(seen)]
                assert 0 < len(seen) < 600
                assert stream.parser.retry == 2000
        assert stage.facts == [
            ReaderOpened(run=run.log),
            StoreTroubled(during="reader", error="store_unavailable"),
            ReaderClosed(run=run.log, departure=Departure.TROUBLE),
        ]


async def test_a_log_that_ends_before_its_head_is_reported_and_not_taken_for_its_end() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, "a")
        await stage.settle(run)
        reader = await open_reader(here, run)
        reader._goal = Cursor(9, None)
        wire = Wire()
        await reader({"type": "http"}, wire.receive, wire.send)
        assert "outlast.end" not in names(wire.messages)
        assert stage.facts == [
            ReaderOpened(run=run.log),
            StoreTroubled(during="reader", error="store_corrupt"),
            ReaderClosed(run=run.log, departure=Departure.TROUBLE),
        ]
