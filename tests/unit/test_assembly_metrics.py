"""Facts as numbers: each counted once, under labels that nothing from outside can make more of."""

from collections import Counter
from collections.abc import Collection
from typing import Any, get_args

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from outlast import facts
from outlast.assembly.metrics import FAMILIES, PREFIX, Metrics
from outlast.facts import Departure, Fact
from outlast.run import Cause, FailureCode, Limit, Status

CLAIM = {"run": "l1", "epoch": 1, "attempt": 1, "takeovers": 0}
EVERY: list[Fact] = [
    facts.NodeStarted(node="n"),
    facts.NodeDraining(node="n", runs=3),
    facts.NodeStopped(node="n", finished=1, handed_off=2),
    facts.BeaconLost(node="n"),
    facts.NodeBuried(node="n"),
    facts.RunClaimed(**CLAIM, cause=None, exhausted=None),
    facts.ClaimMissed(run="l1"),
    facts.PrerequisiteFailed(run="l1", retry_in=30.0),
    facts.RunSettled(run="l1", status=Status.FAILED, code=FailureCode.RECOVERY_EXHAUSTED, limit=Limit.CALLS),
    facts.RunReleased(run="l1", cause=Cause.STORE),
    facts.ControllerPaused(run="l1"),
    facts.ControllerResumed(run="l1", paused_for=2.0),
    facts.ControllerStoodDown(run="l1", epoch=1),
    facts.WorkerCalled(run="l1", epoch=1, call=1, waited=0.02),
    facts.WorkerFailed(run="l1", error="ValueError", frames=()),
    facts.CallLeftBehind(run="l1", epoch=1, left=2),
    facts.AbortDelivered(run="l1", epoch=1),
    facts.AbortFailed(run="l1", epoch=1, error="TimeoutError", given_up=False),
    facts.StoreTroubled(during="look", error="store_busy"),
    facts.HookTroubled(hook="admit", error="ValueError"),
    facts.EventsAppended(run="l1", events=3, bytes=40, seconds=0.002),
    facts.RunsExpired(runs=2, tombstones=1),
    facts.RunCorrupt(run="l1"),
    facts.ReaderOpened(run="l1"),
    facts.ReaderClosed(run="l1", departure=Departure.ENDED),
]


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Read what is exposed as Prometheus would: (name, label values …) → value, without a histogram's buckets."""
    families = text_string_to_metric_families(metrics.expose().decode())
    return {
        (sample.name.removeprefix(PREFIX), *(sample.labels[label] for label in order(sample.labels))): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


def order(labels: Collection[str]) -> tuple[str, ...]:
    """Return labels in the order in which their family names them."""
    return next(family.labels for family in FAMILIES.values() if set(family.labels) == set(labels))


def observed(*told: Fact) -> dict[tuple[str, ...], float]:
    metrics = Metrics()
    for fact in told:
        metrics.observe(fact)
    return {name: value for name, value in samples(metrics).items() if value}


def test_every_kind_of_fact_is_known_here() -> None:
    missing = set(get_args(Fact)) - {type(fact) for fact in EVERY}
    assert not missing, "a new fact: has it a number?"


def test_every_counter_and_histogram_is_moved_by_some_fact() -> None:
    moved = {name for name, *_ in observed(*EVERY)}
    expected = {name if name.endswith("_total") else f"{name}_count" for name in FAMILIES}
    held = {"runs_held_count", "readers_count", "sessions_count", "feeds_count"}
    gauges = {*held, "loop_lag_seconds_count", "lease_left_seconds_count"}
    assert not expected - gauges - moved


@pytest.mark.behaviour("B16")
@pytest.mark.parametrize(
    ("cause", "exhausted", "labels"),
    [
        (None, None, ("first", "none")),
        (Cause.CRASH, None, ("takeover", "crash")),
        (Cause.HANDOFF, None, ("handoff", "handoff")),
        (Cause.STALL, Limit.WINDOW, ("exhausted", "stall")),
    ],
)
def test_a_claim_is_counted_once_by_its_kind_and_cause(
    cause: Cause | None, exhausted: Limit | None, labels: tuple[str, str]
) -> None:
    counted = observed(facts.RunClaimed(**CLAIM, cause=cause, exhausted=exhausted))
    assert counted == {("claims_total", *labels): 1}


def test_an_outcome_is_counted_by_status_and_code_and_a_spent_budget_by_its_limit() -> None:
    spent = facts.RunSettled(run="l1", status=Status.FAILED, code=FailureCode.RECOVERY_EXHAUSTED, limit=Limit.LIFE)
    done = facts.RunSettled(run="l2", status=Status.COMPLETED, code=None)
    assert observed(spent, done) == {
        ("settled_total", "failed", "recovery_exhausted"): 1,
        ("settled_total", "completed", "none"): 1,
        ("exhausted_total", "life"): 1,
    }


def test_batches_are_counted_by_their_events_and_bytes_and_timed() -> None:
    batch = facts.EventsAppended(run="l1", events=3, bytes=40, seconds=0.25)
    assert observed(batch, batch) == {
        ("events_total",): 6,
        ("event_bytes_total",): 80,
        ("append_seconds_count",): 2,
        ("append_seconds_sum",): 0.5,
    }


def test_only_the_first_call_of_a_controller_is_timed() -> None:
    first = facts.WorkerCalled(run="l1", epoch=1, call=1, waited=0.5)
    again = facts.WorkerCalled(run="l1", epoch=1, call=2)
    assert observed(first, again) == {
        ("calls_total",): 2,
        ("first_call_seconds_count",): 1,
        ("first_call_seconds_sum",): 0.5,
    }


def test_an_abort_that_is_given_up_is_told_apart() -> None:
    failed: dict[str, Any] = {"run": "l1", "epoch": 1, "error": "TimeoutError"}
    told = [facts.AbortFailed(**failed, given_up=False), facts.AbortFailed(**failed, given_up=True)]
    assert observed(*told) == {("aborts_total", "failed"): 1, ("aborts_total", "given_up"): 1}


@pytest.mark.attack("Z3")
def test_however_many_names_there_are_no_metric_has_two_hundred_series() -> None:
    metrics = Metrics()
    for number in range(50):
        for other in range(50):
            metrics.observe(facts.StoreTroubled(during=f"loop {number}", error=f"Error{other}"))
    for fact in EVERY:
        metrics.observe(fact)
    families = list(text_string_to_metric_families(metrics.expose().decode()))
    series = Counter({family.name: len(family.samples) for family in families})
    assert max(series.values()) < 200
    assert sum(value for (name, *_), value in samples(metrics).items() if name == "store_troubles_total") == 2501


def test_two_in_one_process_do_not_clash_and_leave_the_applications_own_registry_alone() -> None:
    one, other = Metrics(), Metrics()
    one.observe(facts.ControllerPaused(run="l1"))
    assert samples(one)["pauses_total",] == 1
    assert samples(other)["pauses_total",] == 0
    assert PREFIX.encode() not in prometheus_client.generate_latest()


def test_gauges_are_asked_when_somebody_looks() -> None:
    held = [1]
    metrics = Metrics()
    metrics.watch({"runs_held": lambda: held[0]})
    assert samples(metrics)["runs_held",] == 1
    held[0] = 7
    assert samples(metrics)["runs_held",] == 7


def test_no_series_tells_when_it_was_made() -> None:
    metrics = Metrics()
    for fact in EVERY:
        metrics.observe(fact)
    assert b"_created" not in metrics.expose()
