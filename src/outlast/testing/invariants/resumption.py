"""What a resume worker goes on from: just what its readers keep, and a state that belongs to it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from outlast.log.event import CHECKPOINT, OWN_PREFIX, Event, StoredEvent
from outlast.log.fold import RESTARTED, rewind
from outlast.run import Status
from outlast.testing.history import History
from outlast.testing.observation import CallEnded, CallResumed, Checkpointed

OPENING: Final = frozenset({"run.started", RESTARTED})
"""Types of the event with which a controller begins."""


def goes_on_where_readers_are(history: History) -> Iterator[str]:
    """Find calls that got back something else than readers keep at that place, or a state that is not of that place."""
    for each in history.of(CallResumed):
        kept = list(each.kept)
        if each.counted is not None and each.counted != len(kept):
            yield f"call {each.number} of run {each.run} got {len(kept)} events, and a state behind {each.counted}"
        stored = history.logs.get(history.log_of(each.run) or "", ())
        openings = [one.seq for one in stored if one.event.type in OPENING and one.epoch == each.epoch]
        if openings and not any(_said(stored[:seq]) == kept for seq in openings):
            yield f"call {each.number} of run {each.run} got back {len(kept)} events that are not what readers keep"


def ends_as_the_worker_believes(history: History) -> Iterator[str]:
    """Find completed runs whose readers are left with something else than the last call got back and said."""
    resumed = {(each.run, each.number): list(each.kept) for each in history.of(CallResumed)}
    last = {(each.run, each.epoch): each for each in history.of(CallEnded)}
    for row in history.rows.values():
        call = last.get((row.id, row.epoch))
        if row.status is not Status.COMPLETED or call is None or (row.id, call.number) not in resumed:
            continue
        if _said(history.logs[row.log]) != resumed[row.id, call.number] + list(call.said):
            yield f"readers of run {row.id} are left with something else than call {call.number} believes"


def checkpoints_are_in_the_log(history: History) -> Iterator[str]:
    """Find checkpoints whose place in the log is no `run.checkpoint`."""
    for each in history.of(Checkpointed):
        stored = history.logs.get(history.log_of(each.run) or "", ())
        if each.seq > len(stored) or stored[each.seq - 1].event.type != CHECKPOINT:
            yield f"a checkpoint of run {each.run} names seq {each.seq}, where its log has none"


def _said(stored: Sequence[StoredEvent]) -> list[Event]:
    return [event for event in _events(rewind(stored)) if not event.type.startswith(OWN_PREFIX)]


def _events(stored: Iterable[StoredEvent]) -> Iterator[Event]:
    return (each.event for each in stored)
