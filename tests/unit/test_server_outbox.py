"""Telling workers that a run is over: once, until they acknowledge, and never at others' cost."""

import asyncio
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from outlast.errors import StoreUnavailable, code_of
from outlast.facts import AbortDelivered, AbortFailed, StoreTroubled
from outlast.server.outbox import ANSWER_WITHIN, AT_ONCE, HOLD, TRIES
from outlast.testing.cluster import Cluster, Member
from outlast.testing.faults import ErrorAfter, ErrorBefore, Script
from outlast.testing.worker import Deaf, Die, Hang, Raise, ScriptedWorker, Step, Told, Work

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


def failing(*answers: Iterable[Step]) -> ScriptedWorker:
    """Return a worker whose runs fail, and which answers its aborts so, one after another, then well."""
    left = [list(answer) for answer in answers]
    return ScriptedWorker(lambda _call: [Raise(ValueError())], answer=lambda _told: left.pop(0) if left else [])


async def told(worker: ScriptedWorker, *, within: float, faults: Script | None = None) -> tuple[list[Told], Member]:
    """Let one run fail, wait, and return what the worker was told."""
    async with Cluster({"chat": worker}) as cluster:
        member = await cluster.join("a", faults=faults)
        await cluster.start("chat", "r1")
        await cluster.outcome("r1", within=30)
        await asyncio.sleep(within)
        return list(worker.aborts), member


@pytest.mark.behaviour("B9")
async def test_an_acknowledged_abort_is_told_once_with_the_settling_epoch() -> None:
    aborts, member = await told(failing(), within=600)
    assert [(abort.run, abort.epoch) for abort in aborts] == [("r1", 1)]
    assert [fact for fact in member.facts if isinstance(fact, AbortDelivered | AbortFailed)] == [
        AbortDelivered(run=next(fact.run for fact in member.facts if isinstance(fact, AbortDelivered)), epoch=1)
    ]


@pytest.mark.behaviour("B9")
@pytest.mark.parametrize("answer", [[Raise(ValueError("s3cret"))], [Hang()], [Work(ANSWER_WITHIN + 1)], [Deaf(60)]])
async def test_a_worker_that_does_not_acknowledge_is_told_again_later_and_later(answer: list[Step]) -> None:
    aborts, member = await told(failing(answer, answer), within=600)
    assert len(aborts) == 3
    first, second = (later.at - earlier.at for earlier, later in pairwise(aborts))
    assert 0.8 <= first <= second
    assert "s3cret" not in repr(member.facts)


@pytest.mark.behaviour("B9")
async def test_a_worker_that_never_acknowledges_is_given_up_after_twenty_tries() -> None:
    worker = ScriptedWorker(lambda _call: [Raise(ValueError())], answer=lambda _told: [Raise(ValueError())])
    aborts, member = await told(worker, within=3600)
    failed = [fact for fact in member.facts if isinstance(fact, AbortFailed)]
    assert len(aborts) == len(failed) == TRIES
    assert [fact.given_up for fact in failed] == [False] * (TRIES - 1) + [True]


async def test_one_that_hangs_holds_up_no_other() -> None:
    worker = ScriptedWorker(
        lambda _call: [Raise(ValueError())], answer=lambda told: [Hang()] if told.run == "slow" else []
    )
    async with Cluster({"chat": worker}) as cluster:
        await cluster.join("a")
        await cluster.start("chat", "slow")
        await cluster.outcome("slow", within=5)
        for number in range(2 * AT_ONCE):
            await cluster.start("chat", f"r{number}")
        await asyncio.sleep(5)
    assert len({abort.run for abort in worker.aborts}) == 2 * AT_ONCE + 1


@pytest.mark.behaviour("B22", "W12")
async def test_an_abort_whose_node_dies_over_it_is_told_by_another() -> None:
    worker = failing([Die()])
    async with Cluster({"chat": worker}) as cluster:
        first = await cluster.join("a")
        await cluster.start("chat", "r1")
        await first.process.gone()
        second = await cluster.join("b")
        await asyncio.sleep(HOLD + 5)
        assert len(worker.calls) == 1
    assert len(worker.aborts) == 2
    assert len([fact for fact in second.facts if isinstance(fact, AbortDelivered)]) == 1


@pytest.mark.behaviour("H17")
@pytest.mark.parametrize("operation", ["take_aborts", "finish_abort"])
@pytest.mark.parametrize(
    "fault",
    [
        ErrorBefore(StoreUnavailable("away")),
        ErrorAfter(StoreUnavailable("away")),
        ErrorBefore(ValueError("unclassified")),
    ],
)
async def test_a_store_in_trouble_only_delays_the_abort_and_never_ends_the_node(operation: str, fault: Any) -> None:
    script = Script()
    script.add(operation, fault, times=3)
    aborts, member = await told(failing(), within=300, faults=script)
    assert aborts
    assert member.crash is None
    assert [fact for fact in member.facts if isinstance(fact, AbortDelivered)]
    assert StoreTroubled(during="outbox", error=code_of(fault.error)) in member.facts


async def test_a_node_without_the_worker_leaves_the_abort_to_one_that_has_it() -> None:
    worker = failing([Raise(ValueError())])
    async with Cluster({"chat": worker}) as cluster:
        first = await cluster.join("a")
        await cluster.start("chat", "r1")
        await cluster.outcome("r1", within=5)
        await asyncio.sleep(0.1)
        first.process.kill()
        await cluster.join("b", workers={"other": worker})
        await asyncio.sleep(120)
        before = len(worker.aborts)
        await cluster.join("c")
        await asyncio.sleep(5)
    assert (before, len(worker.aborts)) == (1, 2)
