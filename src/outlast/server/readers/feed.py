"""Carries what is new in one log to all its readers on this node: one subscription, one task, one encoding.

Rules:
1. Only what the store returns, or brought along with a wake-up, is sent on, so nothing is visible before it is
   durable (F2).
2. A wake-up is a hint. The hub's rounds find what was never rung for, and read the row for each heartbeat: one
   operation for all feeds (F4, F12). Only a heartbeat that cannot wait for the next round reads the row itself.
3. "Ended" is what the log's head says, never what was heard.
4. Readers are woken a slice at a time, about a millisecond's worth, so that a big room does not make its own server
   look dead.
5. A store that fails breaks the feed: its readers are sent away to come again, never told an outcome (F9).
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from outlast.errors import code_of
from outlast.facts import Report, StoreTroubled
from outlast.log.event import JSON, OWN_PREFIX, StoredEvent
from outlast.recovery import RecoveryPolicy
from outlast.run import TERMINALS, Run
from outlast.server.readers.ring import Entry, Ring
from outlast.stores.base import Head, Loaded, LogSubscription, Store
from outlast.wire import native
from outlast.wire.status import beat_document

HEARTBEAT: Final = 10.0
"""Seconds between heartbeats: below the 15 that proxies and people bear, far above what it costs."""
RECOVERING_BEAT: Final = 2.0
"""Seconds between heartbeats while the run is recovering: someone watches a countdown."""
LEASE_SLACK: Final = 0.1
"""Seconds behind the end of a lease at which the row is read again, so that the reading finds it run out."""
LINGER: Final = 5.0
"""Seconds a feed stays without readers: a page that reloads finds the ring warm."""
PAGE: Final = 512
"""Events read at once."""
PAGE_BYTES: Final = 256 * 1024
"""Bytes of payload read at once: a quarter of the ring."""
TURN: Final = 0.001
"""Seconds that readers may send in one turn of the loop, so that a room of thousands delays nobody else by more."""
SLICE: Final = 64
"""Readers woken in the first turn: about a millisecond of sending at 15 µs each."""
FEWEST: Final = 8
"""Readers woken in one turn at the least: a machine that is busy with others must not hold an event up for seconds."""
MOST: Final = 256
"""Readers woken in one turn at the most: what they have to send may be much more than what the last ones had."""


class Listener(Protocol):
    """A reader, as a feed sees it."""

    def wake(self) -> None:
        """Look again: there is something new, or the feed is over."""
        ...


async def rouse(readers: Iterable[Listener]) -> None:
    """Wake readers, a slice at a time, so that the loop serves others in between.

    Who was woken sends in the turn that follows: what that turn took says how many the next one bears.
    """
    clock = asyncio.get_running_loop().time
    left, size = tuple(readers), SLICE
    while left:
        for reader in left[:size]:
            reader.wake()
        left = left[size:]
        if left:
            began = clock()
            await asyncio.sleep(0)
            took = clock() - began
            size = MOST if took * MOST <= TURN * size else max(FEWEST, round(TURN * size / took))


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all feeds of a node share; `heartbeat` is in seconds, `lag` tells the loop's."""

    store: Store
    policy: RecoveryPolicy
    lag: Callable[[], float]
    report: Report
    heartbeat: float = HEARTBEAT


