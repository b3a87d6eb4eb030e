"""Renewing from a thread: past a blocked loop, past other writers, and never into a closed store."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outlast.errors import StoreBusy, StoreUnavailable
from outlast.stores.base import Renewal
from outlast.stores.sqlite import SQLiteStore, renewer
from outlast.testing.contract.scene import TTL, A, drive, join, load, say
from tests.disk import HandClock, behind, opened

pytestmark = pytest.mark.anyio

WITHIN = 30.0  # real seconds for something that happens at once


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(params=["memory", "file"])
async def store(request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock) -> AsyncIterator[SQLiteStore]:
    path = None if request.param == "memory" else tmp_path / "x.db"
    async with opened(path, clock=clock) as store:
        await join(store, A)
        yield store


@pytest.mark.behaviour("H16")
async def test_a_loop_that_stands_still_does_not_keep_the_thread_from_renewing(
    store: SQLiteStore, clock: HandClock
) -> None:
    run = await drive(store)
    keeper = store.renewer(A, ttl=TTL, workers=[])
    renewals: list[Renewal] = []
    for _ in range(3):
        clock.since += TTL - 1
        thread = threading.Thread(target=lambda: renewals.append(keeper.renew(stalled=False)))
        thread.start()
        thread.join(WITHIN)  # the loop stands still here
    assert [renewal.held for renewal in renewals] == [{run.log: 1}] * 3
    assert (await load(store, run)).lease_until == await store.runs.now() + TTL
    keeper.close()


async def test_renewals_and_appends_do_not_get_in_each_others_way(store: SQLiteStore) -> None:
    run = await drive(store)
    keeper = store.renewer(A, ttl=TTL, workers=[])
    done = threading.Event()
    trouble: list[Exception] = []
    renewals = 0

    def renew() -> None:
        nonlocal renewals
        while not done.is_set():
            try:
                keeper.renew(stalled=False)
                renewals += 1
            except StoreBusy as error:
                trouble.append(error)

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        async with asyncio.timeout(WITHIN):
            appended = 0
            while appended < 200 or renewals < 20:
                await say(store, run, "word")
                appended += 1
    finally:
        done.set()
        thread.join(WITHIN)
        keeper.close()
    assert not trouble
    assert (await store.logs.head(run.log)).cursor.seq == appended


async def test_a_renewer_may_be_made_on_the_loop_used_in_one_thread_and_closed_in_another(store: SQLiteStore) -> None:
    keeper = store.renewer(A, ttl=TTL, workers=[])
    await asyncio.to_thread(keeper.renew, stalled=False)
    keeper.renew(stalled=False)
    await asyncio.to_thread(keeper.close)
    keeper.close()
    with pytest.raises(StoreUnavailable):
        keeper.renew(stalled=False)


async def test_a_renewer_never_used_has_nothing_to_give_back(store: SQLiteStore) -> None:
    store.renewer(A, ttl=TTL, workers=[]).close()


@pytest.mark.behaviour("H17")
async def test_a_file_that_stays_locked_is_told_and_does_not_end_the_renewals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.stores.sqlite.store.TIMEOUT", 0.01)
    async with opened(tmp_path / "x.db") as store:
        await join(store, A)
        keeper = store.renewer(A, ttl=TTL, workers=[])
        with behind(tmp_path / "x.db") as other:
            other.execute("BEGIN IMMEDIATE")
            for _ in range(2):
                with pytest.raises(StoreBusy):
                    keeper.renew(stalled=False)
            other.rollback()
        assert keeper.renew(stalled=False).until == await store.runs.now() + TTL
        keeper.close()


async def test_a_renewal_that_fails_halfway_has_changed_nothing(tmp_path: Path, clock: HandClock) -> None:
    async with opened(tmp_path / "x.db", clock=clock) as store:
        await join(store, A)
        keeper = store.renewer(A, ttl=TTL, workers=[])
        before = await store.runs.nodes()
        with behind(tmp_path / "x.db") as other:
            other.execute("CREATE TRIGGER obstacle BEFORE UPDATE ON store BEGIN SELECT raise(ABORT, 'in the way'); END")
            clock.since += 1
            with pytest.raises(Exception, match="contradicts"):
                keeper.renew(stalled=True)
            assert await store.runs.nodes() == before
            other.execute("DROP TRIGGER obstacle")
        keeper.renew(stalled=True)
        assert [node.stalled for node in await store.runs.nodes()] == [True]
        keeper.close()


async def test_a_store_that_is_closed_renews_nothing_in_memory(clock: HandClock) -> None:
    async with opened(None, clock=clock) as store:
        keeper = store.renewer(A, ttl=TTL, workers=[])
        keeper.renew(stalled=False)
        await store.close()
        with pytest.raises(StoreUnavailable):
            keeper.renew(stalled=False)
        with pytest.raises(StoreUnavailable):
            store.renewer(A, ttl=TTL, workers=[])
        keeper.close()


def test_the_file_is_waited_for_long_enough_for_a_burst_and_not_as_long_as_a_renewal_may_miss() -> None:
    assert 0.5 <= renewer.TIMEOUT <= TTL / 3
