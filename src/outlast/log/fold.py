"""What is left of a log for someone who reads it only now.

Rules:
1. `run.restarted {keep}` folds away every event after seq `keep` that came before it, but not the run's own
   `run.*` events: who took over, and why, stays readable.
2. Adjacent `text` events become one whose data is their concatenation and whose cursor is the last one's.
3. Folding a prefix and going on from its end equals folding the whole (F8), because a fold keeps cursors; for
   that no later `keep` may lie inside a text that was merged: it is 0, or a place at or past the prefix's end.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from outlast.log.event import OWN_PREFIX, Event, StoredEvent

RESTARTED: Final = "run.restarted"
TEXT: Final = "text"


def rewind(events: Iterable[StoredEvent]) -> list[StoredEvent]:
    """Return `events` without those a later `run.restarted` took back."""
    kept: list[StoredEvent] = []
    for stored in events:
        if stored.event.type == RESTARTED:
            keep = kept_seq(stored.event)
            kept = [earlier for earlier in kept if earlier.seq <= keep or earlier.event.type.startswith(OWN_PREFIX)]
        kept.append(stored)
    return kept


def kept_seq(event: Event) -> int:
    """Return the seq up to which a `run.restarted` keeps what was said; 0 when it does not tell."""
    data = event.data
    keep = data.get("keep", 0) if isinstance(data, dict) else 0
    return keep if isinstance(keep, int) else 0


def fold(events: Iterable[StoredEvent]) -> list[StoredEvent]:
    """Return the snapshot of a log: after rewinds, with adjacent text merged."""
    return list(_merge(rewind(events)))


def _merge(events: Iterable[StoredEvent]) -> Iterator[StoredEvent]:
    pending: list[StoredEvent] = []
    for stored in events:
        if stored.event.type == TEXT and isinstance(stored.event.data, str):
            pending.append(stored)
            continue
        yield from _joined(pending)
        pending = []
        yield stored
    yield from _joined(pending)


def _joined(texts: list[StoredEvent]) -> Iterator[StoredEvent]:
    if texts:
        text = "".join(str(stored.event.data) for stored in texts)
        yield replace(texts[-1], event=Event(TEXT, text))
