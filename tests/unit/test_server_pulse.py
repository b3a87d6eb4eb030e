"""The beat of a node's loop tells that it runs, and how late it is."""

import asyncio
import time

import pytest

from outlast.lease import RENEW_EVERY
from outlast.server.pulse import BEAT_EVERY, Pulse
from outlast.testing.clock import VirtualLoop
from outlast.testing.cluster import Cluster
from outlast.testing.worker import Deaf, ScriptedWorker

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


class Dawdling(VirtualLoop):
    """A loop whose clock can be moved as if a callback had blocked it."""

    blocked = 0.0

    def time(self) -> float:
        return super().time() + self.blocked


async def test_it_beats_at_a_steady_pace() -> None:
    beats: list[float] = []
    pulse = Pulse()
    pulse.listen(beats.append)
    beating = asyncio.create_task(pulse.run())
    await asyncio.sleep(BEAT_EVERY * 4.5)
    beating.cancel()
    assert beats == pytest.approx([BEAT_EVERY * number for number in range(1, 5)])
    assert pulse.lag == pytest.approx(0.0, abs=1e-9)


def test_a_loop_that_stood_still_is_as_late_as_it_stood() -> None:
    loop = Dawdling()
    pulse = Pulse()

    async def block() -> None:
        beating = asyncio.create_task(pulse.run())
        await asyncio.sleep(BEAT_EVERY / 2)
        loop.blocked = 7.0
        await asyncio.sleep(0.01)
        beating.cancel()

    try:
        loop.run_until_complete(block())
    finally:
        loop.close()
    assert pulse.lag == pytest.approx(7.0 - BEAT_EVERY / 2, abs=0.02)


def test_its_pace_is_kept_by_the_loops_clock_alone() -> None:
    before = time.monotonic()
    loop = VirtualLoop()

    async def a_day() -> int:
        beats: list[float] = []
        pulse = Pulse()
        pulse.listen(beats.append)
        beating = asyncio.create_task(pulse.run())
        await asyncio.sleep(3600)
        beating.cancel()
        return len(beats)

    try:
        assert loop.run_until_complete(a_day()) in {7199, 7200}
    finally:
        loop.close()
    assert time.monotonic() >= before


async def test_a_node_beats_until_it_has_left_so_that_the_end_of_a_drain_looks_like_no_blocked_loop() -> None:
    worker = ScriptedWorker(lambda _call: [Deaf(1000)])
    beats: list[float] = []
    async with Cluster({"chat": worker}) as cluster:
        member = await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        member.node.pulse.listen(beats.append)
        await member.drain()
        left_at = asyncio.get_running_loop().time()
        await asyncio.sleep(10)
    assert left_at - 2 * BEAT_EVERY <= beats[-1] <= left_at


async def test_how_late_a_nodes_loop_is_stands_in_the_store_after_its_next_renewal() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    async with Cluster({}) as cluster:
        await cluster.join("a")
        await asyncio.sleep(RENEW_EVERY - BEAT_EVERY - 0.1)
        loop._jump(loop.time() + BEAT_EVERY)  # as if a callback had blocked it, right before a beat
        lags = []
        for pause in (0.3, RENEW_EVERY):
            await asyncio.sleep(pause)
            lags += [node.lag for node in await cluster.store.runs.nodes()]
    assert lags == pytest.approx([BEAT_EVERY - 0.1, 0.0], abs=1e-6)
