"""Tells the readers of a run at once that it has begun to recover, which no event of its log tells.

Rules:
1. The store rings when a run is let go and when a node is gone, for all of its runs. Which of the followed ones that
   concerns is one operation for all of them, and only those are told of which readers have heard otherwise (M5).
2. The first ring is heard at once, those that come soon after it together: others' runs end and begin all the time.
3. What is left is told by others: a lease that runs out by the feed, which knows that time, what follows by the event
   that every claim writes, and what nobody rang for by the next heartbeat.
"""

import asyncio
from collections.abc import Mapping
from contextlib import closing
from typing import Final

from outlast.server.readers.feed import HEARTBEAT, Feed, Surroundings
from outlast.server.readers.round import beat
from outlast.server.trouble import Trouble

TOGETHER: Final = 0.25
"""Seconds until those that have rung meanwhile are heard: a busy store rings in every tick, and the shortest wait that
is worth telling, the one before a second takeover, takes a second."""
REST: Final = 100
"""How many times as long as a look took until the next: however many runs are followed, a hundredth of the time."""


class Alarm:
    """Watches over `feeds`, by the logs they are of, until cancelled; `run` is its one task."""

    def __init__(self, feeds: Mapping[str, Feed], around: Surroundings) -> None:
        self._feeds = feeds
        self._runs = around.store.runs
        self._trouble = Trouble("alarm", around.report)

    async def run(self) -> None:
        """Look whenever it rings."""
        clock = asyncio.get_running_loop().time
        with closing(self._runs.subscribe()) as bell:
            while True:
                if not await bell.wait(HEARTBEAT):
                    continue  # rule 3
                began = clock()
                try:
                    await self._look()
                except Exception as error:  # noqa: BLE001 - a loop that reports and goes on
                    self._trouble.met(error)
                else:
                    self._trouble.over()
                await asyncio.sleep(max(TOGETHER, REST * (clock() - began)))

    async def _look(self) -> None:
        told = [feed for feed in self._feeds.values() if feed.readers and not feed.recovers]
        if told:
            recovering = await self._runs.recovering([(feed.run.owner, feed.run.id) for feed in told])
            await beat(self._runs, [feed for feed in told if feed.run.log in recovering])
