"""How far an application has taken its runs: where a follow goes on, in this process and in the next."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.client.places import KEEP_EVERY, RETRY_EVERY, Mark, Places
from outlast.client.received import Received, ReceivedEvent, ReceivedGap
from outlast.errors import CursorInvalid, StoreBusy, StoreCorrupt, StoreFull
from outlast.log.cursor import Cursor
from outlast.log.event import Event
from outlast.place import Place
from outlast.stores.sqlite.keep import Keep
from outlast.testing import clock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

HERE = "http://here"


class Counted(Keep):
    """Counts what is written, and fails on demand."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.moves: list[list[int]] = []
        self.failure: Exception | None = None
        self.gate: asyncio.Event | None = None

    async def place(self, server: str, place: Place) -> Place | None:
        await asyncio.sleep(0)  # as where others hold the file
        return await super().place(server, place)

    async def move(self, server: str, moved: Collection[Place]) -> None:
        places = list(moved)
        if self.failure is not None:
            raise self.failure
        gate, self.gate = self.gate, None  # the next write finds it open
        if gate is not None:
            await gate.wait()
        self.moves.append([place.cursor.seq for place in places])
        await super().move(server, places)


@pytest.fixture
async def keep(tmp_path: Path) -> AsyncIterator[Counted]:
    keep = Counted(tmp_path / "client.db")
    await keep.open()
    yield keep
    await keep.close()


@asynccontextmanager
async def running(keep: Keep) -> AsyncIterator[Places]:
    places = Places(keep, HERE)
    task = asyncio.create_task(places.run())
    try:
        yield places
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await places.end()


async def begin(places: Places, **more: Any) -> Mark:
    return await places.begin(**{"run": "r1", "owner": None, "types": None, "after": None, **more})


def event(seq: int, type: str = "text") -> Received:
    return ReceivedEvent(cursor=Cursor(seq, None), event=Event(type, {}))


async def kept(keep: Keep, server: str = HERE, **more: Any) -> int | None:
    place = Place(**{"run": "r1", "owner": None, "types": None, "cursor": Cursor(0, None), **more})
    found = await keep.place(server, place)
    return None if found is None else found.cursor.seq


# ---- where a reader begins ----


async def test_a_reader_begins_where_the_one_before_had_got_to(keep: Counted) -> None:
    async with running(keep) as places:
        mark = await begin(places)
        assert mark.cursor == Cursor(0, None)
        mark.take(event(1))
        mark.take(event(2))
        await mark.end()
        assert (await begin(places)).cursor.seq == 2
    async with running(keep) as places:
        assert (await begin(places)).cursor.seq == 2


@pytest.mark.parametrize("after", ["", "5", Cursor(5, None), Cursor(0, None)])
async def test_who_says_where_to_begin_looks_after_that_itself(keep: Counted, after: Cursor | str) -> None:
    async with running(keep) as places:
        mark = await begin(places)
        mark.take(event(7))
        await mark.end()
        own = await begin(places, after=after)
        assert own.cursor == (after if isinstance(after, Cursor) else Cursor.parse(after))
        own.take(event(9))
        await own.end()
        assert await kept(keep) == 7
        with pytest.raises(CursorInvalid):
            await begin(places, after="tomorrow")


async def test_each_view_and_each_owner_has_a_place_of_its_own(keep: Counted) -> None:
    async with running(keep) as places:
        for seq, more in enumerate(({}, {"types": ["b", "a", "a"]}, {"owner": "ann"}, {"run": "r2"}), start=1):
            mark = await begin(places, **more)
            assert mark.cursor.seq == 0
            mark.take(event(seq))
            await mark.end()
        assert (await begin(places, types=("a", "b"))).cursor.seq == 2
    assert await kept(keep) == 1
    assert await kept(keep, types="a,b") == 2
    assert await kept(keep, owner="ann") == 3
    assert await kept(keep, run="r2") == 4


async def test_without_a_keeper_nothing_is_kept() -> None:
    places = Places(None, HERE)
    mark = await begin(places)
    mark.take(event(3))
    await mark.end()
    assert (await begin(places)).cursor.seq == 0


