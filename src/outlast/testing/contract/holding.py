"""Holding a run: what its controller counts before each call, and how it lets go."""

from contextlib import suppress
from dataclasses import replace

import pytest

from outlast.errors import OutlastError
from outlast.run import Cause
from outlast.stores.base import Charge, Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import ANN, TTL, A, B, drive, join, load, say, take, unchanged


class Holding(Contract):
    """`RunStore.charge` and `release`."""

    # ---- charging ----

    async def test_calls_are_counted_one_by_one(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        for number in (1, 2, 3):
            assert await store.runs.charge(run, run.token, number=number, limit=3) is Charge.GRANTED
            assert (await load(store, run)).budget == replace(run.budget, calls=number)

    async def test_a_call_above_the_limit_is_not_charged(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        assert await store.runs.charge(run, run.token, number=1, limit=1) is Charge.GRANTED
        async with unchanged(store):
            assert await store.runs.charge(run, run.token, number=2, limit=1) is Charge.SPENT

    @pytest.mark.behaviour("S4")
    async def test_no_call_is_charged_after_a_stop(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        await store.runs.stop(ANN, "r1", reason=None)
        async with unchanged(store):
            assert await store.runs.charge(run, run.token, number=1, limit=9) is Charge.STOPPED

    @pytest.mark.parametrize("number", [1, 4])
    async def test_a_call_that_is_not_the_next_or_the_last_is_not_charged(self, store: Store, number: int) -> None:
        await join(store, A)
        run = await drive(store)
        for charged in (1, 2):
            await store.runs.charge(run, run.token, number=charged, limit=9)
        async with unchanged(store):
            with suppress(OutlastError, ValueError):
                assert await store.runs.charge(run, run.token, number=number, limit=9) is not Charge.GRANTED

    async def test_calls_are_counted_for_the_life_of_a_run(self, store: Store) -> None:
        await join(store, A, B)
        run = await drive(store)
        await store.runs.charge(run, run.token, number=1, limit=9)
        await store.runs.release(run, run.token, Cause.STORE)
        run = await take(store, run, B)
        assert run.budget.calls == 1
        assert await store.runs.charge(run, run.token, number=2, limit=9) is Charge.GRANTED
        assert (await load(store, run)).budget == replace(run.budget, calls=2)

    async def test_the_newest_claim_is_charged_though_its_lease_has_run_out(
        self, store: Store, bench: Workbench
    ) -> None:
        await join(store, A)
        run = await drive(store)
        await bench.age(TTL + 1)
        assert await store.runs.charge(run, run.token, number=1, limit=9) is Charge.GRANTED

    # ---- releasing ----

    @pytest.mark.parametrize("cause", Cause)
    async def test_a_released_run_has_no_holder_and_keeps_the_cause(self, store: Store, cause: Cause) -> None:
        await join(store, A)
        run = await drive(store)
        await store.runs.charge(run, run.token, number=1, limit=9)
        await say(store, run, "a")
        held = await load(store, run)
        await store.runs.release(run, run.token, cause)
        released = await load(store, run)
        assert released == replace(held, holder=None, lease_until=None, cause=cause, updated_at=released.updated_at)

    async def test_a_release_frees_one_run_of_its_node_alone(self, store: Store) -> None:
        await join(store, A)
        one, other = await drive(store, "r1"), await drive(store, "r2")
        await store.runs.release(one, one.token, Cause.STORE)
        assert await load(store, other) == other
