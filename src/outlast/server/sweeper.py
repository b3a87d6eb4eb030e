"""Settles what nobody can revive: runs whose worker no node has had for so long that none will come.

Rules:
1. Every node sweeps; nothing is elected. Of two that settle the same run one wins, as of any two claims (O2).
2. Only time in which a node looked counts: after a week of everything being switched off no run is an orphan.
3. A run that is held, parked, backing off or cooling down is waited for; so is one that was touched since.
4. What it could not do it reports, and tries again at the next sweep.
"""

import asyncio
from collections.abc import Collection
from typing import Final

from outlast.errors import ClaimLost
from outlast.run import Failed, FailureCode, Run
from outlast.server.claim import settlement
from outlast.server.conditions import Conditions
from outlast.server.patience import insist
from outlast.server.trouble import Trouble
from outlast.stores.base import RunStore

SWEEP_EVERY: Final = 60.0
"""Seconds between two sweeps: what they look for takes days to come about."""
ORPHANED_AFTER: Final = 7 * 86400.0
"""Seconds without a node that has the worker: as long as a finished run is kept. A worker that is away for longer was
taken out of the code."""
AT_ONCE: Final = 256
"""Runs settled in one sweep: a thousand orphans are gone in minutes, and nobody waits for them."""


class Sweeper:
    """One node's share in sweeping; `run` is its one task. `after` is when a run without a worker is an orphan."""

    def __init__(
        self, runs: RunStore, workers: Collection[str], conditions: Conditions, *, after: float = ORPHANED_AFTER
    ) -> None:
        self._runs = runs
        self._workers = workers
        self._conditions = conditions
        self._after = after
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

    async def _settle(self, run: Run) -> None:
        claim = self._conditions.mint()
        outcome = Failed(
            code=FailureCode.ORPHANED,
            message=f"No node had the run's worker for {self._after:g} seconds; everything it said so far is kept.",
        )
        try:
            settled = await insist(
                lambda: self._runs.settle_unheld(run, outcome, claim=claim),
                during="sweep",
                conditions=self._conditions,
            )
        except ClaimLost:  # somebody has revived it after all
            return
        self._conditions.report(settlement(settled))
