import asyncio
from contextvars import ContextVar
from pathlib import Path

import pytest

from outlast.errors import NotStarted
from outlast.log.cursor import Cursor
from outlast.recovery import RecoveryPolicy
from outlast.server.readers.feed import LINGER
from outlast.server.readers.hub import FAREWELL_WITHIN, LOOK_EVERY, Hub
from outlast.server.readers.place import locate
from outlast.wire import native
from tests.disk import opened
from tests.stage import Handled, Stage, Wire, names, site, staged, turns, until

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


def hub_of(stage: Stage) -> Hub:
    return Hub(stage.store, policy=RecoveryPolicy(), boot_id="b00t", lag=lambda: 0.0, report=stage.facts.append)


async def serve(hub: Hub, stage: Stage, wire: Wire, id: str = "r1") -> asyncio.Task[None]:
    run = (await stage.store.runs.load("", id)).run
    reader = hub.reader(run, await locate(stage.store.logs, run.log, Cursor(0, None)))
    serving = asyncio.create_task(reader({"type": "http"}, wire.receive, wire.send))
    await turns()
    return serving


async def test_before_it_runs_nothing_can_be_read() -> None:
    async with staged() as stage:
        run = await stage.start()
        place = await locate(stage.store.logs, run.log, Cursor(0, None))
        with pytest.raises(NotStarted):
            hub_of(stage).reader(run, place)


@pytest.mark.behaviour("F12")
async def test_all_readers_of_a_run_share_one_feed() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here:
            await stage.active("r1")
            await stage.active("r2")
            wires = [Wire() for _ in range(20)]
            servings = [await serve(here.hub, stage, wire) for wire in wires]
            servings.append(await serve(here.hub, stage, wires[0], "r2"))
            assert (here.hub.readers, here.hub.feeds, handled.logs.subscriptions) == (21, 2, 2)
            for wire in wires:
                wire.left.set()
            await asyncio.wait(servings)
            assert here.hub.readers == 0
            await until(LINGER + 1)
            assert (here.hub.feeds, handled.logs.subscriptions) == (0, 0)


@pytest.mark.behaviour("F12")
@pytest.mark.parametrize("readers", [1, 200])
async def test_more_readers_cost_the_store_nothing_more_while_they_are_live(readers: int) -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here:
            run = await stage.start()
            wires = [Wire() for _ in range(readers)]
            for wire in wires:
                await serve(here.hub, stage, wire)
            await until(1)
            handled.logs.calls.clear()
            loads = handled.runs.loads
            run = await stage.claim(run)
            for number in range(10):
                await stage.say(run, str(number))
                await turns()
            await until(31)
            assert all(names(wire.messages).count("text") == 10 for wire in wires)
            assert handled.logs.calls["read"] == 0, "its own process wrote it"
            assert handled.logs.calls["heads"] <= 31
            assert handled.runs.loads - loads <= 31 / 2 + 1
            for wire in wires:
                wire.left.set()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux lists a process's open files there")
