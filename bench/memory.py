"""Row *idle-memory*: what a reader costs while nothing is said, and one that takes nothing of what is said."""

from collections.abc import Sequence
from contextlib import closing

from bench.crowd import Crowd, Teller
from bench.fanout import MOUNTED, OURS, RAW, SERVERS, lacks, staged, tell
from bench.measure import Goal, Kind, Quantity, Row, Sample
from bench.record import say

READER = "memory per idle reader"
INSIDE = "memory per idle reader, mounted in FastAPI"
STALLED = "memory per stalled reader"
WARM = 0.05
"""How many readers come before those that count: the first ones of a process pay for what all of them share."""
TAKEN = 4096
"""Bytes that the kernel takes for a reader that reads nothing."""
BATCH = 64
"""Texts said at once to those who take none."""


def resting(kind: Sequence[str], readers: int) -> float:
    """Return the bytes for each of so many readers, once everybody has heard one event."""
    with (
        staged(kind) as (server, url),
        closing(Teller(server.url)) as teller,
        Crowd([url] * int(1 + WARM * readers)) as first,
    ):
        tell(teller, first, 0, 1)
        before = server.memory()
        with Crowd([url] * readers) as crowd:
            tell(teller, crowd, 1, 1)
            used = server.memory() - before
        first.until(say(1).encode())
        first.check(2)
    return used / readers


def stalled(readers: int, texts: int) -> float:
    """Return the bytes for each of so many readers that take nothing of as many texts as fill every buffer."""
    with staged(OURS) as (server, url), closing(Teller(server.url)) as teller, Crowd([url]) as first:
        for number in range(texts // BATCH):  # the ring is full, and whatever else grows has grown
            tell(teller, first, number, BATCH)
        with Crowd([url] * 2, buffer=TAKEN):
            before = server.memory()
        with Crowd([url] * readers, buffer=TAKEN):
            for number in range(texts // BATCH, 2 * (texts // BATCH)):
                tell(teller, first, number, BATCH)
            used = server.memory() - before
        first.check(2 * (texts // BATCH) * BATCH)
    return used / readers


def everything(readers: int, texts: int) -> Sample:
    """Return all of ours."""
    return {
        READER: resting(OURS, readers) / 1024,
        INSIDE: resting(MOUNTED, readers) / 1024,
        STALLED: stalled(max(2, readers // 20), texts) / 1024,
    }


def row(share: float) -> Row:
    """Ask about memory."""
    readers = max(20, int(2000 * share))
    return Row(
        question=f"{readers:,} readers of one run at sockets that hear nothing, and some that take nothing.",
        quantities={
            READER: Quantity(unit="KiB", kind=Kind.COST),
            INSIDE: Quantity(unit="KiB", kind=Kind.COST),
            STALLED: Quantity(unit="KiB", kind=Kind.COST),
        },
        ours=lambda: everything(readers, max(2 * BATCH, int(20_000 * share))),
        references={RAW: lambda: {READER: resting(SERVERS[RAW], readers) / 1024, INSIDE: 0.0, STALLED: 0.0}},
        goals=[
            Goal(quantity=READER, bound=14.0),
            Goal(quantity=READER, reference=RAW),
            Goal(quantity=INSIDE, bound=32.0),
            Goal(quantity=STALLED, bound=128.0),
        ],
        lacks=lacks(),
    )
