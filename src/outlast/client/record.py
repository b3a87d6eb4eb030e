"""The one record of a client: how its link is, and how each run stands that it follows."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from outlast.log.cursor import Cursor
from outlast.log.event import JSON
from outlast.supervision.record import LinkRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What is known of a followed run. `place` is how far the reader is; `beat` the newest heartbeat's members.

    `caught_up` says that everything there was when the stream began has come. `recovering` is told by the server's row
    alone: which takeover it waits for, and in how many seconds from the heartbeat. Source: M4, M5.
    """

    run: str
    place: Cursor
    caught_up: bool = False
    status: str | None = None
    recovering: Mapping[str, JSON] | None = None
    budget: Mapping[str, JSON] | None = None
    loop_lag: float | None = None
    over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRecord:
    """How things stand: the link, and each run that is being followed. Source: M4."""

    link: LinkRecord
    runs: Mapping[str, RunRecord] = field(default_factory=dict[str, RunRecord])


def noted(record: RunRecord, said: Mapping[str, JSON]) -> RunRecord:
    """Return the record with what a heartbeat says; a member of another kind than it should be says nothing."""
    status, recovering, budget, lag = (said.get(name) for name in ("status", "recovering", "budget", "loop_lag"))
    return replace(
        record,
        status=status if isinstance(status, str) else None,
        recovering=recovering if isinstance(recovering, dict) else None,
        budget=budget if isinstance(budget, dict) else None,
        loop_lag=lag if isinstance(lag, int | float) else None,
    )
