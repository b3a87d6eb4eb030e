"""Accepting and finding runs on SQLite: strange ids, pages of runs of one moment, and what a start costs."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from outlast.errors import IdConflict, InputInvalid, RunNotFound, ThreadBusy
from outlast.run import Cancelled, Completed, Status
from outlast.stores.base import EARLY_STOP_TTL, EARLY_STOPS, StopAnswer
from outlast.stores.sqlite import SQLiteStore
from outlast.testing.contract.scene import (
    ANN,
    BOB,
    CHAT,
    A,
    drive,
    events,
    join,
    listed,
    new_run,
    said,
    say,
    start,
    take,
)
from tests.disk import HandClock, ground, opened

pytestmark = pytest.mark.anyio

STRANGE = [
    "'; DROP TABLE runs; --",
    '" OR ""="',
    "a\0b",
    "\0",
    "%",
    "_",
    "ann'||'",
    "\N{SNOWMAN}\u2028\r\n",
    " ",
    "a" * 5000,
    "NULL",
    "1",
]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(clock: HandClock) -> AsyncIterator[SQLiteStore]:
    async with opened(None, clock=clock) as store:
        yield store


# ---- what comes from outside ----


@pytest.mark.attack("Z14")
@pytest.mark.parametrize("text", STRANGE)
async def test_whatever_ids_and_words_hold_they_are_words(store: SQLiteStore, text: str) -> None:
    await join(store, A)
    innocent = await start(store, "innocent", owner=BOB)
    worker = text.replace("\0", "0")  # a worker's name does not come from outside
    new = replace(new_run(text, owner=text, thread=text, worker=worker), input=text.encode(), metadata=text.encode())
    run = (await store.runs.start(new)).run
    assert (run.owner, run.id, run.thread, run.worker, run.input) == (text, text, text, worker, text.encode())
    assert (await store.runs.load(text, text)).run == run
    assert await listed(store, text, status=Status.QUEUED) == [run]
    assert await listed(store, text, before=text) == []
    with pytest.raises(ThreadBusy) as busy:
        await store.runs.start(replace(new, id="another", log="another"))
    assert busy.value.live == text
    assert [due.id for due in (await store.runs.due([worker], limit=9)).runs] == [text]
    stopped = await store.runs.stop(text, text, reason=text)
    assert stopped.run is not None
    assert stopped.run.outcome == Cancelled(reason=text)
    (abort,) = await store.runs.take_aborts([worker], hold=1, limit=9)
    assert abort.run == stopped.run
    await store.runs.stop(text, f"{text}2", reason=text)
    assert (await store.runs.start(new_run(f"{text}2", owner=text))).run.outcome == Cancelled(reason=text)
    assert (await store.runs.load(BOB, "innocent")).run == innocent


@pytest.mark.attack("Z14")
async def test_an_id_is_compared_as_a_whole_and_exactly(store: SQLiteStore) -> None:
    await start(store, "a\0b")
    for other in ("a", "a\0", "a\0c", "A\0b", "a\0b "):
        with pytest.raises(RunNotFound):
            await store.runs.load(ANN, other)


@pytest.mark.invariant("typed-refusals")
async def test_half_a_surrogate_pair_is_no_text_and_is_refused(store: SQLiteStore) -> None:
    half = "\ud83d"
    await join(store, A)
    await drive(store)
    for refused in (
        store.runs.start(new_run(half)),
        store.runs.start(new_run(owner=half)),
        store.runs.start(new_run("r2", thread=half)),
        store.runs.load(ANN, half),
        store.runs.list(half, status=None, before=None, limit=9),
        store.runs.stop(half, "r2", reason=None),
        store.runs.stop(ANN, "r1", reason=half),
    ):
        with pytest.raises(InputInvalid):
            await refused
    assert (await store.runs.load(ANN, "r1")).run.stop is None
    assert len(await listed(store, ANN)) == 1


async def test_one_bad_start_in_a_turn_harms_no_other(store: SQLiteStore) -> None:
    starts = [store.runs.start(new_run(id)) for id in ("r1", "\ud83d", "r2")]
    results = await asyncio.gather(*starts, return_exceptions=True)
    assert isinstance(results[1], InputInvalid)
    assert {run.id for run in await listed(store, ANN)} == {"r1", "r2"}


# ---- starting ----


@pytest.mark.case(127)
async def test_of_many_starts_on_one_thread_in_one_turn_one_wins(store: SQLiteStore) -> None:
    starts = [store.runs.start(new_run(f"r{number}", thread="t")) for number in range(20)]
    results = await asyncio.gather(*starts, return_exceptions=True)
    busy = [result for result in results if isinstance(result, ThreadBusy)]
    assert len(busy) == 19
    assert {error.live for error in busy} == {"r0"}


async def test_of_many_same_starts_in_one_turn_one_is_made(store: SQLiteStore) -> None:
    results = await asyncio.gather(*(store.runs.start(new_run()) for _ in range(9)))
    assert [result.created for result in results] == [True] + [False] * 8
    assert len({result.run.log for result in results}) == 1
    with pytest.raises(IdConflict):
        await store.runs.start(new_run(input=b"another"))


async def test_a_log_identity_is_never_given_twice(store: SQLiteStore) -> None:
    new = new_run()
    await store.runs.start(new)
    with pytest.raises(Exception, match="contradicts"):
        await store.runs.start(replace(new, id="r2"))
    with pytest.raises(RunNotFound):
        await store.runs.load(ANN, "r2")


async def test_a_large_input_is_written_once_in_a_runs_life(store: SQLiteStore) -> None:
    await join(store, A)
    large = b"x" * 1_000_000
    await store.runs.start(new_run(input=large))
    connection = ground(store).connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + 10}")
    run = await take(store, (await store.runs.load(ANN, "r1")).run, A)
    for number in range(1, 20):
        await store.runs.charge(run, run.token, number=number, limit=64)
    assert (await store.runs.settle(run, run.token, Completed())).input == large


# ---- pages ----


@pytest.mark.parametrize("status", [None, Status.QUEUED])
async def test_runs_of_one_moment_are_paged_without_loss_or_repetition(
    store: SQLiteStore, clock: HandClock, status: Status | None
) -> None:
    for batch in range(3):
        await asyncio.gather(*(start(store, f"r{batch}-{number}") for number in range(5)))
        await start(store, f"not ann's {batch}", owner=BOB)
        clock.since += batch  # the first two batches are of one moment
    seen: list[str] = []
    before = None
    while page := await listed(store, ANN, status=status, before=before, limit=4):
        seen += [run.id for run in page]
        before = page[-1].id
    assert seen == [f"r{batch}-{number}" for batch in (2, 1, 0) for number in (4, 3, 2, 1, 0)]


async def test_a_page_after_a_run_that_is_not_there_is_not_found(store: SQLiteStore) -> None:
    await start(store, "theirs", owner=BOB)
    with pytest.raises(RunNotFound):
        await store.runs.list(ANN, status=None, before="theirs", limit=9)


# ---- stops that come first ----


@pytest.mark.behaviour("S1")
async def test_a_stop_that_came_first_is_forgotten_after_its_time(store: SQLiteStore, clock: HandClock) -> None:
    await store.runs.stop(ANN, "r1", reason=None)
    await store.runs.stop(ANN, "r2", reason=None)
    clock.since += EARLY_STOP_TTL
    assert (await start(store)).status is Status.QUEUED
    await store.runs.stop(BOB, "r3", reason=None)  # whoever stops next clears everybody's old ones away
    rows = ground(store).connection.execute("SELECT owner, id FROM early_stops").fetchall()
    assert [tuple(row) for row in rows] == [(BOB, "r3")]


@pytest.mark.behaviour("S1")
async def test_a_stop_repeated_is_young_again_and_keeps_its_reason(store: SQLiteStore, clock: HandClock) -> None:
    await store.runs.stop(ANN, "r1", reason="the first")
    clock.since += EARLY_STOP_TTL - 1
    stopped = await store.runs.stop(ANN, "r1", reason="the second")
    assert (stopped.answer, stopped.run) == (StopAnswer.ACCEPTED, None)
    clock.since += EARLY_STOP_TTL - 1
    assert (await start(store)).outcome == Cancelled(reason="the first")
    assert not ground(store).connection.execute("SELECT 1 FROM early_stops").fetchall()


@pytest.mark.behaviour("S1")
async def test_of_too_many_stops_the_oldest_are_forgotten_and_no_other_owners(store: SQLiteStore) -> None:
    await store.runs.stop(BOB, "r0", reason=None)
    for number in range(EARLY_STOPS + 2):
        await store.runs.stop(ANN, f"r{number}", reason=None)
    status = {id: (await start(store, id)).status for id in ("r0", "r1", "r2", f"r{EARLY_STOPS + 1}")}
    assert list(status.values()) == [Status.QUEUED, Status.QUEUED, Status.CANCELLED, Status.CANCELLED]
    assert (await start(store, "r0", owner=BOB)).status is Status.CANCELLED


async def test_a_run_born_cancelled_has_its_terminal_and_nothing_to_do(store: SQLiteStore) -> None:
    await store.runs.stop(ANN, "r1", reason="early")
    run = await start(store)
    assert await said(store, run) == ["run.cancelled"]
    assert [event.epoch for event in await events(store, run)] == [0]
    assert run.settled_at == run.created_at
    assert not (await store.runs.due([CHAT], limit=9)).runs
    assert not await store.runs.take_aborts([CHAT], hold=1, limit=9)
    with pytest.raises(ValueError, match="never claimed"):
        await say(store, run, "too late")
