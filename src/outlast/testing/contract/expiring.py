"""The end of a run's life: erased or expired, it is gone with its log, and stays gone."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import pytest

from outlast.errors import OwnershipError, RunGone, RunLive, RunNotFound
from outlast.log.cursor import Cursor, origin
from outlast.log.event import Event
from outlast.run import Cancelled, Cause, Completed, Run, Status, Token
from outlast.stores.base import ABORT_WAIT, Expired, Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import (
    ANN,
    BOB,
    CHAT,
    MANY,
    MANY_BYTES,
    A,
    drive,
    events,
    join,
    listed,
    load,
    new_claim,
    new_run,
    said,
    say,
    start,
    texts,
    unchanged,
)

DAY: Final = 86400.0
FINISHED: Final = 7 * DAY
GONE: Final = 30 * DAY

Late: TypeAlias = Callable[[Store, Run, Cursor], Awaitable[object]]

LATE: Final[dict[str, Late]] = {
    "append": lambda store, run, head: store.logs.append(run.log, run.token, head, texts("late")),
    "append above": lambda store, run, head: store.logs.append(run.log, _above(run), head, texts("late")),
    "append from the start": lambda store, run, _: store.logs.append(run.log, run.token, origin(run.log), texts("a")),
    "fence": lambda store, run, _: store.logs.fence(run.log, _above(run)),
    "claim": lambda store, run, _: store.runs.claim(run, new_claim(run, A)),
    "settle": lambda store, run, _: store.runs.settle(run, run.token, Completed()),
    "settle unheld": lambda store, run, _: store.runs.settle_unheld(run, Cancelled(), claim="late"),
    "release": lambda store, run, _: store.runs.release(run, run.token, Cause.STORE),
    "charge": lambda store, run, _: store.runs.charge(run, run.token, number=1, limit=9),
    "refuse": lambda store, run, _: store.runs.refuse(run, retry_in=60),
}
"""Whatever a controller may still ask for that does not know of its run's end."""


