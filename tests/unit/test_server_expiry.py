"""The loop that cleans up: it goes on while there is something to do, reports it, and leaves a sick store alone."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from outlast.errors import StoreFull
from outlast.facts import Fact, RunsExpired, StoreTroubled
from outlast.retention import Retention
from outlast.server.conditions import Conditions
from outlast.server.expiry import CAP, LOOK_EVERY, STEP_EVERY, Expiry
from outlast.stores.base import Expired
from tests.stage import staged

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


class Steps:
    """A run store whose steps of clean-up are given; it notes when each was asked for."""

    def __init__(self, answers: Iterator[Expired | Exception]) -> None:
        self.answers = answers
        self.asked: list[float] = []
        self.given: list[dict[str, float]] = []

    async def expire(self, **given: float) -> Expired:
        self.asked.append(asyncio.get_running_loop().time())
        self.given.append(given)
        answer = next(self.answers, Expired())
        if isinstance(answer, Exception):
            raise answer
        return answer


@asynccontextmanager
async def running(runs: Any, **options: Any) -> AsyncIterator[list[Fact]]:
    facts: list[Fact] = []
    conditions = Conditions(report=facts.append, mint=str, jitter=lambda: 0.5, **options)
    task = asyncio.create_task(Expiry(runs, conditions).run())
    try:
        yield facts
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_one_look_goes_on_to_the_end_with_room_for_others_and_is_reported_once() -> None:
    steps = Steps(iter([Expired(runs=3, more=True), Expired(more=True), Expired(tombstones=2)]))
    async with running(steps, retention=Retention(finished=100, gone=200)) as facts:
        await asyncio.sleep(LOOK_EVERY)
        assert steps.asked == pytest.approx([LOOK_EVERY / 2 + STEP_EVERY * number for number in range(3)])
        assert steps.given[0] == {"finished": 100, "gone": 200}
        assert facts == [RunsExpired(runs=3, tombstones=2)]
        await asyncio.sleep(LOOK_EVERY)
        assert len(steps.asked) == 4
        assert len(facts) == 1  # nothing was done, so nothing is said


async def test_a_store_in_trouble_is_left_alone_for_longer_and_longer_and_told_of_once() -> None:
    steps = Steps(iter([Expired(runs=1, more=True), *[StoreFull("full")] * 8, Expired(runs=2), StoreFull("full")]))
    async with running(steps) as facts:
        await asyncio.sleep(LOOK_EVERY)
        assert facts == [StoreTroubled(during="expiry", error="store_full"), RunsExpired(runs=1, tombstones=0)]
        await asyncio.sleep(8 * CAP)
        pauses = [later - earlier for earlier, later in zip(steps.asked[1:], steps.asked[2:], strict=False)]
        assert pauses[:3] == pytest.approx([LOOK_EVERY, 2 * LOOK_EVERY, 4 * LOOK_EVERY], abs=1)
        assert max(pauses) <= CAP + 1
        assert facts[2:] == [RunsExpired(runs=2, tombstones=0), StoreTroubled(during="expiry", error="store_full")]


@pytest.mark.behaviour("L9")
async def test_what_is_past_its_retention_goes_and_nothing_else() -> None:
    async with staged() as stage:
        ended, live = await stage.active("r1"), await stage.active("r2")
        await stage.say(ended, "a")
        await stage.say(live, "b")
        await stage.settle(ended)
        async with running(stage.store.runs, retention=Retention(finished=600, gone=600)) as facts:
            await asyncio.sleep(500)
            assert facts == []
            await asyncio.sleep(200)
            assert facts == [RunsExpired(runs=1, tombstones=0)]
            await asyncio.sleep(700)
            assert facts[1:] == [RunsExpired(runs=0, tombstones=1)]
        rows = await stage.store.runs.list("", status=None, before=None, limit=9)
        assert [row.run.id for row in rows] == ["r2"]
        assert len(await stage.log(live)) == 1
