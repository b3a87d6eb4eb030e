"""Finding the runs that a node should look at: which are due, in what order, and when the next one will be."""

import pytest

from outlast.run import Cause, Completed, RecoveryBudget, Run
from outlast.stores.base import Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import (
    ANN,
    BOB,
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


class Finding(Contract):
    """`RunStore.due`, and what makes a run due or keeps it from being so."""

    # ---- due ----

    async def test_only_runs_of_the_workers_asked_for_are_due(self, store: Store) -> None:
        await start(store, "r1", worker="chat")
        await start(store, "r2", worker="draw")
        await start(store, "r3", worker="cook")
        found = await store.runs.due({"chat", "draw"}, limit=MANY)
        assert {run.id for run in found.runs} == {"r1", "r2"}
        assert list((await store.runs.due([], limit=MANY)).runs) == []

    async def test_a_settled_run_is_not_due(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        await store.runs.settle(run, run.token, Completed())
        await start(store, "r2")
        await store.runs.stop(ANN, "r2", reason=None)
        assert await _due(store) == []

    async def test_a_run_is_due_when_its_holders_lease_has_run_out(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        await drive(store)
        await bench.age(TTL - 5)
        assert await _due(store) == []
        await bench.age(6)
        assert await _due(store) == ["r1"]

    async def test_a_run_is_due_when_its_holder_has_left(self, store: Store) -> None:
        await join(store, A)
        await drive(store)
        await store.runs.leave(A)
        assert await _due(store) == ["r1"]

    async def test_a_released_run_is_due_though_its_last_holder_lives(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        await store.runs.release(run, run.token, Cause.STORE)
        assert await _due(store) == ["r1"]

    async def test_a_run_is_not_due_before_its_time(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        await _put_off(store, "r1", 60)
        assert await _due(store) == []
        await bench.age(50)
        assert await _due(store) == []
        await bench.age(20)
        assert await _due(store) == ["r1"]

    async def test_a_run_whose_holder_is_gone_is_not_due_before_its_time(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        await take(store, await start(store), A, not_before=await store.runs.now() + 60)
        await bench.age(TTL + 5)
        assert await _due(store) == []
        await bench.age(60)
        assert await _due(store) == ["r1"]

    async def test_a_parked_run_is_due_at_the_time_it_wants_to_be_woken(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        now = await store.runs.now()
        await bench.park(await _put_off(store, "r1", 1000), wake_at=now + 60)
        await bench.park(await drive(store, "r2"), wake_at=None)
        await bench.age(50)
        assert await _due(store) == []
        await bench.age(20)
        assert await _due(store) == ["r1"]

    async def test_a_run_with_a_stop_is_due_whatever_its_time(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        now = await store.runs.now()
        run = await take(store, await start(store), A, not_before=now + 1000)
        await store.runs.stop(ANN, "r1", reason=None)
        await store.runs.refuse(run, retry_in=1000)
        assert await _due(store) == []
        await bench.age(TTL + 1)
        assert await _due(store) == ["r1"]

    # ---- recovering ----

    async def test_a_run_recovers_from_when_its_node_lets_go_of_it_until_another_claims_it(self, store: Store) -> None:
        await join(store, A)
        assert await _recovering(store, await start(store)) is False, "nobody had it"
        run = await drive(store, "r2")
        assert await _recovering(store, run) is False
        await store.runs.release(run, run.token, Cause.STORE)
        assert await _recovering(store, run) is True
        again = await take(store, (await store.runs.load(ANN, "r2")).run, A)
        assert await _recovering(store, again) is False
        await store.runs.leave(A)
        assert await _recovering(store, again) is True
        await store.runs.settle(again, again.token, Completed())
        assert await _recovering(store, again) is False

    async def test_a_run_recovers_when_its_holders_lease_has_run_out(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        run = await drive(store)
        await bench.age(TTL - 5)
        assert await _recovering(store, run) is False
        await bench.age(6)
        async with unchanged(store):
            assert await _recovering(store, run) is True

    async def test_of_many_runs_those_that_recover_are_told_at_once(self, store: Store) -> None:
        await join(store, A)
        mine, theirs, driven = await drive(store), await start(store, "r1", owner=BOB), await drive(store, "r2")
        await store.runs.release(mine, mine.token, Cause.CRASH)
        keys = [(run.owner, run.id) for run in (mine, theirs, driven)]
        assert set(await store.runs.recovering([*keys, (ANN, "no-such-run")])) == {mine.log}
        assert not await store.runs.recovering([])

    # ---- cool-downs ----

    async def test_a_refused_run_is_not_due_until_its_cool_down_is_over(self, store: Store, bench: Workbench) -> None:
        run = await start(store)
        await store.runs.refuse(run, retry_in=30)
        assert await _due(store) == []
        await bench.age(20)
        assert await _due(store) == []
        await bench.age(20)
        assert await _due(store) == ["r1"]

    async def test_a_run_that_is_loaded_tells_until_when_a_refusal_holds_it_back(
        self, store: Store, bench: Workbench
    ) -> None:
        run = await start(store)
        assert (await store.runs.load(run.owner, run.id)).refused_until is None
        before = await store.runs.now()
        await store.runs.refuse(run, retry_in=30)
        loaded = await store.runs.load(run.owner, run.id)
        assert loaded.refused_until is not None
        assert before + 30 <= loaded.refused_until <= loaded.now + 30
        (again,) = await store.runs.load_all([(run.owner, run.id)])
        assert again.refused_until == loaded.refused_until
        await bench.age(31)
        assert (await store.runs.load(run.owner, run.id)).refused_until is None

    async def test_each_refusal_spaces_the_next_try(self, store: Store, bench: Workbench) -> None:
        run = await start(store)
        await store.runs.refuse(run, retry_in=30)
        await bench.age(40)
        await store.runs.refuse(run, retry_in=30)
        assert await _due(store) == []
        await bench.age(40)
        assert await _due(store) == ["r1"]

    @pytest.mark.behaviour("B17")
    async def test_a_refusal_leaves_the_row_as_it_is(self, store: Store, bench: Workbench) -> None:
        run = await start(store)
        await bench.age(10)
        await store.runs.refuse(run, retry_in=30)
        assert await load(store, run) == run

    # ---- order and limit ----

    async def test_the_longest_due_come_first_and_no_more_than_asked_for(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        now = await store.runs.now()
        for id, seconds in (("r30", 30), ("r20", 20)):
            await _put_off(store, id, seconds)
        for id, seconds in (("r40", 40), ("r10", 10)):
            await take(store, await start(store, id), A, not_before=now + seconds)
        await bench.age(100)
        assert await _due(store) == ["r10", "r20", "r30", "r40"]
        assert [run.id for run in (await store.runs.due([CHAT], limit=2)).runs] == ["r10", "r20"]

    # ---- what is held back ----

    async def test_of_a_worker_that_is_held_back_only_what_was_taken_over_lately_is_left_out(
        self, store: Store, bench: Workbench
    ) -> None:
        await join(store, A)
        now = await store.runs.now()
        for id, at in (("lately", now), ("long ago", now - 400), ("never", None)):
            run = await start(store, id)
            await store.runs.claim(run, new_claim(run, A, budget=RecoveryBudget(takeovers=1, last_takeover_at=at)))
        await start(store, "queued")
        await bench.age(TTL + 1)
        found = await store.runs.due([CHAT], limit=MANY, held_back=[CHAT], within=300)
        assert {run.id for run in found.runs} == {"long ago", "never", "queued"}
        other = await store.runs.due([CHAT], limit=MANY, held_back=["draw"], within=300)
        assert {run.id for run in other.runs} == {"lately", "long ago", "never", "queued"}

    async def test_who_was_let_go_soon_after_a_takeover_is_held_back_however_long_ago_that_was(
        self, store: Store, bench: Workbench
    ) -> None:
        await join(store, A)
        for id, ago in (("soon", 100), ("later", 400)):
            at = await store.runs.now() - ago
            run = await start(store, id)
            taken_over = RecoveryBudget(takeovers=1, last_takeover_at=at)
            run = await store.runs.claim(run, new_claim(run, A, budget=taken_over))
            await store.runs.release(run, run.token, Cause.STORE)
        await bench.age(1000)
        found = await store.runs.due([CHAT], limit=MANY, held_back=[CHAT], within=300)
        assert {run.id for run in found.runs} == {"later"}

    async def test_a_stop_a_hand_off_and_a_waking_are_never_held_back(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        taken_over = RecoveryBudget(takeovers=1, last_takeover_at=await store.runs.now())
        ids = ("stopped", "handed off", "parked", "released")
        runs = {id: await start(store, id) for id in ids}
        for id, run in runs.items():
            runs[id] = await store.runs.claim(run, new_claim(run, A, budget=taken_over))
        await store.runs.release(runs["handed off"], runs["handed off"].token, Cause.HANDOFF)
        await store.runs.release(runs["released"], runs["released"].token, Cause.STORE)
        await bench.park(runs["parked"], wake_at=await store.runs.now())
        await store.runs.stop(ANN, "stopped", reason=None)
        await bench.age(TTL + 1)
        found = await store.runs.due([CHAT], limit=MANY, held_back=[CHAT], within=300)
        assert {run.id for run in found.runs} == {"stopped", "handed off", "parked"}

    # ---- the next one ----

    async def test_the_next_time_is_the_first_at_which_another_run_becomes_due(self, store: Store) -> None:
        await join(store, A)
        assert await _next_in(store) is None
        await _put_off(store, "r1", 60)
        assert await _next_in(store) == pytest.approx(60, abs=2)
        await _put_off(store, "r2", 30)
        assert await _next_in(store) == pytest.approx(30, abs=2)
        await start(store, "r3")
        assert await _next_in(store) == pytest.approx(30, abs=2)

    async def test_the_next_time_counts_leases_that_run_out(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        run = await drive(store)
        await take(store, await start(store, "later"), A, not_before=await store.runs.now() + 60)
        assert await _next_in(store) == pytest.approx(TTL, abs=2)
        await store.runs.settle(run, run.token, Completed())
        assert await _next_in(store) == pytest.approx(60, abs=2)
        await bench.age(TTL + 1)
        assert await _next_in(store) == pytest.approx(60 - TTL, abs=3)
        await bench.age(60)
        assert await _next_in(store) is None

    async def test_the_next_time_counts_cool_downs_and_parked_runs(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        await store.runs.refuse(await start(store, "r1"), retry_in=60)
        assert await _next_in(store) == pytest.approx(60, abs=2)
        await bench.park(await drive(store, "r2"), wake_at=None)
        assert await _next_in(store) == pytest.approx(60, abs=2)
        await bench.park(await drive(store, "r3"), wake_at=await store.runs.now() + 30)
        assert await _next_in(store) == pytest.approx(30, abs=2)

    async def test_the_next_time_is_that_of_the_workers_asked_for(self, store: Store) -> None:
        await store.runs.refuse(await start(store, "r1", worker="draw"), retry_in=60)
        assert await _next_in(store) is None

    # ---- looking ----

    @pytest.mark.behaviour("B15")
    async def test_looking_for_due_runs_writes_nothing(self, store: Store, bench: Workbench) -> None:
        await join(store, A, B)
        await drive(store, "r1")
        await _put_off(store, "r2", 60)
        await start(store, "r3")
        await bench.age(TTL + 1)
        async with unchanged(store):
            await store.runs.due([CHAT], limit=MANY)
            await store.runs.due([CHAT], limit=1)

    async def test_due_runs_come_with_the_clock_at_that_moment(self, store: Store) -> None:
        before = await store.runs.now()
        found = await store.runs.due([CHAT], limit=MANY)
        assert before <= found.now <= await store.runs.now()


async def _recovering(store: Store, run: Run) -> bool:
    return run.log in await store.runs.recovering([(run.owner, run.id)])


async def _due(store: Store) -> list[str]:
    return [run.id for run in (await store.runs.due([CHAT], limit=MANY)).runs]


async def _next_in(store: Store) -> float | None:
    found = await store.runs.due([CHAT], limit=MANY)
    return None if found.next_at is None else found.next_at - found.now


async def _put_off(store: Store, id: str, seconds: float) -> Run:
    """Let a run be free, and due in `seconds`; node A has joined."""
    run = await take(store, await start(store, id), A, not_before=await store.runs.now() + seconds)
    await store.runs.release(run, run.token, Cause.STORE)
    return await load(store, run)