class Feed:
    """What is new in the log of `run` behind `head`; readers ask `ring`, `ended`, `broken` and `beat` when woken.

    `recovers` is what the newest heartbeat told of the run, `beat` that one's frame, `beats` its number, and `beat_at`
    when the next is due, on the loop's clock. A feed of a sealed log is over from the start.
    """

    def __init__(self, run: Run, head: Head, surroundings: Surroundings) -> None:
        self.ring = Ring(head.cursor.seq)
        self.head = head.cursor
        self.ended = head.sealed
        self.broken = False
        self.recovers = False
        self.beat = b""
        self.beats = 0
        self.run = run
        self.readers: dict[Listener, None] = {}
        self._around = surroundings
        self._clock = asyncio.get_running_loop().time
        self._deserted_at = self.beat_at = self._clock()
        self._beaten_at = self.beat_at - RECOVERING_BEAT
        self._wake_ups: LogSubscription | None = None

    def join(self, reader: Listener) -> None:
        """Wake this reader from now on. It hears a heartbeat soon, and many that join cost no more than one."""
        self.readers[reader] = None
        soon = self._beaten_at + RECOVERING_BEAT
        if soon < self.beat_at:
            self.beat_at = soon
            self.nudge()

    def leave(self, reader: Listener) -> None:
        """Forget a reader. Harmless twice."""
        self.readers.pop(reader, None)
        if not self.readers:
            self._deserted_at = self._clock()
            self.nudge()

    def nudge(self) -> None:
        """Look at the log again: there may be something that nobody rang for."""
        if self._wake_ups is not None:
            self._wake_ups.ring()

    async def pump(self) -> None:
        """Carry on until the log is sealed, the store fails, or no reader has been there for a while."""
        wake_ups = self._wake_ups = self._around.store.logs.subscribe(self.run.log)
        rung = True
        try:
            while True:
                if rung:
                    await self._look(wake_ups)
                if self.ended or self._is_deserted():
                    return
                await self._beat_if_due()
                rung = await wake_ups.wait(max(0.0, self._next_at() - self._clock()))
        except Exception as error:  # noqa: BLE001 - reported; one log's trouble must not end the others' feeds
            self.broken = True
            self._around.report(StoreTroubled(during="feed", error=code_of(error)))
            await rouse(self.readers)
        finally:
            self._wake_ups = None
            wake_ups.close()

    def hear(self, loaded: Loaded) -> None:
        """Make the next heartbeat of the row as it was just read; whoever calls rouses the readers."""
        document = beat_document(loaded.run, policy=self._around.policy, now=loaded.now)
        self.beat = native.heartbeat({**document, "head": str(self.head)}, loop_lag=self._around.lag(), now=loaded.now)
        self.recovers = document["recovering"] is not None
        self.beats += 1
        self._beaten_at = self._clock()
        before, self.beat_at = self.beat_at, self._beaten_at + self._pause(document)
        if self.beat_at < before:
            self.nudge()  # the pump would sleep until then

    # ---- inside -----------------------------------------------------------------------------

    async def _look(self, wake_ups: LogSubscription) -> None:
        events = wake_ups.take_news(self.ring.tail)
        if events:
            await self._carry(events)
            return
        more = True
        while more:
            logs = self._around.store.logs
            events = await logs.read(self.run.log, after=self.ring.tail, limit=PAGE, max_bytes=PAGE_BYTES)
            if not events:
                return
            await self._carry(events)
            more = len(events) == PAGE or sum(len(stored.event.payload) for stored in events) >= PAGE_BYTES

    async def _carry(self, events: Sequence[StoredEvent]) -> None:
        self.ring.push([Entry(stored) for stored in events])
        self.head = events[-1].cursor
        if any(stored.event.type.startswith(OWN_PREFIX) for stored in events):
            self.beat_at = self._clock()  # something became of the run: tell it now
        if events[-1].event.type in TERMINALS:
            head = await self._around.store.logs.head(self.run.log)
            self.ended = head.sealed and head.cursor == self.head
        await rouse(self.readers)

    async def _beat_if_due(self) -> None:
        if self._clock() < self.beat_at:
            return
        if not self.readers:
            self.beat_at = self._clock() + self._around.heartbeat  # nobody would hear it
            return
        self.hear(await self._around.store.runs.load(self.run.owner, self.run.id))
        await rouse(self.readers)

    def _pause(self, document: Mapping[str, JSON]) -> float:
        """Return the seconds to the next heartbeat: sooner where the run's recovery is, or may be, about to change."""
        if document["recovering"] is not None:
            return min(RECOVERING_BEAT, self._around.heartbeat)
        lease_left = document["lease_left"]
        if isinstance(lease_left, float):  # a holder that lives renews it long before
            return min(max(lease_left + LEASE_SLACK, RECOVERING_BEAT), self._around.heartbeat)
        return self._around.heartbeat

    def _next_at(self) -> float:
        return self.beat_at if self.readers else self._deserted_at + LINGER

    def _is_deserted(self) -> bool:
        return not self.readers and self._clock() >= self._deserted_at + LINGER
