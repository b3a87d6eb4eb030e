"""Terminal is absorbing: nothing changes a settled run, and nothing follows its terminal event, whoever asks."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

import pytest

from outlast.errors import ClaimLost, Fenced
from outlast.run import Cancelled, Cause, Completed, Failed, FailureCode, Outcome, Run, Token
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
    new_claim,
    new_run,
    say,
    take,
    texts,
    unchanged,
)

Attempt: TypeAlias = Callable[[Store, Run], Awaitable[object]]

FAILED: Final = Failed(code=FailureCode.WORKER_ERROR, message="m")


async def _append(store: Store, run: Run) -> None:
    with pytest.raises(Fenced):
        await store.logs.append(run.log, run.token, (await store.logs.head(run.log)).cursor, texts("late"))


async def _append_above(store: Store, run: Run) -> None:
    token = Token(epoch=run.epoch + 5, claim="high")
    with suppress(Fenced):
        await store.logs.fence(run.log, token)
    with pytest.raises(Fenced):
        await store.logs.append(run.log, token, (await store.logs.head(run.log)).cursor, texts("late"))


async def _claim(store: Store, run: Run) -> None:
    with pytest.raises(ClaimLost):
        await store.runs.claim(run, new_claim(run, B))


async def _settle_again(store: Store, run: Run) -> None:
    for outcome in (Completed(result=b"2"), FAILED, Cancelled(reason="late")):
        assert await store.runs.settle(run, run.token, outcome) == run


async def _settle_unheld(store: Store, run: Run) -> None:
    with pytest.raises(ClaimLost):
        await store.runs.settle_unheld(run, FAILED, claim="sweep")


async def _release(store: Store, run: Run) -> None:
    with suppress(Fenced):
        await store.runs.release(run, run.token, Cause.STORE)


async def _charge(store: Store, run: Run) -> None:
    with suppress(Fenced):
        answer = await store.runs.charge(run, run.token, number=run.budget.calls + 1, limit=9)
        assert answer is not Charge.GRANTED


async def _stop(store: Store, run: Run) -> None:
    stopped = await store.runs.stop(ANN, "r1", reason="late")
    assert (stopped.answer, stopped.run) == (StopAnswer.ALREADY, run)


async def _refuse(store: Store, run: Run) -> None:
    await store.runs.refuse(run, retry_in=0)


async def _start(store: Store, run: Run) -> None:
    started = await store.runs.start(new_run())
    assert (started.run, started.created) == (run, False)


ATTEMPTS: Final[dict[str, Attempt]] = {
    attempt.__name__.strip("_"): attempt
    for attempt in (
        *(_append, _append_above, _claim, _settle_again, _settle_unheld),
        *(_release, _charge, _stop, _refuse, _start),
    )
}
"""Everything that somebody could try on a settled run."""


class Absorbing(Contract):
    """The sixth promise, on every method that could break it."""

    @pytest.mark.parametrize("attempt", ATTEMPTS)
    @pytest.mark.parametrize("outcome", [Completed(result=b"1"), FAILED, Cancelled(reason="enough")], ids=repr)
    async def test_nothing_changes_a_run_that_its_holder_settled(
        self, store: Store, bench: Workbench, outcome: Outcome, attempt: str
    ) -> None:
        await join(store, A)
        run = await drive(store)
        await say(store, run, "a")
        settled = await store.runs.settle(run, run.token, outcome)
        await _check_absorbed(store, bench, settled, ATTEMPTS[attempt])

    @pytest.mark.parametrize("attempt", ATTEMPTS)
    async def test_nothing_changes_a_run_that_was_settled_without_a_holder(
        self, store: Store, bench: Workbench, attempt: str
    ) -> None:
        await join(store, A)
        run = await drive(store)
        await say(store, run, "a")
        await bench.age(TTL + 1)
        stopped = await store.runs.stop(ANN, "r1", reason="enough")
        assert stopped.run is not None
        await _check_absorbed(store, bench, stopped.run, ATTEMPTS[attempt])

    async def test_what_a_run_s_earlier_holder_tries_late_changes_nothing(self, store: Store) -> None:
        await join(store, A, B)
        old = await drive(store)
        await store.runs.release(old, old.token, Cause.STORE)
        run = await take(store, old, B)
        await store.runs.settle(run, run.token, Completed())
        async with unchanged(store):
            with pytest.raises(Fenced):
                await store.runs.settle(old, old.token, FAILED)
            with pytest.raises(Fenced):
                await store.runs.release(old, old.token, Cause.STORE)


async def _check_absorbed(store: Store, bench: Workbench, settled: Run, attempt: Attempt) -> None:
    """Check that the attempt changes nothing, at once and later, and queues no second abort."""
    for abort in await store.runs.take_aborts([CHAT], hold=TTL, limit=MANY):
        await store.runs.finish_abort(abort)
    await join(store, B)
    for seconds in (0.0, 1000.0):
        await bench.age(seconds)
        async with unchanged(store):
            await attempt(store, settled)
    assert list(await store.runs.take_aborts([CHAT], hold=TTL, limit=MANY)) == []
