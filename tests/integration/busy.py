"""Watches clients of a server that stands still, dies or is cut off: what people were shown, and what became of events.

A condition is something that is done to a server, or to the way there, while a run says numbers; several conditions go
side by side, each with a house of its own.
"""

import asyncio
import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from outlast import ReceivedEvent, connect
from outlast.client.client import Client
from outlast.client.connect import USUAL
from outlast.client.record import ClientRecord
from outlast.log.event import StoredEvent
from outlast.supervision.phase import Grade, Phase
from outlast.supervision.profile import STANDARD, Profile
from outlast.testing.diary import Diary
from outlast.testing.history import History
from outlast.testing.invariants import CLIENTS, check
from outlast.wire import native
from tests.integration.programs import Program
from tests.integration.readers import log, numbers

BRISK = Profile(
    name="brisk",  # a tenth of the standard's heartbeat; evidence is not found ten times as fast
    establishment=3.0,
    probe=1.5,
    short_probe=1.0,
    triage=3.0,
    renew_evidence=2.0,
    absence=30.0,
    ladder=STANDARD.ladder,
    jittered=True,
    prompt=True,
    needs_progress=True,
)
"""For servers whose heartbeats are a second apart."""
TRUE = {"TEST_HEARTBEAT": "10", "TEST_LEASE": "15"}
"""Variables of a server that is as patient as it is by default."""
BEGINNING = 3
"""Numbers by which a client is in the midst of its run."""
SOCKETED = {"OUTLAST_WEBSOCKET": "1"}
"""What lets a server be connected to over a WebSocket too."""
STRANGE = frozenset({Phase.SWITCHING, Phase.BACKOFF, Phase.OFFLINE, Phase.BLOCKED})
"""Phases that nobody is shown while something speaks for a server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What people were shown, since when."""

    at: float
    phase: Phase
    generation: int
    can_send: bool
    evidence: Grade | None


@dataclass(slots=True)
class Watch:
    """One client that follows one run, and what was seen of it."""

    run: str
    client: Client = field(init=False)
    shown: list[Shown] = field(default_factory=list[Shown])
    received: list[ReceivedEvent] = field(default_factory=list[ReceivedEvent])
    taken_at: list[float] = field(default_factory=list[float])
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def phases(self) -> list[Phase]:
        """The phases in order, from the first live one on, repetitions left out."""
        found: list[Phase] = []
        for each in self.shown:
            if (found or each.phase is Phase.LIVE) and found[-1:] != [each.phase]:
                found.append(each.phase)
        return found

    @property
    def generations(self) -> int:
        """How many links there were."""
        return max((each.generation for each in self.shown), default=0)

    @property
    def types(self) -> set[str]:
        """What kinds of events came."""
        return {each.type for each in self.received}

    @property
    def summary(self) -> str:
        """What was shown and when, in seconds since the first live phase, for people."""
        began, said, before = self.first(Phase.LIVE) or 0.0, list[str](), None
        for each in self.shown:
            if each.phase is not before and each.at >= began:
                before = each.phase
                said.append(f"{each.phase} {each.at - began:.2f}{f' ({each.evidence})' if each.evidence else ''}")
        return f"{', '.join(said)}; {len(self.received)} events"

    @property
    def evidence(self) -> set[Grade]:
        """What spoke for the server."""
        return {each.evidence for each in self.shown if each.evidence is not None}

    def first(self, phase: Phase, *, after: float = 0.0) -> float | None:
        """Return when this phase was first shown after a moment."""
        return next((each.at for each in self.shown if each.phase is phase and each.at >= after), None)

    @property
    def mute(self) -> float:
        """Return for how many seconds nothing could be sent since there was a link."""
        since = [each for each in self.shown if each.at >= (self.first(Phase.LIVE) or 0.0)]
        return sum(later.at - earlier.at for earlier, later in pairwise(since) if not earlier.can_send)

    async def begun(self) -> None:
        """Wait until the client is in the midst of its run."""
        await self.until(lambda watch: watch.phases[-1:] == [Phase.LIVE] and len(numbers(watch.received)) >= BEGINNING)

    async def until(self, so: Callable[["Watch"], bool]) -> None:
        """Wait until something is so; the test has the deadline."""
        async with self._changed:
            await self._changed.wait_for(lambda: so(self))

    async def note(self, record: ClientRecord, *, at: float) -> None:
        """Write down what is shown."""
        link = record.link
        said = Shown(
            at=at,
            phase=link.phase,
            generation=link.generation,
            can_send=link.can_send,
            evidence=link.evidence,
        )
        async with self._changed:
            self.shown.append(said)
            self._changed.notify_all()

    async def take(self, received: ReceivedEvent) -> None:
        """Write down what was received."""
        async with self._changed:
            self.received.append(received)
            self.taken_at.append(asyncio.get_running_loop().time())
            self._changed.notify_all()


