"""Sharing a store: one clock for all, and what one was answered another sees."""

import pytest

from outlast.run import Cause, Completed
from outlast.stores.base import Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import ANN, TTL, A, B, drive, join, said, say, sight, start, take


class Sharing(Contract):
    """The first and the third promise; `Store.open` and `close`."""

    # ---- one clock ----

    async def test_the_clock_never_steps_back(self, store: Store, bench: Workbench) -> None:
        other = await bench.again()
        times = [await handle.runs.now() for _ in range(20) for handle in (store, other)]
        assert times == sorted(times)

    async def test_the_clock_is_the_same_through_every_handle(self, store: Store, bench: Workbench) -> None:
        other = await bench.again()
        before = await store.runs.now()
        await bench.age(1000)
        assert before + 1000 <= await store.runs.now() <= await other.runs.now() <= await store.runs.now()

    async def test_a_lease_ends_for_everybody_at_once(self, store: Store, bench: Workbench) -> None:
        other = await bench.again()
        await join(store, A)
        run = await drive(store)
        await join(other, B)
        await bench.age(TTL + 1)
        await join(other, B)
        assert (await take(other, run, B)).holder == B

    # ---- one identity ----

    @pytest.mark.behaviour("M2")
    async def test_a_store_is_the_same_one_through_every_handle_and_after_it_was_closed(
        self, store: Store, bench: Workbench
    ) -> None:
        known = store.id
        assert known
        assert (await bench.again()).id == known
        await store.close()
        assert store.id == known

    # ---- what was answered ----

    async def test_whatever_one_handle_wrote_the_other_sees(self, store: Store, bench: Workbench) -> None:
        other = await bench.again()
        await join(store, A, B)
        run = await drive(store)
        assert await sight(other) == await sight(store)
        await say(store, run, "a", "b")
        assert await said(other, run) == ["a", "b"]
        await store.runs.charge(run, run.token, number=1, limit=9)
        await store.runs.stop(ANN, "r1", reason="enough")
        assert await sight(other) == await sight(store)
        await store.runs.release(run, run.token, Cause.STORE)
        await store.runs.refuse(await start(store, "r2"), retry_in=30)
        await store.runs.leave(B)
        assert await sight(other) == await sight(store)

    async def test_a_run_goes_on_through_another_handle(self, store: Store, bench: Workbench) -> None:
        other = await bench.again()
        await join(store, A)
        run = await drive(store)
        await say(store, run, "a")
        await say(other, run, "b")
        await other.runs.settle(run, run.token, Completed())
        assert await said(store, run) == ["a", "b", "run.completed"]

    async def test_what_was_answered_outlives_the_handle_it_was_asked_through(
        self, store: Store, bench: Workbench
    ) -> None:
        other = await bench.again()
        if other is store:
            pytest.skip("this store lives and dies with one process")
        await join(other, A)
        await say(other, await drive(other), "a")
        seen = await sight(other)
        await other.close()
        assert await sight(store) == seen

    async def test_closing_twice_is_harmless(self, bench: Workbench) -> None:
        await bench.store.close()
        await bench.store.close()
