"""What is left of a log for someone who reads it only now.

Rules:
1. `run.restarted {keep}` folds away every event after seq `keep` that came before it, but not the run's own
   `run.*` events: who took over, and why, stays readable.
2. Adjacent `text` events become one whose data is their concatenation and whose cursor is the last one's. It is full
   with `MERGED` characters, and the next text begins another: whoever folds a giant log holds one of them at a time.
3. What is taken back is known only at the end, so a log is gone through twice: once for its rewinds, once for what
   they leave. Neither pass holds the log, and both may stop after any event.
4. Folding a prefix and going on from its end equals folding the whole (F8), wherever the prefix ends. A fold keeps
   cursors, and no text is merged across one of the run's own events; every `keep` is 0 or the seq of such an event
   (`run.checkpoint`), so it lies before a merged text or behind it, never inside.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from outlast.log.event import OWN_PREFIX, Event, StoredEvent

RESTARTED: Final = "run.restarted"
TEXT: Final = "text"
MERGED: Final = 256 * 1024
"""Characters after which a merged text is full: encoded in about a millisecond, and longer than what people read."""


class Rewinds:
    """What the restarts of a log took back; `note` its events in order, then ask which of them are kept."""

    def __init__(self) -> None:
        self._seqs: list[int] = []
        self._keeps: list[int] = []

    def note(self, stored: StoredEvent) -> None:
        """Take in one event of the log."""
        if stored.event.type != RESTARTED:
            return
        keep = kept_seq(stored.event)
        for index in range(len(self._keeps) - 1, -1, -1):  # what this one takes back, no earlier one gives again
            if self._keeps[index] <= keep:
                break
            self._keeps[index] = keep
        self._seqs.append(stored.seq)
        self._keeps.append(keep)

    def keeps(self, stored: StoredEvent) -> bool:
        """Say whether an event of the log is still there: it is Outlast's own, or no later restart took it back."""
        later = bisect_right(self._seqs, stored.seq)
        return later == len(self._seqs) or stored.seq <= self._keeps[later] or stored.event.type.startswith(OWN_PREFIX)


class Merger:
    """Makes one `text` of adjacent ones; what it holds back comes with the next other event, or with `flush`."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._length = 0
        self._last: StoredEvent | None = None

    def add(self, stored: StoredEvent) -> Iterator[StoredEvent]:
        """Take in the next event, and return what is complete now."""
        if stored.event.type == TEXT and isinstance(text := stored.event.data, str):
            self._texts.append(text)
            self._length += len(text)
            self._last = stored
            if self._length >= MERGED:
                yield from self.flush()
            return
        yield from self.flush()
        yield stored

    def flush(self) -> Iterator[StoredEvent]:
        """Return the text that nothing follows."""
        if self._last is not None:
            yield replace(self._last, event=Event(TEXT, "".join(self._texts)))
            self._texts, self._length, self._last = [], 0, None


def rewind(events: Iterable[StoredEvent]) -> list[StoredEvent]:
    """Return `events` without those a later `run.restarted` took back."""
    events = list(events)
    rewinds = Rewinds()
    for stored in events:
        rewinds.note(stored)
    return [stored for stored in events if rewinds.keeps(stored)]


def kept_seq(event: Event) -> int:
    """Return the seq up to which a `run.restarted` keeps what was said; 0 when it does not tell."""
    data = event.data
    keep = data.get("keep", 0) if isinstance(data, dict) else 0
    return keep if isinstance(keep, int) else 0


def fold(events: Iterable[StoredEvent]) -> list[StoredEvent]:
    """Return the snapshot of a log: after rewinds, with adjacent text merged."""
    merger = Merger()
    folded = [whole for stored in rewind(events) for whole in merger.add(stored)]
    return [*folded, *merger.flush()]
