"""What was observed of runs under test, in order, to be judged by the promises it must keep.

    history = History(policy=RecoveryPolicy())
    store = FaultyStore(Witness(inner, history.note, node="node-1"))
    ...
    history.finish(rows, logs)
    check(history)                   # raises Violation, with a sentence for each promise broken

The promises themselves are functions in `outlast.testing.invariants`. They look at the whole history, so what held
only for a moment is found as well.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TypeVar

from outlast.log.event import StoredEvent
from outlast.recovery import RecoveryPolicy
from outlast.run import Run
from outlast.testing.observation import Observation, RowSeen

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class History:
    """Observations in order, and how everything stood at the end.

    `rows` are the final rows and `logs` the final logs, both by the log's identity. An observation is written down
    when its answer came.
    """

    policy: RecoveryPolicy = field(default_factory=RecoveryPolicy)
    observations: list[Observation] = field(default_factory=list[Observation])
    rows: dict[str, Run] = field(default_factory=dict[str, Run])
    logs: dict[str, Sequence[StoredEvent]] = field(default_factory=dict[str, Sequence[StoredEvent]])

    def note(self, observation: Observation) -> None:
        """Write one observation down."""
        self.observations.append(observation)

    def finish(self, rows: Iterable[Run], logs: Mapping[str, Sequence[StoredEvent]]) -> None:
        """Write down how everything stands at the end."""
        self.rows = {row.log: row for row in rows}
        self.logs = dict(logs)

    def of(self, kind: type[T]) -> Iterator[T]:
        """Return the observations of one kind, in order."""
        return (each for each in self.observations if isinstance(each, kind))

    def rows_seen(self) -> dict[str, list[RowSeen]]:
        """Return what was seen of each row, by the log's identity."""
        seen: dict[str, list[RowSeen]] = {}
        for each in self.of(RowSeen):
            seen.setdefault(each.row.log, []).append(each)
        return seen

    def log_of(self, run: str) -> str | None:
        """Return the identity of the log of the run with this id, None when no row of it was ever seen."""
        return next((each.row.log for each in self.of(RowSeen) if each.row.id == run), None)

    def digest(self) -> str:
        """Return a hash over everything: the same for the same history, whatever the process."""
        digest = blake2b(digest_size=16)
        for each in self.observations:
            digest.update(repr(_nameless(each)).encode(errors="backslashreplace"))
        for log in sorted(self.logs):
            digest.update(repr(self.logs[log]).encode(errors="backslashreplace"))
        return digest.hexdigest()


def _nameless(observation: Observation) -> Observation:
    """Leave out the claim id of a run that a stop settled: the store mints it by itself, another one each time."""
    match observation:
        case RowSeen(row=row) if row.status.is_terminal:
            return replace(observation, row=replace(row, claim=None))
        case _:
            return observation
