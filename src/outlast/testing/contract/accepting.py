"""Accepting runs: what a start makes, what it finds, whom it belongs to, and how runs are listed."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import pytest

from outlast.errors import IdConflict, RunNotFound, ThreadBusy
from outlast.log.cursor import origin
from outlast.log.limits import Usage
from outlast.run import Cause, Completed, RecoveryBudget, Run, Status
from outlast.stores.base import Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import (
    ANN,
    BOB,
    CHAT,
    MANY,
    A,
    B,
    drive,
    events,
    join,
    listed,
    load,
    new_claim,
    new_run,
    start,
    take,
    unchanged,
)

STRANGE: Final = [
    "",
    "r 1",
    "it's",
    'a"b',
    "'; DROP TABLE runs; --",
    "100%_",
    "a\\b",
    "{a}:b*",
    "x\ny\tz",
    "ünï-\U0001f600",
]
"""Ids that would break a statement or a key that was put together from them."""

TRACE: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

WRITES: Final[dict[str, Callable[[Store, Run], Awaitable[object]]]] = {
    "claim": lambda store, run: store.runs.claim(run, new_claim(run, A)),
    "charge": lambda store, run: store.runs.charge(run, run.token, number=1, limit=9),
    "release": lambda store, run: store.runs.release(run, run.token, Cause.STORE),
    "stop": lambda store, run: store.runs.stop(run.owner, run.id, reason=None),
    "settle": lambda store, run: store.runs.settle(run, run.token, Completed()),
}
"""What names a run by its owner and id, and changes its row."""


class Accepting(Contract):
    """`RunStore.start`, `load` and `list`."""

    # ---- a new run ----

    async def test_an_accepted_run_is_queued_and_holds_what_it_was_given(self, store: Store) -> None:
        new = new_run(thread="t1", input=b"\0\xff{", metadata=b'{"plan":"free"}')
        before = await store.runs.now()
        started = await store.runs.start(new)
        run = started.run
        assert started.created
        assert (run.owner, run.id, run.log, run.worker) == (ANN, "r1", new.log, CHAT)
        assert (run.thread, run.input, run.digest, run.metadata) == ("t1", new.input, new.digest, new.metadata)
        assert (run.status, run.epoch, run.budget) == (Status.QUEUED, 0, RecoveryBudget())
        assert (run.claim, run.holder, run.lease_until, run.cause) == (None, None, None, None)
        assert (run.stop, run.outcome, run.settled_at, run.wake_at) == (None, None, None, None)
        assert before <= run.created_at == run.updated_at <= await store.runs.now()
        assert await load(store, run) == run

    async def test_an_accepted_run_is_due_at_once(self, store: Store) -> None:
        run = await start(store)
        assert list((await store.runs.due([CHAT], limit=MANY)).runs) == [run]

    async def test_an_accepted_run_has_an_empty_log_of_the_identity_it_was_given(self, store: Store) -> None:
        run = await start(store)
        head = await store.logs.head(run.log)
        assert (head.cursor, head.first, head.sealed) == (origin(run.log), 1, False)
        assert head.usage == Usage(events=0, bytes=0, opened_at=run.created_at)
        assert list(await events(store, run)) == []

    @pytest.mark.attack("Z14")
    @pytest.mark.parametrize("name", STRANGE)
    async def test_any_text_may_name_a_run_its_owner_its_thread_and_its_worker(self, store: Store, name: str) -> None:
        await start(store, "r1")
        started = await store.runs.start(new_run(name, owner=name, thread=name, worker=name))
        run = started.run
        assert started.created
        assert (run.owner, run.id, run.thread, run.worker) == (name, name, name, name)
        assert await load(store, run) == run
        assert await listed(store, name) == [run]
        assert list((await store.runs.due([name], limit=MANY)).runs) == [run]

    # ---- the same id again ----

    @pytest.mark.behaviour("A1")
    async def test_the_same_start_again_is_the_run_that_exists(self, store: Store) -> None:
        run = await start(store)
        async with unchanged(store):
            again = await store.runs.start(new_run())
        assert (again.run, again.created) == (run, False)

    async def test_what_a_run_was_given_stays_with_it_whoever_claims_releases_or_settles_it(self, store: Store) -> None:
        await join(store, A, B)
        new = new_run(input=b"[1]", metadata=b'{"a":1}', traceparent=TRACE)
        run = (await store.runs.start(new)).run
        assert (await store.runs.start(replace(new, traceparent=None))).run == run
        states = [run, run := await take(store, run, A)]
        await store.runs.release(run, run.token, Cause.STORE)
        states += [await load(store, run), run := await take(store, run, B)]
        states.append(await store.runs.settle(run, run.token, Completed()))
        assert {(each.input, each.metadata, each.traceparent) for each in states} == {(b"[1]", b'{"a":1}', TRACE)}
        assert await listed(store, ANN) == states[-1:]

    @pytest.mark.behaviour("A1")
    async def test_the_same_start_again_finds_the_run_wherever_it_stands(self, store: Store) -> None:
        await join(store, A)
        active = await drive(store, thread="t1")
        assert (await store.runs.start(new_run(thread="t1"))).run == active
        settled = await store.runs.settle(active, active.token, Completed())
        again = await store.runs.start(new_run(thread="t1"))
        assert (again.run, again.created) == (settled, False)

    @pytest.mark.behaviour("A1")
    async def test_a_start_of_another_digest_is_a_conflict_and_changes_nothing(self, store: Store) -> None:
        run = await start(store)
        async with unchanged(store):
            with pytest.raises(IdConflict):
                await store.runs.start(new_run(input=b'{"other":1}'))
        await store.runs.stop(ANN, "r1", reason=None)
        with pytest.raises(IdConflict):
            await store.runs.start(new_run(input=b'{"other":1}'))
        assert (await load(store, run)).log == run.log

    # ---- threads ----

    @pytest.mark.behaviour("A1")
    async def test_a_thread_with_a_live_run_is_busy_and_names_it(self, store: Store, bench: Workbench) -> None:
        run = await start(store, "live", thread="t1")
        await _check_busy(store)
        await join(store, A)
        run = await take(store, run, A)
        await _check_busy(store)
        await bench.park(run, wake_at=None)
        await _check_busy(store)

    async def test_a_settled_run_frees_its_thread(self, store: Store) -> None:
        await start(store, "r1", thread="t1")
        await store.runs.stop(ANN, "r1", reason=None)
        assert (await store.runs.start(new_run("r2", thread="t1"))).created

    async def test_runs_without_a_thread_or_on_other_threads_are_not_in_each_others_way(self, store: Store) -> None:
        for id, thread in (("r1", None), ("r2", None), ("r3", "t1"), ("r4", "t2")):
            assert (await store.runs.start(new_run(id, thread=thread))).created

    # ---- owners ----

    @pytest.mark.behaviour("A5")
    async def test_another_owners_run_is_another_run(self, store: Store) -> None:
        mine = await start(store, "r1", owner=ANN, thread="t1")
        theirs = await store.runs.start(new_run("r1", owner=BOB, thread="t1", input=b'{"other":1}'))
        assert theirs.created
        assert theirs.run.log != mine.log
        assert await load(store, mine) == mine
        assert await load(store, theirs.run) == theirs.run

    @pytest.mark.behaviour("A5")
    async def test_another_owners_run_is_not_found_like_one_that_never_was(self, store: Store) -> None:
        await start(store, "r1", owner=ANN)
        with pytest.raises(RunNotFound) as foreign:
            await store.runs.load(BOB, "r1")
        with pytest.raises(RunNotFound) as absent:
            await store.runs.load(BOB, "r2")
        assert str(foreign.value) == str(absent.value)

    @pytest.mark.behaviour("A5")
    async def test_owners_list_their_own_runs_alone(self, store: Store) -> None:
        mine, theirs = await start(store, "r1", owner=ANN), await start(store, "r2", owner=BOB)
        assert await listed(store, ANN) == [mine]
        assert await listed(store, BOB) == [theirs]

    @pytest.mark.behaviour("A5")
    @pytest.mark.parametrize("write", WRITES)
    async def test_what_is_written_about_a_run_leaves_another_owners_of_the_same_id_as_it_is(
        self, store: Store, write: str
    ) -> None:
        await join(store, A)
        theirs = await start(store, "r1", owner=BOB)
        mine = await start(store, "r1", owner=ANN)
        if write != "claim":
            mine = await take(store, mine, A)
            theirs = await take(store, theirs, A)
        await WRITES[write](store, mine)
        assert await load(store, theirs) == theirs
        assert list(await events(store, theirs)) == []
        assert await load(store, mine) != mine

    # ---- reading ----

    async def test_a_run_is_loaded_with_the_clock_at_that_moment(self, store: Store, bench: Workbench) -> None:
        run = await start(store)
        await bench.age(60)
        before = await store.runs.now()
        loaded = await store.runs.load(ANN, "r1")
        assert loaded.run == run
        assert before <= loaded.now <= await store.runs.now()

    async def test_many_runs_are_loaded_at_once_and_those_not_found_left_out(self, store: Store) -> None:
        ids = [*STRANGE, "a\x00b"]
        mine = [await start(store, id) for id in ids]
        theirs = await start(store, "r1", owner=BOB)
        await join(store, A)
        held = await drive(store, "r2")
        keys = [(ANN, id) for id in ids]
        loaded = await store.runs.load_all([*keys, (BOB, "r1"), (ANN, "r1"), (ANN, "r2")])
        assert {each.run.log: each.run for each in loaded} == {run.log: run for run in [*mine, theirs, held]}
        assert len({each.now for each in loaded}) == 1
        assert not await store.runs.load_all([])

    async def test_a_page_of_a_list_says_of_each_run_what_loading_it_does(self, store: Store) -> None:
        await start(store, "r1", thread="t1")
        refused = await start(store, "r2", thread="t2")
        await store.runs.refuse(refused, retry_in=30)
        for status, thread in ((None, None), (Status.QUEUED, None), (None, "t2"), (Status.QUEUED, "t2")):
            page = await store.runs.list(ANN, status=status, before=None, limit=MANY, thread=thread)
            assert [each.run.id for each in page] == ["r2", "r1"][: 2 if thread is None else 1]
            for each in page:
                assert replace(await store.runs.load(ANN, each.run.id), now=each.now) == each
            assert page[0].refused_until is not None

    async def test_reading_a_run_changes_nothing(self, store: Store) -> None:
        await start(store)
        async with unchanged(store):
            await store.runs.load(ANN, "r1")
            await listed(store, ANN)

    @pytest.mark.parametrize("pause", [0.0, 1.0])
    async def test_runs_are_listed_newest_first_in_pages_that_meet(
        self, store: Store, bench: Workbench, pause: float
    ) -> None:
        for id in ("r1", "r2", "r3", "r4", "r5"):
            await start(store, id)
            await bench.age(pause)
        assert await _page(store, before=None) == ["r5", "r4"]
        assert await _page(store, before="r4") == ["r3", "r2"]
        assert await _page(store, before="r2") == ["r1"]
        assert await _page(store, before="r1") == []

    async def test_runs_are_listed_by_status(self, store: Store) -> None:
        for id in ("r1", "r2", "r3", "r4"):
            await start(store, id)
        for id in ("r1", "r3", "r4"):
            await store.runs.stop(ANN, id, reason=None)
        assert await _cancelled(store, before=None, limit=2) == ["r4", "r3"]
        assert await _cancelled(store, before="r3", limit=2) == ["r1"]
        assert [run.id for run in await listed(store, ANN, status=Status.QUEUED, limit=9)] == ["r2"]
        assert await listed(store, ANN, status=Status.FAILED, limit=9) == []


async def _check_busy(store: Store) -> None:
    async with unchanged(store):
        with pytest.raises(ThreadBusy) as busy:
            await store.runs.start(new_run("late", thread="t1"))
    assert busy.value.live == "live"


async def _page(store: Store, *, before: str | None) -> list[str]:
    return [run.id for run in await listed(store, ANN, before=before, limit=2)]


async def _cancelled(store: Store, *, before: str | None, limit: int) -> list[str]:
    return [run.id for run in await listed(store, ANN, status=Status.CANCELLED, before=before, limit=limit)]
