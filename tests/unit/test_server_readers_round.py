"""One look over all feeds: what nobody rang for is found, and heartbeats cost one operation together."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from outlast.errors import StoreUnavailable
from outlast.facts import StoreTroubled
from outlast.recovery import RecoveryPolicy
from outlast.run import Run
from outlast.server.readers.feed import HEARTBEAT, Feed, Surroundings
from outlast.server.readers.round import EVERY, Rounds
from tests.stage import Handled, Stage, site, staged, until

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


class Listener:
    """A reader that counts how often it was woken."""

    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


@asynccontextmanager
async def going_over(
    stage: Stage, handled: Handled, runs: Sequence[Run]
) -> AsyncIterator[dict[str, tuple[Feed, Listener]]]:
    """Pump a feed with one reader for each run, and make rounds over them all."""
    store: Any = handled
    around = Surroundings(store=store, policy=RecoveryPolicy(), lag=lambda: 0.0, report=stage.facts.append)
    feeds = {run.log: Feed(run, await stage.store.logs.head(run.log), around) for run in runs}
    there = {run.id: (feeds[run.log], Listener()) for run in runs}
    for feed, reader in there.values():
        feed.join(reader)
    async with asyncio.TaskGroup() as tasks:
        working = [tasks.create_task(feed.pump()) for feed in feeds.values()]
        working.append(tasks.create_task(Rounds(feeds, around).run()))
        yield there
        for task in working:
            task.cancel()


@pytest.mark.behaviour("F4")
async def test_what_nobody_rang_for_is_found_within_a_round() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        handled.logs.deaf = True
        runs = [await stage.active(f"r{number}") for number in range(3)]
        async with going_over(stage, handled, runs) as there:
            await until(5.5)
            reads = handled.logs.calls["read"]
            await stage.say(runs[1], "a")
            await stage.settle(runs[2])
            await until(5.5 + EVERY)
            assert [there[id][0].ring.tail for id in ("r0", "r1", "r2")] == [0, 1, 1]
            assert there["r2"][0].ended
            assert handled.logs.calls["read"] - reads <= 4, "only the two that had grown are read, each to its end"


@pytest.mark.behaviour("F12")
@pytest.mark.parametrize("feeds", [1, 100])
async def test_idle_feeds_cost_two_operations_a_second_whatever_their_number(feeds: int) -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        runs = [await stage.start(f"r{number}") for number in range(feeds)]
        async with going_over(stage, handled, runs) as there:
            await until(1.5)
            handled.logs.calls.clear()
            loads = handled.runs.loads
            before = {id: feed.beats for id, (feed, _) in there.items()}
            await until(61.5)
            assert handled.logs.calls.total() == 60
            assert handled.runs.loads - loads <= 60 / (HEARTBEAT - EVERY) + 1
            assert all(feed.beats - before[id] >= 60 / HEARTBEAT for id, (feed, _) in there.items())
            assert all(reader.woken == feed.beats for feed, reader in there.values())


@pytest.mark.behaviour("F9")
async def test_a_round_that_fails_is_told_once_and_feeds_meet_the_trouble_themselves() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        runs = [await stage.start(f"r{number}") for number in range(2)]

        async def fail(_call: str) -> None:
            raise StoreUnavailable("away")

        async with going_over(stage, handled, runs) as there:
            await until(1.5)
            handled.logs.before = handled.runs.before = fail
            await until(HEARTBEAT - EVERY)
            assert stage.facts == [StoreTroubled(during="round", error="store_unavailable")]
            assert not any(feed.broken for feed, _ in there.values())
            await until(2 * HEARTBEAT)
            assert all(feed.broken for feed, _ in there.values())


LATEST = 15.0
"""Seconds that proxies and people bear between two heartbeats."""


@pytest.mark.behaviour("F10")
@pytest.mark.parametrize("runs", [12, pytest.param(1000, marks=pytest.mark.long)])
async def test_whatever_a_run_waits_for_its_readers_hear_a_heartbeat_in_time(runs: int) -> None:
    clock = asyncio.get_running_loop().time
    async with staged() as stage, site(stage) as here:
        for number in range(runs):
            run = await stage.start(f"r{number}")
            match number % 4:
                case 1:  # driven, and its lease soon lost
                    await stage.claim(run)
                case 2:  # let go, and due again
                    await stage.release(await stage.claim(run))
                case 3:  # let go, and not due for longer than anybody looks
                    await stage.release(await stage.claim(run, not_before=await stage.store.runs.now() + 1000))
        heard = {f"r{number}": [clock()] for number in range(runs)}

        async def listen(id: str) -> None:
            async with here.stream(f"/runs/{id}/events", timeout=None) as stream:
                while await stream.until("outlast.heartbeat"):
                    heard[id].append(clock())

        listening = [asyncio.create_task(listen(id)) for id in heard]
        await asyncio.sleep(100)
        over = clock()
        for task in listening:
            task.cancel()
        await asyncio.wait(listening)
        for id, moments in heard.items():
            gaps = [later - earlier for earlier, later in pairwise([*moments, over])]
            assert max(gaps) <= LATEST, id
