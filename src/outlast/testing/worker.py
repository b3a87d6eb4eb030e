"""A worker that does what a script says, and writes down what was asked of it.

    worker = ScriptedWorker(lambda call: [Say("hello"), Die()] if call.number == 1 else [Say("hello"), Return("done")])

    assert [call.epoch for call in worker.calls] == [1, 2]
    assert not worker.aborts

It is a Python function behind a real `FunctionWorker`, shared by all nodes under test: what it writes down is the
truth about calls, whatever the nodes believe.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from outlast.log.event import JSON, Event, Said, coerce
from outlast.run import Run
from outlast.testing.process import Process
from outlast.workers.base import ActiveRun, Kind
from outlast.workers.function import FunctionWorker

# ---- what a script says -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Say:
    """Say something, and go on as soon as it is queued."""

    said: Said


@dataclass(frozen=True, slots=True)
class Emit:
    """Say something, and go on once it is durable."""

    said: Said


@dataclass(frozen=True, slots=True)
class Save:
    """Make a checkpoint; the worker has to be of kind `RESUME`."""


@dataclass(frozen=True, slots=True)
class Work:
    """Be silent for `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Chatter:
    """Say something every `seconds`, for ever."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hang:
    """Be silent for ever."""


@dataclass(frozen=True, slots=True)
class Deaf:
    """Be silent for `seconds`, and hear no cancellation meanwhile."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Die:
    """Take the whole process along."""


@dataclass(frozen=True, slots=True)
class Freeze:
    """Let the whole process stand still for `seconds`, and go on."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Raise:
    """Raise `error`; `outlast.Retry` among others."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Return:
    """Come to the end with a result; a script that simply ends returns nothing."""

    result: JSON


Step: TypeAlias = Say | Emit | Save | Work | Chatter | Hang | Deaf | Die | Freeze | Raise | Return

# ---- what was asked of it -----------------------------------------------------------------------


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """One call: which of the run's it is (from 1), of which controller, from when to when by the loop's time.

    `deaf` tells that it did not hear when it was told to end, `doing` which step it is at. `kept` is what a resume
    worker got back of what was said before, `counted` how much that was by its own state (None without one), and
    `said` what the call said, or was about to say when it ended.
    """

    run: str
    epoch: int
    attempt: int
    number: int
    process: str | None
    began_at: float
    ended_at: float | None = None
    deaf: bool = False
    doing: Step | None = None
    kept: list[Event] = field(default_factory=list[Event])
    counted: int | None = None
    said: list[Event] = field(default_factory=list[Event])


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One abort that reached the worker: of which run, settled at which epoch, when."""

    run: str
    epoch: int
    at: float


Script: TypeAlias = Callable[[Call], Iterable[Step]]
"""What one call does."""

Answer: TypeAlias = Callable[[Told], Iterable[Step]]
"""What one abort does before it is acknowledged."""


@dataclass(slots=True, eq=False)
class ScriptedWorker:
    """Plays `script` when it is called and `answer` when it is told to abort; shared by all nodes.

    `on_call` and `on_abort` are told of each as it begins, `on_end` of each call as it ends, `on_resumed` of each
    call of a resume worker that has got back what was kept. Its checkpoints hold how much it has said so far.
    """

    script: Script
    answer: Answer = lambda _told: ()
    calls: list[Call] = field(default_factory=list[Call])
    aborts: list[Told] = field(default_factory=list[Told])
    on_call: Callable[[Call], None] = lambda _call: None
    on_end: Callable[[Call], None] = lambda _call: None
    on_resumed: Callable[[Call], None] = lambda _call: None
    on_abort: Callable[[Told], None] = lambda _told: None
    kind: Kind = Kind.RESTART

    async def call(self, run: ActiveRun) -> bytes | None:
        """Play the script, as a function of the user's would be played."""
        return await FunctionWorker(self._play, kind=self.kind).call(run)

    async def abort(self, run: Run) -> None:
        """Write the abort down, and acknowledge it unless the script does not."""
        told = Told(run=run.id, epoch=run.epoch, at=asyncio.get_running_loop().time())
        self.aborts.append(told)
        self.on_abort(told)
        for step in self.answer(told):
            await _silently(step)

    def calls_of(self, run: str) -> list[Call]:
        """Return the calls of one run, by the id its caller gave it."""
        return [call for call in self.calls if call.run == run]

    async def _play(self, run: ActiveRun) -> JSON:
        loop = asyncio.get_running_loop()
        process = Process.current()
        call = Call(
            run=run.id,
            epoch=run.epoch,
            attempt=run.attempt,
            number=len(self.calls_of(run.id)) + 1,
            process=None if process is None else process.name,
            began_at=loop.time(),
        )
        self.calls.append(call)
        self.on_call(call)
        try:
            if self.kind is Kind.RESUME:
                await self._come_back(run, call)
            return await self._steps(run, call)
        finally:
            call.ended_at = loop.time()
            self.on_end(call)

    async def _come_back(self, run: ActiveRun, call: Call) -> None:
        call.counted = cast("int | None", run.state)
        call.kept = [event async for event in run.events()]
        self.on_resumed(call)

    async def _steps(self, run: ActiveRun, call: Call) -> JSON:
        for step in self.script(call):
            call.doing = step
            match step:
                case Say(said):
                    call.said.append(coerce(said))
                    await run.say(said)
                case Emit(said):
                    call.said.append(coerce(said))
                    await run.emit(said)
                case Save():
                    await run.checkpoint(len(call.kept) + len(call.said))
                case Chatter(seconds):
                    async for said in _chatter(seconds):
                        call.said.append(coerce(said))
                        await run.say(said)
                case Deaf(seconds):
                    call.deaf = await _deaf(seconds) or call.deaf
                case Return(result):
                    return result
                case _:
                    await _silently(step)
        return None


async def _silently(step: Step) -> None:
    match step:
        case Work(seconds):
            await asyncio.sleep(seconds)
        case Deaf(seconds):
            await _deaf(seconds)
        case Die():
            _own_process().kill()
            await asyncio.get_running_loop().create_future()  # the dead wait for nothing, for ever
        case Freeze(seconds):
            process = _own_process()
            process.pause()
            asyncio.get_running_loop().call_later(seconds, process.resume)
            await asyncio.sleep(0)  # from here on it stands still
        case Raise(error):
            raise error
        case Hang():
            await asyncio.get_running_loop().create_future()  # for ever: that is the point
        case _:
            raise TypeError(f"{step} is nothing that this can do")


def _own_process() -> Process:
    process = Process.current()
    if process is None:
        raise ProcessLookupError("only what runs in a process can die with it, or stand still")
    return process


async def _chatter(seconds: float) -> AsyncGenerator[Said, None]:
    count = 0
    while True:
        count += 1
        yield f"{count} "
        await asyncio.sleep(seconds)


async def _deaf(seconds: float) -> bool:
    """Wait, whoever cancels; return whether somebody did. The death of its process ends it all the same."""
    loop = asyncio.get_running_loop()
    process = Process.current()
    deadline, told = loop.time() + seconds, False
    while loop.time() < deadline:
        try:
            await asyncio.sleep(deadline - loop.time())
        except asyncio.CancelledError:
            if process is not None and not process.alive:
                raise
            told = True
    return told
