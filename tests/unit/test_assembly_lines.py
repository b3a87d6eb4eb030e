"""Facts as log lines: one line each, nothing from outside on it."""

import logging
from typing import get_args

import pytest

from outlast.assembly.lines import record
from outlast.facts import (
    ControllerPaused,
    Departure,
    EventsAppended,
    Fact,
    NodeStarted,
    ReaderClosed,
    ReaderOpened,
    RunClaimed,
    RunReleased,
    RunSettled,
    StoreTroubled,
    WorkerFailed,
)
from outlast.run import Cause, FailureCode, Limit, Status


def claimed(*, exhausted: Limit | None = None) -> RunClaimed:
    return RunClaimed(run="l1", epoch=3, attempt=3, takeovers=2, cause=Cause.CRASH, exhausted=exhausted)


@pytest.mark.behaviour("B16")
def test_a_claim_is_one_line_with_attempt_cause_and_whether_the_budget_was_spent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "outlast")
    record(claimed())
    record(claimed(exhausted=Limit.WINDOW))
    assert [entry.getMessage() for entry in caplog.records] == [
        "RunClaimed run=l1 epoch=3 attempt=3 takeovers=2 cause=crash",
        "RunClaimed run=l1 epoch=3 attempt=3 takeovers=2 cause=crash exhausted=window",
    ]
    assert [entry.levelno for entry in caplog.records] == [logging.INFO, logging.WARNING]


def test_the_fields_are_there_for_machines_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "outlast")
    record(RunSettled(run="l1", status=Status.FAILED, code=FailureCode.LOG_FULL))
    entry = caplog.records[0]
    assert (entry.__dict__["fact"], entry.__dict__["outlast_status"]) == ("RunSettled", "failed")
    assert entry.__dict__["outlast_code"] == "log_full"


@pytest.mark.behaviour("W16")
def test_a_workers_traceback_is_on_its_line_innermost_first(caplog: pytest.LogCaptureFixture) -> None:
    record(WorkerFailed(run="l1", error="ValueError", frames=("app.py:3 chat", "tool.py:9 search")))
    assert caplog.records[0].levelno == logging.ERROR
    assert caplog.records[0].getMessage().endswith("frames=tool.py:9 search < app.py:3 chat")


@pytest.mark.parametrize("fact", [ControllerPaused(run="l1"), StoreTroubled(during="look", error="store_busy")])
def test_trouble_is_a_warning(fact: Fact, caplog: pytest.LogCaptureFixture) -> None:
    record(fact)
    assert caplog.records[0].levelno == logging.WARNING


@pytest.mark.parametrize(("cause", "level"), [(Cause.HANDOFF, logging.INFO), (Cause.STORE, logging.WARNING)])
def test_a_planned_hand_off_is_no_trouble(cause: Cause, level: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "outlast")
    record(RunReleased(run="l1", cause=cause))
    assert caplog.records[0].levelno == level


@pytest.mark.parametrize(
    "fact",
    [
        ReaderOpened(run="l1"),
        ReaderClosed(run="l1", departure=Departure.LEFT),
        EventsAppended(run="l1", events=1, bytes=2, seconds=0.1),
    ],
)
def test_what_comes_with_every_reader_or_batch_is_a_detail(fact: Fact, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "outlast")
    record(fact)
    assert not caplog.records
    caplog.set_level(logging.DEBUG, "outlast")
    record(fact)
    assert [entry.levelno for entry in caplog.records] == [logging.DEBUG]


def test_what_goes_well_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "outlast")
    record(NodeStarted(node="n1"))
    assert caplog.records[0].levelno == logging.INFO


def test_no_fact_has_a_field_that_could_hold_an_id_from_outside() -> None:
    names = {name for fact in get_args(Fact) for name in fact.__dataclass_fields__}
    assert not names & {"id", "owner", "thread", "input", "reason", "message", "url", "metadata", "data", "text"}
