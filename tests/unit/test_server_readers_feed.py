import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from outlast.errors import StoreUnavailable
from outlast.facts import StoreTroubled
from outlast.log.event import Event
from outlast.recovery import RecoveryPolicy
from outlast.run import Cause, Run, restarted
from outlast.server.readers.feed import FEWEST, LINGER, MOST, RECOVERING_BEAT, SLICE, TURN, Feed, Surroundings, rouse
from outlast.wire import native
from outlast.wire.sse import Parser
from tests.stage import TTL, Handled, Stage, staged, until

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


class Listener:
    """A reader that notes when it was woken and which heartbeats it could see then."""

    def __init__(self) -> None:
        self.woken_at: list[float] = []

    def wake(self) -> None:
        self.woken_at.append(now())


class Sending:
    """A reader that, once woken, keeps the loop for `cost` seconds in the next turn."""

    def __init__(self, loop: Any, cost: float) -> None:
        self.woken = False
        self._loop = loop
        self._cost = cost

    def wake(self) -> None:
        self.woken = True
        self._loop.call_soon(lambda: self._loop._jump(now() + self._cost))


class Beats(Listener):
    """A reader that keeps every heartbeat."""

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self._feed = feed
        self.heard: list[tuple[float, dict[str, Any]]] = []

    def wake(self) -> None:
        super().wake()
        if self._feed.beats > len(self.heard):
            (message,) = Parser().feed(self._feed.beat)
            control = native.control_from_frame(message)
            assert control is not None
            assert control.name == "heartbeat"
            self.heard.append((now(), dict(control.said)))


def now() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def pumping(
    stage: Stage, run: Run, handled: Handled | None = None
) -> AsyncIterator[tuple[Feed, asyncio.Task[None]]]:
    store: Any = handled or Handled(stage.store)
    around = Surroundings(store=store, policy=RecoveryPolicy(), lag=lambda: 0.25, report=stage.facts.append)
    feed = Feed(run, await stage.store.logs.head(run.log), around)
    pump = asyncio.create_task(feed.pump())
    try:
        yield feed, pump
    finally:
        pump.cancel()
        await asyncio.wait([pump])
        assert store.logs.subscriptions == 0


async def test_what_is_written_is_in_the_ring_when_readers_are_woken() -> None:
    async with staged() as stage:
        run = await stage.active()
        await stage.say(run, "before")
        async with pumping(stage, run) as (feed, _):
            reader = Listener()
            feed.join(reader)
            assert feed.ring.tail == 1, "what was there before is the log's to tell"
            cursor = await stage.say(run, "a", "b")
            await until(0.1)
            assert reader.woken_at
            assert (feed.ring.base, feed.ring.tail, feed.head) == (1, 3, cursor)


@pytest.mark.behaviour("F4")
async def test_the_end_is_what_the_head_says_and_not_what_was_heard() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        handled.logs.deaf = True
        run = await stage.active()
        async with pumping(stage, run, handled) as (feed, pump):
            await until(0.5)
            asked = handled.logs.calls["head"]
            await stage.say(run, "a")
            feed.nudge()
            await until(2.5)
            assert (feed.ring.tail, feed.ended) == (1, False)
            assert handled.logs.calls["head"] == asked, "only a terminal event asks for it"
            await stage.settle(run)
            await until(4)
            assert not pump.done(), "nobody told it"
            feed.nudge()
            await pump
            assert feed.ended
            assert handled.logs.calls["head"] == asked + 1


@pytest.mark.behaviour("F4")
async def test_an_event_that_looks_like_an_end_is_none_while_the_log_is_open() -> None:
    async with staged() as stage:
        run = await stage.active()
        async with pumping(stage, run) as (feed, pump):
            await stage.say(run, Event("run.completed", {}))
            await until(2)
            assert (feed.ring.tail, feed.ended, pump.done()) == (1, False, False)


async def test_a_feed_of_a_sealed_log_is_over_from_the_start() -> None:
    async with staged() as stage:
        run = await stage.active()
        await stage.settle(run)
        async with pumping(stage, run) as (feed, pump):
            assert feed.ended
            await pump
            assert now() == 0


@pytest.mark.behaviour("F12")
async def test_an_idle_feed_costs_a_row_per_heartbeat_and_nothing_else() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        run = await stage.start()
        async with pumping(stage, run, handled) as (feed, _):
            for _ in range(50):
                feed.join(Listener())
            await until(100.5)
            assert handled.logs.calls["read"] <= 2
            assert handled.logs.calls["head"] == 0
            assert handled.runs.loads <= 11


@pytest.mark.behaviour("F10", "F17")
async def test_a_heartbeat_comes_at_once_and_then_every_ten_seconds() -> None:
    async with staged() as stage:
        run = await stage.start()
        async with pumping(stage, run) as (feed, _):
            reader = Beats(feed)
            feed.join(reader)
            await until(35)
            assert [at for at, _ in reader.heard] == [0, 10, 20, 30]
            assert reader.heard[0][1]["status"] == "queued"
            assert reader.heard[0][1]["loop_lag"] == 0.25
            assert reader.heard[0][1]["head"] == str(feed.head)


@pytest.mark.behaviour("F10")
async def test_a_reader_that_joins_hears_a_heartbeat_soon_and_many_cost_one() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        run = await stage.start()
        async with pumping(stage, run, handled) as (feed, _):
            feed.join(Listener())
            await until(5)
            readers = [Beats(feed) for _ in range(20)]
            for reader in readers:
                reader.heard = [(0, {})] * feed.beats
                feed.join(reader)
            await until(5 + RECOVERING_BEAT)
            assert {len(reader.heard) for reader in readers} == {2}
            assert handled.runs.loads == 2


