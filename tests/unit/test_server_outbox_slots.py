"""How many aborts are told side by side, how they are spaced, and what becomes of a telling that never ends."""

import asyncio
import gc
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from outlast.backoff import JITTER
from outlast.server.outbox import ANSWER_WITHIN, AT_ONCE
from outlast.testing.cluster import Cluster
from outlast.testing.worker import Deaf, Hang, Raise, ScriptedWorker, Step, Told

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


def failing(answer: Any) -> ScriptedWorker:
    """Return a worker whose every run fails, and that answers an abort as told."""
    return ScriptedWorker(lambda _call: [Raise(ValueError())], answer)


@pytest.mark.behaviour("B9", "S2")
async def test_tellings_that_fail_are_spaced_as_the_backoff_says() -> None:
    worker = failing(lambda told: [Raise(ConnectionError())] if told.at < 30 else [])
    async with Cluster({"chat": worker}) as cluster:
        await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(120)
    gaps = [later.at - earlier.at for earlier, later in pairwise(worker.aborts)]
    assert len(gaps) == 5
    for gap, pause in zip(gaps, [1, 2, 4, 8, 16], strict=True):
        assert pause * (1 - JITTER) <= gap <= pause * (1 + JITTER) + 2  # found by a look at the latest


async def test_no_more_than_sixteen_are_told_at_once_and_the_others_follow() -> None:
    running, most = 0, 0

    class Counting(ScriptedWorker):
        async def abort(self, run: Any) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            try:
                await super().abort(run)
            finally:
                running -= 1

    worker = Counting(lambda _call: [Raise(ValueError())], lambda _told: [Hang()])
    async with Cluster({"chat": worker}) as cluster:
        await cluster.join("a")
        for number in range(3 * AT_ONCE):
            await cluster.start("chat", f"r{number}")
        await asyncio.sleep(2.5 * ANSWER_WITHIN)
        told = {abort.run for abort in worker.aborts}
    assert most == AT_ONCE
    assert len(told) == 3 * AT_ONCE


@pytest.mark.behaviour("W17")
async def test_what_a_telling_that_was_left_behind_raises_at_last_is_in_nobodys_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def answer(told: Told) -> Iterable[Step]:
        return [Deaf(25), Raise(ValueError("s3cret"))] if told.at < 1 else []

    worker = failing(answer)
    async with Cluster({"chat": worker}) as cluster:
        await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(60)
        assert len(worker.aborts) == 2
    gc.collect()  # asyncio prints what nobody heard when it is collected
    assert "s3cret" not in caplog.text
