"""Room that became free is given back to the disk, in small steps, and some of it is kept."""

from pathlib import Path

import pytest

from outlast.log.cursor import origin
from outlast.log.event import Event
from outlast.run import Completed
from outlast.stores.sqlite import SQLiteStore
from outlast.stores.sqlite.checkpoint import PAGE
from outlast.stores.sqlite.vacuum import SPARE_PAGES, STEP
from outlast.testing.contract.scene import ANN, A, drive, join, listed, said, say
from tests.disk import HandClock, ground, opened

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024


def pages(store: SQLiteStore) -> tuple[int, int]:
    """Tell how many pages the file has, and how many of them are free."""
    connection = ground(store).connection
    return connection.execute("PRAGMA page_count").fetchone()[0], connection.execute(
        "PRAGMA freelist_count"
    ).fetchone()[0]


async def fill(store: SQLiteStore, id: str, megabytes: int) -> None:
    run = await drive(store, id)
    cursor = origin(run.log)
    for _ in range(megabytes):
        cursor = await store.logs.append(run.log, run.token, cursor, [Event("bytes", b"x" * (MIB // 8))] * 8)
    await store.runs.settle(run, run.token, Completed())


@pytest.mark.behaviour("L9")
@pytest.mark.case(149)
async def test_a_file_shrinks_to_what_is_in_it(tmp_path: Path) -> None:
    """Case: an event table that took the disk, and deleted rows that never gave it back."""
    path, clock = tmp_path / "x.db", HandClock()
    async with opened(path, clock=clock) as store:
        await join(store, A)
        for number in range(12):
            await fill(store, f"old{number}", 2)
        clock.since += 3600
        await join(store, A)
        await fill(store, "new", 6)
        live = await drive(store, "live")
        await say(store, live, "a")
        full, _ = pages(store)
        before, steps = full, 0
        more = True
        while more:
            more = (await store.runs.expire(finished=1800, gone=86400)).more
            after, _ = pages(store)
            assert before - after <= STEP
            before, steps = after, steps + 1
        kept, free = pages(store)
        assert steps > (full - kept) // STEP
        assert full * PAGE > 30 * MIB
        assert kept * PAGE < 1.5 * 6 * MIB
        assert 0 < free <= SPARE_PAGES
        await say(store, live, "b")
        assert await said(store, live) == ["a", "b"]
        assert [run.id for run in await listed(store, ANN)] == ["live", "new"]
        assert ground(store).connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert path.stat().st_size < 1.5 * 6 * MIB


async def test_a_little_room_is_kept_for_the_next_events(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db", clock=HandClock()) as store:
        await join(store, A)
        run = await drive(store)
        await store.logs.append(run.log, run.token, origin(run.log), [Event("bytes", b"x" * (MIB // 2))])
        await store.runs.settle(run, run.token, Completed())
        full, _ = pages(store)
        await store.runs.erase(ANN, "r1")
        assert not (await store.runs.expire(finished=1800, gone=86400)).more
        assert pages(store)[0] == full
