"""The native wire: who held a run, claim by claim."""

from outlast.lineage import Lineage
from outlast.log.event import JSON
from outlast.run import Run
from outlast.wire.status import moment


def lineage_document(run: Run, lineage: Lineage) -> dict[str, JSON]:
    """Return who held a run, oldest first; `log` is the identity that its chain of cursors begins with."""
    entries: list[JSON] = [
        {
            "epoch": entry.epoch,
            "claim": entry.claim,
            "node": entry.node,
            "at": moment(entry.at),
            "kind": entry.kind.value,
            "cause": None if entry.cause is None else entry.cause.value,
            "calls": entry.calls,
        }
        for entry in lineage
    ]
    return {"id": run.id, "log": run.log, "epoch": run.epoch, "lineage": entries}
