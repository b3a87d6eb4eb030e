"""A round over all feeds of a node, once a second: one operation of the store, or two, for any number of feeds.

Rules:
1. One operation tells the heads of all logs: a feed that is behind is nudged, so a lost wake-up costs `EVERY` at most.
2. Every third round one reads the rows whose heartbeats come due before the next of these. A heartbeat may be that
   much early.
3. A round that fails is reported and passed over: each feed then reads its own row when its heartbeat is due, and
   meets the trouble itself.
"""

import asyncio
import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from outlast.server.readers.feed import Feed, Listener, Surroundings, rouse
from outlast.server.trouble import Trouble
from outlast.stores.base import RunStore

EVERY: Final = 1.0
"""Seconds between two rounds: how late an event is at most when every wake-up is lost (F4)."""
BEATS: Final = 3
"""Rounds for one that reads rows: a heartbeat comes after seven to ten seconds, which is as good to its readers."""


class Rounds:
    """Goes over `feeds`, by the logs they are of, until cancelled; `run` is its one task."""

    def __init__(self, feeds: Mapping[str, Feed], around: Surroundings) -> None:
        self._feeds = feeds
        self._store = around.store
        self._trouble = Trouble("round", around.report)

    async def run(self) -> None:
        """Make one round after the other."""
        for number in itertools.count(1):
            await asyncio.sleep(EVERY)
            if not self._feeds:
                continue
            try:
                await self._nudge()
                if number % BEATS == 0:
                    await self._beat()
            except Exception as error:  # noqa: BLE001 - a loop that reports and goes on
                self._trouble.met(error)
            else:
                self._trouble.over()

    async def _nudge(self) -> None:
        heads = await self._store.logs.heads(self._feeds.keys())
        for log, feed in self._feeds.items():
            if log not in heads or heads[log].seq != feed.ring.tail:
                feed.nudge()

    async def _beat(self) -> None:
        soon = asyncio.get_running_loop().time() + BEATS * EVERY
        await beat(self._store.runs, [feed for feed in self._feeds.values() if feed.readers and feed.beat_at <= soon])


async def beat(runs: RunStore, feeds: Collection[Feed]) -> None:
    """Let these feeds tell a heartbeat of their rows as they are now: one operation for all of them."""
    if not feeds:
        return
    by_log = {feed.run.log: feed for feed in feeds}
    heard: list[Feed] = []
    for loaded in await runs.load_all([(feed.run.owner, feed.run.id) for feed in feeds]):
        feed = by_log[loaded.run.log]
        feed.hear(loaded)
        heard.append(feed)
    await rouse(_readers(heard))


def _readers(feeds: list[Feed]) -> Iterator[Listener]:
    for feed in feeds:
        yield from feed.readers
