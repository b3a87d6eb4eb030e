"""The places in a run's life where its process may die or stand still, each with what that costs.

No place is a hook in the product: every one is reached by what the process asks of its store, of its worker, or of
the application's own admission.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from outlast.errors import OutlastError
from outlast.run import Run
from outlast.testing.cluster import Cluster, Member
from outlast.testing.faults import Death, Moment, Script, Standstill
from outlast.testing.history import History
from outlast.testing.worker import Call, Die, Emit, Freeze, Raise, Return, Save, Say, ScriptedWorker, Step, Told, Work
from outlast.workers.base import Kind

TTL = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Blow:
    """What befalls the process at the place: it dies, or it stands still for some seconds."""

    seconds: float | None = None

    @property
    def step(self) -> Step:
        """The blow as a step of a worker."""
        return Die() if self.seconds is None else Freeze(self.seconds)

    def at(self, moment: Moment) -> Death | Standstill:
        """The blow as a fault around an operation."""
        return Death(moment) if self.seconds is None else Standstill(moment, self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One place: its number in the fault matrix, and what reaches it.

    `operation`, `moment`, `skip` and `behind` name the operation around which it lies (the one after so many of its
    kind, the first one after another kind), or `steps` what the first call of the
    worker does there, or `admission` that it lies right after the application admitted a takeover, or `abort` right
    inside an abort. `charged` takeovers follow from it. `fails`: the run fails by its worker, so that there is an
    abort to be told.
    """

    number: int
    name: str
    charged: int
    operation: str | None = None
    moment: Moment = Moment.BEFORE
    skip: int = 0
    behind: str | None = None
    steps: tuple[Step, ...] | None = None
    admission: bool = False
    abort: bool = False
    fails: bool = False


POINTS = (
    Point(number=1, name="before the lease", operation="join", charged=0),
    Point(number=1, name="lease written, unanswered", operation="join", moment=Moment.UNANSWERED, charged=0),
    Point(number=2, name="prerequisites done", admission=True, charged=0),
    Point(number=3, name="claim sent", operation="claim", charged=0),
    Point(number=4, name="claim committed", operation="claim", moment=Moment.ANSWERED, charged=1),
    Point(number=5, name="claim committed, answer lost", operation="claim", moment=Moment.UNANSWERED, charged=1),
    Point(number=6, name="fence installed", operation="fence", moment=Moment.ANSWERED, charged=1),
    Point(number=7, name="call charged, not made", operation="charge", moment=Moment.UNANSWERED, charged=1),
    Point(number=7, name="call made, nothing said", steps=(), charged=1),
    Point(number=8, name="first word said", steps=(Say("a"),), charged=1),
    Point(number=9, name="append sent", operation="append", skip=1, charged=1),
    Point(number=9, name="append done, answer lost", operation="append", moment=Moment.UNANSWERED, skip=1, charged=1),
    Point(number=10, name="append answered", operation="append", moment=Moment.ANSWERED, skip=1, charged=1),
    Point(number=11, name="worker ended", operation="settle", charged=1),
    Point(number=12, name="settled, answer lost", operation="settle", moment=Moment.UNANSWERED, charged=0),
    Point(number=13, name="settled", operation="settle", moment=Moment.ANSWERED, fails=True, charged=0),
    Point(
        number=13,
        name="abort taken, answer lost",
        operation="take_aborts",
        moment=Moment.UNANSWERED,
        behind="settle",
        fails=True,
        charged=0,
    ),
    Point(number=13, name="abort told, not noted", operation="finish_abort", fails=True, charged=0),
    Point(number=14, name="renewing", operation="renew", moment=Moment.UNANSWERED, skip=1, charged=1),
    Point(number=15, name="abort sent", abort=True, fails=True, charged=0),
)


CHECKPOINTS = (
    Point(number=8, name="checkpoint taken", steps=(Emit("a"), Save(), Say("b")), charged=1),
    Point(number=9, name="checkpoint appended, not written", operation="checkpoint", charged=1),
    Point(
        number=9, name="checkpoint written, answer lost", operation="checkpoint", moment=Moment.UNANSWERED, charged=1
    ),
    Point(number=10, name="checkpoint answered", operation="checkpoint", moment=Moment.ANSWERED, charged=1),
)
"""Places that only the life of a resume worker has."""


