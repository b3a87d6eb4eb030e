"""The beat of a node's event loop: proof that it runs, and how late it is."""

import asyncio
from collections.abc import Callable
from typing import Final

BEAT_EVERY: Final = 0.5
"""Seconds between two beats: fine enough to show a person that a server is slow, too rare to cost anything."""


class Pulse:
    """Measures the loop's lag; `lag` is how late the newest beat was, in seconds."""

    def __init__(self) -> None:
        self.lag = 0.0
        self._listeners: list[Callable[[float], None]] = []

    def listen(self, on_beat: Callable[[float], None]) -> None:
        """Tell `on_beat` the loop's time at every beat from now on."""
        self._listeners.append(on_beat)

    async def run(self) -> None:
        """Beat until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due_at = loop.time() + BEAT_EVERY
            await asyncio.sleep(BEAT_EVERY)
            self.lag = max(0.0, loop.time() - due_at)
            for on_beat in self._listeners:
                on_beat(loop.time())
