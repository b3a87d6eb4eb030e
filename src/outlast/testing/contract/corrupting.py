"""Runs whose rows cannot be read: told, in nobody's way, and settled all the same."""

from typing import Final

import pytest

from outlast.errors import ClaimLost, RunNotFound, StoreCorrupt
from outlast.run import Cancelled, Completed, Failed, FailureCode, Run, Status
from outlast.stores.base import Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import (
    ANN,
    CHAT,
    MANY,
    TTL,
    A,
    drive,
    join,
    listed,
    load,
    said,
    say,
    start,
    unchanged,
)

LOST: Final = Failed(code=FailureCode.WORKER_FAILED, message="What is stored of the run cannot be read.")


class Corrupting(Contract):
    """What cannot be read of a run: `corrupt`, `settle_corrupt`, and what everybody else is told."""

    @pytest.mark.behaviour("L13")
    async def test_who_asks_for_it_by_name_is_told(self, store: Store, bench: Workbench) -> None:
        await bench.garble(await start(store))
        with pytest.raises(StoreCorrupt):
            await store.runs.load(ANN, "r1")
        with pytest.raises(StoreCorrupt):
            await store.runs.stop(ANN, "r1", reason=None)

    @pytest.mark.behaviour("L13")
    async def test_due_runs_are_found_behind_those_that_cannot_be_read(self, store: Store, bench: Workbench) -> None:
        runs = [await start(store, f"r{number}") for number in range(6)]
        for run in runs[:4]:
            await bench.garble(run)
        assert list(await store.runs.corrupt()) == []
        due = await store.runs.due([CHAT], limit=2)
        assert [run.id for run in due.runs] == ["r4", "r5"]
        assert set(await store.runs.corrupt()) == {run.log for run in runs[:4]}

    @pytest.mark.behaviour("L13")
    async def test_a_list_leaves_them_out_and_names_them(self, store: Store, bench: Workbench) -> None:
        runs = [await start(store, f"r{number}") for number in range(5)]
        await bench.garble(runs[4])
        await bench.garble(runs[2])
        for status in (None, Status.QUEUED):
            page = await listed(store, ANN, status=status, limit=2)
            assert [run.id for run in page] == ["r3", "r1"]
            assert [run.id for run in await listed(store, ANN, status=status, before="r1", limit=2)] == ["r0"]
        assert set(await store.runs.corrupt()) == {runs[4].log, runs[2].log}

    @pytest.mark.behaviour("L13")
    async def test_stops_are_found_beside_them(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        runs = [await drive(store, f"r{number}") for number in range(3)]
        for run in runs:
            await store.runs.stop(ANN, run.id, reason=None)
        await bench.garble(runs[1])
        assert {run.id for run in await store.runs.stops(A)} == {"r0", "r2"}
        assert list(await store.runs.corrupt()) == [runs[1].log]

    @pytest.mark.behaviour("L13")
    async def test_aborts_are_taken_beside_them(self, store: Store, bench: Workbench) -> None:
        runs = [await start(store, f"r{number}") for number in range(3)]
        for run in runs:
            await store.runs.stop(ANN, run.id, reason=None)
        await bench.garble(runs[1])
        taken = await store.runs.take_aborts([CHAT], hold=30, limit=MANY)
        assert {abort.run.id for abort in taken} == {"r0", "r2"}
        assert list(await store.runs.corrupt()) == [runs[1].log]

    # ---- settling one ----

    async def test_one_is_settled_with_its_terminal_event_and_can_be_read(self, store: Store, bench: Workbench) -> None:
        run = await _corrupt(store, bench)
        await bench.age(TTL + 1)
        await store.runs.due([CHAT], limit=MANY)
        assert list(await store.runs.corrupt()) == [run.log]
        await store.runs.settle_corrupt(run.log, LOST, claim="sweep")
        settled = await load(store, run)
        assert (settled.status, settled.outcome, settled.holder) == (Status.FAILED, LOST, None)
        assert (settled.epoch, settled.claim) == (run.epoch + 1, "sweep")
        assert await said(store, run) == ["a", "run.failed"]
        assert (await store.logs.head(run.log)).sealed
        assert list(await store.runs.corrupt()) == []
        assert (await store.runs.due([CHAT], limit=MANY)).runs == []

    async def test_one_is_settled_though_its_log_is_lost_as_well(self, store: Store, bench: Workbench) -> None:
        run = await start(store)
        await bench.garble(run)
        await bench.lose_log(run.log)
        await store.runs.settle_corrupt(run.log, Cancelled(), claim="sweep")
        assert (await load(store, run)).status is Status.CANCELLED

    async def test_one_that_a_live_lease_holds_is_left_alone(self, store: Store, bench: Workbench) -> None:
        run = await _corrupt(store, bench)
        with pytest.raises(ClaimLost):
            await store.runs.settle_corrupt(run.log, LOST, claim="sweep")
        assert await said(store, run) == ["a"]
        await bench.age(TTL + 1)
        await store.runs.settle_corrupt(run.log, LOST, claim="sweep")
        with pytest.raises(ClaimLost):
            await store.runs.settle_corrupt(run.log, LOST, claim="another")

    async def test_a_run_that_can_be_read_is_settled_in_no_such_way(self, store: Store) -> None:
        await join(store, A)
        queued, ended = await start(store), await drive(store, "r2")
        await store.runs.settle(ended, ended.token, Completed())
        async with unchanged(store):
            for run in (queued, ended):
                with pytest.raises(ClaimLost):
                    await store.runs.settle_corrupt(run.log, LOST, claim="sweep")
            with pytest.raises(RunNotFound):
                await store.runs.settle_corrupt("no-log", LOST, claim="sweep")


async def _corrupt(store: Store, bench: Workbench) -> Run:
    """Let a node hold a run that said a word and whose row cannot be read."""
    await join(store, A)
    run = await drive(store)
    await say(store, run, "a")
    await bench.garble(run)
    return run
