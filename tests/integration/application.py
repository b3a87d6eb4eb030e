"""An application as users write one, for the processes of these tests.

`OUTLAST_STORE` says where its runs are. `TEST_DEATH`, such as `append:after:3`, kills the process around one store
operation: here after the third append took effect, before its answer. `TEST_LEASE` and `TEST_HEARTBEAT`, in seconds,
take the place of short ones. With `TEST_AUTHORIZE` a hook decides who may do what, and hangs while `deadlock` is there.
"""

import asyncio
import ctypes
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from outlast import Action, ActiveRun, Event, Identity, Outlast, RecoveryPolicy, Run
from outlast.assembly.settings import STORE
from outlast.assembly.stores import open_store
from outlast.stores.base import Store

TTL = 1.5
"""Seconds: a tenth of the default, so that ten leases pass in the time of one."""
HEARTBEAT = 1.0
"""Seconds: a tenth of the default, for the same reason."""
PACE = 0.01
"""Seconds between two events of a paced worker."""
STRIDE = 0.25
"""Seconds between two events of a worker whose process is stopped: seldom in the middle of a transaction."""


class Doomed:
    """A port whose process dies around the operation that `death` names: operation, side, which one."""

    def __init__(self, inner: Any, death: str) -> None:
        self._inner = inner
        self._operation, self._side, number = death.split(":")
        self._left = int(number)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name != self._operation:
            return method

        async def operation(*arguments: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left == 0 and self._side == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            answer = await method(*arguments, **named)
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return operation


class DoomedStore:
    """A store whose process dies by its own hand."""

    def __init__(self, inner: Store, death: str) -> None:
        self.runs = Doomed(inner.runs, death)
        self.logs = Doomed(inner.logs, death)
        self.open, self.close, self.renewer = inner.open, inner.close, inner.renewer


async def authorize(_identity: Identity, _action: Action, _owner: str, _run: Run | None) -> bool:
    """Allow everything; hang while `deadlock` is there, deaf to cancellation as whatever waits for a lock is."""
    while is_deadlocked():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(PACE)
    return True


def _store() -> Any:
    url, death = os.environ.get("OUTLAST_STORE", STORE), os.environ.get("TEST_DEATH")
    return DoomedStore(open_store(url, durability="process"), death) if death else url


outlast = Outlast(
    _store(),
    lease_ttl=float(os.environ.get("TEST_LEASE", TTL)),
    heartbeat=float(os.environ.get("TEST_HEARTBEAT", HEARTBEAT)),
    recovery=RecoveryPolicy(base=0.1, cap=1.0),
    authorize=authorize if "TEST_AUTHORIZE" in os.environ else None,
)


@outlast.worker("paced")
async def paced(run: ActiveRun) -> AsyncIterator[Event]:
    """Say as many numbers as the input tells, one after another."""
    for number in range(int(str(run.input))):
        yield Event("number", {"n": number, "attempt": run.attempt, "pid": os.getpid()})
        await asyncio.sleep(PACE)


@outlast.worker("steps", kind="resume")
async def steps(run: ActiveRun) -> None:
    """Take as many steps as the input tells, a checkpoint after each; the first attempt never ends its last."""
    total = int(str(run.input))
    for step in range(int(str(run.state or 0)), total):
        await run.emit(f"step {step} ")
        if run.attempt == 1 and step == total - 1:
            await asyncio.Event().wait()  # a kill ends it
        await run.checkpoint(step + 1)


@outlast.worker("blocking")
async def blocking(run: ActiveRun) -> AsyncIterator[str]:
    """Stand in the event loop's way for three leases, as a careless library does."""
    yield "before"
    time.sleep(3 * TTL)  # noqa: ASYNC251 - this is what is tested
    yield "after"


@outlast.worker("standstill")
async def standstill(run: ActiveRun) -> AsyncIterator[str]:
    """Block the event loop in the way that the input names."""
    yield "before"
    stand_still(str(run.input))
    yield "after"


def stand_still(way: str) -> None:
    """Write that it has `begun`, and return when `go` is there."""
    Path("begun").touch()
    if way == "call":  # of C that keeps the interpreter for years: a signal ends it
        re.match(r"(a+)+$", "a" * 60 + "b")
    while not Path("go").exists():
        if way == "sleep":
            time.sleep(PACE)


@outlast.worker("hindered")
async def hindered(run: ActiveRun) -> AsyncIterator[Event]:
    """Say numbers until `now` is there, block the loop in the way and for the seconds of the input, say some more."""
    said = dict(cast("dict[str, Any]", run.input))
    left = int(said["numbers"])
    while left:
        yield Event("number", {"left": left})
        await asyncio.sleep(STRIDE)
        if is_told():
            if left == said["numbers"]:
                block(said["way"], float(said["seconds"]))
            left -= 1


@outlast.worker("quiet")
async def quiet(run: ActiveRun) -> AsyncIterator[str]:
    """Say nothing between its first word and its last, which comes when `now` is there."""
    yield "before"
    while not is_told():
        await asyncio.sleep(STRIDE)
    yield "after"


def is_deadlocked() -> bool:
    """Tell whether `deadlock` is there."""
    return Path("deadlock").exists()


def is_told() -> bool:
    """Tell whether `now` is there."""
    return Path("now").exists()


def block(way: str, seconds: float) -> None:
    """Keep the event loop from turning for so long: asleep, at work, or in one call of C that lets nobody else in.

    `blocked` is there from when it stands still, `free` when it turns again.
    """
    Path("blocked").touch()
    until = time.monotonic() + seconds
    match way:
        case "sleep":
            time.sleep(seconds)
        case "loop":
            while time.monotonic() < until:
                pass
        case "call":
            ctypes.PyDLL(None).usleep(round(seconds * 1_000_000))  # unlike CDLL, it keeps the interpreter
        case _:
            return  # somebody else stops the whole process
    Path("free").touch()


@outlast.worker("endless")
async def endless(run: ActiveRun) -> AsyncIterator[dict[str, int]]:
    """Go on until stopped."""
    while True:
        yield {"attempt": run.attempt}
        await asyncio.sleep(PACE)


@outlast.worker("patient")
async def patient(run: ActiveRun) -> int:
    """Do nothing until a kill ends it; the third attempt is the one that comes to an end."""
    await run.emit("here")
    if run.attempt < 3:
        await asyncio.Event().wait()
    return run.attempt


@outlast.worker("parent")
async def parent(run: ActiveRun) -> None:
    """Start another run in this process, under the id that the input tells."""
    await outlast.start("patient", id=str(run.input))


@outlast.worker("mortal")
async def mortal(run: ActiveRun) -> None:
    """Take the whole process down, every time."""
    await run.emit("last words")
    os.kill(os.getpid(), signal.SIGKILL)


@outlast.worker("forgetful")
async def forgetful(run: ActiveRun) -> None:
    """Run out of memory, every time."""
    await run.emit("so far")
    raise MemoryError
