"""Renews a node's lease from a task instead of a thread, so that virtual time governs it too."""

import asyncio

from outlast.server.renewal import Keeper


class TaskPacer:
    """The `Pacer` for a virtual clock: in all else a `RenewalThread`.

    It renews on the event loop, so a loop that stands still misses its renewals: what a blocked loop does to a
    thread can only be seen with a thread.
    """

    def __init__(self) -> None:
        self._keeper: Keeper | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, keeper: Keeper) -> None:
        """Begin renewing."""
        self._keeper = keeper
        self._task = asyncio.get_running_loop().create_task(self._run(keeper), name="renewal")

    def close(self) -> None:
        """Stop renewing and close the keeper; harmless twice."""
        if self._task is not None:
            self._task.cancel()
        if self._keeper is not None:
            self._keeper.close()

    async def _run(self, keeper: Keeper) -> None:
        while True:  # noqa: ASYNC110 - paced by the keeper, not polling for anything
            await asyncio.sleep(keeper.renew())