@asynccontextmanager
async def watching(
    urls: Sequence[str],
    run: str,
    *,
    profile: Profile = BRISK,
    transports: Sequence[str] = USUAL,
    jitter: Callable[[], float] = lambda: 0.5,
) -> AsyncIterator[Watch]:
    """Follow a run to its end, which ends the block, and write down what is shown meanwhile and what comes."""
    watch = Watch(run)
    connecting = connect(list(urls), profile=profile, transports=transports, hints=False, jitter=jitter)
    async with connecting as client:
        watch.client = client
        showing = asyncio.create_task(_show(client, watch))
        following = asyncio.create_task(_follow(client, watch))
        try:
            yield watch
            await following
        finally:
            for task in (following, showing):
                task.cancel()
            await asyncio.wait([following, showing])


async def _show(client: Client, watch: Watch) -> None:
    async for record in client.state:
        await watch.note(record, at=asyncio.get_running_loop().time())


async def _follow(client: Client, watch: Watch) -> None:
    async for received in client.follow(watch.run):
        assert isinstance(received, ReceivedEvent), "nothing is trimmed here"
        await watch.take(received)


async def judge(server: Program, watch: Watch) -> None:
    """Hold what was received against the log: nothing lost, nothing doubled, the end last."""
    history = History()
    diary = Diary("client", watch.run, note=history.note)
    diary.begin()
    for received in watch.received:
        diary.take(received)
        diary.keep(received.cursor)
    diary.end()
    history.finish([], {watch.run: await stored(server, watch.run)})
    check(history, CLIENTS)


async def stored(server: Program, run: str) -> list[StoredEvent]:
    """Return a run's log as its server tells it."""
    told = [native.event_from_json(document) for document in await log(server, run)]
    return [StoredEvent(cursor=cursor, event=event, epoch=0, time=0.0) for cursor, event in told]


def longest(moments: Sequence[float]) -> float:
    """Return the longest time between two moments."""
    return max((later - earlier for earlier, later in pairwise(moments)), default=0.0)


# ---- what is done to servers --------------------------------------------------------------------


async def stop(server: Program, folder: Path) -> None:
    """Stop a server as SIGSTOP does, in the midst of no transaction, and see it stopped.

    One that is stopped while it writes keeps the others from writing, whatever clients do.
    """
    while True:
        server.signal(signal.SIGSTOP)
        await asyncio.to_thread(os.waitid, os.P_PID, server.process.pid, os.WSTOPPED | os.WNOWAIT)
        if await asyncio.to_thread(_is_writable, folder / "runs.db"):
            return
        server.signal(signal.SIGCONT)
        await asyncio.sleep(0.01)  # let it finish what it began


async def stop_for(server: Program, folder: Path, seconds: float) -> None:
    """Stop a server for so long; the folder tells it as it tells that a run blocks its loop."""
    await stop(server, folder)
    (folder / "blocked").touch()
    await asyncio.sleep(seconds)
    (folder / "free").touch()
    server.signal(signal.SIGCONT)


async def pause(client: Program, seconds: float) -> None:
    """Stop a process that holds no file for so long."""
    client.signal(signal.SIGSTOP)
    await asyncio.sleep(seconds)
    client.signal(signal.SIGCONT)


async def midst(folder: Path, seconds: float) -> None:
    """Wait until a server in this folder has stood still for so long, and see that it still does."""
    while not await asyncio.to_thread((folder / "blocked").exists):  # the test has the deadline
        await asyncio.sleep(0.01)
    await asyncio.sleep(seconds)
    assert not (folder / "free").exists()


async def noted(server: Program, fact: str) -> None:
    """Wait until a server has noted a fact; the test has the deadline."""
    while not server.facts(fact):
        await asyncio.sleep(0.05)


async def by_claim(nodes: Sequence[Program]) -> list[Program]:
    """Return nodes, the one that has claimed a run first; any of them may."""
    claiming = [asyncio.create_task(noted(node, "RunClaimed")) for node in nodes]
    await asyncio.wait(claiming, return_when=asyncio.FIRST_COMPLETED)
    for each in claiming:
        each.cancel()
    return sorted(nodes, key=lambda node: not node.facts("RunClaimed"))


def _is_writable(file: Path) -> bool:
    with closing(sqlite3.connect(file, timeout=0.0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        connection.execute("ROLLBACK")
    return True


def hindrance(way: str = "", seconds: float = 0.0, *, numbers: int = 4) -> dict[str, Any]:
    """Return the input of a run that, once it is told, blocks its loop in this way and says so many numbers more."""
    return {"way": way, "seconds": seconds, "numbers": numbers}


def tell(folder: Path) -> None:
    """Let the run in this folder block its loop, and come to its end."""
    (folder / "now").touch()
