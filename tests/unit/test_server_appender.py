"""The way of a worker's events into the log: batches, back-pressure, pauses, limits."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from outlast.errors import EventTooLarge, Fenced, LogFull, LogRefused, StoreBusy, StoreUnavailable
from outlast.facts import ControllerPaused, ControllerResumed, Fact
from outlast.lease import LeasePolicy
from outlast.log.event import Event
from outlast.log.limits import LogLimits
from outlast.run import Checkpoint, RecoveryBudget, Run
from outlast.server.appender import AHEAD_EVENTS, Appender
from outlast.server.conditions import Conditions
from outlast.stores.base import NewClaim, NewRun
from outlast.stores.sqlite import SQLiteStore
from outlast.testing.faults import ErrorAfter, ErrorBefore, Gate, Script
from outlast.testing.faulty import FaultyStore

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

PAUSE = LeasePolicy().ttl - LeasePolicy().margin


@dataclass
class Scene:
    """A claimed run, its appender running over a store that may fail, and what was refused and told."""

    store: SQLiteStore
    script: Script
    run: Run
    appender: Appender
    appending: "asyncio.Task[None]"
    refused: list[LogRefused]
    told: list[Fact]
    renewed_at: float = 0.0

    async def log(self) -> list[Any]:
        events = await self.store.logs.read(self.run.log, after=0, limit=10_000, max_bytes=2**30)
        return [stored.event.data for stored in events]

    async def close(self) -> None:
        self.appender.close()
        await self.appending


async def make(store: SQLiteStore, **limits: Any) -> Scene:
    new = NewRun(owner="", id="r1", log="l1", worker="w", input=b"1", digest=b"d")
    run = (await store.runs.start(new)).run
    await store.runs.join("n1", ttl=3600.0, workers=[])
    run = await store.runs.claim(run, NewClaim(claim="c1", node="n1", budget=RecoveryBudget(), not_before=0.0))
    await store.logs.fence(run.log, run.token)
    script, refused, told = Script(), list[LogRefused](), list[Fact]()
    conditions = Conditions(report=told.append, mint=lambda: "m", jitter=lambda: 0.5, limits=LogLimits(**limits))
    appender = Appender(
        FaultyStore(store, script),
        run,
        await store.logs.head(run.log),
        conditions,
        renewed_at=lambda: scene.renewed_at,
        on_refusal=refused.append,
    )
    appending = asyncio.create_task(appender.run())
    scene = Scene(store, script, run, appender, appending, refused, told)
    return scene


@pytest.fixture
async def store() -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(None)
    await store.open()
    yield store
    await store.close()


async def test_what_is_put_is_appended_in_order_and_durable_tells_the_cursor(store: SQLiteStore) -> None:
    scene = await make(store)
    numbers = [await scene.appender.put(Event("text", word)) for word in "abc"]
    cursor = await scene.appender.durable(numbers[-1])
    assert (numbers, cursor.seq) == ([1, 2, 3], 3)
    assert cursor == (await store.logs.head("l1")).cursor
    assert await scene.appender.durable(2) == cursor
    await scene.close()
    assert await scene.log() == ["a", "b", "c"]


async def test_what_arrives_while_an_append_is_in_flight_is_the_next_batch(store: SQLiteStore) -> None:
    scene = await make(store)
    gate = scene.script.add("append", Gate())
    await scene.appender.put(Event("text", "first"))
    await gate.entered.wait()
    for word in "abc":
        await scene.appender.put(Event("text", word))
    await asyncio.sleep(1)
    assert await scene.log() == []
    gate.open()
    await scene.close()
    assert await scene.log() == ["first", "a", "b", "c"]


async def test_a_worker_runs_sixty_four_events_ahead_and_no_further(store: SQLiteStore) -> None:
    scene = await make(store)
    gate = scene.script.add("append", Gate())
    taken = 0

    async def talk() -> None:
        nonlocal taken
        while True:
            await scene.appender.put(Event("text", "x"))
            taken += 1

    talking = asyncio.create_task(talk())
    await asyncio.sleep(1)
    assert taken == AHEAD_EVENTS
    gate.open()
    await asyncio.sleep(0.1)
    assert taken > AHEAD_EVENTS
    talking.cancel()
    await scene.close()


async def test_a_worker_runs_a_mebibyte_ahead_and_no_further_but_one_larger_event_passes(store: SQLiteStore) -> None:
    scene = await make(store)
    gate = scene.script.add("append", Gate())
    await scene.appender.put(Event("blob", bytes(2 * 1024 * 1024)))
    second = asyncio.create_task(scene.appender.put(Event("text", "x")))
    await asyncio.sleep(1)
    assert not second.done()
    gate.open()
    assert await second == 2
    await scene.close()


async def test_of_many_tasks_that_wait_for_room_each_is_served_in_turn_and_the_bound_holds(store: SQLiteStore) -> None:
    scene = await make(store)
    gate = scene.script.add("append", Gate())
    putting = [asyncio.create_task(scene.appender.put(Event("n", number))) for number in range(200)]
    await gate.entered.wait()
    most = 0
    opened = False
    while not all(task.done() for task in putting):
        most = max(most, len(scene.appender._queue))
        if not opened:
            gate.open()
            opened = True
        await asyncio.sleep(0)
    await scene.close()
    assert most == AHEAD_EVENTS
    assert await scene.log() == list(range(200))


async def test_a_large_event_passes_alone_and_is_not_overtaken(store: SQLiteStore) -> None:
    scene = await make(store)
    gate = scene.script.add("append", Gate())
    await scene.appender.put(Event("small", b"x"))
    large = asyncio.create_task(scene.appender.put(Event("large", bytes(2 * 1024 * 1024))))
    await gate.entered.wait()
    behind = asyncio.create_task(scene.appender.put(Event("small", b"y")))
    await asyncio.sleep(1)
    assert not large.done()
    assert not behind.done()
    gate.open()
    assert (await large, await behind) == (2, 3)
    await scene.close()


@pytest.mark.behaviour("W14")
async def test_the_row_of_a_checkpoint_is_written_behind_its_event_and_before_the_next_append(
    store: SQLiteStore,
) -> None:
    scene = await make(store)
    gate = scene.script.add("checkpoint", Gate())
    keeping = asyncio.create_task(scene.appender.keep(b"1"))
    await gate.entered.wait()
    await scene.appender.put(Event("text", "next"))
    await asyncio.sleep(1)
    assert (await scene.log(), keeping.done()) == ([{}], False)
    gate.open()
    await keeping
    assert await store.runs.last_checkpoint(scene.run) == scene.appender.checkpoint == Checkpoint(seq=1, state=b"1")
    await scene.close()
    assert await scene.log() == [{}, "next"]


async def test_who_waits_when_the_appender_ends_is_turned_away(store: SQLiteStore) -> None:
    scene = await make(store)
    scene.script.add("append", ErrorBefore(ValueError("unclassified")))
    number = await scene.appender.put(Event("text", "x"))
    waiting = [asyncio.create_task(scene.appender.durable(number)), asyncio.create_task(scene.appender.keep(b"1"))]
    with pytest.raises(ValueError, match="unclassified"):
        await scene.appending
    for each in (*waiting, asyncio.create_task(scene.appender.durable(number))):
        with pytest.raises(Fenced):
            await each


async def test_what_is_no_longer_wanted_is_refused_also_while_it_waits(store: SQLiteStore) -> None:
    scene, wanted = await make(store), True
    gate = scene.script.add("append", Gate())
    for _ in range(AHEAD_EVENTS):
        await scene.appender.put(Event("text", "x"))
    late = asyncio.create_task(scene.appender.put(Event("text", "late"), wanted=lambda: wanted))
    await gate.entered.wait()
    wanted = False
    scene.appender.wake()
    with pytest.raises(Fenced):
        await late
    gate.open()
    await scene.close()


@pytest.mark.behaviour("L2", "H4")
@pytest.mark.parametrize("fault", [ErrorBefore(StoreUnavailable("x")), ErrorAfter(StoreUnavailable("x"))])
async def test_an_unanswered_append_is_asked_again_and_stored_once(store: SQLiteStore, fault: Any) -> None:
    scene = await make(store)
    scene.script.add("append", fault, times=3)
    await scene.appender.durable(await scene.appender.put(Event("text", "once")))
    await scene.close()
    assert await scene.log() == ["once"]


async def test_an_answer_for_good_ends_the_appender_with_it(store: SQLiteStore) -> None:
    scene = await make(store)
    scene.script.add("append", ErrorBefore(ValueError("unclassified")))
    await scene.appender.put(Event("text", "x"))
    with pytest.raises(ValueError, match="unclassified"):
        await scene.appending


@pytest.mark.behaviour("H9")
@pytest.mark.parametrize(("after", "paused"), [(PAUSE - 0.001, False), (PAUSE, True)])
async def test_without_proof_for_ttl_less_the_margin_nothing_more_is_taken(
    store: SQLiteStore, after: float, paused: bool
) -> None:
    scene = await make(store)
    await asyncio.sleep(after)
    putting = asyncio.create_task(scene.appender.put(Event("text", "x")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert putting.done() is not paused
    assert (ControllerPaused(run="l1") in scene.told) is paused
    scene.renewed_at = asyncio.get_running_loop().time()
    scene.appender.wake()
    await putting
    await scene.close()


@pytest.mark.behaviour("H9")
async def test_an_accepted_append_is_proof_and_ends_a_pause(store: SQLiteStore) -> None:
    scene = await make(store)
    scene.script.add("append", ErrorBefore(StoreBusy("x")), times=20)
    await scene.appender.put(Event("text", "first"))
    await asyncio.sleep(PAUSE + 0.5)
    second = asyncio.create_task(scene.appender.put(Event("text", "second")))
    await asyncio.sleep(0.1)
    assert not second.done()
    await second
    resumed = [fact for fact in scene.told if isinstance(fact, ControllerResumed)]
    assert len(resumed) == 1
    assert resumed[0].paused_for > 0
    await scene.close()
    assert await scene.log() == ["first", "second"]


@pytest.mark.behaviour("H9")
async def test_proof_counts_from_when_the_append_was_sent(store: SQLiteStore) -> None:
    scene = await make(store)
    gate = scene.script.add("append", Gate(after=True))
    await scene.appender.put(Event("text", "first"))
    await gate.entered.wait()
    await asyncio.sleep(PAUSE)
    gate.open()
    await asyncio.sleep(0.1)
    putting = asyncio.create_task(scene.appender.put(Event("text", "second")))
    await asyncio.sleep(0.1)
    assert not putting.done()
    scene.renewed_at = asyncio.get_running_loop().time()
    scene.appender.wake()
    await putting
    await scene.close()


@pytest.mark.behaviour("L3", "L4", "L5")
@pytest.mark.parametrize(
    ("limits", "event", "refusal"),
    [
        ({"events": 2}, Event("text", "x"), LogFull),
        ({"bytes": 10, "event_bytes": 10}, Event("text", "x" * 6), LogFull),
        ({"event_bytes": 20}, Event("text", "x" * 30), EventTooLarge),
    ],
)
async def test_an_event_over_a_limit_is_refused_whole_and_what_was_said_stays(
    store: SQLiteStore, limits: dict[str, int], event: Event, refusal: type[LogRefused]
) -> None:
    scene = await make(store, **limits)
    await scene.appender.put(Event("text", "a"))
    await scene.appender.put(Event("text", "b"))
    with pytest.raises(refusal):
        await scene.appender.put(event)
    assert [type(each) for each in scene.refused] == [refusal]
    scene.appender.put_nowait(Event("run.failed", "told all the same"))
    await scene.close()
    assert await scene.log() == ["a", "b", "told all the same"]


async def test_a_run_that_is_too_old_writes_no_more(store: SQLiteStore) -> None:
    scene = await make(store, age=60.0)
    await asyncio.sleep(61)
    scene.renewed_at = asyncio.get_running_loop().time()
    with pytest.raises(LogFull):
        await scene.appender.put(Event("text", "late"))
    await scene.close()


async def test_a_closed_appender_takes_nothing_and_finishes_what_it_took(store: SQLiteStore) -> None:
    scene = await make(store)
    gate = scene.script.add("append", Gate())
    await scene.appender.put(Event("text", "taken"))
    scene.appender.close()
    with pytest.raises(Fenced):
        await scene.appender.put(Event("text", "late"))
    gate.open()
    await scene.appending
    assert await scene.log() == ["taken"]


async def test_closing_ends_the_wait_of_a_paused_worker(store: SQLiteStore) -> None:
    scene = await make(store)
    await asyncio.sleep(PAUSE + 1)
    putting = asyncio.create_task(scene.appender.put(Event("text", "x")))
    await asyncio.sleep(1)
    scene.appender.close()
    with pytest.raises(Fenced):
        await putting
    await scene.appending
