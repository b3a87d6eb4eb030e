"""Wake-ups: our own at once, others' by a look at the file, and nobody is woken for what is not theirs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from outlast.errors import StoreBusy
from outlast.log.event import Event
from outlast.run import Cause, Completed
from outlast.stores.base import Subscription
from outlast.stores.sqlite import SQLiteStore
from outlast.stores.sqlite.bell import LOOK_EVERY, NOTICE_EVERY, Bells, Watch
from outlast.stores.sqlite.locks import NodeLocks
from outlast.testing.contract.scene import A, drive, join, say, start
from tests.disk import HandClock, opened

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

LONG = 10.0
NEVER = object()


@pytest.fixture
async def ours(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    async with opened(tmp_path / "x.db", clock=HandClock()) as store:
        yield store


@pytest.fixture
async def theirs(ours: SQLiteStore, tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    """A second connection, which is to the first what another process is."""
    async with opened(tmp_path / "x.db", clock=HandClock()) as store:
        yield store


async def woken_after(subscription: Subscription) -> float | object:
    """Return the seconds until a wake-up comes, NEVER when none does."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    await subscription.wait(LONG)
    waited = loop.time() - before
    return waited if waited < LONG - LOOK_EVERY else NEVER


# ---- waiting ----


async def test_a_ring_wakes_at_once_and_once() -> None:
    bells = Bells()
    subscription = bells.subscribe_runs()
    asyncio.get_running_loop().call_later(3, lambda: bells.ring({}, {}, stirred=True))
    assert await woken_after(subscription) == 3
    assert await woken_after(subscription) is NEVER


async def test_a_ring_that_nobody_waited_for_is_kept_for_the_next_wait() -> None:
    bells = Bells()
    subscription = bells.subscribe_runs()
    bells.ring({}, {}, stirred=True)
    bells.ring({}, {}, stirred=True)
    assert await woken_after(subscription) == 0
    assert await woken_after(subscription) is NEVER


async def test_a_wait_that_is_cancelled_loses_no_ring() -> None:
    bells = Bells()
    subscription = bells.subscribe_runs()
    waiting = asyncio.create_task(subscription.wait(LONG))
    await asyncio.sleep(1)
    bells.ring({}, {}, stirred=True)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await woken_after(subscription) == 0


async def test_who_has_closed_is_woken_no_more_and_the_others_are() -> None:
    bells = Bells()
    gone, here = bells.subscribe_log("a", seq=0), bells.subscribe_log("a", seq=0)
    gone.close()
    gone.close()
    bells.ring({"a": 1}, {}, stirred=False)
    assert await woken_after(gone) is NEVER
    assert await woken_after(here) == 0


async def test_a_bell_nobody_listens_to_is_forgotten() -> None:
    bells = Bells()
    assert not bells
    subscriptions = [bells.subscribe_log("a", seq=None), bells.subscribe_log("a", seq=None), bells.subscribe_runs()]
    assert list(bells.logs) == ["a"]
    for subscription in subscriptions:
        assert bells
        subscription.close()
    assert not bells
    assert not list(bells.logs)


async def test_everyone_wakes_in_the_order_they_came() -> None:
    bells = Bells()
    order: list[int] = []

    async def wait(place: int) -> None:
        await bells.subscribe_log("a", seq=0).wait(LONG)
        order.append(place)

    tasks = [asyncio.create_task(wait(place)) for place in range(20)]
    await asyncio.sleep(1)
    bells.ring({"a": 1}, {}, stirred=False)
    await asyncio.gather(*tasks)
    assert order == list(range(20))


# ---- our own commits ----


async def test_our_own_events_ring_at_once_for_their_log_alone(ours: SQLiteStore) -> None:
    await join(ours, A)
    run, other = await drive(ours), await drive(ours, "r2")
    theirs, another, runs = ours.logs.subscribe(run.log), ours.logs.subscribe(other.log), ours.runs.subscribe()
    await say(ours, run, "a")
    assert await woken_after(theirs) == 0
    assert await woken_after(another) is NEVER
    assert await woken_after(runs) is NEVER


async def test_a_settled_run_rings_for_its_log_and_for_the_nodes(ours: SQLiteStore) -> None:
    await join(ours, A)
    run = await drive(ours)
    log, runs = ours.logs.subscribe(run.log), ours.runs.subscribe()
    await ours.runs.settle(run, run.token, Completed())
    assert await woken_after(log) == 0
    assert await woken_after(runs) == 0


async def test_what_nodes_need_not_look_at_does_not_wake_them(ours: SQLiteStore) -> None:
    run = await start(ours)
    await join(ours, A)
    runs = ours.runs.subscribe()
    held = await drive(ours, "r2")
    assert await woken_after(runs) == 0  # the start of it
    await ours.runs.charge(held, held.token, number=1, limit=9)
    await ours.runs.refuse(run, retry_in=30)
    await ours.runs.join(A, ttl=15, workers=[])
    assert await woken_after(runs) is NEVER
    await ours.runs.release(held, held.token, Cause.STORE)
    assert await woken_after(runs) == 0


