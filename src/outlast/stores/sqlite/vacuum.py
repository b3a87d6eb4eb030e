"""Gives the room of what was deleted back to the disk, some pages at a time.

SQLite moves pages from the end of the file to where there is room and cuts the file off; each page moved is a page
written. Some room is kept: the next events would only make the file grow again.
"""

from typing import Final

from outlast.stores.sqlite.checkpoint import PAGE, WAKE_BYTES
from outlast.stores.sqlite.transaction import Query, Transaction

STEP: Final = 64
"""Pages of one step: about as much writing as one group of appends."""
SPARE_PAGES: Final = 256
"""Free pages (1 MiB) that are always left alone."""
SPARE_SHARE: Final = 8
"""Of a large file one page in so many may be free: the file is at most a seventh larger than what is in it."""


def is_wanted(query: Query) -> bool:
    """Say whether the file has more room than it should keep."""
    return _excess(query) > 0


def step(transaction: Transaction) -> None:
    """Give some room back."""
    pages = min(STEP, _excess(transaction))
    transaction.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()  # each page is freed as a row is fetched
    # The file itself shrinks at the next checkpoint: after the last step it is time for one.
    transaction.size += pages * PAGE // 2 if is_wanted(transaction) else WAKE_BYTES


def _excess(query: Query) -> int:
    free: int = query.execute("PRAGMA freelist_count").fetchone()[0]
    pages: int = query.execute("PRAGMA page_count").fetchone()[0]
    return free - max(SPARE_PAGES, pages // SPARE_SHARE)
