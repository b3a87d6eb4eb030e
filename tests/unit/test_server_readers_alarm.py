"""Readers hear at once that their run has begun to recover, and nobody else does."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from outlast.errors import StoreUnavailable
from outlast.facts import RunReleased, StoreTroubled
from outlast.log.cursor import Cursor
from outlast.recovery import RecoveryPolicy
from outlast.run import Cause, Run, Status
from outlast.server.readers.alarm import TOGETHER, Alarm
from outlast.server.readers.feed import RECOVERING_BEAT, Feed, Surroundings
from outlast.testing.cluster import Cluster
from outlast.testing.worker import Emit, Raise, Return, ScriptedWorker
from outlast.wire import native
from outlast.wire.sse import Parser
from tests.stage import Handled, Stage, Wire, nothing, staged

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

Beat = tuple[float, dict[str, Any]]


class Listener:
    """A reader that keeps every heartbeat, and when it came."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.heard: list[Beat] = []

    def wake(self) -> None:
        if self._feed.beats > len(self.heard):
            self.heard += beats(self._feed.beat)


def now() -> float:
    return asyncio.get_running_loop().time()


def beats(said: bytes) -> list[Beat]:
    controls = map(native.control_from_frame, Parser().feed(said))
    return [(now(), dict(each.said)) for each in controls if each is not None and each.name == "heartbeat"]


@asynccontextmanager
async def watching(stage: Stage, handled: Handled, runs: Sequence[Run]) -> AsyncIterator[dict[str, Listener]]:
    """Watch over a feed with one reader for each run, all of which have heard a first heartbeat; then it is 3 s."""
    store: Any = handled
    around = Surroundings(store=store, policy=RecoveryPolicy(), lag=lambda: 0.0, report=stage.facts.append)
    feeds = {run.log: Feed(run, await stage.store.logs.head(run.log), around) for run in runs}
    there = {run.id: Listener(feeds[run.log]) for run in runs}
    async with asyncio.TaskGroup() as tasks:
        working = [tasks.create_task(feed.pump()) for feed in feeds.values()]
        for run in runs:
            feeds[run.log].join(there[run.id])
        working.append(tasks.create_task(Alarm(feeds, around).run()))
        await asyncio.sleep(3)
        assert {len(reader.heard) for reader in there.values()} == {1}
        yield there
        for task in working:
            task.cancel()


@pytest.mark.behaviour("M5")
async def test_a_run_that_is_let_go_is_told_to_its_readers_at_once_and_to_no_others() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        run, other = await stage.active("r1"), await stage.active("r2")
        async with watching(stage, handled, [run, other]) as there:
            await stage.release(run, Cause.STORE)
            await asyncio.sleep(0.01)
            assert [(at, said["recovering"]["cause"]) for at, said in there["r1"].heard[1:]] == [(3.0, "store")]
            await asyncio.sleep(2 * RECOVERING_BEAT)
            assert len(there["r1"].heard) == 4, "every two seconds meanwhile"
            assert len(there["r2"].heard) == 1
            assert handled.runs.looks == 1


@pytest.mark.behaviour("M5")
async def test_the_end_of_a_node_is_told_to_the_readers_of_all_its_runs_at_once() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        runs = [await stage.active(f"r{number}") for number in range(3)]
        async with watching(stage, handled, runs) as there:
            await stage.store.runs.leave(runs[0].holder or "")
            await asyncio.sleep(0.01)
            for reader in there.values():
                assert [(at, said["recovering"] is None) for at, said in reader.heard[1:]] == [(3.0, False)]
            assert handled.runs.looks == 1


@pytest.mark.behaviour("F12")
async def test_what_becomes_of_other_runs_costs_an_operation_a_second_at_most() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        async with watching(stage, handled, [await stage.active("r1")]) as there:
            loads = handled.runs.loads
            for number in range(100):
                await stage.start(f"other-{number}")
                await asyncio.sleep(0.02)
            await asyncio.sleep(TOGETHER)
            assert 2 <= handled.runs.looks <= 2 / TOGETHER + 1
            assert handled.runs.loads == loads
            assert len(there["r1"].heard) == 1


async def test_a_look_that_fails_is_told_once_and_the_next_ring_is_heard() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        run = await stage.active("r1")

        async def fail(call: str) -> None:
            if call == "recovering":
                raise StoreUnavailable("away")

        async with watching(stage, handled, [run]) as there:
            handled.runs.before = fail
            for number in range(2):
                await stage.start(f"other-{number}")
                await asyncio.sleep(TOGETHER)
            assert stage.facts == [StoreTroubled(during="alarm", error="store_unavailable")]
            handled.runs.before = nothing
            await stage.release(run)
            await asyncio.sleep(0.01)
            assert len(there["r1"].heard) == 2


@pytest.mark.behaviour("M5")
async def test_of_each_wait_for_a_next_try_the_readers_hear_though_its_claim_is_told_a_second_later() -> None:
    worker = ScriptedWorker(lambda call: [Emit("x"), Return(1) if call.number == 5 else Raise(MemoryError())])
    async with Cluster({"chat": worker}) as cluster:
        member = await cluster.join("a")
        run = await cluster.start("chat", "r1")
        wire = Wire()
        reading = asyncio.ensure_future(
            member.response(run, Cursor(0, None))({"type": "http"}, wire.receive, wire.send)
        )
        row = await cluster.outcome("r1", within=60)
        await reading
        said = [beat for message in wire.sent for beat in beats(message.get("body", b""))]
    assert row.status is Status.COMPLETED
    released = [fact for fact in member.facts if isinstance(fact, RunReleased)]
    told = {each["recovering"]["takeover"] for _, each in said if each["recovering"] is not None}
    assert len(released) == 4
    assert told == {2, 3, 4}, "the first is claimed at once"
