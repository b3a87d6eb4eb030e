"""What a worker is given."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from outlast.errors import CallMisused, Fenced, InputInvalid
from outlast.log.cursor import Cursor
from outlast.log.event import Event
from outlast.run import Cancelled, Completed, RecoveryBudget, Run, Status
from outlast.workers.base import ActiveRun, EarlierRun, Kind

pytestmark = pytest.mark.anyio


class Page:
    """An outlet that keeps what it is given."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    async def put(self, event: Event) -> int:
        self.events.append(event)
        return len(self.events)

    async def durable(self, number: int) -> Cursor:
        return Cursor(number, bytes(8))


def active(
    page: Page | None = None, *, log: str = "l1", stopping: bool = False, kind: Kind = Kind.RESTART, **fields: object
) -> ActiveRun:
    row = {"owner": "o", "id": "r1", "worker": "w", "input": b'{"a":[1]}', "digest": b"", "log": log} | fields
    return ActiveRun(Run(**row), page or Page(), stopping=lambda: stopping, kind=kind)  # type: ignore[arg-type]


def test_input_and_metadata_are_as_the_caller_gave_them() -> None:
    run = active(metadata=b'{"k":"v"}', thread="t1")
    assert (run.id, run.thread, run.input, run.metadata) == ("r1", "t1", {"a": [1]}, {"k": "v"})


def test_attempt_counts_controllers_and_epoch_is_the_claims() -> None:
    assert active().attempt == 1
    run = active(epoch=7, budget=RecoveryBudget(life=2, handoffs=3))
    assert (run.attempt, run.epoch) == (6, 7)


def test_the_idempotency_key_is_the_same_for_every_attempt_of_a_run_and_for_no_other_run() -> None:
    assert active(epoch=1).idempotency_key == active(epoch=5).idempotency_key
    assert active(log="l2").idempotency_key != active().idempotency_key
    assert "l1" not in active().idempotency_key


async def test_what_is_said_is_an_event_and_emitting_returns_its_cursor() -> None:
    page = Page()
    run = active(page)
    await run.say({"x": 1})
    assert await run.emit("text") == Cursor(2, bytes(8))
    assert [(event.type, event.data) for event in page.events] == [("data", {"x": 1}), ("text", "text")]


@pytest.mark.parametrize("said", [Event("run.completed", {}), 1.5])
async def test_what_is_no_event_of_a_worker_is_refused_before_it_is_queued(said: Event) -> None:
    page = Page()
    with pytest.raises(InputInvalid):
        await active(page).say(said)
    with pytest.raises(InputInvalid):
        await active(page).emit(said)
    assert page.events == []


async def test_a_resume_worker_nobody_drives_has_no_past_and_keeps_what_it_is_given() -> None:
    run = active(kind=Kind.RESUME)
    assert run.state is None
    await run.checkpoint({"n": 1})
    assert run.state == {"n": 1}
    assert [event async for event in run.events()] == []
    assert [earlier async for earlier in run.history()] == []


@pytest.mark.parametrize("limit", [0, 201, -1])
def test_a_history_without_bounds_is_refused(limit: int) -> None:
    with pytest.raises(InputInvalid):
        active().history(limit=limit)


def test_only_resume_workers_have_checkpoints() -> None:
    for ask in (lambda run: run.state, lambda run: run.events()):
        with pytest.raises(CallMisused, match='kind="resume"'):
            ask(active())


async def test_an_earlier_run_tells_its_text_and_its_result() -> None:
    async def read() -> AsyncIterator[Event]:
        for event in (Event("text", "a"), Event("data", {}), Event("text", "b")):
            yield event

    done = EarlierRun(id="r0", input=1, outcome=Completed(result=b"[1]"), read=read)
    failed = EarlierRun(id="r0", input=1, outcome=Cancelled(), read=read)
    assert (await done.text(), done.result, done.status) == ("ab", [1], Status.COMPLETED)
    assert (failed.result, failed.status) == (None, Status.CANCELLED)
    assert EarlierRun(id="r0", input=1, outcome=Completed(), read=read).result is None


def test_a_worker_can_see_that_it_is_being_stopped() -> None:
    assert not active().stopping
    assert active(stopping=True).stopping


async def test_a_worker_that_takes_no_refusal_for_an_answer_does_not_keep_the_loop_to_itself() -> None:
    class Shut(Page):
        async def put(self, event: Event) -> int:
            raise Fenced("This run takes nothing more.")

    run, refusals, over = active(Shut()), 0, False

    async def insist() -> None:
        nonlocal refusals
        while not over and refusals < 1000:
            with suppress(Fenced):
                await (run.emit("x") if refusals % 2 else run.say("x"))
            refusals += 1

    insisting = asyncio.create_task(insist())
    for _ in range(10):
        await asyncio.sleep(0)
    over = True
    await insisting
    assert 0 < refusals < 100
