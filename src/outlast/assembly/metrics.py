"""Facts as numbers for Prometheus: what was counted, how long it took, and how things stand now.

Rules:
1. Counters and histograms are made of facts alone, gauges are asked for when somebody looks.
2. Nothing of a request, a run or a worker becomes a label. Labels are enums; the two that are names of ours are capped
   all the same, so that no metric ever has 200 series (Z3).
3. Each `Outlast` has a registry of its own: two in one process do not clash, and neither touches the application's.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from outlast.facts import (
    AbortDelivered,
    AbortFailed,
    CallLeftBehind,
    ControllerPaused,
    EventsAppended,
    Fact,
    HookTroubled,
    PrerequisiteFailed,
    ReaderClosed,
    ReaderOpened,
    RunClaimed,
    RunCorrupt,
    RunReleased,
    RunSettled,
    RunsExpired,
    StoreTroubled,
    WorkerCalled,
    WorkerFailed,
)
from outlast.run import Cause

PREFIX: Final = "outlast_"
NAMES: Final = 12
"""Values of a label that is no enum. Two such labels make 169 series with the ones that stand for all the rest."""
OTHER: Final = "other"
"""What stands for the rest of them."""
NONE: Final = "none"
"""The value of a label that does not apply."""
SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds of the histograms: an append takes half a millisecond on a good disk, and seconds in trouble."""

