"""The witness beside a store: it sees what was accepted, also when nobody hears the answer, and nothing else."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from outlast.errors import Fenced, HeadConflict, StoreUnavailable
from outlast.log.cursor import Cursor
from outlast.log.event import Event
from outlast.run import Cause, Completed, Failed, FailureCode, Run, Status, Token
from outlast.stores.base import Charge, NewClaim, NewRun, StopAnswer
from outlast.stores.sqlite import SQLiteStore
from outlast.testing.faults import ErrorAfter, ErrorBefore, Script
from outlast.testing.faulty import FaultyStore
from outlast.testing.history import History
from outlast.testing.observation import (
    Appended,
    Charged,
    Claimed,
    FenceRaised,
    PrerequisiteRefused,
    Released,
    RowSeen,
    Settled,
    StopAnswered,
)
from outlast.testing.process import bring_processes
from outlast.testing.witness import Witness

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
async def store(history: History) -> AsyncIterator[Witness]:
    bring_processes(asyncio.get_running_loop())
    inner = SQLiteStore(None)
    await inner.open()
    await inner.runs.join("n", ttl=15.0, workers=[])
    yield Witness(inner, history.note, node="n")
    await inner.close()


async def claimed(store: Witness, id: str = "r1") -> Run:
    new = NewRun(owner="", id=id, log=f"log-{id}", worker="chat", input=b"null", digest=b"d")
    run = (await store.runs.start(new)).run
    claim = NewClaim(claim=f"claim-{id}", node="n", budget=run.budget, not_before=0.0)
    return await store.runs.claim(run, claim)


async def test_it_sees_each_operation_with_the_row_behind_it(store: Witness, history: History) -> None:
    run = await claimed(store)
    await store.runs.charge(run, run.token, number=1, limit=64)
    await store.runs.refuse(run, retry_in=30.0)
    await store.runs.release(run, run.token, Cause.STORE)
    await store.runs.stop("", "r1", reason=None)
    await store.runs.stop("", "unknown", reason=None)
    rows = [(each.row.status, each.row.epoch, each.row.budget.calls) for each in history.of(RowSeen)]
    assert rows == [
        (Status.QUEUED, 0, 0),
        (Status.ACTIVE, 1, 0),
        (Status.ACTIVE, 1, 1),
        (Status.ACTIVE, 1, 1),
        (Status.CANCELLED, 2, 1),
    ]
    (claim,) = history.of(Claimed)
    assert (claim.node, claim.before.epoch, claim.after) == ("n", 0, run)
    (charge,) = history.of(Charged)
    assert (charge.run, charge.number, charge.charge) == ("r1", 1, Charge.GRANTED)
    (refusal,) = history.of(PrerequisiteRefused)
    assert refusal.before == refusal.after
    assert [(each.run, each.token) for each in history.of(Released)] == [("r1", run.token)]
    stops = [(each.run, each.known, each.answer) for each in history.of(StopAnswered)]
    assert stops == [("r1", True, StopAnswer.SETTLED), ("unknown", False, StopAnswer.ACCEPTED)]


async def test_it_sees_who_settled_and_what_was_appended(store: Witness, history: History) -> None:
    held, unheld = await claimed(store), await claimed(store, "r2")
    await store.logs.fence(held.log, held.token)
    head = await store.logs.head(held.log)
    event = Event("text", "hello")
    cursor = await store.logs.append(held.log, held.token, head.cursor, [event])
    await store.runs.settle(held, held.token, Completed())
    await store.runs.release(unheld, unheld.token, Cause.STORE)
    failed = Failed(code=FailureCode.WORKER_ERROR, message="")
    await store.runs.settle_unheld(await reread(store, "r2"), failed, claim="last")
    assert [(each.log, each.token) for each in history.of(FenceRaised)] == [(held.log, held.token)]
    (appended,) = history.of(Appended)
    assert (appended.previous, appended.events, appended.head) == (head.cursor, (event,), cursor)
    settled = [(each.token, each.after.status) for each in history.of(Settled)]
    assert settled == [(held.token, Status.COMPLETED), (None, Status.FAILED)]


async def reread(store: Witness, id: str) -> Run:
    return (await store.runs.load("", id)).run


async def test_it_sees_what_was_accepted_though_its_answer_was_lost_and_nothing_that_was_refused(
    store: Witness, history: History
) -> None:
    run = await claimed(store)
    before = len(history.observations)
    script = Script()
    script.add("charge", ErrorBefore(StoreUnavailable("never came")))
    script.add("charge", ErrorAfter(StoreUnavailable("never came back")))
    node = FaultyStore(store, script)
    for seen in (0, 1):
        with pytest.raises(StoreUnavailable):
            await node.runs.charge(run, run.token, number=1, limit=64)
        assert len(list(history.of(Charged))) == seen
    old = Token(epoch=0, claim="old")
    with pytest.raises(Fenced):
        await node.runs.settle(run, old, Completed())
    await store.inner.logs.fence(run.log, run.token)  # nobody saw this one
    with pytest.raises(Fenced):
        await node.logs.fence(run.log, old)
    with pytest.raises(HeadConflict):
        await node.logs.append(run.log, run.token, Cursor(7, bytes(8)), [Event("text", "x")])
    assert len(history.observations) == before + 2  # the charge and its row


async def test_everything_else_is_the_stores_own(store: Witness) -> None:
    await claimed(store)
    await store.open()
    await store.close()
    assert await store.runs.now() > 0
    bells = [store.runs.subscribe(), store.logs.subscribe("log-r1")]
    for bell in bells:
        bell.close()
    renewer = store.renewer("n", ttl=15.0, workers=[])
    assert renewer.renew(stalled=False).held == {"log-r1": 1}
    renewer.close()
