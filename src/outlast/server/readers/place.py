"""Where in a log a reader goes on: right behind its cursor, or, told as a gap, at the first event still readable."""

from dataclasses import dataclass, replace

from outlast.log.cursor import Cursor, Gap, find_gap
from outlast.stores.base import Head, LogStore
from outlast.wire.native import Bridge


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A reader gets the events after seq `after`; `head` is where the log stood when that was decided.

    A gap may have a `bridge`: then what lies before `after` is in a snapshot.
    """

    after: int
    head: Head
    gap: Gap | None
    bridge: Bridge | None = None

    @property
    def is_end(self) -> bool:
        """Whether nothing is left to be read and nothing will ever come."""
        return self.head.sealed and self.gap is None and self.after == self.head.cursor.seq

    def bridged(self, bridge: Bridge) -> "Place":
        """Return the place behind a gap from which reading goes on over `bridge`."""
        return replace(self, after=bridge.cursor.seq, bridge=bridge)

    def behind(self, cursor: Cursor) -> "Place":
        """Return the place behind `cursor`, which lies in what may be read from here."""
        return replace(self, after=cursor.seq)


async def locate(logs: LogStore, log: str, requested: Cursor) -> Place:
    """Decide where reading behind `requested` goes on, at the cost of the head and one indexed read (F6).

    Raises `RunNotFound` for an unknown log, `StoreError`.
    """
    head = await logs.head(log)
    found = None
    if requested.chain is not None and 0 < requested.seq <= head.cursor.seq:
        found = await logs.chain_at(log, requested.seq)
    gap = find_gap(requested, head=head.cursor, first=head.first, found=found)
    return Place(after=requested.seq if gap is None else head.first - 1, head=head, gap=gap)