class Expiring(Contract):
    """`RunStore.erase` and `expire`, and what every method says of a run that is gone."""

    # ---- erasing ----

    @pytest.mark.behaviour("L9")
    async def test_an_erased_run_is_gone_and_its_log_with_it(self, store: Store) -> None:
        run, other = await _ended(store), await _ended(store, "r2")
        await store.runs.erase(ANN, "r1")
        await _check_gone(store, run)
        assert await listed(store, ANN) == [other]
        assert await said(store, other) == ["a", "b", "run.completed"]

    @pytest.mark.parametrize("status", [Status.QUEUED, Status.ACTIVE, Status.PARKED])
    async def test_a_run_that_has_not_ended_is_not_erased(self, store: Store, bench: Workbench, status: Status) -> None:
        await join(store, A)
        run = await start(store) if status is Status.QUEUED else await drive(store)
        if status is Status.PARKED:
            await bench.park(run, wake_at=None)
        assert (await load(store, run)).status is status
        async with unchanged(store):
            with pytest.raises(RunLive):
                await store.runs.erase(ANN, "r1")

    async def test_a_run_of_which_nobody_was_told_that_it_ended_is_erased_a_little_later(
        self, store: Store, bench: Workbench
    ) -> None:
        await start(store)
        await store.runs.stop(ANN, "r1", reason=None)
        await start(store, "r2")
        await store.runs.stop(ANN, "r2", reason=None)
        with pytest.raises(RunLive):
            await store.runs.erase(ANN, "r1")
        for abort in await store.runs.take_aborts([CHAT], hold=1, limit=MANY):
            if abort.run.id == "r1":
                await store.runs.finish_abort(abort)
        await store.runs.erase(ANN, "r1")
        with pytest.raises(RunLive):
            await store.runs.erase(ANN, "r2")
        await bench.age(ABORT_WAIT + 1)
        await store.runs.erase(ANN, "r2")
        assert list(await store.runs.take_aborts([CHAT], hold=1, limit=MANY)) == []

    @pytest.mark.behaviour("A5")
    @pytest.mark.parametrize(("owner", "id"), [(BOB, "r1"), (ANN, "r2")])
    async def test_another_owners_run_and_none_are_not_found(self, store: Store, owner: str, id: str) -> None:
        run = await _ended(store)
        async with unchanged(store):
            with pytest.raises(RunNotFound):
                await store.runs.erase(owner, id)
        await store.runs.erase(ANN, "r1")
        with pytest.raises(RunNotFound):
            await store.runs.load(owner, id)
        await _check_gone(store, run)

    # ---- gone ----

    @pytest.mark.behaviour("A4", "L9")
    async def test_a_start_repeated_after_the_end_does_no_work_again(self, store: Store, bench: Workbench) -> None:
        new = new_run()
        await join(store, A)
        run = (await store.runs.start(new)).run
        run = await store.runs.claim(run, new_claim(run, A))
        run = await store.runs.settle(run, run.token, Completed())
        await store.runs.erase(ANN, "r1")
        for again in (new, new_run(input=b"another")):
            with pytest.raises(RunGone):
                await store.runs.start(again)
        assert (await store.runs.due([CHAT], limit=MANY)).runs == []
        assert (await store.runs.start(new_run(owner=BOB))).created
        await bench.age(GONE - 1)
        await _expire(store)
        await _check_gone(store, run)
        await bench.age(2)
        assert (await _expire(store)).tombstones == 1
        started = await store.runs.start(new_run())
        assert started.created
        assert started.run.log != run.log
        assert await said(store, started.run) == []

    @pytest.mark.behaviour("L8")
    @pytest.mark.parametrize("late", LATE)
    @pytest.mark.parametrize("since", ["gone", "forgotten", "another has its id"])
    async def test_who_still_drives_a_run_that_is_gone_is_refused(
        self, store: Store, bench: Workbench, late: str, since: str
    ) -> None:
        run = await _ended(store)
        head = (await store.logs.head(run.log)).cursor
        await store.runs.erase(ANN, "r1")
        if since != "gone":
            await bench.age(GONE + 1)
            await _expire(store)
        if since == "another has its id":
            await join(store, A)
            await drive(store)
        async with unchanged(store):
            with pytest.raises((OwnershipError, RunNotFound)):
                await LATE[late](store, run, head)
        assert (await listed(store, ANN) == []) is (since[0] != "a")
        with pytest.raises((RunGone, RunNotFound)):
            await store.logs.head(run.log)

    async def test_a_list_goes_on_behind_a_run_that_is_gone(self, store: Store, bench: Workbench) -> None:
        for number in range(3):
            await _ended(store, f"r{number}")
            await bench.age(1)
        await store.runs.erase(ANN, "r1")
        for status in (None, Status.COMPLETED):
            page = await listed(store, ANN, status=status, before="r1")
            assert [run.id for run in page] == ["r0"]

    # ---- expiring ----

    @pytest.mark.behaviour("L9")
    @pytest.mark.case(3)
    async def test_an_ended_run_is_whole_for_its_retention_and_then_gone(self, store: Store, bench: Workbench) -> None:
        run = await _ended(store)
        await bench.age(FINISHED - 5)
        assert await _expire(store) == Expired()
        other = await bench.again()
        assert await said(other, run) == ["a", "b", "run.completed"]
        assert await load(other, run) == run
        await bench.age(10)
        assert (await _expire(store)).runs == 1
        await _check_gone(store, run)
        await _check_gone(other, run)

    async def test_a_run_that_has_not_ended_never_expires(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        await start(store)
        await say(store, await drive(store, "r2"), "a")
        await bench.park(await drive(store, "r3"), wake_at=None)
        await bench.age(1000 * DAY)
        async with unchanged(store):
            assert await _expire(store) == Expired()

    async def test_for_ever_is_a_retention(self, store: Store, bench: Workbench) -> None:
        run, erased = await _ended(store), await _ended(store, "r2")
        await store.runs.erase(ANN, "r2")
        await bench.age(1000 * DAY)
        forever = float("inf")
        assert await store.runs.expire(finished=forever, gone=forever) == Expired()
        assert await load(store, run) == run
        await _check_gone(store, erased)

    @pytest.mark.behaviour("S2")
    async def test_an_ended_run_waits_for_its_worker_to_be_told_but_not_for_ever(
        self, store: Store, bench: Workbench
    ) -> None:
        await start(store)
        run = (await store.runs.stop(ANN, "r1", reason=None)).run
        assert run is not None
        await bench.age(FINISHED + 1)
        assert await _expire(store) == Expired()
        assert await load(store, run) == run
        await bench.age(ABORT_WAIT + 1)
        assert (await _expire(store)).runs == 1
        await _check_gone(store, run)
        assert list(await store.runs.take_aborts([CHAT], hold=1, limit=MANY)) == []

    async def test_no_step_deletes_a_whole_large_log(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        run = await drive(store)
        cursor, batches = origin(run.log), 4
        for _ in range(batches):
            cursor = await store.logs.append(run.log, run.token, cursor, texts("x") * 500)
        large = Event("bytes", b"x" * 3_000_000)
        await store.logs.append(run.log, run.token, cursor, [large, large])
        await store.runs.settle(run, run.token, Completed())
        await bench.age(FINISHED + 1)
        steps = [await store.runs.expire(finished=FINISHED, gone=GONE)]
        await _check_gone(store, run)  # before its events are
        while steps[-1].more:
            steps.append(await store.runs.expire(finished=FINISHED, gone=GONE))
        assert len(steps) > batches
        assert sum(step.runs for step in steps) == 1
        await _check_gone(store, run)

    async def test_nodes_that_clean_up_at_the_same_time_do_it_once(self, store: Store, bench: Workbench) -> None:
        other = await bench.again()
        runs = [await _ended(store, f"r{number}") for number in range(40)]
        live = await drive(store, "live")
        await say(store, live, "a")
        await bench.age(FINISHED + 1)
        done = await asyncio.gather(*(_expire(each) for each in (store, other, store, other)))
        assert sum(each.runs for each in done) == len(runs)
        for run in runs:
            await _check_gone(store, run)
        assert await said(store, live) == ["a"]
        await bench.age(GONE + 1)
        done = await asyncio.gather(*(_expire(each) for each in (store, other, store, other)))
        assert sum(each.tombstones for each in done) == len(runs)


def _above(run: Run) -> Token:
    return Token(epoch=run.epoch + 5, claim="high")


async def _ended(store: Store, id: str = "r1") -> Run:
    """Let a run say two words and complete."""
    await join(store, A)
    run = await drive(store, id)
    await say(store, run, "a", "b")
    return await store.runs.settle(run, run.token, Completed())


async def _expire(store: Store) -> Expired:
    """Clean up until nothing is left to be done, and tell what was done in all."""
    runs = tombstones = 0
    more = True
    while more:
        step = await store.runs.expire(finished=FINISHED, gone=GONE)
        runs, tombstones, more = runs + step.runs, tombstones + step.tombstones, step.more
    return Expired(runs=runs, tombstones=tombstones)


async def _check_gone(store: Store, run: Run) -> None:
    """Check that whoever asks for a run is told that it is gone."""
    asked: list[Callable[[], Awaitable[object]]] = [
        lambda: store.runs.load(run.owner, run.id),
        lambda: store.runs.stop(run.owner, run.id, reason=None),
        lambda: store.runs.erase(run.owner, run.id),
        lambda: store.runs.start(new_run(run.id, owner=run.owner)),
        lambda: store.logs.head(run.log),
        lambda: events(store, run),
        lambda: store.logs.read(run.log, after=2, limit=1, max_bytes=MANY_BYTES),
    ]
    for ask in asked:
        with pytest.raises(RunGone):
            await ask()
    assert await store.logs.chain_at(run.log, 1) is None
    assert run.id not in {each.id for each in await listed(store, run.owner)}
