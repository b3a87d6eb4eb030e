"""Settles what nobody can revive: runs whose worker no node has had for too long, and runs whose rows nobody can read.

Rules:
1. Every node sweeps; nothing is elected. Of two that settle the same run one wins, as of any two claims (O2).
2. Only time in which a node looked counts: after a week of everything being switched off no run is an orphan.
3. A run that is held, parked, backing off or cooling down is waited for; so is one that was touched since.
4. A row that cannot be read is waited for as well: a node of a newer version may be able to.
5. What it could not do it reports, and tries again at the next sweep.
"""

import asyncio
from collections.abc import Collection
from functools import partial
from typing import Final

from outlast.errors import ClaimLost, RunNotFound
from outlast.facts import RunSettled
from outlast.run import Failed, FailureCode, Run, Status
from outlast.server.claim import settlement
from outlast.server.conditions import Conditions
from outlast.server.patience import insist
from outlast.server.trouble import Trouble
from outlast.stores.base import RunStore

SWEEP_EVERY: Final = 60.0
"""Seconds between two sweeps: what they look for takes days to come about."""
CORRUPT_FOR: Final = 3600.0
"""Seconds for which a row could not be read: long enough for a deploy to end, and for a person to look."""
AT_ONCE: Final = 256
"""Runs settled in one sweep: a thousand orphans are gone in minutes, and nobody waits for them."""


class Sweeper:
    """One node's share in sweeping; `run` is its one task.

    A run without a worker is an orphan once it has waited for as long as an ended run is kept: a worker that is away
    for longer was taken out of the code.
    """

    def __init__(self, runs: RunStore, workers: Collection[str], conditions: Conditions) -> None:
        self._runs = runs
        self._workers = workers
        self._conditions = conditions
        self._after = conditions.retention.finished
        self._unreadable: dict[str, float] = {}
        self._trouble = Trouble("sweep", conditions.report)

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            try:
                await self.sweep()
            except Exception as error:  # noqa: BLE001 - a loop that reports and goes on
                self._trouble.met(error)
            else:
                self._trouble.over()
            await asyncio.sleep(SWEEP_EVERY)

    async def sweep(self) -> None:
        """Look once, and settle what is found."""
        await self._runs.attend(self._workers, every=SWEEP_EVERY)
        for run in await self._runs.forsaken(after=self._after, limit=AT_ONCE):
            await self._settle(run)
        await self._settle_corrupt()

    async def _settle_corrupt(self) -> None:
        now = await self._runs.now()
        met = self._unreadable
        self._unreadable = {log: met.get(log, now) for log in await self._runs.corrupt()}
        for log, since in self._unreadable.items():
            if now - since >= CORRUPT_FOR:
                self._unreadable[log] = now  # whether or not it is still there to be settled
                await self._settle_one_corrupt(log)

    async def _settle_one_corrupt(self, log: str) -> None:
        said = "The row of the run could not be read any more; everything it said so far is kept."
        settle = partial(self._runs.settle_corrupt, log, _orphaned(said), claim=self._conditions.mint())
        try:
            await insist(settle, during="sweep", conditions=self._conditions)
        except (ClaimLost, RunNotFound):  # it can be read after all, or is gone
            return
        self._conditions.report(RunSettled(run=log, status=Status.FAILED, code=FailureCode.ORPHANED))

    async def _settle(self, run: Run) -> None:
        said = f"No node had the run's worker for {self._after:g} seconds; everything it said so far is kept."
        settle = partial(self._runs.settle_unheld, run, _orphaned(said), claim=self._conditions.mint())
        try:
            settled = await insist(settle, during="sweep", conditions=self._conditions)
        except (ClaimLost, RunNotFound):  # somebody has revived it after all, or it is gone
            return
        self._conditions.report(settlement(settled))


def _orphaned(message: str) -> Failed:
    return Failed(code=FailureCode.ORPHANED, message=message)
