"""The runs as a port: what is asked for in one turn is decided in one transaction, one after the other."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from outlast.errors import ClaimLost, Fenced, OutlastError, StoreUnavailable
from outlast.run import Cancelled, Cause, Completed, Failed, FailureCode, Status
from outlast.stores.base import RunStore, StopAnswer
from outlast.stores.sqlite import SQLiteStore
from outlast.testing.contract.scene import ANN, A, B, drive, join, load, new_claim, said, start
from tests.disk import HandClock, opened

pytestmark = pytest.mark.anyio

FAILED = Failed(code=FailureCode.WORKER_ERROR, message="m")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(clock: HandClock) -> AsyncIterator[SQLiteStore]:
    async with opened(None, clock=clock) as store:
        await join(store, A, B)
        yield store


@pytest.mark.behaviour("H1", "B13")
@pytest.mark.invariant("epochs-rise")
async def test_of_many_claims_in_one_turn_one_wins(store: SQLiteStore) -> None:
    run = await start(store)
    claims = [new_claim(run, node) for node in (A, B) * 10]
    results = await asyncio.gather(*(store.runs.claim(run, claim) for claim in claims), return_exceptions=True)
    lost = [result for result in results if isinstance(result, ClaimLost)]
    assert len(lost) == len(claims) - 1
    assert (await load(store, run)).claim == claims[0].claim


@pytest.mark.behaviour("S5")
@pytest.mark.invariant("stop-wins-once")
@pytest.mark.parametrize("first", ["stop", "settle", "release"])
async def test_of_a_stop_and_an_outcome_in_one_turn_the_first_decides(store: SQLiteStore, first: str) -> None:
    run = await drive(store)
    asked = {
        "stop": store.runs.stop(ANN, "r1", reason="enough"),
        "settle": store.runs.settle(run, run.token, FAILED),
        "release": store.runs.release(run, run.token, Cause.STORE),
    }
    order = [asked.pop(first), *asked.values()]
    results = await asyncio.gather(*order, return_exceptions=True)
    assert not [result for result in results if isinstance(result, Exception) and not isinstance(result, OutlastError)]
    settled = await load(store, run)
    assert settled.status is (Status.FAILED if first == "settle" else Status.CANCELLED)
    assert len(await said(store, run)) == 1


async def test_a_fenced_settle_in_one_turn_with_its_successors_claim(store: SQLiteStore, clock: HandClock) -> None:
    run = await drive(store)
    clock.since += 20
    await join(store, B)
    seen = await load(store, run)
    claimed, fenced, settled = await asyncio.gather(
        store.runs.claim(seen, new_claim(seen, B)),
        store.runs.settle(run, run.token, Completed()),
        store.runs.stop(ANN, "r1", reason=None),
        return_exceptions=True,
    )
    assert not isinstance(claimed, BaseException)
    assert isinstance(fenced, Fenced)
    assert not isinstance(settled, BaseException)
    assert settled.answer is StopAnswer.ACCEPTED
    assert (await store.runs.settle(claimed, claimed.token, FAILED)).outcome == Cancelled(reason=None)


async def test_a_store_that_is_not_open_says_so_whatever_is_asked(clock: HandClock) -> None:
    async with opened(None, clock=clock) as store:
        run = await start(store)
    runs: RunStore = store.runs
    for refused in (
        runs.now(),
        runs.load(ANN, "r1"),
        runs.join(A, ttl=1, workers=[]),
        runs.bury(A),
        runs.settle_unheld(run, FAILED, claim="c"),
        store.logs.head(run.log),
    ):
        with pytest.raises(StoreUnavailable, match="not open"):
            await refused
