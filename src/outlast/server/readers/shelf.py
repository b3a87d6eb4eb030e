"""Pages that were read from logs, joined and ready to be sent: a crowd that comes to a log reads it once.

Rules:
1. A page is kept for whoever comes to its place next, readers that are gone included: five hundred that come to a
   finished log are rarely all at the same page.
2. What is kept is bounded in bytes, over all logs of the node. The page that was used longest ago goes first.
   A page of which a view shows nothing has its weight too: nobody fills the memory with places.
3. A page that is being sent is found as long as anybody sends it, whatever its size: one huge event is one copy.
4. What lies behind a place never changes, so a page is never wrong. At most it ends before the log does by now.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from outlast.server.readers.view import View

LIMIT: Final = 8 * 1024 * 1024
"""Bytes of pages: some thirty thousand short events, or the newest megabytes of a few dozen logs."""

OVERHEAD: Final = 512
"""Bytes that a page takes beside its frames: itself, and where it is found."""

Spot: TypeAlias = tuple[str, int, View]
"""Where a page begins: its log, the seq before it, and what is shown of it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class FramedPage:
    """Frames, joined, and the seq that they lead to."""

    chunk: bytes
    seq: int

    @property
    def weight(self) -> int:
        """The bytes that it takes where it is kept."""
        return len(self.chunk) + OVERHEAD


class Shelf:
    """Keeps pages by where they begin; `limit` is in bytes."""

    def __init__(self, *, limit: int = LIMIT) -> None:
        self.bytes = 0
        self._limit = limit
        self._kept: OrderedDict[Spot, FramedPage] = OrderedDict()
        self._alive: WeakValueDictionary[Spot, FramedPage] = WeakValueDictionary()

    def find(self, spot: Spot) -> FramedPage | None:
        """Return the page that begins there, if it is kept or being sent."""
        page = self._kept.get(spot)
        if page is None:
            return self._alive.get(spot)
        self._kept.move_to_end(spot)
        return page

    def keep(self, spot: Spot, page: FramedPage) -> None:
        """Keep a page, and let go of others beyond the limit; one larger than that costs none its place."""
        self._alive[spot] = page
        before = self._kept.pop(spot, None)
        if before is not None:
            self.bytes -= before.weight
        if page.weight > self._limit:
            return
        self._kept[spot] = page
        self.bytes += page.weight
        while self.bytes > self._limit:
            _, oldest = self._kept.popitem(last=False)
            self.bytes -= oldest.weight
