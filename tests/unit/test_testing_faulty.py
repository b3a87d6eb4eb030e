"""One node's view of a store: each fault does what it says, to the operation it befalls and to nothing else."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from outlast.errors import RunNotFound, StoreUnavailable
from outlast.stores.base import NewRun
from outlast.stores.sqlite import SQLiteStore
from outlast.testing.faults import (
    Death,
    ErrorAfter,
    ErrorBefore,
    Fault,
    Gate,
    LateAnswer,
    Moment,
    Outage,
    Script,
    Slow,
    Standstill,
)
from outlast.testing.faulty import FaultyStore
from outlast.testing.process import Process, bring_processes

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

NEW = NewRun(owner="", id="r1", log="log1", worker="chat", input=b"null", digest=b"d")
AWAY = StoreUnavailable("away")


@pytest.fixture
async def inner() -> AsyncIterator[SQLiteStore]:
    bring_processes(asyncio.get_running_loop())
    store = SQLiteStore(None)
    await store.open()
    yield store
    await store.close()


class View:
    """A faulty store in a process of its own, with a script for its starts."""

    def __init__(self, inner: SQLiteStore, *, faults: dict[str, Fault]) -> None:
        self.script = Script()
        for operation, fault in faults.items():
            self.script.add(operation, fault)
        self.process = Process("n")
        self.store = FaultyStore(inner, self.script, process=self.process)
        self.process.on_death = self.store.sever
        self.met: list[tuple[str, Fault]] = []
        self.store.on_fault = lambda operation, fault: self.met.append((operation, fault))

    def start(self) -> "asyncio.Task[Any]":
        return self.process.start(self.store.runs.start(NEW))

    async def bury(self) -> None:
        self.process.kill()
        await self.process.gone()


async def happened(inner: SQLiteStore) -> bool:
    try:
        await inner.runs.load("", "r1")
    except RunNotFound:
        return False
    return True


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize(("fault", "happens"), [(ErrorBefore(AWAY), False), (ErrorAfter(AWAY), True)])
async def test_an_error_comes_instead_of_the_operation_or_of_its_answer(
    inner: SQLiteStore, fault: Fault, happens: bool
) -> None:
    view = View(inner, faults={"start": fault})
    with pytest.raises(StoreUnavailable, match="away"):
        await view.start()
    assert await happened(inner) is happens
    assert view.met == [("start", fault)]
    assert (await view.start()).created is not happens  # the fault is used up


@pytest.mark.parametrize(("fault", "at_once"), [(Slow(3.0), False), (LateAnswer(3.0), True)])
async def test_what_is_slow_happens_late_or_is_answered_late(inner: SQLiteStore, fault: Fault, at_once: bool) -> None:
    starting = View(inner, faults={"start": fault}).start()
    await asyncio.sleep(1)
    assert await happened(inner) is at_once
    assert (await starting).created
    assert now() == 3.0


@pytest.mark.parametrize("after", [False, True])
async def test_a_gate_holds_the_operation_or_its_answer_until_it_is_opened(inner: SQLiteStore, after: bool) -> None:
    gate = Gate(after=after)
    starting = View(inner, faults={"start": gate}).start()
    await gate.entered.wait()
    assert await happened(inner) is after
    await asyncio.sleep(1000)
    assert not starting.done()
    gate.open()
    assert (await starting).created


@pytest.mark.parametrize(
    ("moment", "happens"), [(Moment.BEFORE, False), (Moment.UNANSWERED, True), (Moment.ANSWERED, True)]
)
async def test_a_death_ends_the_process_and_the_operation_happens_or_does_not(
    inner: SQLiteStore, moment: Moment, happens: bool
) -> None:
    view = View(inner, faults={"start": Death(moment)})
    answered: list[bool] = []

    async def work() -> None:
        answered.append((await view.store.runs.start(NEW)).created)
        await view.store.runs.load("", "r1")
        answered.append(True)  # never: the dead are not answered

    view.process.start(work())
    await view.process.gone()
    assert not view.process.alive
    assert await happened(inner) is happens
    assert answered == ([True] if moment is Moment.ANSWERED else [])


@pytest.mark.parametrize(("moment", "happens"), [(Moment.BEFORE, False), (Moment.UNANSWERED, True)])
async def test_a_standstill_stops_the_process_around_the_operation_and_lets_it_go_on(
    inner: SQLiteStore, moment: Moment, happens: bool
) -> None:
    view = View(inner, faults={"start": Standstill(moment, 30.0)})
    starting = view.start()
    await asyncio.sleep(20)
    assert view.process.paused
    assert await happened(inner) is happens
    assert not starting.done()
    assert (await starting).created
    assert now() == 30.0


async def test_what_was_sent_happens_though_its_sender_is_cancelled(inner: SQLiteStore) -> None:
    view = View(inner, faults={})
    starting = view.start()
    await asyncio.sleep(0)  # it is on its way
    await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait({starting})
    assert starting.cancelled()
    assert await happened(inner)


async def test_a_severed_store_answers_nothing_for_ever(inner: SQLiteStore) -> None:
    view = View(inner, faults={})
    view.store.sever()
    starting = view.start()
    await asyncio.sleep(10_000)
    assert not starting.done()
    assert not await happened(inner)
    with pytest.raises(StoreUnavailable):
        view.store.renewer("n", ttl=15.0, workers=[]).renew(stalled=False)
    await view.bury()


async def test_renewals_fail_by_the_same_faults(inner: SQLiteStore) -> None:
    await inner.runs.join("n", ttl=1.0, workers=[])
    faults: list[tuple[Fault | None, bool]] = [
        (ErrorBefore(AWAY), False),
        (ErrorAfter(AWAY), True),
        (Standstill(Moment.BEFORE, 1.0), False),
        (Standstill(Moment.UNANSWERED, 1.0), True),
        (Death(Moment.BEFORE), False),
        (Death(Moment.UNANSWERED), True),
        (Slow(5.0), True),
        (None, True),
    ]
    for fault, renews in faults:
        view = View(inner, faults={} if fault is None else {"renew": fault})
        node = (await inner.runs.nodes())[0]
        before, lag = node.until, node.lag + 1
        renewer = view.store.renewer("n", ttl=before, workers=[])  # ever longer, so that each shows
        try:
            renewer.renew(stalled=False, lag=lag)
            answered = True
        except StoreUnavailable:
            answered = False
        renewer.close()
        node = (await inner.runs.nodes())[0]
        assert (node.until > before, node.lag == lag) == (renews, renews), fault
        assert answered is (fault is None or (isinstance(fault, Slow | Standstill) and renews)), fault
        assert view.process.alive is not isinstance(fault, Death), fault
        await view.bury()


async def test_a_deaf_store_loses_every_wake_up_and_still_looks_again(inner: SQLiteStore) -> None:
    view = View(inner, faults={})
    hearing = view.store.runs.subscribe()
    view.store.deaf = True
    for deaf in (view.store.runs.subscribe(), view.store.logs.subscribe("log1")):
        await inner.runs.start(NEW)
        await deaf.wait(7)
        deaf.close()
    assert now() == 14.0
    await hearing.wait(7)
    hearing.close()
    assert now() == 14.0


async def test_operations_are_told_of_before_they_are_done_and_the_inner_store_stays_open(inner: SQLiteStore) -> None:
    view = View(inner, faults={})
    told: list[str] = []
    view.store.on_operation = lambda operation, _arguments: told.append(operation)
    await view.store.open()
    await view.store.runs.start(NEW)
    await view.store.logs.head("log1")
    view.store.renewer("n", ttl=1.0, workers=[]).renew(stalled=False)
    assert told == ["start", "head", "renew"]
    view.store.faults = Outage(AWAY)
    with pytest.raises(StoreUnavailable):
        await view.store.logs.head("log1")
    await view.store.close()
    assert await happened(inner)
