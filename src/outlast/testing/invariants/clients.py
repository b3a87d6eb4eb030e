"""What an application receives that follows a log: each event once, in order, as it is stored, or told what is missing.

Rules:
1. An application that comes back with the cursor it kept has forgotten what it took behind it: that comes again.
2. After a gap its snapshot stands for all that came before. What was taken before a gap that is no mere trimming is
   not held against the log: it was another log.
3. The log may have lost its beginning, but not what is left behind a gap's `first`: a snapshot is held against that.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from outlast.client.received import ReceivedEvent, ReceivedGap
from outlast.log.cursor import Cursor, GapReason
from outlast.log.event import StoredEvent
from outlast.log.fold import fold
from outlast.run import TERMINALS
from outlast.testing.history import History
from outlast.testing.observation import CursorKept, Delivered, FollowBegan, FollowEnded

START: Final = Cursor(0, None)
_Seen: TypeAlias = FollowBegan | Delivered | CursorKept | FollowEnded


@dataclass(slots=True)
class _Reading:
    """What an application knows: the places it may come back to, the newest gap, and what it took since."""

    log: str = ""
    begun: bool = False
    over: bool = False
    places: list[Cursor] = field(default_factory=lambda: [START])
    gap: ReceivedGap | None = None
    taken: list[ReceivedEvent] = field(default_factory=list[ReceivedEvent])

    @property
    def place(self) -> Cursor:
        return self.places[-1]

    def apply(self, seen: _Seen) -> None:
        self.log = seen.log
        match seen:
            case FollowBegan(after=after):
                self._return_to(after)
            case Delivered(received=ReceivedEvent() as event):
                self.taken.append(event)
                self.places.append(event.cursor)
                self.over = event.is_terminal
            case Delivered(received=ReceivedGap() as gap):
                self.gap, self.taken = gap, []
                self.places = [START, gap.cursor]
                self.over = gap.is_end
            case _:
                pass

    def _return_to(self, after: Cursor) -> None:
        self.over = self.over and after == self.place
        self.places = [place for place in self.places if place.seq < after.seq] + [after]
        self.taken = [event for event in self.taken if event.seq <= after.seq]
        if self.gap is not None and after.seq < self.gap.cursor.seq:
            self.gap = None
        self.begun = True


def exactly_once(history: History) -> Iterator[str]:
    """Find what was taken twice, out of turn or over a hole that no gap told, and cursors past what was taken."""
    for seen, reading in _walk(history):
        match seen:
            case Delivered(received=ReceivedEvent() as event) if event.seq != reading.place.seq + 1:
                yield f"reader {seen.reader} took {event.cursor} where {reading.place.seq + 1} was next"
            case CursorKept(cursor=cursor) if cursor not in reading.places:
                yield f"reader {seen.reader} kept {cursor} and had taken up to {reading.place}"
            case FollowBegan(after=after) if reading.begun and after not in reading.places:
                yield f"reader {seen.reader} came back with {after} and had taken up to {reading.place}"
            case _:
                pass


def same_bytes(history: History) -> Iterator[str]:
    """Find what was taken that is not, byte for byte, what the log holds at that place."""
    taken: defaultdict[tuple[str, str], list[ReceivedEvent]] = defaultdict(list)
    for seen, _ in _walk(history):
        match seen:
            case Delivered(received=ReceivedEvent() as event):
                taken[seen.reader, seen.log].append(event)
            case Delivered(received=ReceivedGap(reason=reason)) if reason != GapReason.TRIMMED:
                taken[seen.reader, seen.log] = []
            case _:
                pass
    for (reader, log), events in taken.items():
        held = {stored.seq: stored for stored in history.logs.get(log, ())}
        for event in events:
            stored = held.get(event.seq)
            if stored is None and event.seq < min(held, default=0):
                continue  # trimmed since
            if stored is None:
                yield f"reader {reader} took {event.cursor}, which log {log} does not hold"
            elif (stored.cursor, stored.event) != (event.cursor, event.event):
                yield f"reader {reader} took {event.cursor}, and log {log} has another event there"


def gaps_are_bridged(history: History) -> Iterator[str]:
    """Find gaps of which the snapshot, and what followed it, is not what is left of the log."""
    readings: dict[tuple[str, str], _Reading] = {}
    for seen, reading in _walk(history):
        readings[seen.reader, seen.log] = reading
        if isinstance(seen, Delivered) and isinstance(seen.received, ReceivedGap):
            yield from _unbridged(seen.reader, reading, history)  # the one before, which this one replaces
    for (reader, _), reading in readings.items():
        yield from _unbridged(reader, reading, history)


def terminal_is_last(history: History) -> Iterator[str]:
    """Find what was taken behind a terminal event, and ends that were told before the log's own."""
    for seen, reading in _walk(history):
        match seen:
            case Delivered(received=received) if reading.over:
                yield f"reader {seen.reader} took {received.cursor} behind the terminal event"
            case FollowEnded():
                stored = history.logs.get(seen.log, ())
                if not stored or stored[-1].event.type not in TERMINALS or stored[-1].seq != reading.place.seq:
                    yield f"reader {seen.reader} was told the end of log {seen.log} at {reading.place}"
            case _:
                pass


def _walk(history: History) -> Iterator[tuple[_Seen, _Reading]]:
    """Return what applications did, each with what they knew right before it."""
    readings: defaultdict[tuple[str, str], _Reading] = defaultdict(_Reading)
    for each in history.observations:
        if isinstance(each, FollowBegan | Delivered | CursorKept | FollowEnded):
            reading = readings[each.reader, each.log]
            yield each, reading
            reading.apply(each)


def _unbridged(reader: str, reading: _Reading, history: History) -> Iterator[str]:
    gap, stored = reading.gap, history.logs.get(reading.log, ())
    if gap is None:
        return
    left = [each for each in stored if gap.first <= each.seq <= reading.place.seq]
    if stored and stored[0].seq > gap.first:
        yield f"log {reading.log} begins at {stored[0].seq}, and the gap of reader {reader} at {gap.first}"
    elif gap.cursor.seq >= gap.first and gap.cursor not in {each.cursor for each in left}:
        yield f"reader {reader} was told a gap up to {gap.cursor}, which log {reading.log} does not hold"
    elif _meaning(fold(_stored([*gap.snapshot, *reading.taken]))) != _meaning(fold(left)):
        yield f"the snapshot of reader {reader} up to {gap.cursor}, with what followed, is not log {reading.log}"


def _stored(events: Sequence[ReceivedEvent]) -> list[StoredEvent]:
    return [StoredEvent(cursor=each.cursor, event=each.event, epoch=0, time=0.0) for each in events]


def _meaning(events: Iterable[StoredEvent]) -> list[tuple[Cursor, str, str, str]]:
    """Return events as they read: a snapshot writes JSON anew, on one line."""
    meaning: list[tuple[Cursor, str, str, str]] = []
    for each in events:
        data = each.event.data
        read = data.hex() if isinstance(data, bytes) else json.dumps(data, sort_keys=True)
        meaning.append((each.cursor, each.event.type, each.event.content_type, read))
    return meaning
