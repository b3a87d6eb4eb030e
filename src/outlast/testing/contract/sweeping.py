"""Sweeping: how long a run was refused or its worker was on no node, counted by those who look and not by the clock."""

from typing import Final

import pytest

from outlast.errors import ClaimLost
from outlast.run import Cause, Failed, FailureCode, Run
from outlast.stores.base import Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import ANN, CHAT, MANY, TTL, A, drive, join, load, mint, new_claim, start, unchanged

EVERY: Final = 60.0
"""Seconds between two looks."""
LONG: Final = 600.0
"""Seconds after which a run without a worker is forsaken."""
ORPHANED: Final = Failed(code=FailureCode.ORPHANED, message="m")


class Sweeping(Contract):
    """`RunStore.refuse` for its answer, `attend` and `forsaken`."""

    # ---- refusals ----

    @pytest.mark.behaviour("B19")
    async def test_refusals_are_added_up(self, store: Store, bench: Workbench) -> None:
        run = await start(store)
        answers: list[float] = []
        for _ in range(4):
            answers.append(await store.runs.refuse(run, retry_in=30))
            await bench.age(40)
        assert answers == pytest.approx([0, 40, 80, 120], abs=1)

    @pytest.mark.behaviour("B19")
    async def test_time_in_which_nobody_asked_is_no_refusal(self, store: Store, bench: Workbench) -> None:
        run = await start(store)
        await store.runs.refuse(run, retry_in=30)
        await bench.age(100_000)
        assert await store.runs.refuse(run, retry_in=30) == pytest.approx(60, abs=1)

    async def test_a_claim_begins_the_count_anew(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        run = await start(store)
        await store.runs.refuse(run, retry_in=30)
        await bench.age(10)
        await store.runs.refuse(run, retry_in=0)
        await join(store, A)
        claimed = await store.runs.claim(run, new_claim(run, A))
        assert await store.runs.refuse(run, retry_in=30) == 0  # about the past
        await store.runs.release(claimed, claimed.token, Cause.STORE)
        assert await store.runs.refuse(await load(store, run), retry_in=30) == 0

    # ---- workers that no node has ----

    @pytest.mark.behaviour("O2")
    async def test_a_run_whose_worker_no_node_has_is_forsaken_after_that_time(
        self, store: Store, bench: Workbench
    ) -> None:
        run = await start(store)
        found = await _watch(store, bench, LONG - EVERY)
        assert found == []
        assert await _watch(store, bench, 3 * EVERY) == ["r1"]
        settled = await store.runs.settle_unheld(await load(store, run), ORPHANED, claim=mint("claim"))
        assert settled.outcome == ORPHANED
        assert await _watch(store, bench, EVERY) == []

    @pytest.mark.behaviour("O2")
    async def test_time_in_which_no_node_was_there_is_no_absence(self, store: Store, bench: Workbench) -> None:
        await start(store)
        await store.runs.attend(["other"], every=EVERY)
        await bench.age(100 * LONG)
        assert await _watch(store, bench, EVERY) == []

    @pytest.mark.behaviour("O2")
    async def test_a_node_that_has_the_worker_ends_its_absence(self, store: Store, bench: Workbench) -> None:
        await start(store)
        await _watch(store, bench, LONG - EVERY)
        await store.runs.attend([CHAT], every=EVERY)
        assert await _watch(store, bench, LONG - EVERY) == []

    @pytest.mark.behaviour("O2")
    async def test_a_held_run_is_not_forsaken(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        await drive(store)
        renewer = store.renewer(A, ttl=TTL, workers=[CHAT])
        for _ in range(30):
            await store.runs.attend(["other"], every=EVERY)
            await bench.age(EVERY)
            renewer.renew(stalled=False)
        assert await store.runs.forsaken(after=LONG, limit=MANY) == []
        renewer.close()

    @pytest.mark.behaviour("O2")
    async def test_a_parked_run_and_one_that_backs_off_are_not_forsaken(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        asked, timed = [await drive(store, id) for id in ("asked", "timed")]
        late = await start(store, "late")
        await store.runs.claim(late, new_claim(late, A, not_before=await store.runs.now() + 30 * EVERY))
        await store.runs.release(await load(store, late), (await load(store, late)).token, Cause.STORE)
        await bench.park(asked, wake_at=None)
        await bench.park(timed, wake_at=await store.runs.now() + 30 * EVERY)
        assert await _watch(store, bench, 29 * EVERY) == []

    @pytest.mark.behaviour("O2")
    async def test_a_run_that_was_touched_since_is_not_forsaken(self, store: Store, bench: Workbench) -> None:
        await start(store)
        await _watch(store, bench, LONG)
        await start(store, "young")
        assert await _watch(store, bench, 2 * EVERY) == ["r1"]

    async def test_at_most_so_many_are_returned(self, store: Store, bench: Workbench) -> None:
        for number in range(3):
            await start(store, f"r{number}")
        await _watch(store, bench, LONG + 2 * EVERY)
        found = await store.runs.forsaken(after=LONG, limit=2)
        assert [run.id for run in found] == ["r0", "r1"]

    @pytest.mark.behaviour("B15")
    async def test_looking_at_runs_whose_workers_are_here_changes_nothing(self, store: Store) -> None:
        await start(store)
        async with unchanged(store):
            await store.runs.attend([CHAT, "other"], every=EVERY)
            assert await store.runs.forsaken(after=0, limit=MANY) == []

    @pytest.mark.behaviour("O2")
    async def test_a_sweep_loses_against_a_claim_that_came_first(self, store: Store, bench: Workbench) -> None:
        await start(store)
        await _watch(store, bench, LONG + 2 * EVERY)
        (found,) = await store.runs.forsaken(after=LONG, limit=MANY)
        await join(store, A)
        claimed = await store.runs.claim(found, new_claim(found, A))
        with pytest.raises(ClaimLost):
            await store.runs.settle_unheld(found, ORPHANED, claim=mint("claim"))
        assert await load(store, claimed) == claimed


async def _watch(store: Store, bench: Workbench, seconds: float) -> list[str]:
    """Let time pass under the eyes of a node without the worker, and tell which runs are forsaken then."""
    for _ in range(round(seconds / EVERY)):
        await store.runs.attend(["other"], every=EVERY)
        await bench.age(EVERY)
    await store.runs.attend(["other"], every=EVERY)
    found: list[Run] = [*await store.runs.forsaken(after=LONG, limit=MANY)]
    assert all(run.owner == ANN for run in found)
    return [run.id for run in found]
