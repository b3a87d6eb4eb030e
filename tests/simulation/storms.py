"""Runs that keep failing, in every shape, and what that came to: the storm table of docs/recovery.md.

`python -m tests.simulation.storms` writes the table anew; test_storms.py compares it with what it measures.
"""

import asyncio
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from outlast.errors import Retry
from outlast.facts import RunClaimed
from outlast.recovery import WINDOW, RecoveryPolicy
from outlast.run import Failed, Run
from outlast.testing.clock import run as run_virtually
from outlast.testing.cluster import Cluster, Member
from outlast.testing.faults import ErrorBefore, Script
from outlast.testing.invariants import check
from outlast.testing.observation import FactReported
from outlast.testing.worker import Call, Die, Emit, Raise, Save, ScriptedWorker, Step, Work
from outlast.workers.base import Kind

PAGE = Path(__file__).parents[2] / "docs" / "recovery.md"
BLOCK = re.compile(r"(<!-- measured: storms -->\n).*?(<!-- end -->)", re.DOTALL)
RESTART_AFTER = 0.5
"""Seconds in which whatever looks after processes brings a dead one back."""
PATIENCE = 20_000.0
"""Virtual seconds in which every storm must be over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One way to fail for ever: what the worker does at every call, what every node's store does."""

    name: str
    steps: Callable[[Call], Iterable[Step]]
    failing_append: int | None = None
    window: float = WINDOW
    kind: Kind = Kind.RESTART


SHAPES = (
    Shape(name="the process dies at once", steps=lambda _call: [Die()]),
    Shape(name="the process dies after an event", steps=lambda _call: [Emit("hello"), Die()]),
    Shape(
        name="a resume worker's process dies after an event and a checkpoint",
        steps=lambda _call: [Emit("hello"), Save(), Die()],
        kind=Kind.RESUME,
    ),
    Shape(name="every append fails", steps=lambda _call: [Emit("hello")], failing_append=0),
    Shape(name="every append after the first fails", steps=lambda _call: [Emit("a"), Emit("b")], failing_append=1),
    Shape(  # with a window of a minute, because twenty of five minutes are long even on a virtual clock
        name="the process dies a second after every window", steps=lambda _call: [Work(61), Die()], window=60
    ),
    Shape(name="the worker raises", steps=lambda _call: [Emit("hello"), Raise(ValueError())]),
    Shape(name="the worker asks to be called again", steps=lambda _call: [Raise(Retry("again"))]),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """What one storm came to; `gaps` are the seconds between claims."""

    calls: int
    aborts: int
    takeovers: int
    outcome: str
    gaps: tuple[float, ...]


async def unleash(shape: Shape, *, readers: int, nodes: int) -> Storm:
    """Let one run fail in this shape until it has its outcome, judge it, and return what it came to."""
    worker = ScriptedWorker(shape.steps, kind=shape.kind)
    async with Cluster({"chat": worker}, seed=7, recovery=RecoveryPolicy(window=shape.window)) as cluster:
        house = _House(cluster, shape, nodes)
        await house.open()
        run = await cluster.start("chat", "r1")
        reading = [asyncio.create_task(house.read(f"reader-{number}", run)) for number in range(readers)]
        row = await cluster.outcome("r1", within=PATIENCE)
        await asyncio.gather(*reading)
        await asyncio.sleep(60)
        house.close()
        history = await cluster.finish()
        check(history)
        facts = [each for each in history.of(FactReported) if isinstance(each.fact, RunClaimed)]
        claims = [each.at for each in facts if isinstance(each.fact, RunClaimed) and each.fact.exhausted is None]
    assert isinstance(row.outcome, Failed)
    return Storm(
        calls=len(worker.calls),
        aborts=len(worker.aborts),
        takeovers=row.budget.life,
        outcome=row.outcome.code + (f" ({row.outcome.limit})" if row.outcome.limit else ""),
        gaps=tuple(round(later - earlier, 1) for earlier, later in pairwise(claims)),
    )


class _House:
    """Nodes that are brought back whenever they die."""

    def __init__(self, cluster: Cluster, shape: Shape, nodes: int) -> None:
        self._cluster = cluster
        self._shape = shape
        self._members: dict[int, Member] = {}
        self._nodes = nodes
        self._keepers: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        for slot in range(self._nodes):
            await self._join(slot)
            self._keepers.append(asyncio.create_task(self._keep(slot)))

    def close(self) -> None:
        for keeper in self._keepers:
            keeper.cancel()

    async def read(self, name: str, run: Run) -> None:
        """Read the run through whichever node lives, come back after every cut, until it has ended."""
        reader = self._cluster.reader(name, run)
        while not reader.ended:
            member = next((each for each in self._members.values() if each.process.alive), None)
            if member is not None:
                await reader.follow_stream(member.process, member.response(run, reader.cursor))
            await asyncio.sleep(0.2)

    async def _join(self, slot: int) -> None:
        faults = Script()
        if self._shape.failing_append is not None:
            faults.add("append", ErrorBefore(OSError()), skip=self._shape.failing_append, times=None)
        name = f"node-{slot}.{len(self._cluster.members)}"
        self._members[slot] = await self._cluster.join(name, faults=faults)

    async def _keep(self, slot: int) -> None:
        while True:
            await self._members[slot].process.gone()
            await asyncio.sleep(RESTART_AFTER)
            await self._join(slot)


def table(storms: Mapping[str, Storm]) -> str:
    """Return the storm table as it stands in the docs."""
    rows = ["| what happens at every call | calls | takeovers | aborts | outcome | seconds between claims |"]
    rows.append("|---|---|---|---|---|---|")
    for name, storm in storms.items():
        gaps = ", ".join(f"{gap:g}" for gap in storm.gaps[:5]) + (", …" if len(storm.gaps) > 5 else "")
        rows.append(
            f"| {name} | {storm.calls} | {storm.takeovers} | {storm.aborts} | `{storm.outcome}` | {gaps or '–'} |"
        )
    return "\n".join(rows)


def measure(shape: Shape, *, readers: int, nodes: int) -> Storm:
    """Return what a storm of this shape comes to, on a virtual clock of its own."""
    return run_virtually(unleash(shape, readers=readers, nodes=nodes))


def printed(text: str, storms: Mapping[str, Storm]) -> str:
    """Return the page with the table as measured."""
    return BLOCK.sub(lambda block: f"{block[1]}{table(storms)}\n{block[2]}", text)


def main() -> Any:
    """Write the table anew."""
    storms = {shape.name: measure(shape, readers=1, nodes=1) for shape in SHAPES}
    PAGE.write_text(printed(PAGE.read_text(), storms))
    return table(storms)


if __name__ == "__main__":
    sys.stdout.write(f"{main()}\n")
