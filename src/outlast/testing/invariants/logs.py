"""What a log holds: every event once, chained, its terminal last, and what its readers took of it."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from outlast.log.cursor import Cursor, advance, origin
from outlast.log.event import StoredEvent
from outlast.log.fold import fold
from outlast.run import Status, terminal
from outlast.testing.history import History
from outlast.testing.observation import (
    Appended,
    EventTaken,
    GapTold,
    ReadingEnded,
)

TERMINALS: Final = frozenset(f"run.{status.value}" for status in Status if status.is_terminal)
"""Types of the last event of a log."""


def dense_chain(history: History) -> Iterator[str]:
    """Find logs with a hole, or with an event whose cursor does not continue its predecessor's."""
    for log, stored in history.logs.items():
        cursor = origin(log)
        for each in stored:
            cursor = advance(cursor, each.event)
            if each.cursor != cursor:
                yield f"log {log} holds {each.cursor} where {cursor} belongs"
                break


def one_terminal(history: History) -> Iterator[str]:
    """Find logs that do not end with the one terminal event their row says, and terminals without an outcome."""
    for log, stored in history.logs.items():
        found = [each for each in stored if each.event.type in TERMINALS]
        row = history.rows.get(log)
        if row is None or row.outcome is None:
            if found:
                yield f"log {log} has a terminal event and its run no outcome"
        elif len(found) != 1 or stored[-1] is not found[0]:
            yield f"log {log} has {len(found)} terminal events, or something behind one"
        elif found[0].event != terminal(row.outcome):
            yield f"the row of log {log} says {row.status}, its last event {found[0].event.type}"


def no_invented_seq(history: History) -> Iterator[str]:
    """Find places told to a reader or a controller that the log does not hold."""
    for each in history.of(Appended):
        if each.head.seq != each.previous.seq + len(each.events):
            yield f"an append of {len(each.events)} events moved log {each.log} from {each.previous} to {each.head}"
        if each.head != _cursor_at(history, each.log, each.head.seq):
            yield f"an append was answered {each.head}, which log {each.log} does not hold"
    for taken in history.of(EventTaken):
        if _cursor_at(history, taken.log, taken.stored.seq) is None:
            yield f"reader {taken.reader} was told {taken.stored.cursor}, which log {taken.log} does not hold"


def snapshot_of_the_log(history: History) -> Iterator[str]:
    """Find logs of which folding a beginning and going on from there is not folding the whole."""
    for log, stored in history.logs.items():
        whole = fold(stored)
        for place in {len(stored) // 3, len(stored) // 2, max(len(stored) - 1, 0)}:
            if fold([*fold(stored[:place]), *stored[place:]]) != whole:
                yield f"the snapshot of log {log} after {place} events does not go on to the whole"


def one_log(history: History) -> Iterator[str]:
    """Find events a reader took that are not the log's own at that place, or out of turn, unless a gap was told."""
    places: dict[str, int] = {}
    for each in history.observations:
        match each:
            case GapTold(reader=reader, gap=gap):
                places[reader] = gap.first - 1
            case EventTaken(reader=reader, log=log, stored=stored):
                place = places.get(reader, 0) + 1
                if stored.seq != place:
                    yield f"reader {reader} took {stored.seq} where {place} was next"
                places[reader] = stored.seq
                if stored.cursor != _cursor_at(history, log, stored.seq):
                    yield f"reader {reader} took {stored.cursor}, and log {log} has another event there"
            case _:
                pass


def reader_saw_the_log(history: History) -> Iterator[str]:
    """Find readers that were told the end and did not take exactly the log: every seq, type and byte."""
    taken: defaultdict[str, list[StoredEvent]] = defaultdict(list)
    gaps: set[str] = set()
    for each in history.observations:
        match each:
            case EventTaken(reader=reader, stored=stored):
                taken[reader].append(stored)
            case GapTold(reader=reader):
                gaps.add(reader)
            case ReadingEnded(reader=reader, log=log) if reader not in gaps:
                said = [(one.cursor, one.event) for one in taken[reader]]
                if said != [(one.cursor, one.event) for one in history.logs.get(log, ())]:
                    yield f"reader {reader} was told the end of log {log} and had not taken just what it holds"
            case _:
                pass


def durable_before_visible(history: History) -> Iterator[str]:
    """Find events that a reader took and the store did not hold at that moment."""
    for each in history.of(EventTaken):
        if not each.durable:
            yield f"reader {each.reader} took {each.stored.cursor} before the store had it"


def _cursor_at(history: History, log: str, seq: int) -> Cursor | None:
    stored = history.logs.get(log, ())
    return stored[seq - 1].cursor if 0 < seq <= len(stored) else None
