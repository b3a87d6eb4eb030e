"""Whether a run's log, its lineage and its row tell one story; fed with the log event by event, it names what does not.

Rules:
1. The chain is counted anew from the log's identity: a cursor that was written down is compared, never believed.
2. A finding is a sentence about one fact. Nothing a worker said stands in it.
3. A log that begins later than its first event is taken at its word where it begins, and that is told.
4. A run from before lineages were kept has none for its first epochs: that is told, and is nothing wrong.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from outlast.lineage import Kind, Lineage
from outlast.log.cursor import Cursor, advance, origin
from outlast.log.event import OWN_PREFIX, Event
from outlast.run import TERMINALS, Status

MOST: Final = 20
"""Findings that are told: a log that is wrong from one event on is wrong in all that follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What the row says of a run: where it stands, its epoch, what was charged, where its log begins and ends."""

    status: Status
    epoch: int
    takeovers: int
    handoffs: int
    calls: int
    head: Cursor
    first: int


@dataclass(slots=True)
class Audit:
    """One run under audit: `take` every event of its log in order, then `close` with its row and its lineage."""

    log: str
    first: int = 1
    findings: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    events: int = 0
    _counted: Cursor = field(init=False)
    _terminal: str | None = None

    def __post_init__(self) -> None:
        """Begin at the log's origin."""
        self._counted = origin(self.log) if self.first == 1 else Cursor(self.first - 1, None)
        if self.first > 1:
            self.notes.append(f"The log begins at event {self.first}: its chain is taken at its word there.")

    @property
    def cursor(self) -> Cursor:
        """Where the events taken so far end."""
        return self._counted

    def take(self, cursor: Cursor, event: Event) -> None:
        """Take the event that the log has at `cursor`. Source: L1."""
        self.events += 1
        if cursor.seq != self._counted.seq + 1:
            self._find(f"Event {cursor.seq} follows event {self._counted.seq}: the log has a hole, or an event twice.")
            self._counted = cursor  # what follows is judged from here
        elif self._counted.chain is None:
            self._counted = cursor
        else:
            self._counted = advance(self._counted, event)
            if cursor.chain is not None and cursor.chain != self._counted.chain:
                self._find(f"Event {cursor.seq} does not continue the chain: it is not what was written.")
                self._counted = cursor
        if self._terminal is not None:
            self._find(f"Event {cursor.seq} follows the terminal event.")
        self._terminal = event.type if event.type in TERMINALS else self._terminal

    def close(self, account: Account, lineage: Lineage) -> list[str]:
        """Compare the log with the row and the lineage, and return all findings; none: they tell one story."""
        self._compare(account)
        self._trace(account, lineage)
        if len(self.findings) > MOST:
            self.findings[MOST:] = [f"And {len(self.findings) - MOST} more."]
        return self.findings

    def _compare(self, account: Account) -> None:
        if self._counted.seq != account.head.seq:
            self._find(f"The log ends at event {self._counted.seq}, and its head says {account.head.seq}.")
        elif None not in (self._counted.chain, account.head.chain) and account.head.chain != self._counted.chain:
            self._find("The head's chain is not the one of the last event.")
        expected = f"{OWN_PREFIX}{account.status.value}" if account.status.is_terminal else None
        if self._terminal != expected:
            said = "has no terminal event" if self._terminal is None else f"says {self._terminal}"
            self._find(f"The run is {account.status.value}, and its log {said}.")

    def _trace(self, account: Account, lineage: Lineage) -> None:
        if not lineage:
            if account.epoch:
                self.notes.append("The run was claimed before lineages were kept.")
            return
        first, newest = lineage[0], lineage[-1]
        if newest.epoch != account.epoch:
            self._find(f"The run has epoch {account.epoch}, and its lineage ends at {newest.epoch}.")
        if newest.calls > account.calls:
            self._find(f"The lineage counts {newest.calls} calls, and the row {account.calls}.")
        self._follow(lineage)
        if first.epoch > 1:
            self.notes.append(f"Lineages were not kept before epoch {first.epoch} of this run.")
            return
        for kind, charged in ((Kind.TAKEOVER, account.takeovers), (Kind.HANDOFF, account.handoffs)):
            counted = sum(entry.kind is kind for entry in lineage)
            if counted != charged:
                self._find(f"The lineage counts {counted} of kind {kind.value}, and the row charged {charged}.")

    def _follow(self, lineage: Lineage) -> None:
        for before, entry in pairwise(lineage):
            if entry.epoch != before.epoch + 1:
                self._find(f"Epoch {entry.epoch} follows epoch {before.epoch} in the lineage.")
            if entry.at < before.at or entry.calls < before.calls:
                self._find(f"Epoch {entry.epoch} has an earlier time, or fewer calls, than the one before it.")
            if before.kind is Kind.SETTLE:
                self._find(f"Epoch {entry.epoch} follows the settling of the run.")

    def _find(self, finding: str) -> None:
        self.findings.append(finding)
