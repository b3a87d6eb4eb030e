"""The newest frames of one log, ready to be sent: one copy for all its readers.

Rules:
1. A ring is a window on a numbered sequence: it holds the frames of seq `base` + 1 to `tail` without holes. A
   reader's place is the last seq it has, in here as in the log; that is why replay and live have no seam.
2. It is bounded in bytes. The newest frame stays whatever its size: a huge event is one copy, not one per reader.
3. What many readers at the same place are given is joined once.
"""

from collections.abc import Sequence
from typing import Final

LIMIT: Final = 1024 * 1024
"""Bytes: some seconds of a talkative run, so that a reader which came back or fell behind need not ask the store."""
CHUNK: Final = 32 * 1024
"""Bytes given at once. Servers let 64 KiB pile up before they feel a slow client, so with the chunk that goes over
that mark and the one that waits behind it a stalled reader costs 128 KiB (F13)."""


class Ring:
    """Frames after seq `base` up to seq `tail`; `limit` and `chunk` are in bytes."""

    def __init__(self, base: int, *, limit: int = LIMIT, chunk: int = CHUNK) -> None:
        self.base = base
        self.tail = base
        self._limit = limit
        self._chunk = chunk
        self._frames: list[bytes] = []
        self._bytes = 0
        self._joined: tuple[int, tuple[bytes, int]] | None = None

    def push(self, frames: Sequence[bytes]) -> None:
        """Add the frames that follow the tail, and let go of the oldest ones beyond the limit."""
        self._frames += frames
        self.tail += len(frames)
        self._bytes += sum(map(len, frames))
        dropped = 0
        while self._bytes > self._limit and dropped < len(self._frames) - 1:
            self._bytes -= len(self._frames[dropped])
            dropped += 1
        del self._frames[:dropped]
        self.base += dropped
        self._joined = None

    def after(self, seq: int) -> tuple[bytes, int] | None:
        """Return frames after `seq`, joined, at least one and up to the chunk, with the last one's seq.

        `b""` and `seq` itself when there is nothing newer, None when the ring no longer reaches back that far.
        """
        if seq >= self.tail:
            return b"", seq
        if self._joined is not None and self._joined[0] == seq:
            return self._joined[1]
        start = seq - self.base
        if start < 0:
            return None
        end, size = start + 1, len(self._frames[start])
        while end < len(self._frames) and size + len(self._frames[end]) <= self._chunk:
            size += len(self._frames[end])
            end += 1
        given = b"".join(self._frames[start:end]), self.base + end
        self._joined = seq, given
        return given