class Scene:
    """A run on node `a`, which is struck at the point, and node `b`, which is there to go on.

    `longer` is how long the second call works, in seconds.
    """

    def __init__(
        self, point: Point, blow: Blow, *, readers: int = 1, longer: float = 1.0, kind: Kind = Kind.RESTART
    ) -> None:
        self.point = point
        self.blow = blow
        self.longer = longer
        self.struck_at: float | None = None
        self.worker = ScriptedWorker(self.script, self.answer, kind=kind)
        self.cluster = Cluster({"chat": self.worker}, admit=self.admit if point.admission else None)
        self.readers = readers
        self._strikes = iter([True])
        self._loop = asyncio.get_running_loop()

    async def play(self) -> History:
        """Live through it to the end, and return the history."""
        async with self.cluster as cluster:
            run = await cluster.start("chat", "r1")
            reading = [asyncio.create_task(self._read(number, run)) for number in range(self.readers)]
            if self.point.admission:
                await self._lose_one_node()
            self.a = cluster.prepare("a")
            self._arm(self.a)
            beginning = asyncio.create_task(self._begin(self.a))
            await self._struck()
            self.b = await cluster.join("b")
            await cluster.outcome("r1", within=300)
            await asyncio.sleep(45.0 + (self.blow.seconds or 0.0))  # an abort that was taken shows up again
            await asyncio.gather(beginning, *reading)
            return await cluster.finish()

    # ---- the blow ---------------------------------------------------------------------------

    def script(self, call: Call) -> Iterable[Step]:
        """Work for a while; the first call meets the blow where the point lies inside it."""
        if self.point.steps is not None and call.number == 1:
            yield from self.point.steps
            self._strike()
            yield self.blow.step
        yield Say("a")
        yield Emit("b")
        if self.worker.kind is Kind.RESUME:
            yield Save()
            yield Say("c")
        yield Work(self.longer if call.number > 1 else 7.0)
        if self.point.fails:
            yield Raise(ValueError())
        yield Return(call.number)

    def answer(self, told: Told) -> Iterable[Step]:
        """Acknowledge an abort, or meet the blow."""
        if self.point.abort and next(self._strikes, False):
            self._strike()
            yield self.blow.step

    async def admit(self, row: Run) -> None:
        """Admit a takeover, and meet the blow at the first."""
        if row.epoch > 0 and next(self._strikes, False):
            self._strike()
            process = self.a.process
            if self.blow.seconds is None:
                process.kill()
            else:
                process.pause()
                self._loop.call_later(self.blow.seconds, process.resume)
            await asyncio.sleep(0)

    def _arm(self, member: Member) -> None:
        point, script = self.point, Script()
        member.store.faults = script
        member.store.on_fault = lambda _operation, _fault: self._strike()

        def reach(operation: str, _arguments: object) -> None:
            if operation == point.behind:
                add()

        def add() -> None:
            if point.operation is not None and self.struck_at is None:
                script.add(point.operation, self.blow.at(point.moment), skip=point.skip)

        if point.behind is None:
            add()
        else:
            member.store.on_operation = reach

    def _strike(self) -> None:
        if self.struck_at is None:
            self.struck_at = self._loop.time()

    async def _struck(self) -> None:
        while self.struck_at is None:
            await asyncio.sleep(0.1)

    # ---- those around it --------------------------------------------------------------------

    async def _begin(self, member: Member) -> None:
        await member.begin()

    async def _lose_one_node(self) -> None:
        """Let the run be claimed and called once by a node that dies, so that the next claim is a takeover."""
        first = await self.cluster.join("first")
        await self.cluster.until("r1", lambda row: row.budget.calls == 1, within=5)
        await asyncio.sleep(0.5)
        first.process.kill()

    async def _read(self, number: int, run: Run) -> None:
        """Read the run through whichever node lives, and come back after every cut."""
        reader = self.cluster.reader(f"reader-{number}", run)
        while not reader.ended:
            await asyncio.sleep(0.25)
            alive = [member for member in self.cluster.members if member.process.alive]
            if alive:
                member = alive[number % len(alive)]
                try:
                    await reader.follow_stream(member.process, member.response(run, reader.cursor))
                except OutlastError:
                    continue


def label(point: Point) -> str:
    """Name a point as the tests do."""
    return f"{point.number} {point.name}"
