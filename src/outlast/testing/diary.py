"""Writes down what an application does with its follows: where it began, what it took, which cursor it kept.

    diary = Diary("tab", "r1", note=history.note)
    stream = follow(url, "r1", after=diary.begin())
    async for received in stream:
        diary.take(received)
        ...                              # what may fail, or be cancelled
        diary.keep(received.cursor)
    diary.end()

    history.finish([], {"r1": log})
    check(history, CLIENTS)              # of outlast.testing.invariants

An application that dies comes back with what it kept: what it had taken behind that is taken again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from outlast.client.received import Received
from outlast.log.cursor import Cursor
from outlast.testing.observation import CursorKept, Delivered, FollowBegan, FollowEnded, Observation

START: Final = Cursor(0, None)


class Diary:
    """What one application, named `reader`, does with one log; `cursor` is the one it kept."""

    def __init__(self, reader: str, log: str, *, note: Callable[[Observation], None]) -> None:
        self.cursor = START
        self._reader = reader
        self._log = log
        self._note = note
        self._clock = asyncio.get_running_loop().time

    def begin(self, after: Cursor | None = None) -> Cursor:
        """Write down that a follow begins, and return where: at the cursor kept, unless told otherwise."""
        after = self.cursor if after is None else after
        self._note(FollowBegan(at=self._clock(), reader=self._reader, log=self._log, after=after))
        return after

    def take(self, received: Received) -> None:
        """Write down what was taken."""
        self._note(Delivered(at=self._clock(), reader=self._reader, log=self._log, received=received))

    def keep(self, cursor: Cursor) -> None:
        """Write down, and keep, where to come back to."""
        self.cursor = cursor
        self._note(CursorKept(at=self._clock(), reader=self._reader, log=self._log, cursor=cursor))

    def end(self) -> None:
        """Write down that a follow has come to its end."""
        self._note(FollowEnded(at=self._clock(), reader=self._reader, log=self._log))

    async def read(self, stream: AsyncIterator[Received]) -> None:
        """Take all of a stream that has begun, keeping each place, and write down its end."""
        async for received in stream:
            self.take(received)
            self.keep(received.cursor)
        self.end()