@pytest.mark.behaviour("F12")
async def test_two_hundred_readers_open_no_connection_to_the_file(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db") as store:
        stage = Stage(store)
        async with site(stage) as here:
            run = await stage.active()
            await stage.say(run, *(str(number) for number in range(600)))
            wires = [Wire() for _ in range(201)]
            await serve(here.hub, stage, wires[0])
            await turns()
            before = files()
            assert before, "the database's own"
            for wire in wires[1:]:
                await serve(here.hub, stage, wire)
            await turns(2000)
            assert all(names(wire.messages).count("text") == 600 for wire in wires)
            assert files() == before
            for wire in wires:
                wire.left.set()


def files() -> list[Path]:
    """Return the files on a disk that this process has open, each as often as it is open."""
    return sorted(path for each in Path("/proc/self/fd").iterdir() if (path := each.resolve()).is_file())


async def test_a_finished_run_is_read_without_a_feed() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.settle(run)
        wire = Wire.stalled()
        await serve(here.hub, stage, wire)
        assert (here.hub.readers, here.hub.feeds) == (1, 0)
        wire.left.set()


async def test_a_reader_that_comes_after_the_end_does_not_wait_for_the_feed_to_notice_it() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        handled.logs.deaf = True
        async with site(stage, handled=handled) as here:
            run = await stage.active()
            before, late = Wire(), Wire()
            await serve(here.hub, stage, before)
            await stage.settle(run)
            await (await serve(here.hub, stage, late))
            assert names(late.messages)[-1] == "outlast.end"
            assert names(before.messages)[-1] == "outlast.caught-up"
            assert asyncio.get_running_loop().time() == 0
            before.left.set()


async def test_a_feed_knows_nothing_of_the_request_that_needed_it_first() -> None:
    whose: ContextVar[str] = ContextVar("whose", default="nobody's")
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here:
            await stage.start()
            seen = []

            async def note(_call: str) -> None:
                seen.append(whose.get())

            handled.logs.before = note
            wire = Wire()
            whose.set("ann's")
            await serve(here.hub, stage, wire)
            assert set(seen) == {"nobody's"}
            wire.left.set()


async def test_a_feed_outlives_the_request_that_needed_it_first() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        first, second = Wire(), Wire()
        serving = await serve(here.hub, stage, first)
        await serve(here.hub, stage, second)
        serving.cancel()
        await asyncio.wait([serving])
        await stage.say(run, "a")
        await turns()
        assert names(second.messages) == ["outlast.hello", "outlast.caught-up", "text"]
        second.left.set()


@pytest.mark.behaviour("F15")
@pytest.mark.case(21)
async def test_closing_tells_every_reader_to_go_elsewhere_and_waits_for_them() -> None:
    async with staged() as stage:
        run = await stage.active("live")
        await stage.say(run, *map(str, range(300)))
        await stage.start("silent")
        hub = hub_of(stage)
        running = asyncio.create_task(hub.run())
        await turns()
        wires = [Wire() for _ in range(70)]
        for number, wire in enumerate(wires):
            await serve(hub, stage, wire, ("live", "silent")[number % 2])
        hub.close()
        hub.close()
        await running
        assert asyncio.get_running_loop().time() == 0
        assert (hub.readers, hub.feeds) == (0, 0)
        for wire in wires:
            assert wire.complete
            drain = native.control_from_frame(wire.messages[-1])
            assert drain is not None
            assert (drain.name, drain.said) == ("drain", {"reason": "closing", "spread": 2.0})
            assert wire.parser.retry is not None
            assert 0 <= wire.parser.retry <= 2000
            assert "outlast.end" not in names(wire.messages)
        late = Wire()
        await (await serve(hub, stage, late, "live"))
        stored = ["text"] * 300
        assert names(late.messages) == ["outlast.hello", *stored, "outlast.caught-up", "outlast.drain"]


@pytest.mark.behaviour("F15")
@pytest.mark.case(153)
async def test_who_comes_while_a_hub_drains_gets_what_is_stored_and_is_sent_away() -> None:
    async with staged() as stage:
        run = await stage.active()
        hub = hub_of(stage)
        running = asyncio.create_task(hub.run())
        await turns()
        hub.drain()
        hub.drain()
        for number in range(3):
            await stage.say(run, str(number))
            wire = Wire()
            await (await serve(hub, stage, wire))
            told = names(wire.messages)
            assert told[-2:] == ["outlast.caught-up", "outlast.drain"]
            assert told.count("text") == number + 1
            assert wire.complete
        await stage.settle(run)
        wire = Wire()
        await (await serve(hub, stage, wire))
        assert names(wire.messages)[-1] == "outlast.end"
        await until(60)
        assert not running.done()
        await hub.see_off()
        hub.close()
        await running


@pytest.mark.behaviour("F15")
async def test_a_client_that_stalls_while_a_hub_drains_is_dropped_soon() -> None:
    async with staged() as stage:
        await stage.start()
        hub = hub_of(stage)
        running = asyncio.create_task(hub.run())
        await turns()
        wire = Wire.stalled()
        serving = await serve(hub, stage, wire)
        hub.drain()
        await serving
        assert asyncio.get_running_loop().time() <= FAREWELL_WITHIN + LOOK_EVERY
        hub.close()
        await running


@pytest.mark.behaviour("F15")
async def test_a_reader_that_does_not_hear_the_farewell_is_dropped() -> None:
    async with staged() as stage:
        await stage.start()
        hub = hub_of(stage)
        running = asyncio.create_task(hub.run())
        await turns()
        wire = Wire.stalled()
        serving = await serve(hub, stage, wire)
        hub.close()
        await running
        assert asyncio.get_running_loop().time() == FAREWELL_WITHIN
        await serving
        assert not wire.complete


async def test_a_hub_that_is_cancelled_leaves_no_reader_waiting() -> None:
    async with staged() as stage:
        await stage.start()
        hub = hub_of(stage)
        running = asyncio.create_task(hub.run())
        await turns()
        wire = Wire()
        serving = await serve(hub, stage, wire)
        running.cancel()
        await asyncio.wait([running])
        await serving
        assert names(wire.messages)[-1] == "outlast.drain"


@pytest.mark.behaviour("A4")
async def test_reading_changes_no_row() -> None:
    async with staged() as stage, site(stage) as here:
        queued, held = await stage.start("r1"), await stage.active("r2")
        wires = [Wire() for _ in range(6)]
        for number, wire in enumerate(wires):
            await serve(here.hub, stage, wire, ("r1", "r2")[number % 2])
        await until(12)
        assert (await stage.store.runs.load("", "r1")).run == queued
        assert (await stage.store.runs.load("", "r2")).run == held
        for wire in wires:
            wire.left.set()
