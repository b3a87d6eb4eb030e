"""The outbox: every worker is told, at least once, that its run is over."""

from typing import Final

import pytest

from outlast.run import Cancelled, Completed
from outlast.stores.base import Abort, Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import ANN, CHAT, MANY, A, drive, join, load, start

HOLD: Final = 30.0


class Outbox(Contract):
    """`RunStore.take_aborts`, `delay_abort` and `finish_abort`."""

    async def test_an_abort_carries_the_settled_run_and_its_epoch(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        settled = await store.runs.settle(run, run.token, Cancelled())
        assert [(abort.run, abort.tries) for abort in await _take(store)] == [(settled, 0)]
        assert settled == await load(store, run)

    async def test_a_taken_abort_is_hidden_from_everybody_until_its_hold_is_over(
        self, store: Store, bench: Workbench
    ) -> None:
        other = await bench.again()
        await _stop(store, "r1")
        (first,) = await _take(store)
        assert await _take(store) == await _take(other) == []
        await bench.age(HOLD - 10)
        assert await _take(store) == await _take(other) == []
        await bench.age(20)
        (second,) = await _take(other)
        assert (second.id, second.run, second.tries) == (first.id, first.run, 1)
        await bench.age(HOLD + 1)
        assert [abort.tries for abort in await _take(store)] == [2]

    @pytest.mark.parametrize("retry_in", [5.0, 60.0])
    async def test_a_delayed_abort_is_due_again_at_its_time_whatever_its_hold(
        self, store: Store, bench: Workbench, retry_in: float
    ) -> None:
        await _stop(store, "r1")
        (abort,) = await _take(store)
        await store.runs.delay_abort(abort, retry_in=retry_in)
        await bench.age(retry_in - 3)
        assert await _take(store) == []
        await bench.age(6)
        assert [again.tries for again in await _take(store)] == [1]

    async def test_a_finished_abort_is_gone_and_finishing_it_twice_is_harmless(
        self, store: Store, bench: Workbench
    ) -> None:
        await _stop(store, "r1")
        await _stop(store, "r2")
        taken = {abort.run.id: abort for abort in await _take(store)}
        for _ in range(2):
            await store.runs.finish_abort(taken["r1"])
        await bench.age(HOLD + 1)
        assert [abort.run.id for abort in await _take(store)] == ["r2"]

    async def test_a_late_finish_deletes_no_other_runs_abort(self, store: Store) -> None:
        await _stop(store, "r1")
        (abort,) = await _take(store)
        await store.runs.finish_abort(abort)
        await _stop(store, "r2")
        await store.runs.finish_abort(abort)
        assert [again.run.id for again in await _take(store)] == ["r2"]

    async def test_aborts_are_taken_for_the_workers_asked_for_and_no_more_than_asked_for(self, store: Store) -> None:
        for id, worker in (("r1", CHAT), ("r2", CHAT), ("r3", "draw"), ("r4", "cook")):
            await start(store, id, worker=worker)
            await store.runs.stop(ANN, id, reason=None)
        assert await _take(store, workers=set()) == []
        assert {abort.run.id for abort in await _take(store, workers={"draw", "cook"})} == {"r3", "r4"}
        one, other = await _take(store, limit=1), await _take(store, limit=1)
        assert sorted(abort.run.id for abort in (*one, *other)) == ["r1", "r2"]
        assert len(one) == len(other)
        assert await _take(store, limit=1) == []

    async def test_a_completed_run_queues_no_abort(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        await store.runs.settle(run, run.token, Completed())
        assert await _take(store) == []


async def _stop(store: Store, id: str) -> None:
    await start(store, id)
    await store.runs.stop(ANN, id, reason=None)


async def _take(store: Store, *, workers: set[str] | None = None, limit: int = MANY) -> list[Abort]:
    return list(await store.runs.take_aborts({CHAT} if workers is None else workers, hold=HOLD, limit=limit))
