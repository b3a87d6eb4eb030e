"""The logs as a port: appends of one turn share a commit, and what is remembered of a log never misleads."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outlast.errors import HeadConflict, RunNotFound
from outlast.log.cursor import origin
from outlast.run import Token
from outlast.stores.sqlite import SQLiteStore
from outlast.stores.sqlite import logs as module
from outlast.testing.contract.scene import A, drive, join, said, say, start, texts
from tests.disk import HandClock, behind, ground, opened

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    async with opened(path, clock=HandClock()) as store:
        await join(store, A)
        yield store


async def test_appends_that_are_under_way_together_share_one_commit(store: SQLiteStore) -> None:
    runs = [await drive(store, f"r{number}") for number in range(50)]
    heads = [await say(store, run, "first") for run in runs]
    commits: list[str] = []
    connection = ground(store).connection
    connection.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    # Fewer rows than a group holds; the slice is a bound in seconds, so a slow machine may commit more often.
    await asyncio.gather(
        *(store.logs.append(run.log, run.token, head, texts("a", "b")) for run, head in zip(runs, heads, strict=True))
    )
    connection.set_trace_callback(None)
    assert len(commits) < len(runs) / 2
    assert [await said(store, run) for run in runs] == [["first", "a", "b"]] * 50


@pytest.mark.behaviour("L2")
async def test_the_same_append_twice_in_one_turn_is_written_once(store: SQLiteStore) -> None:
    run = await drive(store)
    appends = [store.logs.append(run.log, run.token, origin(run.log), texts("a", "b")) for _ in range(3)]
    first, *others = await asyncio.gather(*appends)
    assert others == [first, first]
    assert await said(store, run) == ["a", "b"]


@pytest.mark.behaviour("L1")
async def test_of_two_appends_behind_one_head_in_one_turn_one_conflicts(store: SQLiteStore) -> None:
    run = await drive(store)
    results = await asyncio.gather(
        store.logs.append(run.log, run.token, origin(run.log), texts("a")),
        store.logs.append(run.log, run.token, origin(run.log), texts("b")),
        return_exceptions=True,
    )
    assert [isinstance(result, HeadConflict) for result in results] == [False, True]
    assert await said(store, run) == ["a"]


async def test_a_number_that_has_become_another_logs_harms_neither(store: SQLiteStore, path: Path) -> None:
    gone = await drive(store)
    head = await say(store, gone, "a")
    with behind(path) as connection:
        connection.execute("DROP TRIGGER unsettled_runs_stay")
        connection.execute("DROP TRIGGER numbers_are_used_once")
        for table in ("runs", "inputs", "logs", "events"):
            connection.execute(f"DELETE FROM {table}")
    other = await drive(store, "r2")  # it gets the number that is free again
    with pytest.raises(RunNotFound):
        await store.logs.append(gone.log, gone.token, head, texts("b"))
    with pytest.raises(RunNotFound):
        await store.logs.append(gone.log, Token(epoch=9, claim="c"), origin(gone.log), texts("b"))
    await say(store, other, "c")
    assert await said(store, other) == ["c"]


async def test_what_is_remembered_of_logs_is_bounded(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NUMBERS", 3)
    runs = [await drive(store, f"r{number}") for number in range(10)]
    for word in "ab":
        for run in runs:
            await say(store, run, word)
            assert len(store.logs._numbers) <= 3
    assert [await said(store, run) for run in runs] == [["a", "b"]] * 10


async def test_a_refused_append_teaches_nothing(store: SQLiteStore) -> None:
    run = await start(store)
    with pytest.raises(HeadConflict):
        await store.logs.append(run.log, Token(epoch=1, claim="c"), origin("another"), texts("a"))
    assert store.logs._numbers == {}


async def test_one_may_listen_to_a_log_that_is_not_there_yet(store: SQLiteStore) -> None:
    subscription = store.logs.subscribe("not yet")
    await asyncio.wait_for(subscription.wait(0), 30)
    subscription.close()
    subscription.close()
