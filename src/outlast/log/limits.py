"""How much one live run may write, and which event is too large for any run.

Past a limit a run is *refused more log*: the error's code becomes its outcome. Nothing is trimmed in silence.
Outlast's own events (`run.*`, the terminals among them) are exempt, so a full log can still say how it ended, and a
run that was taken over may say as much as one that was not. Checkpoints count: a worker makes them at its own will.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from outlast import number
from outlast.errors import EventTooLarge, LogFull, SettingsError
from outlast.log.event import CHECKPOINT, OWN_PREFIX, Event

MIB: Final = 1024 * 1024
DAY: Final = 86400.0

EVENTS: Final = 200_000
"""A day-long agent at two events a second."""
BYTES: Final = 256 * MIB
"""What a laptop's disk and a cold reader can both bear."""
AGE: Final = 30 * DAY
"""A month: past it nobody is waiting."""
EVENT_BYTES: Final = 8 * MIB
"""One event: a large tool result or image still passes every store and client frame by frame."""
CHECKPOINT_BYTES: Final = MIB
"""The state of a checkpoint: what a worker needs to go on. What is larger belongs where the worker keeps its data."""


def is_counted(event: Event) -> bool:
    """Say whether an event counts towards the limits of its log."""
    return not event.type.startswith(OWN_PREFIX) or event.type == CHECKPOINT


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a log holds so far of what is counted; `opened_at` is when its run was started, by the store's clock."""

    events: int
    bytes: int
    opened_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """Limits of one live run: a count, bytes of payload, seconds since its start, bytes of one event, of one state."""

    events: int = EVENTS
    bytes: int = BYTES
    age: float = AGE
    event_bytes: int = EVENT_BYTES
    checkpoint_bytes: int = CHECKPOINT_BYTES

    def __post_init__(self) -> None:
        """Refuse limits under which no run could say anything (B23)."""
        number.check(self)
        if min(self.events, self.bytes, self.age, self.event_bytes, self.checkpoint_bytes) <= 0:
            raise SettingsError("Every limit of LogLimits must be above 0.")
        if self.event_bytes > self.bytes:
            raise SettingsError(
                f"LogLimits.event_bytes ({self.event_bytes}) is larger than the whole log may be "
                f"({self.bytes} bytes): lower the one or raise the other."
            )

    def check(self, usage: Usage, events: Sequence[Event], *, now: float) -> None:
        """Raise `LogFull` or `EventTooLarge` unless `events` may follow what the log holds.

        `now` is the store's clock. Nothing of a refused batch may be stored. Source: L3, L4, L5.
        """
        counted = [event for event in events if is_counted(event)]
        if not counted:
            return
        if any(len(event.payload) > self.event_bytes for event in counted):
            raise EventTooLarge(f"An event may have at most {self.event_bytes} bytes.")
        if usage.events + len(counted) > self.events:
            raise LogFull(f"A run may write at most {self.events} events.")
        if usage.bytes + sum(len(event.payload) for event in counted) > self.bytes:
            raise LogFull(f"A run may write at most {self.bytes} bytes.")
        if now - usage.opened_at > self.age:
            raise LogFull(f"A run may write for at most {self.age:g} seconds.")
