"""The newest frames of one log, ready to be sent: one copy for all its readers.

Rules:
1. A ring is a window on a numbered sequence: it holds the frames of seq `base` + 1 to `tail` without holes. A
   reader's place is the last seq it has, in here as in the log; that is why replay and live have no seam.
2. It is bounded in bytes. The newest frame stays whatever its size: a huge event is one copy, not one per reader.
3. What many readers at the same place are given is joined once.
4. An event is encoded once for each dress that somebody wears: its frame when it comes in, its envelope, from that
   frame, when it is first asked for. Views look through the same ring; nobody has a ring of their own.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from outlast.log.cursor import Cursor
from outlast.log.event import StoredEvent
from outlast.server.readers.view import WHOLE, View
from outlast.wire import native

LIMIT: Final = 1024 * 1024
"""Bytes of frames: some seconds of a talkative run, so that a reader which came back or fell behind need not ask the
store. Envelopes, where anybody wants them, come on top."""
CHUNK: Final = 32 * 1024
"""Bytes given at once. Servers let 64 KiB pile up before they feel a slow client, so with the chunk that goes over
that mark and the one that waits behind it a stalled reader costs 128 KiB (F13)."""
JOINED: Final = 8
"""Joined answers remembered between two pushes: a few views, or a few places, of most readers."""


class Entry:
    """One event, ready to be sent in any dress."""

    __slots__ = ("_envelope", "_epoch", "_time", "frame", "type")

    def __init__(self, stored: StoredEvent) -> None:
        self.type = stored.event.type
        self.frame = native.event_frame(stored)
        self._epoch = stored.epoch
        self._time = stored.time
        self._envelope: bytes | None = None

    @property
    def stored(self) -> StoredEvent:
        """The event, read back from its frame: its payload is kept once."""
        return native.stored_in(self.frame, epoch=self._epoch, time=self._time)

    @property
    def envelope(self) -> bytes:
        """The event whole, as the data of an unnamed frame."""
        if self._envelope is None:
            self._envelope = native.envelope_frame(self.stored)
        return self._envelope

    def dressed(self, view: View) -> bytes:
        """Return the frame that `view` shows."""
        return self.envelope if view.envelope else self.frame


class Ring:
    """Entries after seq `base` up to seq `tail`; `limit` and `chunk` are in bytes."""

    def __init__(self, base: int, *, limit: int = LIMIT, chunk: int = CHUNK) -> None:
        self.base = base
        self.tail = base
        self._limit = limit
        self._chunk = chunk
        self._entries: list[Entry] = []
        self._bytes = 0
        self._joined: dict[tuple[int, View], tuple[bytes, int]] = {}
        # What was asked for last, told by identity: a crowd asks for the same thing, and to hash a view is not cheap.
        self._given_at = -1
        self._given_to = WHOLE
        self._given = (b"", base)

    def push(self, entries: Sequence[Entry]) -> None:
        """Add the entries that follow the tail, and let go of the oldest ones beyond the limit."""
        self._entries += entries
        self.tail += len(entries)
        self._bytes += sum(len(entry.frame) for entry in entries)
        dropped = 0
        while self._bytes > self._limit and dropped < len(self._entries) - 1:
            self._bytes -= len(self._entries[dropped].frame)
            dropped += 1
        del self._entries[:dropped]
        self.base += dropped
        self._joined.clear()
        self._given_at = -1

    def after(self, seq: int, view: View = WHOLE) -> tuple[bytes, int] | None:
        """Return frames after `seq`, joined, at least one and up to the chunk, with the seq that this leads to.

        `b""` and the tail where `view` shows nothing of what is newer, `b""` and `seq` itself where nothing is, None
        when the ring no longer reaches back that far.
        """
        if seq >= self.tail:
            return b"", seq
        if seq == self._given_at and view is self._given_to:
            return self._given
        given = self._joined.get((seq, view))
        if given is None:
            if seq < self.base:
                return None
            given = self._join(seq - self.base, view)
            if len(self._joined) == JOINED:
                self._joined.clear()
            self._joined[seq, view] = given
        self._given_at, self._given_to, self._given = seq, view, given
        return given

    def entries(self, seq: int) -> Iterator[Entry]:
        """Yield the entries after `seq`, which does not lie before the base."""
        for index in range(seq - self.base, len(self._entries)):
            yield self._entries[index]

    def cursor(self, seq: int) -> Cursor:
        """Return the cursor of `seq`, which lies behind the base and not behind the tail."""
        return self._entries[seq - self.base - 1].stored.cursor

    def _join(self, start: int, view: View) -> tuple[bytes, int]:
        frames: list[bytes] = []
        size, end = 0, start
        for end in range(start, len(self._entries)):
            entry = self._entries[end]
            if not view.shows(entry.type):
                continue
            frame = entry.dressed(view)
            size += len(frame)
            if frames and size > self._chunk:
                return b"".join(frames), self.base + end
            frames.append(frame)
        return b"".join(frames), self.tail