async def test_a_place_that_cannot_be_read_is_told_to_who_would_begin_there(keep: Counted) -> None:
    await keep.move(HERE, [Place(run="r1", owner=None, types=None, cursor=Cursor(1, None))])
    assert keep._connection is not None
    keep._connection.execute("UPDATE places SET cursor = 'x'")
    async with running(keep) as places:
        with pytest.raises(StoreCorrupt):
            await begin(places)


# ---- several readers of one run ----


@pytest.mark.behaviour("R3")
async def test_of_several_readers_the_one_furthest_behind_counts(keep: Counted) -> None:
    async with running(keep) as places:
        slow, fast = await begin(places), await begin(places)
        fast.take(event(9))
        slow.take(event(4))
        await asyncio.sleep(1)
        assert await kept(keep) == 4
        slow.take(event(9))
        await asyncio.sleep(1)
        assert await kept(keep) == 9


@pytest.mark.behaviour("R3")
async def test_what_a_reader_that_left_had_not_taken_is_not_passed_over_by_another(keep: Counted) -> None:
    async with running(keep) as places:
        left, stays = await begin(places), await begin(places)
        left.take(event(4))
        await left.end()
        stays.take(event(9))
        await asyncio.sleep(1)
        assert await kept(keep) == 4
        heir = await begin(places)
        assert heir.cursor.seq == 4
        heir.take(event(8))
        await asyncio.sleep(1)
        assert await kept(keep) == 8


async def test_a_reader_that_reached_the_end_holds_nobody_back(keep: Counted) -> None:
    async with running(keep) as places:
        done, behind = await begin(places), await begin(places)
        done.take(event(9, "run.completed"))
        await done.end()
        assert await kept(keep) == 0
        behind.take(event(5))
        await behind.end()
        assert await kept(keep) == 5


@pytest.mark.parametrize("first", ["done", "behind"])
async def test_a_run_is_over_once_nobody_is_behind(keep: Counted, first: str) -> None:
    view = Place(run="r1", owner=None, types=None, cursor=Cursor(0, None))
    async with running(keep) as places:
        done, behind = await begin(places), await begin(places)
        done.take(event(9, "run.completed"))
        behind.take(event(5))
        for mark in (done, behind) if first == "done" else (behind, done):
            await mark.end()
        found = await keep.place(HERE, view)
        assert (found and found.cursor.seq, found and found.over) == (5, False)
        heir = await begin(places)
        heir.take(event(9, "run.completed"))
        await heir.end()
        found = await keep.place(HERE, view)
        assert (found and found.cursor.seq, found and found.over) == (9, True)
        await (await begin(places)).end()  # who looks again, and finds nothing more
        assert await keep.place(HERE, view) == found


async def test_two_that_begin_at_once_share_a_view(keep: Counted) -> None:
    async with running(keep) as places:
        marks = await asyncio.gather(begin(places), begin(places))
        marks[0].take(event(3))
        await asyncio.sleep(1)
        assert await kept(keep) == 0


async def test_a_gap_moves_the_place_to_where_its_snapshot_ends_also_back(keep: Counted) -> None:
    async with running(keep) as places:
        mark = await begin(places)
        mark.take(event(40))
        end = ReceivedEvent(cursor=Cursor(7, None), event=Event("run.completed", {}))
        gap = ReceivedGap(reason="ahead", requested=Cursor(40, None), first=1, cursor=Cursor(7, None), snapshot=(end,))
        mark.take(gap)
        await mark.end()
        found = await keep.place(HERE, Place(run="r1", owner=None, types=None, cursor=Cursor(0, None)))
        assert (found and found.cursor.seq, found and found.over) == (7, True)


async def test_of_a_run_that_is_gone_nothing_is_kept(keep: Counted) -> None:
    async with running(keep) as places:
        for types in (None, ["text"]):
            mark = await begin(places, types=types)
            mark.take(event(3))
            await mark.end()
        mark = await begin(places)
        mark.take(event(4))
        await mark.forget()
        await mark.end()
        assert (await kept(keep), await kept(keep, types="text")) == (None, None)
        assert (await begin(places)).cursor.seq == 0


# ---- whatever happens ----


@dataclass
class Application:
    """Readers of one run, and the places that are still owed an event: a place beyond any of them skips one."""

    places: Places
    readers: list[Mark]
    owed: list[int]

    @property
    def lowest(self) -> int:
        return min([mark.cursor.seq for mark in self.readers] + self.owed, default=0)


