import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from outlast.log.cursor import Cursor
from outlast.log.event import Event, StoredEvent
from outlast.log.fold import MERGED, fold
from outlast.run import Run
from outlast.server.readers.place import locate
from outlast.server.readers.snapshot import INLINE_BYTES, INLINE_EVENTS, KEPT, PAGE, PAGE_BYTES, Snapshots, is_small
from outlast.server.readers.view import WHOLE, View
from outlast.wire import native
from tests.stage import Logs, Stage, site, staged

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]
WRONG = Cursor(1, b"\0" * 8)


async def bridged(snapshots: Snapshots, logs: Logs, run: Run, view: View = WHOLE) -> native.Bridge:
    place = await locate(logs, run.log, WRONG)
    behind = await snapshots.bridge(run.log, place, view, url="/there")
    assert behind.bridge is not None
    assert behind.after == behind.bridge.cursor.seq
    return behind.bridge


def lines(stored: list[StoredEvent]) -> list[Any]:
    return [json.loads(native.event_json(each)) for each in stored]


def document(bridge: native.Bridge) -> Any:
    assert bridge.snapshot is not None
    return json.loads(bridge.snapshot)


def babble(dice: random.Random, count: int) -> list[Event]:
    said: list[Event] = []
    for number in range(count):
        kind = dice.choice(["text", "text", "text", "tool", "restart"])
        match kind:
            case "text":
                said.append(Event("text", dice.choice("abc\u2028")))
            case "tool":
                said.append(Event("tool", number))
            case _:
                said.append(Event("run.restarted", {"keep": 0}))
    return said


async def whole(snapshots: Snapshots, logs: Logs, run: Run) -> list[StoredEvent]:
    found: list[StoredEvent] = []
    async for part in snapshots.folded(run.log, await logs.head(run.log)):
        found += part
    return found


@pytest.mark.behaviour("F8")
async def test_a_snapshot_and_what_follows_its_cursor_are_the_whole_at_a_hundred_places() -> None:
    async with staged() as stage:
        logs, dice = Logs(stage.store.logs), random.Random(8)
        snapshots = Snapshots(logs)
        run = await stage.active()
        taken: list[tuple[int, list[StoredEvent], Any]] = []
        for _ in range(100):
            await stage.say(run, *babble(dice, dice.randrange(1, 9)))
            head = (await logs.head(run.log)).cursor
            bridge = await bridged(snapshots, logs, run)
            assert bridge.cursor == head
            taken.append((head.seq, await whole(snapshots, logs, run), document(bridge)))
        log = list(await stage.log(run))
        for seq, folded, said in taken:
            assert folded == fold(log[:seq])
            assert said["events"] == lines(folded)
            assert fold([*folded, *log[seq:]]) == fold(log)


@pytest.mark.behaviour("F8")
async def test_a_text_is_never_merged_across_a_mark_that_a_later_restart_keeps() -> None:
    async with staged() as stage:
        logs = Logs(stage.store.logs)
        snapshots = Snapshots(logs)
        run = await stage.active()
        await stage.say(run, "kept ", "words", Event("run.checkpoint", {}), "lost")
        before = await whole(snapshots, logs, run)
        await stage.say(run, Event("run.restarted", {"keep": 3}), " again")
        log = list(await stage.log(run))
        assert fold([*before, *log[4:]]) == fold(log) == await whole(snapshots, logs, run)
        texts = [stored.event.data for stored in fold(log) if stored.event.type == "text"]
        assert texts == ["kept words", " again"]


