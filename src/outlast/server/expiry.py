"""Deletes what is past its retention, a small step at a time.

Rules:
1. Every node does it; two that do it at the same time share the work, since each step is one transaction.
2. Between two steps the store is everybody else's. When nothing is left, the next look is a while away.
3. A store in trouble is left alone for longer and longer: clean-up can wait.
"""

import asyncio
from typing import Final

from outlast.backoff import delay
from outlast.facts import RunsExpired
from outlast.server.conditions import Conditions
from outlast.server.trouble import Trouble
from outlast.stores.base import RunStore

LOOK_EVERY: Final = 60.0
"""Seconds between two looks when nothing is due: the shortest retention is as long."""
STEP_EVERY: Final = 0.02
"""Seconds between two steps: a step takes a few milliseconds of the store's time, so it has most of its time left."""
CAP: Final = 900.0
"""Seconds between two tries at most while the store is in trouble."""


class Expiry:
    """One node's share in clean-up; `run` is its one task."""

    def __init__(self, runs: RunStore, conditions: Conditions) -> None:
        self._runs = runs
        self._conditions = conditions
        self._trouble = Trouble("expiry", conditions.report)
        self._failures = 0

    async def run(self) -> None:
        """Look and delete until cancelled; the first look comes at some moment within `LOOK_EVERY`."""
        pause = LOOK_EVERY * self._conditions.jitter()  # nodes that started together look apart
        while True:
            await asyncio.sleep(pause)
            pause = await self._look()

    async def _look(self) -> float:
        """Delete all that is due, and return the seconds until the next look."""
        retention, report = self._conditions.retention, self._conditions.report
        runs = tombstones = 0
        more = True
        try:
            while more:
                done = await self._runs.expire(finished=retention.finished, gone=retention.gone)
                runs, tombstones, more = runs + done.runs, tombstones + done.tombstones, done.more
                await asyncio.sleep(STEP_EVERY)
            self._failures = 0
            self._trouble.over()
        except Exception as error:  # noqa: BLE001 - a loop that reports and goes on
            self._failures += 1
            self._trouble.met(error)
        if runs or tombstones:
            report(RunsExpired(runs=runs, tombstones=tombstones))
        jitter = self._conditions.jitter()
        return delay(max(1, self._failures), base=LOOK_EVERY, cap=CAP, jitter=jitter)
