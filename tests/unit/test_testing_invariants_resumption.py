"""The promises about resume workers, each with histories that break it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from outlast.log.event import Event
from outlast.testing.clock import run
from outlast.testing.cluster import Cluster
from outlast.testing.history import History
from outlast.testing.invariants import check, resumption
from outlast.testing.observation import CallEnded, CallResumed, Checkpointed
from outlast.testing.worker import Call, Die, Emit, Return, Save, Say, ScriptedWorker, Step
from outlast.workers.base import Kind


def steps(call: Call) -> list[Step]:
    if call.number == 1:
        return [Say("a"), Save(), Emit("lost"), Die()]
    return [Say("b"), Save(), Return(None)]


async def live() -> History:
    async with Cluster({"chat": ScriptedWorker(steps, kind=Kind.RESUME)}) as cluster:
        await cluster.join("a")
        await cluster.start("chat", "r1")
        await cluster.members[0].process.gone()
        await cluster.join("b")
        await cluster.outcome("r1", within=60)
        return await cluster.finish()


def edit(history: History, kind: type, **fields: object) -> None:
    """Change the last observation of a kind."""
    place = max(place for place, each in enumerate(history.observations) if isinstance(each, kind))
    history.observations[place] = replace(history.observations[place], **fields)


def test_a_history_of_a_takeover_keeps_them_all() -> None:
    history = run(live())
    check(history)
    resumed = list(history.of(CallResumed))
    assert [(each.counted, [event.data for event in each.kept]) for each in resumed] == [(None, []), (1, ["a"])]


@pytest.mark.invariant("goes-on-where-readers-are")
@pytest.mark.parametrize("fields", [{"counted": 0}, {"kept": (), "counted": None}, {"kept": (Event("text", "x"),)}])
def test_a_call_that_got_back_something_else_is_found(fields: dict[str, object]) -> None:
    history = run(live())
    edit(history, CallResumed, **fields)
    assert list(resumption.goes_on_where_readers_are(history))


@pytest.mark.invariant("ends-as-the-worker-believes")
@pytest.mark.parametrize(
    "breaks",
    [
        lambda history: edit(history, CallEnded, said=()),
        lambda history: edit(history, CallResumed, kept=(Event("text", "lost"),)),
    ],
)
def test_a_log_that_is_not_what_the_last_call_believes_is_found(breaks: Callable[[History], None]) -> None:
    history = run(live())
    breaks(history)
    assert list(resumption.ends_as_the_worker_believes(history))


@pytest.mark.invariant("checkpoints-are-in-the-log")
@pytest.mark.parametrize("seq", [1, 99])
def test_a_checkpoint_without_its_event_is_found(seq: int) -> None:
    history = run(live())
    edit(history, Checkpointed, seq=seq)
    assert list(resumption.checkpoints_are_in_the_log(history))
