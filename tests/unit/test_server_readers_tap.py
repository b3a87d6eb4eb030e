"""A tap: the log of a run for this process's own code, at its own pace."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from outlast.errors import Draining, StoreCorrupt, StoreUnavailable
from outlast.log.cursor import Cursor, GapReason
from outlast.log.event import Event, StoredEvent
from outlast.run import Cancelled, Run
from outlast.server.readers.place import locate
from outlast.server.readers.snapshot import Snapshots
from outlast.server.readers.tap import Bridged
from outlast.server.readers.view import WHOLE, View
from tests.stage import Handled, Site, nothing, scene

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


async def tapped(
    here: Site, run: Run, after: int = 0, *, chain: bytes | None = None, view: View = WHOLE
) -> AsyncGenerator[Bridged | StoredEvent, None]:
    logs = here.hub._room.logs
    place = await locate(logs, run.log, Cursor(after, chain))
    return here.hub.tap(run, place, view=view).flow(Snapshots(logs))


async def seqs(flow: AsyncGenerator[Bridged | StoredEvent, None], *, most: int = 1_000_000) -> list[int]:
    found: list[int] = []
    async for each in flow:
        assert isinstance(each, StoredEvent)
        found.append(each.seq)
        if len(found) == most:
            break
    return found


@pytest.mark.behaviour("F3", "F12")
async def test_taps_that_wait_cost_the_store_what_one_reader_costs() -> None:
    async with scene() as (stage, handled, here):
        run = await stage.active()
        await stage.say(run, "a")
        flows = [await tapped(here, run) for _ in range(50)]
        assert [await seqs(flow, most=1) for flow in flows] == [[1]] * 50
        tasks = [asyncio.create_task(seqs(flow)) for flow in flows]
        await asyncio.sleep(1)
        assert here.hub.readers == 50
        reads, loads = handled.logs.calls["read"], handled.runs.loads
        await asyncio.sleep(10)
        assert handled.logs.calls["read"] == reads
        assert handled.runs.loads - loads <= 12, "one heartbeat for all of them"
        await stage.say(run, "b", "c")
        await stage.settle(run)
        assert await asyncio.gather(*tasks) == [[2, 3, 4]] * 50
        assert handled.logs.calls["read"] <= reads + 4
        assert here.hub.readers == 0


async def test_who_takes_their_time_between_two_events_misses_none_and_holds_up_nobody() -> None:
    async with scene() as (stage, _, here):
        run = await stage.active()
        flow = await tapped(here, run)
        await stage.say(run, "x" * 2000)
        assert await seqs(flow, most=1) == [1]
        assert here.hub.readers == 0, "who is not waiting is not there to be told anything"
        flow = await tapped(here, run, 1)
        found: list[int] = []
        await stage.say(run, "first")
        async for each in flow:
            assert isinstance(each, StoredEvent)
            found.append(each.seq)
            if len(found) == 1:
                for _ in range(30):  # more than the ring holds
                    await stage.say(run, *["y" * 50_000])
                await asyncio.sleep(1000)
                await stage.settle(run)
        assert found == list(range(2, 34))


@pytest.mark.behaviour("F15")
async def test_a_node_that_drains_tells_who_waits_and_who_comes_back() -> None:
    async with scene() as (stage, _, here):
        run = await stage.active()
        await stage.say(run, "a")
        waiting, away = await tapped(here, run), await tapped(here, run)
        assert isinstance(await anext(waiting), StoredEvent)
        assert isinstance(await anext(away), StoredEvent)
        at_it = asyncio.create_task(anext(waiting))
        await asyncio.sleep(1)
        here.hub.drain()
        with pytest.raises(Draining):
            await at_it
        with pytest.raises(Draining):
            await anext(away)
        assert asyncio.get_running_loop().time() == 1


@pytest.mark.behaviour("F9")
async def test_a_store_that_fails_is_an_error_and_no_end() -> None:
    async with scene() as (stage, handled, here):
        run = await stage.active()
        await stage.say(run, "a")
        flow = await tapped(here, run)
        assert isinstance(await anext(flow), StoredEvent)
        taking = asyncio.create_task(anext(flow))
        await asyncio.sleep(1)

        async def fail(_call: str) -> None:
            raise StoreUnavailable("away")

        handled.logs.before = handled.runs.before = fail
        with pytest.raises(StoreUnavailable):
            await taking
        with pytest.raises(StoreUnavailable):
            await anext(await again(here, run, handled))


async def again(here: Site, run: Run, handled: Handled) -> AsyncGenerator[Bridged | StoredEvent, None]:
    before, handled.logs.before = handled.logs.before, nothing
    flow = await tapped(here, run)
    handled.logs.before = before
    return flow


async def test_a_log_that_ends_before_its_head_is_told() -> None:
    async with scene() as (stage, handled, here):
        run = await stage.active()
        await stage.say(run, "a", "b")
        flow = await tapped(here, run)

        async def read(*_arguments: object, **_named: object) -> list[StoredEvent]:
            return []

        handled.logs.read = read
        with pytest.raises(StoreCorrupt):
            await anext(flow)


async def test_a_view_leaves_events_out_and_the_end_comes_all_the_same() -> None:
    async with scene() as (stage, _, here):
        run = await stage.active()
        await stage.say(run, "a")
        flow = await tapped(here, run, view=View(types=frozenset({"other"})))
        taking = asyncio.create_task(seqs(flow))
        await asyncio.sleep(1)
        await stage.say(run, "b")
        await stage.settle(run)
        assert await taking == [3]


@pytest.mark.behaviour("F6", "F8")
@pytest.mark.parametrize("said", [0, 2])
@pytest.mark.parametrize("ended", [False, True])
async def test_behind_a_gap_comes_the_fold_and_then_what_follows_with_the_terminal_by_itself(
    said: int, ended: bool
) -> None:
    async with scene() as (stage, _, here):
        run = await stage.active()
        if said:
            await stage.say(run, *["a", "b"])
        if ended:
            await stage.settle(run, Cancelled())
        flow = await tapped(here, run, 99)
        bridged = await anext(flow)
        assert isinstance(bridged, Bridged)
        assert (bridged.gap.reason, bridged.cursor.seq) == (GapReason.AHEAD, said)
        assert bridged.cursor.chain is not None
        assert [each.event.data for each in bridged.events] == (["ab"] if said else [])
        taking = asyncio.create_task(seqs(flow))
        await asyncio.sleep(1)
        if not ended:
            await stage.settle(run)
        assert await taking == [said + 1]


@pytest.mark.behaviour("F7")
async def test_of_the_fold_behind_a_gap_only_what_the_view_shows_is_held() -> None:
    async with scene() as (stage, _, here):
        run = await stage.active()
        await stage.say(run, *(Event("note", number) for number in range(3)), "a", "b")
        flow = await tapped(here, run, 99, view=View(types=frozenset({"text"})))
        bridged = await anext(flow)
        assert isinstance(bridged, Bridged)
        assert [(each.seq, each.event.data) for each in bridged.events] == [(5, "ab")]
        await flow.aclose()


async def test_a_loop_that_is_left_leaves_nothing_behind() -> None:
    async with scene() as (stage, handled, here):
        run = await stage.active()
        await stage.say(run, "a")
        flow = await tapped(here, run)
        assert await seqs(flow, most=1) == [1]
        await flow.aclose()
        taking = asyncio.create_task(seqs(await tapped(here, run, 1)))
        await asyncio.sleep(1)
        taking.cancel()
        await asyncio.wait({taking})
        await asyncio.sleep(6)
        assert (here.hub.readers, here.hub.feeds, handled.logs.subscriptions) == (0, 0, 0)
