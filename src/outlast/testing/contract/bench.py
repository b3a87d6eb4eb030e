"""What a backend hands to the contract: a store that is open, and a hand on its clock and its rows."""

from typing import Protocol

import pytest

from outlast.run import Run
from outlast.stores.base import Store


class Workbench(Protocol):
    """An empty store on the bench; whoever built it takes it down after the test."""

    @property
    def store(self) -> Store:
        """The store, open. It holds nothing yet."""
        ...

    async def again(self) -> Store:
        """Open the same storage once more, as another process would.

        A store that lives inside one process returns itself.
        """
        ...

    async def age(self, seconds: float) -> None:
        """Let `seconds` pass by the store's clock, for every handle on it. Nothing waits."""
        ...

    async def park(self, run: Run, *, wake_at: float | None) -> None:
        """Write behind the store's back that `run` is parked until `wake_at` and that nobody holds it."""
        ...

    async def lose(self, log: str, seq: int) -> None:
        """Delete one stored event behind the store's back, as a failing disk would."""
        ...

    async def spoil(self, log: str, seq: int) -> None:
        """Change the payload of one stored event behind the store's back."""
        ...

    async def retype(self, log: str, seq: int) -> None:
        """Make the payload of one stored event a value that is no bytes, behind the store's back."""
        ...

    async def garble(self, run: Run) -> None:
        """Write something into the row of `run` that nobody can read, behind the store's back."""
        ...

    async def lose_log(self, log: str) -> None:
        """Delete what the store knows of a log, its events apart, behind the store's back."""
        ...


@pytest.mark.anyio
class Contract:
    """What every part of the contract has: the backend's bench, and the loop that stores run on."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        # Stores are plain asyncio. A backend overrides this to bring a loop of its own.
        return "asyncio"

    @pytest.fixture
    def bench(self) -> Workbench:
        """Return the workbench; the class that inherits a contract says how it is built."""
        pytest.fail("a contract needs a fixture `bench` that yields a Workbench")

    @pytest.fixture
    def store(self, bench: Workbench) -> Store:
        """Return the store on the bench."""
        return bench.store
