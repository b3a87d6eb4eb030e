"""Claiming runs: what a claim writes, and everything that refuses it."""

from dataclasses import replace
from typing import Final

import pytest

from outlast.errors import ClaimLost
from outlast.run import Cause, Completed, RecoveryBudget, Run, Status
from outlast.stores.base import NewClaim, Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import (
    ANN,
    CHAT,
    MANY,
    TTL,
    A,
    B,
    drive,
    join,
    load,
    new_claim,
    start,
    take,
    unchanged,
)

BUDGET: Final = RecoveryBudget(
    takeovers=2, last_takeover_at=7.5, life=3, handoffs=4, calls=5, waits=6, causes=(Cause.CRASH, Cause.STALL)
)


class Claiming(Contract):
    """`RunStore.claim`."""

    async def test_a_claim_is_written_and_the_row_after_it_returned(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        queued = await start(store)
        await bench.age(1)
        claim = NewClaim(claim="c1", node=A, budget=BUDGET, not_before=await store.runs.now() + 9)
        before = await store.runs.now()
        run = await store.runs.claim(queued, claim)
        assert run.lease_until == pytest.approx(before + TTL - 1, abs=2)
        assert before <= run.updated_at <= await store.runs.now()
        assert run == replace(
            queued,
            status=Status.ACTIVE,
            epoch=1,
            claim="c1",
            holder=A,
            budget=BUDGET,
            not_before=claim.not_before,
            lease_until=run.lease_until,
            updated_at=run.updated_at,
        )
        assert await load(store, run) == run

    async def test_each_claim_raises_the_epoch_by_one(self, store: Store) -> None:
        await join(store, A, B)
        run = await drive(store)
        for epoch, node in ((2, B), (3, A), (4, A)):
            await store.runs.release(run, run.token, Cause.STORE)
            run = await take(store, run, node)
            assert (run.epoch, run.holder) == (epoch, node)

    async def test_a_claim_clears_the_cause_of_the_last_release(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        await store.runs.release(run, run.token, Cause.MEMORY)
        assert (await take(store, run, A)).cause is None

    async def test_a_claim_clears_refusals(self, store: Store) -> None:
        await join(store, A)
        await store.runs.refuse(await start(store), retry_in=1000)
        run = await take(store, await start(store), A)
        await store.runs.release(run, run.token, Cause.STORE)
        assert [due.id for due in (await store.runs.due([CHAT], limit=MANY)).runs] == ["r1"]

    async def test_a_run_is_claimed_once_its_holders_lease_has_run_out(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        run = await drive(store)
        await bench.age(TTL + 1)
        await join(store, B)
        taken = await take(store, run, B)
        assert (taken.epoch, taken.holder) == (2, B)

    async def test_a_parked_run_is_claimed_once_its_time_has_come(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        run = await take(store, await start(store), A, not_before=await store.runs.now() + 1000)
        await bench.park(run, wake_at=await store.runs.now() - 1)
        taken = await take(store, run, A)
        assert (taken.status, taken.epoch) == (Status.ACTIVE, 2)

    # ---- refused ----

    @pytest.mark.behaviour("H1", "B13")
    async def test_a_claim_of_a_row_that_was_claimed_since_is_lost(self, store: Store) -> None:
        await join(store, A, B)
        seen = await start(store)
        run = await take(store, seen, A)
        await store.runs.release(run, run.token, Cause.STORE)
        await _check_lost(store, seen, B)

    @pytest.mark.behaviour("H1")
    @pytest.mark.parametrize("node", [A, B])
    async def test_a_run_under_a_live_lease_is_not_claimed(self, store: Store, bench: Workbench, node: str) -> None:
        await join(store, A, B)
        run = await drive(store)
        await _check_lost(store, run, node)
        await bench.age(TTL - 5)
        await _check_lost(store, run, node)

    async def test_a_settled_run_is_not_claimed(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        settled = await store.runs.settle(run, run.token, Completed())
        await _check_lost(store, settled, A)
        await _check_lost(store, run, A)

    async def test_a_run_with_a_stop_is_not_claimed(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        run = await drive(store)
        await store.runs.stop(ANN, "r1", reason=None)
        await bench.age(TTL + 1)
        await join(store, B)
        await _check_lost(store, await load(store, run), B)
        await _check_lost(store, run, B)

    @pytest.mark.behaviour("B5")
    async def test_a_run_is_not_claimed_before_its_time(self, store: Store, bench: Workbench) -> None:
        await join(store, A, B)
        run = await take(store, await start(store), A, not_before=await store.runs.now() + 5)
        await store.runs.release(run, run.token, Cause.STORE)
        await _check_lost(store, await load(store, run), B)
        await bench.age(3)
        await _check_lost(store, await load(store, run), B)
        await bench.age(4)
        assert (await take(store, run, B)).holder == B

    @pytest.mark.parametrize("wake_in", [None, 60.0])
    async def test_a_parked_run_is_not_claimed_before_it_wants_to_be_woken(
        self, store: Store, bench: Workbench, wake_in: float | None
    ) -> None:
        await join(store, A)
        run = await drive(store)
        await bench.park(run, wake_at=None if wake_in is None else await store.runs.now() + wake_in)
        await _check_lost(store, await load(store, run), A)

    async def test_a_node_without_a_live_lease_claims_nothing(self, store: Store, bench: Workbench) -> None:
        run = await start(store)
        await _check_lost(store, run, A)
        await join(store, A, B)
        await store.runs.leave(B)
        await _check_lost(store, run, B)
        await bench.age(TTL + 1)
        await _check_lost(store, run, A)

    async def test_a_refused_claim_may_be_won_later(self, store: Store) -> None:
        await join(store, A, B)
        run = await drive(store)
        await _check_lost(store, run, B)
        await store.runs.release(run, run.token, Cause.STORE)
        assert (await take(store, run, B)).epoch == run.epoch + 1


async def _check_lost(store: Store, run: Run, node: str) -> None:
    """Check that `node` cannot claim `run` as it was read, and that the attempt spends and changes nothing."""
    async with unchanged(store):
        with pytest.raises(ClaimLost):
            await store.runs.claim(run, new_claim(run, node, budget=BUDGET))