async def live(keep: Counted, server: str, steps: list[tuple[str, int]]) -> None:
    """Let readers come, take, leave and die with their process, and hold that no place passes what was not taken."""
    keep.failure = None
    app = Application(Places(keep, server), [], [])
    for step, number in steps:
        reader = app.readers[number % len(app.readers)] if app.readers else None
        match step:
            case "begin":
                app.readers.append(await begin(app.places))
                assert app.readers[-1].cursor.seq <= app.lowest
                app.owed = []
            case "take" if reader is not None:
                reader.take(event(reader.cursor.seq + 1 + number))
            case "leave" if reader is not None:
                app.readers.remove(reader)
                app.owed.append(reader.cursor.seq)
                await reader.end()
            case "fail" | "work":
                keep.failure = StoreFull("full") if step == "fail" else None
            case "write":
                with suppress(StoreFull):
                    await app.places._write()
            case "die":
                keep.failure = None
                app = Application(Places(keep, server), [], [await kept(keep, server) or 0])
            case _:
                pass
        assert (await kept(keep, server) or 0) <= app.lowest


STEPS = st.tuples(
    st.sampled_from(["begin", "take", "take", "write", "leave", "fail", "work", "die"]), st.integers(0, 3)
)


@pytest.mark.behaviour("R3")
def test_no_place_ever_passes_what_somebody_has_still_to_take(tmp_path: Path) -> None:
    keep, numbers = Counted(tmp_path / "client.db"), count()

    @settings(max_examples=150, deadline=None)
    @given(st.lists(STEPS, max_size=30))
    def holds(steps: list[tuple[str, int]]) -> None:
        clock.run(live(keep, f"http://{next(numbers)}", steps))

    clock.run(keep.open())
    holds()
    clock.run(keep.close())


# ---- when it is written ----


async def test_a_place_is_written_at_once_and_then_no_more_often_than_it_need_be(keep: Counted) -> None:
    async with running(keep) as places:
        mark = await begin(places)
        mark.take(event(1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert keep.moves == [[1]]
        for seq in range(2, 102):
            await asyncio.sleep(KEEP_EVERY / 50)
            mark.take(event(seq))
        await asyncio.sleep(KEEP_EVERY)
        assert 3 <= len(keep.moves) <= 5
        assert keep.moves[-1] == [101]
        await asyncio.sleep(60)
        assert len(keep.moves) <= 5


async def test_a_place_is_written_when_its_reader_leaves_and_when_the_client_does(keep: Counted) -> None:
    places = Places(keep, HERE)
    mark, other = await begin(places), await begin(places, run="r2")
    mark.take(event(1))
    await mark.end()
    await mark.end()
    other.take(event(2))
    assert keep.moves == [[1]]
    await places.end()
    assert keep.moves == [[1], [2]]
    other.take(event(3))
    await other.end()
    assert await kept(keep, run="r2") == 2


async def test_places_that_cannot_be_written_are_told_once_and_tried_again(
    keep: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(keep) as places:
        mark = await begin(places)
        keep.failure = StoreFull("secret")
        with caplog.at_level(logging.WARNING, "outlast.client"):
            mark.take(event(1))
            await asyncio.sleep(3 * RETRY_EVERY)
            mark.take(event(2))
            await asyncio.sleep(RETRY_EVERY)
        assert [record.getMessage() for record in caplog.records] == [
            "how far runs were taken cannot be kept (store_full)"
        ]
        keep.failure = None
        await asyncio.sleep(RETRY_EVERY)
        assert await kept(keep) == 2


async def test_a_reader_leaves_although_its_place_cannot_be_written_and_the_next_begins_there(keep: Counted) -> None:
    async with running(keep) as places:
        mark = await begin(places)
        mark.take(event(1))
        keep.failure = StoreBusy("locked")
        await mark.end()
        assert (await begin(places)).cursor.seq == 1
        keep.failure = None


async def test_a_slow_write_never_overtakes_a_later_one(keep: Counted) -> None:
    async with running(keep) as places:
        mark = await begin(places)
        keep.gate = gate = asyncio.Event()
        mark.take(event(1))
        await asyncio.sleep(1)
        mark.take(event(2))
        leaving = asyncio.create_task(mark.end())
        await asyncio.sleep(1)
        gate.set()
        await leaving
        assert keep.moves == [[1], [2]]
        assert await kept(keep) == 2