@pytest.mark.attack("Z5")
@pytest.mark.behaviour("F6")
async def test_a_storm_of_wrong_cursors_shares_one_snapshot_per_head() -> None:
    async with staged() as stage:
        logs = Logs(stage.store.logs)
        snapshots = Snapshots(logs)
        run = await stage.active()
        await stage.say(run, *map(str, range(300)))
        made = await asyncio.gather(*(bridged(snapshots, logs, run) for _ in range(500)))
        assert len({bridge.snapshot for bridge in made}) == 1
        assert logs.calls["read"] == -(-300 // PAGE)
        assert logs.calls["head"] == logs.calls["chain_at"] == 500
        await stage.say(run, "more")
        logs.calls.clear()
        made = await asyncio.gather(*(bridged(snapshots, logs, run) for _ in range(500)))
        assert logs.calls["read"] == 1, "only what is new is read"
        assert document(made[0])["events"] == lines(fold(list(await stage.log(run))))


@pytest.mark.behaviour("F7")
async def test_before_a_terminal_event_the_snapshot_stops() -> None:
    async with staged() as stage:
        logs = Logs(stage.store.logs)
        snapshots = Snapshots(logs)
        run = await stage.active()
        cursor = await stage.say(run, "a", "b")
        assert (await bridged(snapshots, logs, run)).cursor == cursor
        await stage.settle(run)
        logs.calls.clear()
        assert (await bridged(snapshots, logs, run)).cursor == cursor
        assert logs.calls["read"] == 0


@pytest.mark.behaviour("F7")
@pytest.mark.parametrize(
    "said",
    [[Event("tool", number) for number in range(INLINE_EVENTS + 1)], [Event("bytes", b"x" * (INLINE_BYTES + 1))]],
    ids=["many", "large"],
)
async def test_a_large_snapshot_is_told_by_its_address_and_nothing_is_read(said: list[Event]) -> None:
    async with staged() as stage:
        logs = Logs(stage.store.logs)
        snapshots = Snapshots(logs)
        run = await stage.active()
        head = await stage.say(run, *said)
        assert await bridged(snapshots, logs, run) == native.Bridge(cursor=head, url="/there")
        await stage.settle(run)
        assert await bridged(snapshots, logs, run) == native.Bridge(cursor=Cursor(head.seq, None), url="/there")
        assert logs.calls["read"] == 0


async def test_as_much_as_stands_in_an_answer_is_small() -> None:
    async with staged() as stage:
        run = await stage.active()
        await stage.say(run, *(Event("tool", number) for number in range(INLINE_EVENTS)))
        assert is_small(await stage.store.logs.head(run.log))
        other = await stage.active("r2")
        await stage.say(other, Event("bytes", b"x" * INLINE_BYTES))
        assert is_small(await stage.store.logs.head(other.log))


async def test_a_view_sees_its_part_of_a_shared_snapshot() -> None:
    async with staged() as stage:
        logs = Logs(stage.store.logs)
        snapshots = Snapshots(logs)
        run = await stage.active()
        await stage.say(run, "a", Event("tool", 1), "b")
        only = document(await bridged(snapshots, logs, run, View(types=frozenset({"tool"}))))
        assert [event["type"] for event in only["events"]] == ["tool"]
        assert len(document(await bridged(snapshots, logs, run))["events"]) == 3
        assert logs.calls["read"] == 1


async def test_few_snapshots_are_kept() -> None:
    async with staged() as stage:
        logs = Logs(stage.store.logs)
        snapshots = Snapshots(logs)
        for number in range(KEPT + 5):
            run = await stage.active(f"r{number}")
            await stage.say(run, "a")
            await bridged(snapshots, logs, run)
        assert len(snapshots._kept) == KEPT
        assert not snapshots._turns


async def test_a_log_with_another_past_is_folded_anew() -> None:
    async with staged() as stage:
        run, other = await stage.active("r1"), await stage.active("r2")
        await stage.say(run, "a")
        await stage.say(other, "x", "y", "z")
        logs = Logs(stage.store.logs)
        snapshots = Snapshots(logs)
        await bridged(snapshots, logs, run)
        snapshots._kept[other.log] = snapshots._kept.pop(run.log)
        said = document(await bridged(snapshots, logs, other))
        assert [event["data"] for event in said["events"]] == ["xyz"]


@pytest.mark.fault("X14")
async def test_a_giant_text_is_read_and_sent_in_pieces_whoever_asks_for_it() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        for _ in range(30):
            await stage.say(run, *(["z" * 10_000] * 20))
        pieces = [json.loads(event.event.payload) async for part in _parts(stage, run) for event in part]
        assert "".join(pieces) == "z" * 6_000_000
        assert max(map(len, pieces)) < MERGED + 10_000
        sizes = list[int]()
        async with here.client.stream("GET", "/runs/r1/snapshot") as response:
            async for chunk in response.aiter_raw():
                sizes.append(len(chunk))
        assert sum(sizes) > 6_000_000
        assert max(sizes) < 2 * (MERGED + PAGE_BYTES)


async def _parts(stage: Stage, run: Run) -> AsyncIterator[Sequence[StoredEvent]]:
    async for part in Snapshots(stage.store.logs).folded(run.log, await stage.store.logs.head(run.log)):
        assert sum(len(each.event.payload) for each in part) < 2 * (MERGED + PAGE_BYTES), "what one turn gives"
        yield part


@pytest.mark.fault("X14")
@pytest.mark.parametrize("size", [20_000, pytest.param(200_000, marks=pytest.mark.long)])
async def test_a_giant_log_takes_many_short_turns_of_the_loop(size: int) -> None:
    async with staged() as stage:
        logs = Logs(stage.store.logs)
        snapshots = Snapshots(logs)
        run = await stage.active()
        for _ in range(size // 1000):
            await stage.say(run, *(["word "] * 1000))
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        folded = await whole(snapshots, logs, run)
        counting.cancel()
        assert "".join(str(stored.event.data) for stored in folded) == "word " * size
        assert len(folded) <= 5 * size // MERGED + 1
        pages = -(-size // PAGE)
        assert logs.calls["read"] == 2 * pages
        assert turns >= 2 * pages
