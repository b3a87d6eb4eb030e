"""One history in which everything happens and nothing is wrong, to be broken by those who test the promises."""

import asyncio
import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from outlast.errors import NotAdmitted
from outlast.run import Run
from outlast.testing.clock import run
from outlast.testing.cluster import Cluster
from outlast.testing.history import History
from outlast.testing.invariants import Invariant
from outlast.testing.observation import Observation
from outlast.testing.worker import Call, Die, Emit, Hang, Raise, Return, Say, ScriptedWorker, Step, Work

TAKEN_OVER, STOPPED, FAILED = "taken-over", "stopped", "failed"


def script(call: Call) -> Iterable[Step]:
    """Die twice and come to the end, go on for ever, or raise: as the run's name says."""
    if call.run == STOPPED:
        return [Say("f"), Hang()]
    if call.run == FAILED:
        return [Raise(ValueError())]
    if call.number < 3:
        return [Say("a"), Emit("b"), Die()]
    return [Say("c"), Work(1), Emit("d"), Return("done")]


async def live() -> History:
    refusals = iter([True])

    async def admit(row: Run) -> None:
        if row.epoch > 0 and next(refusals, False):
            raise NotAdmitted("not now")

    async with Cluster({"chat": ScriptedWorker(script)}, admit=admit) as cluster:
        for name in ("a", "b", "c"):
            await cluster.join(name)
        rows = [await cluster.start("chat", id) for id in (TAKEN_OVER, STOPPED, FAILED)]
        following = asyncio.create_task(cluster.reader("reader", rows[0]).follow_log(cluster.store.logs))
        await cluster.outcome(TAKEN_OVER, within=200)
        await cluster.runs.stop("", STOPPED, reason="enough")
        for row in rows:
            await cluster.outcome(row.id, within=200)
        await following
        await asyncio.sleep(5)
        return await cluster.finish()


@functools.cache
def _good() -> History:
    return run(live())


def good() -> History:
    """Return the history, for the caller to do with as it likes."""
    history = _good()
    logs = {log: list(stored) for log, stored in history.logs.items()}
    return replace(history, observations=list(history.observations), rows=dict(history.rows), logs=logs)


def log_of(history: History, id: str) -> str:
    """Return the log of the run with this id."""
    log = history.log_of(id)
    assert log is not None
    return log


def anything(_observation: Any) -> bool:
    """Let every observation be meant."""
    return True


def place(history: History, kind: type[Any], *, where: Callable[[Any], bool] = anything, which: int = 0) -> int:
    """Return where an observation of a kind stands, the first one meant unless told otherwise."""
    return [at for at, each in enumerate(history.observations) if isinstance(each, kind) and where(each)][which]


def edit(
    history: History,
    kind: type[Any],
    change: Callable[[Any], Observation],
    *,
    where: Callable[[Any], bool] = anything,
    which: int = 0,
) -> None:
    """Replace one observation."""
    at = place(history, kind, where=where, which=which)
    history.observations[at] = change(history.observations[at])


def repeat(
    history: History,
    kind: type[Any],
    change: Callable[[Any], Observation] = lambda each: each,
    *,
    where: Callable[[Any], bool] = anything,
    which: int = 0,
) -> None:
    """Write one observation down once more, changed, right behind itself."""
    at = place(history, kind, where=where, which=which)
    history.observations.insert(at + 1, change(history.observations[at]))


def sentences(invariant: Invariant, breaks: Callable[[History], object]) -> list[str]:
    """Break the history, and return what an invariant says of it; it must have had nothing to say before."""
    history = good()
    assert not list(invariant(history))
    breaks(history)
    return list(invariant(history))
