"""Where in a log a reader goes on: right behind its cursor, or, told as a gap, at the first event still readable."""

from dataclasses import dataclass

from outlast.log.cursor import Cursor, Gap, find_gap
from outlast.stores.base import Head, LogStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A reader gets the events after seq `after`; `head` is where the log stood when that was decided."""

    after: int
    head: Head
    gap: Gap | None

    @property
    def is_end(self) -> bool:
        """Whether nothing is left to be read and nothing will ever come."""
        return self.head.sealed and self.gap is None and self.after == self.head.cursor.seq


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
