"""Deleting by slices: bounded work, nothing of another log, no number used twice, and files of the first schema."""

import sqlite3
from itertools import pairwise
from pathlib import Path

import pytest

from outlast.errors import RunGone
from outlast.log.cursor import origin
from outlast.log.event import Event
from outlast.run import Completed, Run
from outlast.stores.base import Expired
from outlast.stores.sqlite import SQLiteStore
from outlast.stores.sqlite.expiry import RUNS, SLICE_BYTES, SLICE_ROWS
from outlast.stores.sqlite.migration import APPLICATION_ID, MIGRATIONS, migrate
from outlast.testing.contract.scene import ANN, A, drive, join, said, say, start, texts
from tests.disk import HandClock, behind, ground, heard, migrated, opened, program

pytestmark = pytest.mark.anyio

WEEK = 7 * 86400.0


async def ended(store: SQLiteStore, id: str, *sizes: int) -> Run:
    run = await drive(store, id)
    cursor = origin(run.log)
    for size in sizes:
        cursor = await store.logs.append(run.log, run.token, cursor, [Event("bytes", b"x" * size)])
    return await store.runs.settle(run, run.token, Completed())


async def step(store: SQLiteStore) -> Expired:
    return await store.runs.expire(finished=WEEK, gone=4 * WEEK)


def count(store: SQLiteStore, table: str) -> int:
    found: int = ground(store).connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return found


