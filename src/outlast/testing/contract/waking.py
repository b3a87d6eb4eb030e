"""Wake-ups: who waits is told of each change that concerns it, soon; who is not told finds it all the same."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import pytest

from outlast.log.event import StoredEvent
from outlast.run import Cancelled, Cause, Completed, Run
from outlast.stores.base import Store, Subscription
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import ANN, MANY, MANY_BYTES, PATIENCE, A, drive, join, said, say, start

Change: TypeAlias = Callable[[Store, Run], Awaitable[object]]

FOR_NODES: Final[dict[str, Change]] = {
    "a run started": lambda store, _: start(store, "r2"),
    "a run stopped": lambda store, _: store.runs.stop(ANN, "r1", reason=None),
    "a run released": lambda store, run: store.runs.release(run, run.token, Cause.STORE),
    "a run settled": lambda store, run: store.runs.settle(run, run.token, Completed()),
    "an abort queued": lambda store, run: store.runs.settle(run, run.token, Cancelled()),
    "a node gone": lambda store, _: store.runs.leave(A),
}
"""What a waiter on the authority is woken for."""

FOR_READERS: Final[dict[str, Change]] = {
    "the log grew": lambda store, run: say(store, run, "a"),
    "the log was sealed": lambda store, run: store.runs.settle(run, run.token, Completed()),
}
"""What a waiter on a log is woken for."""


class Waking(Contract):
    """`RunStore.subscribe`, `LogStore.subscribe` and the `Subscription`."""

    @pytest.mark.parametrize("change", FOR_NODES)
    async def test_nodes_are_woken(self, store: Store, change: str) -> None:
        await join(store, A)
        run = await drive(store)
        await _check_woken(store.runs.subscribe(), lambda: FOR_NODES[change](store, run))

    @pytest.mark.parametrize("change", FOR_NODES)
    async def test_nodes_are_woken_through_another_handle(self, store: Store, bench: Workbench, change: str) -> None:
        other = await bench.again()
        await join(store, A)
        run = await drive(store)
        await _check_woken(other.runs.subscribe(), lambda: FOR_NODES[change](store, run))

    @pytest.mark.parametrize("change", FOR_READERS)
    async def test_readers_are_woken(self, store: Store, change: str) -> None:
        await join(store, A)
        run = await drive(store)
        await _check_woken(store.logs.subscribe(run.log), lambda: FOR_READERS[change](store, run))

    @pytest.mark.parametrize("change", FOR_READERS)
    async def test_readers_are_woken_through_another_handle(self, store: Store, bench: Workbench, change: str) -> None:
        other = await bench.again()
        await join(store, A)
        run = await drive(store)
        await _check_woken(other.logs.subscribe(run.log), lambda: FOR_READERS[change](store, run))

    async def test_every_waiter_is_woken(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        waiters = [store.logs.subscribe(run.log) for _ in range(5)]
        await say(store, run, "a")
        for waiter in waiters:
            await _wait(waiter)
            waiter.close()

    async def test_a_change_between_two_waits_is_not_missed(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        subscription = store.logs.subscribe(run.log)
        for word in ("a", "b", "c"):
            await say(store, run, word)
            await _wait(subscription)
        subscription.close()

    async def test_a_wait_ends_after_its_time(self, store: Store) -> None:
        run = await start(store)
        for subscription in (store.runs.subscribe(), store.logs.subscribe(run.log)):
            async with asyncio.timeout(PATIENCE):
                for seconds in (0.0, 0.001):
                    assert not await subscription.wait(seconds)
            subscription.close()

    async def test_a_waiter_can_be_woken_by_its_own_side(self, store: Store) -> None:
        run = await start(store)
        for subscription in (store.runs.subscribe(), store.logs.subscribe(run.log)):
            subscription.ring()
            await _wait(subscription)
            assert not await subscription.wait(0.0)
            subscription.close()

    async def test_what_a_wake_up_brings_along_is_what_is_read_and_is_brought_once(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        subscription = store.logs.subscribe(run.log)
        seen: list[StoredEvent] = []
        for word in ("a", "b", "c"):
            await say(store, run, word)
            await _wait(subscription)
            seen += subscription.take_news(len(seen))
            stored = await store.logs.read(run.log, after=0, limit=MANY, max_bytes=MANY_BYTES)
            assert seen in ([], list(stored)), "a store may bring nothing along, but nothing else"
            assert not subscription.take_news(len(seen))
        subscription.close()

    async def test_news_are_only_what_goes_on_where_the_waiter_stands(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        subscription = store.logs.subscribe(run.log)
        for word in ("a", "b"):
            await say(store, run, word)
        await _wait(subscription)
        news = subscription.take_news(0)
        assert [stored.seq for stored in news] in ([], [1], [1, 2])
        subscription.close()

    async def test_closing_one_subscription_twice_is_harmless_to_the_others(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        for subscribe in (store.runs.subscribe, lambda: store.logs.subscribe(run.log)):
            closed, kept = subscribe(), subscribe()
            closed.close()
            closed.close()
            await say(store, run, "a")
            await store.runs.stop(ANN, "r1", reason=None)
            await _wait(kept)
            kept.close()

    async def test_who_was_not_woken_finds_the_change_all_the_same(self, store: Store, bench: Workbench) -> None:
        other = await bench.again()
        await join(store, A)
        run = await drive(store)
        deaf = other.logs.subscribe(run.log)
        deaf.close()
        await say(store, run, "a")
        assert await said(other, run) == ["a"]


async def _wait(subscription: Subscription) -> None:
    """Wait for a wake-up; one that does not come fails the check long before the wait would end by itself."""
    async with asyncio.timeout(PATIENCE):
        assert await subscription.wait(100 * PATIENCE)


async def _check_woken(subscription: Subscription, change: Callable[[], Awaitable[object]]) -> None:
    """Check that a change wakes one who waits already, and one who begins to wait after it."""
    waiter = asyncio.create_task(_wait(subscription))
    await asyncio.sleep(0)
    await change()
    await waiter
    subscription.close()
