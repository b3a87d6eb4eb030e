"""What a run goes on from: its newest checkpoint, kept for whoever holds it next, and the runs of its thread."""

from dataclasses import replace

import pytest

from outlast.errors import Fenced, RunNotFound
from outlast.run import Checkpoint, Completed
from outlast.stores.base import Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import ANN, BOB, TTL, A, B, drive, join, listed, load, start, take, unchanged


def _at(seq: int, state: bytes = b"{}") -> Checkpoint:
    return Checkpoint(seq=seq, state=state)


class Resuming(Contract):
    """`RunStore.checkpoint` and `last_checkpoint`, and `list` by thread."""

    @pytest.mark.behaviour("W14")
    async def test_the_newest_checkpoint_is_there_for_the_next_holder_to_the_byte(self, store: Store) -> None:
        await join(store, A, B)
        run = await drive(store)
        assert await store.runs.last_checkpoint(run) is None
        await store.runs.checkpoint(run, run.token, _at(2, b'{"step":1}'))
        newest = _at(5, bytes(range(256)) * 4096)
        await store.runs.checkpoint(run, run.token, newest)
        await store.runs.leave(A)
        run = await take(store, run, B)
        assert await store.runs.last_checkpoint(run) == newest

    async def test_a_checkpoint_that_is_not_behind_the_kept_one_changes_nothing(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        await store.runs.checkpoint(run, run.token, _at(5, b"5"))
        for late in (_at(5, b"another"), _at(4, b"4"), _at(5, b"5")):
            await store.runs.checkpoint(run, run.token, late)
            assert await store.runs.last_checkpoint(run) == _at(5, b"5")

    async def test_a_checkpoint_leaves_the_row_as_it_was(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        async with unchanged(store):
            await store.runs.checkpoint(run, run.token, _at(1))

    @pytest.mark.behaviour("H10")
    async def test_an_older_claim_keeps_nothing(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        old = await drive(store)
        await store.runs.checkpoint(old, old.token, _at(1, b"1"))
        await bench.age(TTL + 1)
        await join(store, B)
        await take(store, old, B)
        with pytest.raises(Fenced):
            await store.runs.checkpoint(old, old.token, _at(9, b"9"))
        assert await store.runs.last_checkpoint(old) == _at(1, b"1")

    async def test_the_newest_claim_keeps_though_its_lease_has_run_out(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        run = await drive(store)
        await bench.age(TTL + 1)
        await store.runs.checkpoint(run, run.token, _at(1))
        assert await store.runs.last_checkpoint(run) == _at(1)

    async def test_a_settled_run_keeps_no_checkpoint_and_takes_none(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        await store.runs.checkpoint(run, run.token, _at(1))
        await store.runs.settle(run, run.token, Completed())
        with pytest.raises(Fenced):
            await store.runs.checkpoint(run, run.token, _at(2))
        assert await store.runs.last_checkpoint(run) is None

    async def test_a_checkpoint_belongs_to_its_run_alone(self, store: Store) -> None:
        await join(store, A)
        mine, other = await drive(store, "r1"), await drive(store, "r1", owner=BOB)
        await store.runs.checkpoint(mine, mine.token, _at(1))
        assert await store.runs.last_checkpoint(other) is None
        with pytest.raises(RunNotFound):
            await store.runs.last_checkpoint(replace(mine, id="unknown"))

    async def test_runs_are_listed_by_thread_newest_first_in_pages_that_meet(
        self, store: Store, bench: Workbench
    ) -> None:
        for number in range(1, 6):
            await start(store, f"r{number}", thread="t1")
            await store.runs.stop(ANN, f"r{number}", reason=None)
            await start(store, f"other{number}", thread=None if number % 2 else f"t{number}")
            await start(store, f"r{number}", owner=BOB, thread=f"t1-{number}")
            await bench.age(number % 2)
        first = await listed(store, ANN, limit=3, thread="t1")
        rest = await listed(store, ANN, before=first[-1].id, limit=3, thread="t1")
        assert [run.id for run in (*first, *rest)] == ["r5", "r4", "r3", "r2", "r1"]
        assert await listed(store, ANN, thread="t9") == []
        assert await listed(store, BOB, thread="t1") == []

    async def test_runs_are_listed_by_thread_and_status(self, store: Store) -> None:
        await start(store, "r1", thread="t1")
        stopped = (await store.runs.stop(ANN, "r1", reason=None)).run
        await start(store, "r2", thread="t1")
        assert stopped is not None
        for status, id in ((stopped.status, "r1"), ((await load(store, await start(store, "r3"))).status, "r2")):
            assert [run.id for run in await listed(store, ANN, status=status, thread="t1")] == [id]
