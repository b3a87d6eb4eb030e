"""A scripted worker: what each step does, and what it writes down of calls and aborts."""

import asyncio
from collections.abc import Callable, Iterable

import pytest

from outlast.errors import Retry, WorkerRaised
from outlast.log.cursor import Cursor
from outlast.log.event import Event
from outlast.run import Run
from outlast.testing.process import Process, bring_processes
from outlast.testing.worker import (
    Chatter,
    Deaf,
    Die,
    Emit,
    Freeze,
    Hang,
    Raise,
    Return,
    Say,
    ScriptedWorker,
    Step,
    Told,
    Work,
)
from outlast.workers.base import ActiveRun

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

ROW = Run(owner="", id="r1", log="log1", worker="chat", input=b"null", digest=b"", epoch=3)


class Paper:
    """An outlet that takes everything; what is emitted is durable a second later."""

    def __init__(self) -> None:
        self.events: list[object] = []

    async def put(self, event: Event) -> int:
        self.events.append(event.data)
        return len(self.events)

    async def durable(self, number: int) -> Cursor:
        await asyncio.sleep(1)
        return Cursor(number, bytes(8))


def now() -> float:
    return asyncio.get_running_loop().time()


def playing(*steps: Step, answer: Callable[[Told], Iterable[Step]] = lambda _told: ()) -> ScriptedWorker:
    return ScriptedWorker(lambda _call: steps, answer)


async def call(worker: ScriptedWorker, paper: Paper | None = None) -> bytes | None:
    return await worker.call(ActiveRun(ROW, paper or Paper(), stopping=lambda: False))


async def test_it_says_works_emits_and_returns() -> None:
    paper, worker = Paper(), playing(Say("a"), Work(5), Emit("b"), Return({"n": 1}), Say("never"))
    assert await call(worker, paper) == b'{"n":1}'
    assert (paper.events, now()) == (["a", "b"], 6.0)
    assert await call(playing(Say("a"))) is None


async def test_it_writes_down_every_call_from_its_beginning_to_its_end() -> None:
    told: list[str] = []
    worker = ScriptedWorker(lambda call: [Work(2.0 * call.number)])
    worker.on_call = lambda call: told.append(f"{call.number} began")
    worker.on_end = lambda call: told.append(f"{call.number} ended")
    await call(worker)
    await call(worker)
    first, second = worker.calls_of("r1")
    assert (first.run, first.epoch, first.attempt, first.number, first.process) == ("r1", 3, 1, 1, None)
    assert (first.began_at, first.ended_at, second.number, second.ended_at) == (0.0, 2.0, 2, 6.0)
    assert told == ["1 began", "1 ended", "2 began", "2 ended"]
    assert not worker.calls_of("another")


@pytest.mark.parametrize(
    ("error", "raised"), [(ValueError("x"), WorkerRaised), (Retry("x"), Retry), (MemoryError(), MemoryError)]
)
async def test_what_it_raises_goes_the_way_of_a_real_function(error: BaseException, raised: type[Exception]) -> None:
    worker = playing(Raise(error))
    with pytest.raises(raised):
        await call(worker)
    assert worker.calls[0].ended_at == 0.0


@pytest.mark.parametrize("step", [Hang(), Chatter(0.5), Work(1000)])
async def test_what_goes_on_and_on_ends_when_it_is_cancelled(step: Step) -> None:
    paper, worker = Paper(), playing(step)
    task = asyncio.create_task(call(worker, paper))
    await asyncio.sleep(1.25)
    assert worker.calls[0].doing is step
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert (worker.calls[0].ended_at, worker.calls[0].deaf) == (1.25, False)
    assert paper.events == (["1 ", "2 ", "3 "] if isinstance(step, Chatter) else [])


async def test_the_deaf_hear_no_cancellation_and_it_is_written_down() -> None:
    worker = playing(Deaf(10), Return("done"))
    task = asyncio.create_task(call(worker))
    for _ in range(3):
        await asyncio.sleep(2)
        task.cancel()
    assert await task == b'"done"'
    assert (now(), worker.calls[0].deaf) == (10.0, True)
    await call(worker)
    assert not worker.calls[1].deaf


@pytest.mark.parametrize("steps", [(Die(),), (Deaf(10),)])
async def test_it_ends_with_its_process_even_when_deaf(steps: tuple[Step, ...]) -> None:
    bring_processes(asyncio.get_running_loop())
    process, worker = Process("node-1"), playing(*steps)
    process.start(call(worker))
    await asyncio.sleep(1)
    process.kill()
    await process.gone()
    assert not process.alive
    assert (worker.calls[0].process, worker.calls[0].ended_at is None) == ("node-1", False)
    assert now() == 1.0


async def test_its_process_may_stand_still_and_go_on() -> None:
    bring_processes(asyncio.get_running_loop())
    process, worker = Process("node-1"), playing(Freeze(30), Return("thawed"))
    calling = process.start(call(worker))
    await asyncio.sleep(20)
    assert (process.paused, calling.done()) == (True, False)
    assert (await calling, now()) == (b'"thawed"', 30.0)


@pytest.mark.parametrize("step", [Die(), Freeze(1)])
async def test_only_what_runs_in_a_process_can_die_or_stand_still(step: Step) -> None:
    with pytest.raises(WorkerRaised) as raised:
        await call(playing(step))
    assert isinstance(raised.value.__cause__, ProcessLookupError)


async def test_aborts_are_written_down_and_answered_by_the_script() -> None:
    heard: list[Told] = []
    worker = playing(answer=lambda told: [Work(3), *([Raise(ConnectionError())] if told.at == 0 else [])])
    worker.on_abort = heard.append
    with pytest.raises(ConnectionError):
        await worker.abort(ROW)
    await worker.abort(ROW)
    assert worker.aborts == [Told(run="r1", epoch=3, at=0.0), Told(run="r1", epoch=3, at=3.0)] == heard
    with pytest.raises(TypeError):
        await playing(answer=lambda _told: [Say("nothing to say it to")]).abort(ROW)