Kind: TypeAlias = type[Counter] | type[Gauge] | type[Histogram]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric: its kind, its labels, and what it says."""

    kind: Kind
    says: str
    labels: tuple[str, ...] = ()


FAMILIES: Final[Mapping[str, Family]] = {
    "claims_total": Family(
        kind=Counter,
        says="Claims: `first`, `takeover`, `handoff`, or the one that found the budget spent, `exhausted`.",
        labels=("kind", "cause"),
    ),
    "exhausted_total": Family(
        kind=Counter, says="Runs that failed because a limit of their recovery budget was reached.", labels=("limit",)
    ),
    "settled_total": Family(kind=Counter, says="Runs that got their outcome.", labels=("status", "code")),
    "released_total": Family(kind=Counter, says="Runs that their controller gave up or handed off.", labels=("cause",)),
    "pauses_total": Family(kind=Counter, says="Controllers that took nothing more until the store answered."),
    "refusals_total": Family(kind=Counter, says="Takeovers that `admit` refused."),
    "calls_total": Family(kind=Counter, says="Calls of workers."),
    "worker_errors_total": Family(kind=Counter, says="Calls in which the worker raised."),
    "left_behind_total": Family(kind=Counter, says="Calls that did not end when they were told to, and went on."),
    "aborts_total": Family(
        kind=Counter, says="Aborts by what the worker answered: `delivered`, `failed`, `given_up`.", labels=("answer",)
    ),
    "store_troubles_total": Family(
        kind=Counter, says="Troubles with the store, counted once when they begin.", labels=("during", "error")
    ),
    "hook_troubles_total": Family(
        kind=Counter, says="Functions of the application that failed or took too long.", labels=("hook",)
    ),
    "expired_total": Family(kind=Counter, says="Ended runs that were deleted with their logs when they were due."),
    "corrupt_total": Family(kind=Counter, says="Runs whose row cannot be read, each when it was found."),
    "events_total": Family(kind=Counter, says="Events appended, terminal ones not counted."),
    "event_bytes_total": Family(kind=Counter, says="Bytes of payload appended."),
    "readers_opened_total": Family(kind=Counter, says="Readers that began to be served."),
    "readers_closed_total": Family(kind=Counter, says="Readers no longer served, by why.", labels=("departure",)),
    "append_seconds": Family(kind=Histogram, says="From the sending of a batch of events until it was durable."),
    "first_call_seconds": Family(kind=Histogram, says="From a claim to its first call of the worker."),
    "runs_held": Family(kind=Gauge, says="Runs that this node drives."),
    "readers": Family(kind=Gauge, says="Readers being served."),
    "sessions": Family(kind=Gauge, says="WebSockets that are open."),
    "feeds": Family(kind=Gauge, says="Logs being watched for readers."),
    "loop_lag_seconds": Family(kind=Gauge, says="How late the event loop was at its newest beat."),
    "lease_left_seconds": Family(kind=Gauge, says="Seconds until the node's lease ends unless it is renewed."),
}
"""All there is, under the prefix `outlast_`."""


class Metrics:
    """The metrics of one `Outlast`; `observe` may be called from any thread."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        self._names: dict[str, set[str]] = {}
        for name, family in FAMILIES.items():
            self._make(PREFIX + name, name, family)

    def watch(self, gauges: Mapping[str, Callable[[], float]]) -> None:
        """Ask these for the gauges from now on."""
        for name, ask in gauges.items():
            self._gauges[name].set_function(ask)

    def expose(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(_Plain(self._registry))

    def observe(self, fact: Fact) -> None:
        """Count one fact."""
        match fact:
            case RunClaimed():
                self._count("claims_total", kind_of(fact), fact.cause or NONE)
            case RunSettled():
                self._count("settled_total", fact.status, fact.code or NONE)
                if fact.limit is not None:
                    self._count("exhausted_total", fact.limit)
            case RunReleased(cause=cause):
                self._count("released_total", cause)
            case ControllerPaused():
                self._count("pauses_total")
            case PrerequisiteFailed():
                self._count("refusals_total")
            case _:
                self._observe_work(fact)

    def _observe_work(self, fact: Fact) -> None:
        match fact:
            case EventsAppended():
                self._count("events_total", by=fact.events)
                self._count("event_bytes_total", by=fact.bytes)
                self._histograms["append_seconds"].observe(fact.seconds)
            case WorkerCalled(waited=waited):
                self._count("calls_total")
                if waited is not None:
                    self._histograms["first_call_seconds"].observe(waited)
            case WorkerFailed():
                self._count("worker_errors_total")
            case CallLeftBehind():
                self._count("left_behind_total")
            case AbortDelivered():
                self._count("aborts_total", "delivered")
            case AbortFailed(given_up=given_up):
                self._count("aborts_total", "given_up" if given_up else "failed")
            case ReaderOpened():
                self._count("readers_opened_total")
            case ReaderClosed(departure=departure):
                self._count("readers_closed_total", departure)
            case _:
                self._observe_keeping(fact)

    def _observe_keeping(self, fact: Fact) -> None:
        match fact:
            case StoreTroubled(during=during, error=error):
                self._count("store_troubles_total", self._capped("during", during), self._capped("error", error))
            case HookTroubled(hook=hook):
                self._count("hook_troubles_total", self._capped("hook", hook))
            case RunsExpired(runs=runs):
                self._count("expired_total", by=runs)
            case RunCorrupt():
                self._count("corrupt_total")
            case _:  # what has no number: a node that starts, a race that was lost
                pass

    def _make(self, full: str, name: str, family: Family) -> None:
        if family.kind is Counter:
            self._counters[name] = Counter(full, family.says, family.labels, registry=self._registry)
        elif family.kind is Gauge:
            self._gauges[name] = Gauge(full, family.says, family.labels, registry=self._registry)
        else:
            self._histograms[name] = Histogram(
                full, family.says, family.labels, registry=self._registry, buckets=SECONDS
            )

    def _count(self, name: str, *labels: str, by: float = 1) -> None:
        counter = self._counters[name]
        (counter.labels(*labels) if labels else counter).inc(by)

    def _capped(self, label: str, value: str) -> str:
        known = self._names.setdefault(label, set())
        if value not in known and len(known) >= NAMES:
            return OTHER
        known.add(value)
        return value


class _Plain(Collector):
    """A registry without the time at which each series was made, which doubles their number and tells nobody anything.

    The library can be told so for the whole process, which is not ours.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        """Return all metrics."""
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


def kind_of(claim: RunClaimed) -> str:
    """Return what kind of claim this is, as the metric says it."""
    if claim.exhausted is not None:
        return "exhausted"
    if claim.cause is None:
        return "first"
    return "handoff" if claim.cause is Cause.HANDOFF else "takeover"