async def test_a_recovering_run_beats_every_two_seconds_from_when_its_lease_ran_out() -> None:
    async with staged() as stage:
        run = await stage.active()
        async with pumping(stage, run) as (feed, _):
            reader = Beats(feed)
            feed.join(reader)
            await until(TTL + 5)
            recovering = [at for at, said in reader.heard if said["recovering"] is not None]
            assert TTL <= recovering[0] <= TTL + 0.5
            assert all(later - earlier <= 2.01 for earlier, later in pairwise(recovering))
            assert len(recovering) >= 3
            assert [said["recovering"] for at, said in reader.heard if at < TTL] == [None] * (
                len(reader.heard) - len(recovering)
            )


async def test_what_becomes_of_the_run_is_told_with_a_heartbeat_at_once() -> None:
    async with staged() as stage:
        run = await stage.active()
        async with pumping(stage, run) as (feed, _):
            reader = Beats(feed)
            feed.join(reader)
            await until(1)
            await stage.release(run, Cause.STORE)
            again = await stage.claim((await stage.store.runs.load("", "r1")).run)
            await stage.say(again, "words")
            await until(1.2)
            assert len(reader.heard) == 1, "words say nothing about the run"
            await stage.say(again, restarted(again, cause=Cause.STORE, keep=0))
            await until(1.4)
            assert len(reader.heard) == 2


@pytest.mark.behaviour("F9")
async def test_a_store_that_fails_breaks_the_feed_and_wakes_its_readers() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        run = await stage.active()
        async with pumping(stage, run, handled) as (feed, pump):
            reader = Listener()
            feed.join(reader)
            await until(0.5)

            async def fail(_call: str) -> None:
                raise StoreUnavailable("away")

            handled.runs.before = fail
            reader.woken_at.clear()
            await pump
            assert feed.broken
            assert not feed.ended
            assert reader.woken_at == [now()]
            assert stage.facts == [StoreTroubled(during="feed", error="store_unavailable")]


async def test_an_error_nobody_named_breaks_one_feed_and_is_reported_by_its_kind() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        run = await stage.active()

        async def fail(_call: str) -> None:
            raise ZeroDivisionError("a payload might stand here")

        handled.logs.before = fail
        async with pumping(stage, run, handled) as (feed, pump):
            await pump
            assert feed.broken
            assert stage.facts == [StoreTroubled(during="feed", error="ZeroDivisionError")]


async def test_a_feed_ends_a_while_after_its_last_reader_left() -> None:
    async with staged() as stage:
        run = await stage.active()
        async with pumping(stage, run) as (feed, pump):
            reader = Listener()
            feed.join(reader)
            await until(3 * LINGER)
            assert not pump.done()
            feed.leave(reader)
            feed.leave(reader)
            await until(4 * LINGER - 0.5)
            assert not pump.done()
            await pump
            assert now() == 4 * LINGER


async def test_a_big_room_is_woken_a_slice_at_a_time() -> None:
    assert (await slices(readers=600, cost=TURN / SLICE))[:3] == [SLICE, 2 * SLICE, 3 * SLICE]


async def test_the_slices_of_a_big_room_are_as_large_as_a_millisecond_bears() -> None:
    slow = await slices(readers=200, cost=TURN / 16)
    assert slow[:3] == [SLICE, SLICE + 16, SLICE + 32]
    slower = await slices(readers=200, cost=TURN)
    assert slower[:3] == [SLICE, SLICE + FEWEST, SLICE + 2 * FEWEST]
    fast = await slices(readers=600, cost=0)
    assert fast[:3] == [SLICE, SLICE + MOST, SLICE + 2 * MOST]


async def slices(*, readers: int, cost: float) -> list[int]:
    """Rouse so many readers, each of which keeps the loop for `cost` seconds, and count the woken turn by turn."""
    loop: Any = asyncio.get_running_loop()
    listeners = [Sending(loop, cost) for _ in range(readers)]
    waking = asyncio.create_task(rouse(listeners))
    woken: list[int] = []
    while not waking.done():
        await asyncio.sleep(0)
        woken.append(sum(listener.woken for listener in listeners))
    assert all(listener.woken for listener in listeners)
    return woken


@pytest.mark.behaviour("F2", "F12")
async def test_what_this_process_wrote_is_not_read_again() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        run = await stage.active()
        async with pumping(stage, run, handled) as (feed, _):
            await until(1)
            asked = handled.logs.calls["read"]
            for word in "abc":
                await stage.say(run, word)
                await until(now() + 1)
            assert feed.ring.tail == 3
            assert handled.logs.calls["read"] == asked
            frames, _ = feed.ring.after(0) or (b"", 0)
            assert frames == b"".join(map(native.event_frame, await stage.log(run)))


async def test_news_that_does_not_go_on_where_the_feed_stands_is_read_from_the_log() -> None:
    async with staged() as stage:
        run = await stage.active()
        async with pumping(stage, run) as (feed, _):
            await until(1)
            for word in "abc":  # three commits, and only the last is kept until the feed comes to look
                await stage.say(run, word)
            await until(2)
            frames, _ = feed.ring.after(0) or (b"", 0)
            assert frames == b"".join(map(native.event_frame, await stage.log(run)))
