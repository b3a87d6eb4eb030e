"""The lineage of a run: what each claim and each settling without a controller leaves behind."""

from dataclasses import replace

import pytest

from outlast.errors import RunNotFound
from outlast.lineage import Entry, Kind
from outlast.run import Cancelled, Cause, Completed, Run
from outlast.stores.base import Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import ANN, BOB, TTL, A, B, drive, join, load, new_claim, start, take


class Lineages(Contract):
    """`RunStore.lineage`."""

    async def test_a_run_that_was_never_claimed_has_no_lineage(self, store: Store) -> None:
        await start(store)
        assert list(await store.runs.lineage(ANN, "r1")) == []
        with pytest.raises(RunNotFound):
            await store.runs.lineage(BOB, "r1")

    async def test_each_claim_leaves_an_entry_with_its_kind_cause_and_calls(
        self, store: Store, bench: Workbench
    ) -> None:
        await join(store, A, B)
        before = await store.runs.now()
        run = await drive(store)
        await store.runs.charge(run, run.token, number=1, limit=9)
        await store.runs.release(run, run.token, Cause.MEMORY)
        await bench.age(1)
        run = await _charged(store, run, B, life=1, causes=(Cause.MEMORY,))
        await store.runs.release(run, run.token, Cause.HANDOFF)
        run = await _charged(store, run, A, handoffs=1)
        entries = await store.runs.lineage(ANN, "r1")
        assert [(entry.epoch, entry.node, entry.kind, entry.cause, entry.calls) for entry in entries] == [
            (1, A, Kind.CLAIM, None, 0),
            (2, B, Kind.TAKEOVER, Cause.MEMORY, 1),
            (3, A, Kind.HANDOFF, Cause.HANDOFF, 1),
        ]
        assert entries[-1].claim == run.claim
        assert before <= entries[0].at < entries[1].at <= entries[2].at == run.updated_at

    async def test_a_settling_without_a_controller_leaves_an_entry_of_nobody(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        await store.runs.release(run, run.token, Cause.STORE)
        settled = await store.runs.settle_unheld(await load(store, run), Cancelled(), claim="c-settle")
        assert list(await store.runs.lineage(ANN, "r1"))[1:] == [_settling(settled)]

    async def test_a_stop_that_settles_leaves_an_entry(self, store: Store) -> None:
        await start(store)
        await store.runs.stop(ANN, "r1", reason=None)
        run = (await store.runs.load(ANN, "r1")).run
        assert list(await store.runs.lineage(ANN, "r1")) == [_settling(run)]

    async def test_a_settling_by_the_controller_a_release_and_a_repeated_claim_leave_none(self, store: Store) -> None:
        await join(store, A)
        queued = await start(store)
        claim = new_claim(queued, A)
        run = await store.runs.claim(queued, claim)
        entries = await store.runs.lineage(ANN, "r1")
        assert await store.runs.claim(queued, claim) == run
        await store.logs.fence(run.log, run.token)
        await store.runs.settle(run, run.token, Completed())
        assert await store.runs.lineage(ANN, "r1") == entries
        assert len(entries) == 1

    async def test_every_run_has_its_own_lineage(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        one = await drive(store, "r1")
        await drive(store, "r1", owner=BOB)
        await bench.age(TTL + 1)
        await join(store, B)
        await take(store, one, B)
        assert [entry.node for entry in await store.runs.lineage(ANN, "r1")] == [A, B]
        assert [entry.node for entry in await store.runs.lineage(BOB, "r1")] == [A]


async def _charged(store: Store, run: Run, node: str, *, causes: tuple[Cause, ...] = (), **spent: int) -> Run:
    run = await load(store, run)
    budget = replace(run.budget, causes=(*run.budget.causes, *causes), **spent)
    return await store.runs.claim(run, new_claim(run, node, budget=budget))


def _settling(run: Run) -> Entry:
    assert run.claim is not None
    return Entry(
        epoch=run.epoch,
        claim=run.claim,
        node=None,
        at=run.updated_at,
        kind=Kind.SETTLE,
        cause=None,
        calls=run.budget.calls,
    )
