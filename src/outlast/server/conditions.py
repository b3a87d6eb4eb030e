"""What every controller of one node works under: policies, limits, and the ways to report, mint and roll."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from outlast.facts import Report
from outlast.lease import LeasePolicy
from outlast.log.limits import LogLimits
from outlast.recovery import RecoveryPolicy
from outlast.retention import Retention
from outlast.run import Run
from outlast.server.tracing import Tracing

STOP_GRACE: Final = 5.0
"""Seconds a stopped worker may take to come to its end before it is left behind."""

Admit: TypeAlias = Callable[[Run], Awaitable[None]]
"""Asked before a run's first and every later claim; raises `NotAdmitted` to refuse. There is no request: it sees
the stored owner, input and metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """`jitter` gives numbers in [0, 1), `mint` fresh ids; both are injected so that a simulation can repeat itself.

    `measure` is told of every batch of events that became durable; None where nobody counts, so that it costs nothing.
    """

    report: Report
    mint: Callable[[], str]
    jitter: Callable[[], float]
    recovery: RecoveryPolicy = field(default_factory=RecoveryPolicy)
    lease: LeasePolicy = field(default_factory=LeasePolicy)
    limits: LogLimits = field(default_factory=LogLimits)
    retention: Retention = field(default_factory=Retention)
    stop_grace: float = STOP_GRACE
    admit: Admit | None = None
    measure: Report | None = None
    tracing: Tracing | None = None
