"""The outbox: looking into an empty one writes nothing, and no row is mistaken for another."""

from collections.abc import AsyncIterator

import pytest

from outlast.stores.sqlite import SQLiteStore
from outlast.testing.contract.scene import ANN, CHAT, join, start
from tests.disk import HandClock, ground, opened

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(clock: HandClock) -> AsyncIterator[SQLiteStore]:
    async with opened(None, clock=clock) as store:
        await join(store, "a")
        yield store


async def stop(store: SQLiteStore, id: str, *, worker: str = CHAT) -> None:
    await start(store, id, worker=worker)
    await store.runs.stop(ANN, id, reason=None)


async def test_looking_for_nothing_begins_no_transaction(store: SQLiteStore) -> None:
    await stop(store, "another's", worker="another")
    heard: list[str] = []
    connection = ground(store).connection
    connection.set_trace_callback(heard.append)
    assert list(await store.runs.take_aborts([CHAT], hold=1, limit=9)) == []
    connection.set_trace_callback(None)
    assert heard
    assert not [sql for sql in heard if sql.startswith("BEGIN")]


async def test_the_oldest_are_taken_first_and_each_is_hidden_alone(store: SQLiteStore, clock: HandClock) -> None:
    for number in range(3):
        await stop(store, f"r{number}")
        clock.since += 1
    first = await store.runs.take_aborts([CHAT], hold=10, limit=2)
    assert [abort.run.id for abort in first] == ["r0", "r1"]
    second = await store.runs.take_aborts([CHAT], hold=10, limit=2)
    assert [abort.run.id for abort in second] == ["r2"]
    clock.since += 10
    again = await store.runs.take_aborts([CHAT], hold=10, limit=9)
    assert [(abort.run.id, abort.tries) for abort in again] == [("r0", 1), ("r1", 1), ("r2", 1)]


async def test_finishing_late_deletes_no_younger_row(store: SQLiteStore) -> None:
    await stop(store, "r1")
    (first,) = await store.runs.take_aborts([CHAT], hold=10, limit=9)
    await store.runs.finish_abort(first)
    await stop(store, "r2")
    await store.runs.finish_abort(first)  # its answer was lost, so it is said again
    await store.runs.delay_abort(first, retry_in=1000)
    (second,) = await store.runs.take_aborts([CHAT], hold=10, limit=9)
    assert second.run.id == "r2"


async def test_no_worker_takes_nothing(store: SQLiteStore) -> None:
    await stop(store, "r1")
    assert list(await store.runs.take_aborts([], hold=1, limit=9)) == []
