"""Settling runs: one transaction for the outcome, the terminal event, the seal and the abort."""

from dataclasses import replace
from typing import Final

import pytest

from outlast.errors import ClaimLost, Fenced
from outlast.run import (
    Cancelled,
    Cause,
    Completed,
    Failed,
    FailureCode,
    Limit,
    Outcome,
    Run,
    Status,
    Token,
    after,
    move_of,
    terminal,
)
from outlast.stores.base import Abort, Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import (
    ANN,
    CHAT,
    MANY,
    TTL,
    A,
    B,
    drive,
    events,
    join,
    load,
    said,
    say,
    start,
    take,
    texts,
    unchanged,
)

FAILED: Final = Failed(
    code=FailureCode.RECOVERY_EXHAUSTED, message="m", limit=Limit.LIFE, causes=(Cause.CRASH, Cause.HANDOFF)
)
OUTCOMES: Final[list[Outcome]] = [
    Completed(),
    Completed(result=b'{"n": [1, 2.50]}'),
    Failed(code=FailureCode.WORKER_ERROR, message="The worker raised KeyError."),
    FAILED,
    Cancelled(),
    Cancelled(reason="enough of \u2028 this"),
]


class Settling(Contract):
    """`RunStore.settle` and `settle_unheld`."""

    # ---- by its holder ----

    @pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
    async def test_a_settled_run_has_its_outcome_its_terminal_event_and_its_seal(
        self, store: Store, outcome: Outcome
    ) -> None:
        await join(store, A)
        run = await drive(store)
        await say(store, run, "a", "b")
        before = await store.runs.now()
        settled = await store.runs.settle(run, run.token, outcome)
        assert settled.settled_at is not None
        assert before <= settled.settled_at <= await store.runs.now()
        assert settled == replace(
            run,
            status=after(Status.ACTIVE, move_of(outcome)),
            outcome=outcome,
            holder=None,
            lease_until=None,
            settled_at=settled.settled_at,
            updated_at=settled.updated_at,
        )
        assert await load(store, run) == settled
        await _check_end(store, settled, ["a", "b"])

    @pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
    async def test_an_abort_is_queued_unless_the_run_is_completed(self, store: Store, outcome: Outcome) -> None:
        await join(store, A)
        run = await drive(store)
        settled = await store.runs.settle(run, run.token, outcome)
        aborts = await _aborts(store)
        if isinstance(outcome, Completed):
            assert aborts == []
        else:
            assert [(abort.run, abort.run.epoch, abort.tries) for abort in aborts] == [(settled, 1, 0)]

    async def test_the_newest_claim_settles_its_run_though_its_lease_has_run_out(
        self, store: Store, bench: Workbench
    ) -> None:
        await join(store, A)
        run = await drive(store)
        await bench.age(TTL + 1)
        assert (await store.runs.settle(run, run.token, Completed())).status is Status.COMPLETED

    @pytest.mark.behaviour("S5", "H14")
    async def test_a_failure_that_finds_a_stop_is_cancelled(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        await store.runs.stop(ANN, "r1", reason="enough")
        settled = await store.runs.settle(run, run.token, FAILED)
        assert (settled.status, settled.outcome) == (Status.CANCELLED, Cancelled(reason="enough"))
        await _check_end(store, settled, [])

    @pytest.mark.behaviour("H14")
    async def test_a_completed_run_beats_a_late_stop(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        await store.runs.stop(ANN, "r1", reason="enough")
        settled = await store.runs.settle(run, run.token, Completed(result=b"1"))
        assert (settled.status, settled.outcome) == (Status.COMPLETED, Completed(result=b"1"))
        assert await _aborts(store) == []

    async def test_a_claim_that_was_followed_by_another_settles_nothing(self, store: Store) -> None:
        await join(store, A, B)
        old = await drive(store)
        await store.runs.release(old, old.token, Cause.STORE)
        run = await take(store, old, B)
        for token in (old.token, Token(epoch=run.epoch, claim="another")):
            async with unchanged(store):
                with pytest.raises(Fenced):
                    await store.runs.settle(run, token, Completed())
        assert await _aborts(store) == []

    # ---- by nobody ----

    @pytest.mark.parametrize("outcome", [FAILED, Cancelled(reason="enough")], ids=repr)
    async def test_a_run_that_nobody_holds_is_settled_under_a_new_epoch(
        self, store: Store, bench: Workbench, outcome: Outcome
    ) -> None:
        await join(store, A)
        run = await drive(store)
        await say(store, run, "a")
        await bench.age(TTL + 1)
        run = await load(store, run)
        settled = await store.runs.settle_unheld(run, outcome, claim="sweep")
        assert settled == replace(
            run,
            status=after(Status.ACTIVE, move_of(outcome)),
            outcome=outcome,
            epoch=2,
            claim="sweep",
            holder=None,
            lease_until=None,
            settled_at=settled.settled_at,
            updated_at=settled.updated_at,
        )
        assert settled.settled_at is not None
        assert await load(store, run) == settled
        await _check_end(store, settled, ["a"])
        assert [(abort.run, abort.tries) for abort in await _aborts(store)] == [(settled, 0)]

    async def test_queued_released_and_parked_runs_are_held_by_nobody(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        queued, released, parked = await start(store, "r1"), await drive(store, "r2"), await drive(store, "r3")
        await store.runs.release(released, released.token, Cause.STORE)
        await bench.park(parked, wake_at=None)
        for run in (queued, released, parked):
            settled = await store.runs.settle_unheld(await load(store, run), FAILED, claim=f"sweep {run.id}")
            assert (settled.status, settled.epoch) == (Status.FAILED, run.epoch + 1)
            await _check_end(store, settled, [])

    async def test_the_last_holder_of_a_run_settled_without_it_is_fenced(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        run = await drive(store)
        cursor = await say(store, run, "a")
        await bench.age(TTL + 1)
        await store.runs.settle_unheld(await load(store, run), FAILED, claim="sweep")
        async with unchanged(store):
            with pytest.raises(Fenced):
                await store.logs.append(run.log, run.token, cursor, texts("b"))
            with pytest.raises(Fenced):
                await store.runs.settle(run, run.token, Completed())

    @pytest.mark.behaviour("S5")
    async def test_a_failure_of_a_run_nobody_holds_that_finds_a_stop_is_cancelled(
        self, store: Store, bench: Workbench
    ) -> None:
        await join(store, A)
        seen = await drive(store)
        await store.runs.stop(ANN, "r1", reason="enough")
        await bench.age(TTL + 1)
        settled = await store.runs.settle_unheld(seen, FAILED, claim="sweep")
        assert (settled.status, settled.outcome) == (Status.CANCELLED, Cancelled(reason="enough"))

    async def test_a_run_under_a_live_lease_is_not_settled_by_others(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        run = await drive(store)
        await _check_not_settled(store, run)
        await bench.age(TTL - 5)
        await _check_not_settled(store, run)

    async def test_a_run_that_was_claimed_or_settled_since_is_not_settled_by_others(self, store: Store) -> None:
        await join(store, A)
        seen = await start(store)
        run = await take(store, seen, A)
        await store.runs.release(run, run.token, Cause.STORE)
        await _check_not_settled(store, seen)
        seen = await load(store, run)
        settled = await store.runs.settle_unheld(seen, Cancelled(), claim="sweep 1")
        await _check_not_settled(store, seen)
        await _check_not_settled(store, settled)


async def _check_end(store: Store, settled: Run, before: list[str]) -> None:
    """Check that the log of a settled run says what it said before, then its end, and takes no more."""
    assert settled.outcome is not None
    end = terminal(settled.outcome)
    assert await said(store, settled) == [*before, end.type]
    log = await events(store, settled)
    last = log[-1]
    assert (last.event, last.epoch, last.seq) == (end, settled.epoch, len(before) + 1)
    head = await store.logs.head(settled.log)
    assert (head.cursor, head.sealed) == (last.cursor, True)
    assert head.usage.events == len(before)
    assert head.usage.bytes == sum(len(stored.event.payload) for stored in log[:-1])
    async with unchanged(store):
        with pytest.raises(Fenced):
            await store.logs.append(settled.log, settled.token, head.cursor, texts("late"))


async def _check_not_settled(store: Store, run: Run) -> None:
    async with unchanged(store):
        with pytest.raises(ClaimLost):
            await store.runs.settle_unheld(run, FAILED, claim="sweep 2")


async def _aborts(store: Store) -> list[Abort]:
    return list(await store.runs.take_aborts([CHAT], hold=TTL, limit=MANY))