async def test_a_slice_is_bounded_in_events_and_in_bytes_and_spans_small_logs() -> None:
    clock = HandClock()
    async with opened(None, clock=clock) as store:
        await join(store, A)
        many = await drive(store, "many")
        await store.logs.append(many.log, many.token, origin(many.log), texts(*"x" * (2 * SLICE_ROWS)))
        await store.runs.settle(many, many.token, Completed())
        await ended(store, "large", *[SLICE_BYTES // 2] * 5)
        for number in range(9):
            await ended(store, f"small{number}", 1)
        clock.since += WEEK + 1
        assert (await step(store)).runs == 11
        left = [count(store, "events")]
        while (await step(store)).more:
            left.append(count(store, "events"))
        deleted = [before - after for before, after in pairwise(left)]
        assert deleted[:2] == [SLICE_ROWS, SLICE_ROWS]
        assert max(deleted) <= SLICE_ROWS
        assert deleted[2:4] == [3, 2]  # the end of the one, and of the large ones
        assert count(store, "events") == 0


async def test_a_slice_of_many_logs_is_bounded_in_bytes_as_well() -> None:
    clock = HandClock()
    async with opened(None, clock=clock) as store:
        await join(store, A)
        for number in range(6):
            await ended(store, f"r{number}", SLICE_BYTES // 2)
        clock.since += WEEK + 1
        await step(store)
        await step(store)
        assert count(store, "events") >= 6


async def test_no_more_runs_than_so_many_go_at_once() -> None:
    clock = HandClock()
    async with opened(None, clock=clock) as store:
        await join(store, A)
        for number in range(RUNS + 1):
            await ended(store, f"r{number:02}")
        clock.since += WEEK + 1
        assert await step(store) == Expired(runs=RUNS, more=True)
        assert {each.run.id for each in await store.runs.list(ANN, status=None, before=None, limit=99)} == {f"r{RUNS}"}


async def test_looking_for_nothing_begins_no_transaction() -> None:
    async with opened(None) as store:
        await join(store, A)
        await ended(store, "r1", 1)
        heard: list[str] = []
        connection = ground(store).connection
        connection.set_trace_callback(heard.append)
        assert await step(store) == Expired()
        connection.set_trace_callback(None)
        assert heard
        assert not [sql for sql in heard if sql.startswith("BEGIN")]


@pytest.mark.behaviour("L8")
async def test_no_number_is_used_twice_though_the_newest_run_goes() -> None:
    """Otherwise a new log would begin among the events of one that is still being deleted."""
    clock = HandClock()
    async with opened(None, clock=clock) as store:
        await join(store, A)
        numbers = list[int]()
        for number in range(3):
            await ended(store, f"r{number}", 1, 1)
            clock.since += 4 * WEEK + 1
            await join(store, A)
            numbers += [row[0] for row in ground(store).connection.execute("SELECT number FROM runs")]
            assert (await step(store)).runs >= 1  # its events are there still
            live = await drive(store, f"live{number}")
            await say(store, live, "a")
            assert await said(store, live) == ["a"]
            await store.runs.settle(live, live.token, Completed())
            while (await step(store)).more:
                pass
        assert len(set(numbers)) == len(numbers)


@pytest.mark.behaviour("L8")
async def test_what_was_interrupted_is_finished_by_another_process(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path / "x.db", clock=clock) as store:
        await join(store, A)
        await ended(store, "r1", *[SLICE_BYTES] * 3)
        clock.since += WEEK + 1
        assert await step(store) == Expired(runs=1, more=True)
        await step(store)
        assert 0 < count(store, "events") < 4
    async with opened(tmp_path / "x.db", clock=clock) as store:
        while (await step(store)).more:
            pass
        assert count(store, "events") == 0
        with pytest.raises(RunGone):
            await start(store, "r1")


PRODUCER = """
from outlast.run import Completed
from outlast.testing.contract.scene import A, drive, join, say as speak
async def main():
    store = SQLiteStore(sys.argv[1])
    await store.open()
    await join(store, A)
    run = await drive(store)
    await speak(store, run, "a", "b")
    await store.runs.settle(run, run.token, Completed())
    say(run.log)
    sys.stdin.readline()
asyncio.run(main())
"""


@pytest.mark.behaviour("L9")
@pytest.mark.case(3)
async def test_an_ended_run_is_readable_to_the_last_though_its_process_was_killed(tmp_path: Path) -> None:
    """Case: a client that came back right after the end got nothing."""
    with program(PRODUCER, tmp_path / "x.db") as process:
        log = heard(process)
        process.kill()
        process.wait()
    clock = HandClock(boot="another boot")
    async with opened(tmp_path / "x.db", clock=clock) as store:
        run = (await store.runs.load(ANN, "r1")).run
        assert run.log == log
        for passed in (1, WEEK - 6):
            clock.since += passed
            assert await step(store) == Expired()
            assert await said(store, run) == ["a", "b", "run.completed"]
        clock.since += 10
        assert (await step(store)).runs == 1
        with pytest.raises(RunGone):
            await said(store, run)


# ---- what nobody may do ----


@pytest.mark.behaviour("L8")
@pytest.mark.parametrize(
    ("attack", "words"),
    [
        (
            "INSERT INTO logs (number, id, chain, opened_at, head_at) VALUES (9, 'gone', x'', 0, 0)",
            "does not come back",
        ),
        ("INSERT INTO logs (number, id, chain, opened_at, head_at) VALUES (7, 'new', x'', 0, 0)", "does not come back"),
        ("INSERT INTO events VALUES (7 << 32 | 1, x'00', 'text', 'a/b', 3, 0, x'')", "nothing follows"),
        ("INSERT INTO runs (number, owner, id) VALUES (7, 'bob', 'r2')", "does not come back|begins once"),
        ("INSERT INTO runs (number, owner, id) VALUES (8, 'ann', 'r1')", "does not come back|begins once"),
    ],
)
def test_nothing_comes_back_from_the_dead(attack: str, words: str) -> None:
    with migrated() as connection:
        connection.execute("INSERT INTO tombstones VALUES (7, 'ann', 'r1', 'gone', 0, 0, 0)")
        with pytest.raises(sqlite3.IntegrityError, match=words):
            connection.execute(attack)


# ---- files of the first schema ----


async def test_a_file_of_the_first_schema_opens_and_its_runs_expire(tmp_path: Path) -> None:
    path, clock = tmp_path / "x.db", HandClock()
    with behind(path) as connection:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        for statement in MIGRATIONS[0].statements:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 1")
        connection.execute(
            """INSERT INTO runs (number, owner, id, log, worker, digest, status, not_before, created_at, updated_at,
            outcome, settled_at) VALUES (3, 'ann', 'r1', 'log', 'chat', x'00', 'cancelled', 0, 0, 5,
            '{"reason": null}', 5)"""
        )
        connection.execute("INSERT INTO inputs VALUES (3, x'7b7d', x'7b7d')")
        connection.execute("INSERT INTO logs (number, id, chain, opened_at, head_at) VALUES (3, 'log', x'00', 0, 0)")
        connection.execute("INSERT INTO events VALUES (3 << 32 | 1, x'00', 'text', 'a/b', 3, 0, x'')")
        migrate(connection)
    async with opened(path, clock=clock) as store:
        assert [each.run.id for each in await store.runs.list(ANN, status=None, before=None, limit=9)] == ["r1"]
        while (await step(store)).more:
            pass
        assert count(store, "events") == 0
        with pytest.raises(RunGone):
            await store.runs.load(ANN, "r1")