# ---- other processes' commits ----


async def test_events_of_another_process_are_noticed_within_a_look(ours: SQLiteStore, theirs: SQLiteStore) -> None:
    await join(theirs, A)
    run = await drive(theirs)
    subscription = ours.logs.subscribe(run.log)
    assert await woken_after(subscription) is NEVER  # the head it began with is no news
    await say(theirs, run, "a")
    waited = await woken_after(subscription)
    assert isinstance(waited, float)
    assert 0 < waited <= LOOK_EVERY
    assert await woken_after(subscription) is NEVER


async def test_only_logs_whose_head_moved_are_rung(ours: SQLiteStore, theirs: SQLiteStore) -> None:
    await join(theirs, A)
    grown, quiet = await drive(theirs), await drive(theirs, "r2")
    bell, silent, runs = ours.logs.subscribe(grown.log), ours.logs.subscribe(quiet.log), ours.runs.subscribe()
    await say(theirs, grown, "a")
    assert isinstance(await woken_after(bell), float)
    assert await woken_after(silent) is NEVER
    assert await woken_after(runs) is NEVER


async def test_runs_of_another_process_are_noticed(ours: SQLiteStore, theirs: SQLiteStore) -> None:
    runs = ours.runs.subscribe()
    assert await woken_after(runs) is NEVER
    await start(theirs)
    assert isinstance(await woken_after(runs), float)
    await theirs.runs.join(A, ttl=15, workers=[])
    assert await woken_after(runs) is NEVER
    await theirs.runs.leave(A)
    assert isinstance(await woken_after(runs), float)


async def test_a_head_that_we_rang_for_is_not_rung_for_again(ours: SQLiteStore, theirs: SQLiteStore) -> None:
    await join(ours, A)
    run, other = await drive(ours), await drive(ours, "r2")
    subscription = ours.logs.subscribe(run.log)
    await say(ours, run, "a")
    assert await woken_after(subscription) == 0
    await say(theirs, other, "b")  # the file changed, this head did not
    assert await woken_after(subscription) is NEVER


async def test_a_stalled_node_is_noticed_by_the_others(ours: SQLiteStore, theirs: SQLiteStore) -> None:
    await join(theirs, A)
    runs = ours.runs.subscribe()
    renewer = theirs.renewer(A, ttl=15, workers=[])
    renewer.renew(stalled=False)
    assert await woken_after(runs) is NEVER
    renewer.renew(stalled=True)
    renewer.close()
    assert isinstance(await woken_after(runs), float)


# ---- the look ----


async def test_nobody_looks_while_nobody_listens() -> None:
    looks = 0

    def peek(work: object) -> Any:
        nonlocal looks
        looks += 1
        raise StoreBusy("a hint that is late")

    watches: list[Watch] = []
    bells = Bells(on_listener=lambda: [watch.begin() for watch in watches])
    watches.append(Watch(bells, peek, notice=lambda: False))
    await asyncio.sleep(10)
    assert looks == 0
    subscription = bells.subscribe_runs()
    await asyncio.sleep(10.5 * LOOK_EVERY)
    assert looks == 1 + 10  # one to begin with; an error ends no watch
    subscription.close()
    await asyncio.sleep(10)
    assert looks == 1 + 10
    again = bells.subscribe_runs()
    await asyncio.sleep(1.5 * LOOK_EVERY)
    assert looks == 1 + 10 + 2
    for _ in range(2):
        watches[0].end()
    await asyncio.sleep(10)
    assert looks == 1 + 10 + 2
    again.close()


@pytest.mark.behaviour("B1")
async def test_a_lock_that_becomes_free_rings_for_the_runs_within_half_a_second(tmp_path: Path) -> None:
    folder = tmp_path / "x.db.nodes"
    async with opened(tmp_path / "x.db") as store:
        runs = store.runs.subscribe()
        others = NodeLocks(folder)
        others.take("other")
        assert await woken_after(runs) is NEVER
        others.close()
        waited = await woken_after(runs)
        assert isinstance(waited, float)
        assert 0 < waited <= NOTICE_EVERY * LOOK_EVERY
        assert await woken_after(runs) is NEVER
        runs.close()


async def test_a_store_in_memory_has_nobody_to_look_for() -> None:
    async with opened(None) as store:
        subscription = store.runs.subscribe()
        assert store._watch._timer is None
        await start(store)
        assert await woken_after(subscription) == 0


async def test_an_append_and_the_end_of_its_log_in_one_group_bring_nothing_incomplete(ours: SQLiteStore) -> None:
    await join(ours, A)
    run = await drive(ours)
    subscription = ours.logs.subscribe(run.log)
    head = (await ours.logs.head(run.log)).cursor
    await asyncio.gather(
        ours.logs.append(run.log, run.token, head, [Event("text", "a")]), ours.runs.settle(run, run.token, Completed())
    )
    assert await subscription.wait(LONG)
    assert list(subscription.take_news(0)) == [], "the terminal is not among it, so the log is read"
    subscription.close()
