"""Repeating what may have happened: an operation whose answer was lost is recognised, and charges nothing twice.

Each check lets an operation happen, forgets its answer, and asks again with the same arguments: through the same
handle and through another, at once and after others have written something in between.
"""

from dataclasses import replace
from typing import Final

import pytest

from outlast.errors import ClaimLost, Fenced
from outlast.log.cursor import advance
from outlast.run import Cancelled, Cause, Completed, Failed, FailureCode, Status, Token
from outlast.stores.base import Charge, StopAnswer, Store
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
    new_run,
    said,
    say,
    start,
    texts,
    unchanged,
)

FAILED: Final = Failed(code=FailureCode.WORKER_ERROR, message="m")


@pytest.mark.behaviour("H21")
class Repeating(Contract):
    """The fourth promise, on every method that writes."""

    @pytest.fixture
    async def handles(self, bench: Workbench) -> list[Store]:
        """Return two handles on the store, through which everything is asked again."""
        return [bench.store, await bench.again()]

    async def test_a_start(self, store: Store, handles: list[Store]) -> None:
        run = (await store.runs.start(new_run(thread="t1"))).run
        for handle in handles:
            async with unchanged(store):
                again = await handle.runs.start(new_run(thread="t1"))
            assert (again.run, again.created) == (run, False)

    async def test_the_start_of_a_run_that_is_born_cancelled(self, store: Store, handles: list[Store]) -> None:
        await store.runs.stop(ANN, "r1", reason="enough")
        run = (await store.runs.start(new_run())).run
        for handle in handles:
            async with unchanged(store):
                again = await handle.runs.start(new_run())
            assert (again.run, again.created, again.run.status) == (run, False, Status.CANCELLED)

    # ---- claims ----

    async def test_a_claim(self, store: Store, handles: list[Store]) -> None:
        await join(store, A)
        seen = await start(store)
        claim = new_claim(seen, A, not_before=await store.runs.now() + 60)
        claimed = await store.runs.claim(seen, claim)
        for handle in handles:
            async with unchanged(store):
                assert await handle.runs.claim(seen, claim) == claimed

    async def test_a_claim_after_which_a_stop_came(self, store: Store, handles: list[Store]) -> None:
        await join(store, A)
        seen = await start(store)
        claim = new_claim(seen, A)
        claimed = await store.runs.claim(seen, claim)
        await store.runs.stop(ANN, "r1", reason="enough")
        for handle in handles:
            async with unchanged(store):
                again = await handle.runs.claim(seen, claim)
            assert (again.token, again.holder) == (claimed.token, A)

    async def test_a_claim_after_which_another_node_claimed_is_lost(
        self, store: Store, bench: Workbench, handles: list[Store]
    ) -> None:
        await join(store, A)
        seen = await start(store)
        claim = new_claim(seen, A)
        claimed = await store.runs.claim(seen, claim)
        await bench.age(TTL + 1)
        await join(store, B)
        await store.runs.claim(claimed, new_claim(claimed, B))
        for handle in handles:
            async with unchanged(store):
                with pytest.raises(ClaimLost):
                    await handle.runs.claim(seen, claim)

    async def test_a_fence(self, store: Store, handles: list[Store]) -> None:
        await join(store, A)
        run = await drive(store)
        await say(store, run, "a")
        for handle in handles:
            async with unchanged(store):
                await handle.logs.fence(run.log, run.token)
        await say(store, run, "b")

    # ---- charges and releases ----

    async def test_a_charge(self, store: Store, handles: list[Store]) -> None:
        await join(store, A)
        run = await drive(store)
        assert await store.runs.charge(run, run.token, number=1, limit=1) is Charge.GRANTED
        for handle in handles:
            async with unchanged(store):
                assert await handle.runs.charge(run, run.token, number=1, limit=1) is Charge.GRANTED

    async def test_a_release(self, store: Store, handles: list[Store]) -> None:
        await join(store, A)
        run = await drive(store)
        await store.runs.release(run, run.token, Cause.MEMORY)
        for handle in handles:
            async with unchanged(store):
                await handle.runs.release(run, run.token, Cause.MEMORY)

    async def test_a_release_after_which_another_node_claimed_is_fenced(
        self, store: Store, handles: list[Store]
    ) -> None:
        await join(store, A, B)
        run = await drive(store)
        await store.runs.release(run, run.token, Cause.MEMORY)
        free = await load(store, run)
        await store.runs.claim(free, new_claim(free, B))
        for handle in handles:
            async with unchanged(store):
                with pytest.raises(Fenced):
                    await handle.runs.release(run, run.token, Cause.MEMORY)

    # ---- appends ----

    @pytest.mark.behaviour("L2")
    async def test_an_append(self, store: Store, handles: list[Store]) -> None:
        await join(store, A)
        run = await drive(store)
        head = (await store.logs.head(run.log)).cursor
        written = await store.logs.append(run.log, run.token, head, texts("a", "b"))
        for handle in handles:
            async with unchanged(store):
                assert await handle.logs.append(run.log, run.token, head, texts("a", "b")) == written
        assert await said(store, run) == ["a", "b"]

    @pytest.mark.behaviour("L2")
    async def test_an_append_behind_which_more_was_written(self, store: Store, handles: list[Store]) -> None:
        await join(store, A)
        run = await drive(store)
        head = (await store.logs.head(run.log)).cursor
        written = await store.logs.append(run.log, run.token, head, texts("a", "b"))
        await say(store, run, "c")
        for handle in handles:
            async with unchanged(store):
                assert await handle.logs.append(run.log, run.token, head, texts("a", "b")) == written

    async def test_an_append_that_the_next_holder_finds_written(self, store: Store, handles: list[Store]) -> None:
        # A log that is re-seeded has another writer and the same chain: epoch and time are not part of it.
        await join(store, A)
        run = await drive(store)
        head = (await store.logs.head(run.log)).cursor
        await store.logs.append(run.log, run.token, head, texts("a"))
        token = Token(epoch=run.epoch + 1, claim="next")
        await store.logs.fence(run.log, token)
        for handle in handles:
            async with unchanged(store):
                again = await handle.logs.append(run.log, token, head, texts("a"))
            assert again == advance(head, texts("a")[0])

    # ---- outcomes ----

    async def test_a_settle(self, store: Store, handles: list[Store]) -> None:
        await join(store, A)
        run = await drive(store)
        settled = await store.runs.settle(run, run.token, FAILED)
        for handle in handles:
            async with unchanged(store):
                assert await handle.runs.settle(run, run.token, FAILED) == settled
        assert len(await store.runs.take_aborts([CHAT], hold=TTL, limit=MANY)) == 1

    async def test_a_failure_that_found_a_stop(self, store: Store, handles: list[Store]) -> None:
        await join(store, A)
        run = await drive(store)
        await store.runs.stop(ANN, "r1", reason="enough")
        settled = await store.runs.settle(run, run.token, FAILED)
        for handle in handles:
            async with unchanged(store):
                assert await handle.runs.settle(run, run.token, FAILED) == settled
        assert settled.outcome == Cancelled(reason="enough")

    async def test_a_settle_of_a_run_that_nobody_holds(self, store: Store, handles: list[Store]) -> None:
        seen = await start(store)
        settled = await store.runs.settle_unheld(seen, FAILED, claim="sweep")
        for handle in handles:
            async with unchanged(store):
                assert await handle.runs.settle_unheld(seen, FAILED, claim="sweep") == settled
            with pytest.raises(ClaimLost):
                await handle.runs.settle_unheld(seen, FAILED, claim="another sweep")
        assert len(await store.runs.take_aborts([CHAT], hold=TTL, limit=MANY)) == 1

    async def test_a_settle_after_which_an_abort_was_delivered_queues_no_other(
        self, store: Store, handles: list[Store]
    ) -> None:
        await join(store, A)
        run = await drive(store)
        await store.runs.settle(run, run.token, FAILED)
        for abort in await store.runs.take_aborts([CHAT], hold=TTL, limit=MANY):
            await store.runs.finish_abort(abort)
        for handle in handles:
            await handle.runs.settle(run, run.token, FAILED)
        assert list(await store.runs.take_aborts([CHAT], hold=TTL, limit=MANY)) == []

    # ---- stops, nodes ----

    async def test_a_stop(self, store: Store, handles: list[Store]) -> None:
        await join(store, A)
        await drive(store, "held")
        await start(store, "free")
        first = {id: await store.runs.stop(ANN, id, reason="enough") for id in ("held", "free", "unknown")}
        for handle in handles:
            async with unchanged(store):
                assert await handle.runs.stop(ANN, "held", reason="enough") == first["held"]
                assert await handle.runs.stop(ANN, "unknown", reason="enough") == first["unknown"]
                again = await handle.runs.stop(ANN, "free", reason="enough")
            # The truth at that moment: the run has its outcome. It is the one that the first stop gave it.
            assert (again.answer, again.run) == (StopAnswer.ALREADY, first["free"].run)
        assert len(await store.runs.take_aborts([CHAT], hold=TTL, limit=MANY)) == 1

    async def test_joining(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        await join(store, A)
        assert [node.id for node in await store.runs.nodes()] == [A]
        assert await load(store, run) == replace(run, lease_until=(await store.runs.nodes())[0].until)

    async def test_a_refusal_and_a_delay(self, store: Store, bench: Workbench, handles: list[Store]) -> None:
        waiting = await start(store, "waiting")
        await start(store, "ended")
        await store.runs.stop(ANN, "ended", reason=None)
        (abort,) = await store.runs.take_aborts([CHAT], hold=TTL, limit=MANY)
        for handle in [store, *handles]:
            await handle.runs.refuse(waiting, retry_in=60)
            await handle.runs.delay_abort(abort, retry_in=60)
        await bench.age(70)
        assert [run.id for run in (await store.runs.due([CHAT], limit=MANY)).runs] == ["waiting"]
        assert [again.tries for again in await store.runs.take_aborts([CHAT], hold=TTL, limit=MANY)] == [1]

    async def test_leaving_and_finishing(self, store: Store, handles: list[Store]) -> None:
        await join(store, A)
        run = await drive(store)
        await store.runs.settle(run, run.token, FAILED)
        (abort,) = await store.runs.take_aborts([CHAT], hold=TTL, limit=MANY)
        await store.runs.finish_abort(abort)
        await store.runs.leave(A)
        for handle in handles:
            async with unchanged(store):
                await handle.runs.finish_abort(abort)
                await handle.runs.leave(A)

    async def test_a_completed_run_stays_completed_when_its_settle_is_asked_for_again_after_a_stop(
        self, store: Store, handles: list[Store]
    ) -> None:
        await join(store, A)
        run = await drive(store)
        settled = await store.runs.settle(run, run.token, Completed())
        await store.runs.stop(ANN, "r1", reason="late")
        for handle in handles:
            async with unchanged(store):
                assert await handle.runs.settle(run, run.token, Completed()) == settled
