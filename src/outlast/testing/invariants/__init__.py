"""The promises that every history keeps: each a function that says, in sentences, where it was broken.

They are named as in `tests/behaviours.toml`. The rules of this room:

1. A promise looks at what the store accepted, at what the worker and the readers saw, and at what was left at the
   end; never at what a node believes.
2. It holds under every fault. What holds only while nothing fails is asked for by name (`rows.quiet`,
   `rows.told_once`, `budget.calls_end_with_their_run`).
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from outlast.testing.history import History
from outlast.testing.invariants import budget, clients, logs, ownership, resumption, rows

Invariant: TypeAlias = Callable[[History], Iterator[str]]

CLIENTS: Final[Mapping[str, Invariant]] = MappingProxyType(
    {
        "client-exactly-once": clients.exactly_once,
        "client-same-bytes": clients.same_bytes,
        "client-gaps-are-bridged": clients.gaps_are_bridged,
        "client-terminal-is-last": clients.terminal_is_last,
    }
)
"""What every application keeps that follows a log, wherever its server is and whatever becomes of its connections."""

INVARIANTS: Final[Mapping[str, Invariant]] = MappingProxyType(
    {
        "single-authority": ownership.single_authority,
        "epochs-rise": ownership.epochs_rise,
        "hand-over-by-proof": ownership.hand_over_by_proof,
        "charge-before-work": budget.charge_before_work,
        "bounded-calls": budget.bounded_calls,
        "budget-with-epoch": budget.budget_with_epoch,
        "not-before": budget.not_before,
        "later-takeovers-wait": budget.later_takeovers_wait,
        "refusal-leaves-the-row": rows.refusal_leaves_the_row,
        "nobody-is-called-after-the-outcome": rows.nobody_is_called_after_the_outcome,
        "legal-transitions": rows.legal_transitions,
        "nobody-forgotten": rows.nobody_forgotten,
        "stop-wins-once": rows.stop_wins_once,
        "every-run-has-its-outcome": rows.every_run_has_its_outcome,
        "dense-chain": logs.dense_chain,
        "one-terminal": logs.one_terminal,
        "no-invented-seq": logs.no_invented_seq,
        "snapshot-of-the-log": logs.snapshot_of_the_log,
        "one-log": logs.one_log,
        "reader-saw-the-log": logs.reader_saw_the_log,
        "durable-before-visible": logs.durable_before_visible,
        "aborts-follow-the-outcome": rows.aborts_follow_the_outcome,
        "goes-on-where-readers-are": resumption.goes_on_where_readers_are,
        "ends-as-the-worker-believes": resumption.ends_as_the_worker_believes,
        "checkpoints-are-in-the-log": resumption.checkpoints_are_in_the_log,
        **CLIENTS,
    }
)
"""What every history keeps once its runs have come to their ends."""


class Violation(AssertionError):
    """A promise was broken; the text says which, and by what."""


def check(history: History, invariants: Mapping[str, Invariant] = INVARIANTS) -> None:
    """Hold a history against the promises, all of them unless told otherwise. Raises `Violation`."""
    broken = [f"{name}: {sentence}" for name, invariant in invariants.items() for sentence in invariant(history)]
    if broken:
        raise Violation("\n".join(broken))
