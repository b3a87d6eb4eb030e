"""Who may write: one claim at a time, fenced by its epoch, giving way to proof alone."""

from collections.abc import Iterator
from itertools import pairwise

from outlast import facts
from outlast.run import Token
from outlast.testing.history import History
from outlast.testing.observation import (
    Appended,
    Claimed,
    FactReported,
    FenceRaised,
    RowSeen,
    Settled,
)


def single_authority(history: History) -> Iterator[str]:
    """Find writes that a log took from behind its fence: of a lower epoch, or of the same and another claim."""
    fences: dict[str, Token] = {}
    for each in history.observations:
        match each:
            case FenceRaised(log=log, token=token) | Appended(log=log, token=token):
                fence = fences.setdefault(log, token)
                if token.epoch < fence.epoch or (token.epoch == fence.epoch and token != fence):
                    yield f"log {log} took {type(each).__name__} of epoch {token.epoch} behind its fence {fence.epoch}"
                fences[log] = max(fence, token, key=lambda one: one.epoch)
            case Settled(after=after):
                fences[after.log] = Token(epoch=after.epoch, claim=after.claim or "")
            case _:
                pass


def epochs_rise(history: History) -> Iterator[str]:
    """Find claims that do not raise the epoch by one, or share one, and rows that show a lower one than before."""
    claims: dict[tuple[str, int], str | None] = {}
    for each in history.observations:
        match each:
            case Claimed(before=before, after=after):
                if after.epoch != before.epoch + 1:
                    yield f"a claim took run {after.id} from epoch {before.epoch} to {after.epoch}"
                if claims.setdefault((after.log, after.epoch), after.claim) != after.claim:
                    yield f"two claims share epoch {after.epoch} of run {after.id}"
            case _:
                pass
    for log, seen in history.rows_seen().items():
        for earlier, later in pairwise(seen):
            if later.row.epoch < earlier.row.epoch:
                yield f"the epoch of log {log} fell from {earlier.row.epoch} to {later.row.epoch}"


def hand_over_by_proof(history: History) -> Iterator[str]:
    """Find controllers that stood down though no other claim and no outcome had taken their run."""
    newest: dict[str, tuple[int, bool]] = {}
    for each in history.observations:
        match each:
            case RowSeen(row=row) | Claimed(after=row) | Settled(after=row):
                newest[row.log] = (row.epoch, row.status.is_terminal)
            case FactReported(fact=facts.ControllerStoodDown(run=log, epoch=epoch)):
                seen, settled = newest.get(log, (0, False))
                if seen <= epoch and not settled:
                    yield f"the controller of epoch {epoch} stood down though log {log} has seen no newer claim"
            case _:
                pass
