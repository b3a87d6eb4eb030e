"""The tree of errors: drawn as it is, and each with its code."""

import re

import pytest

from outlast import errors
from outlast.errors import OutlastError, ThreadBusy
from outlast.run import FailureCode

EVERY = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, OutlastError)]

CODES = {
    "OutlastError": "outlast_error",
    "SettingsError": "settings_invalid",
    "PortTaken": "port_taken",
    "Refusal": "refused",
    "InputInvalid": "input_invalid",
    "CursorInvalid": "cursor_invalid",
    "TooLarge": "too_large",
    "UnknownWorker": "unknown_worker",
    "RunNotFound": "run_not_found",
    "RunGone": "run_gone",
    "RunLive": "run_live",
    "Forbidden": "forbidden",
    "TooMany": "too_many",
    "Capacity": "capacity",
    "HookFailed": "hook_failed",
    "CallMisused": "call_misused",
    "IdConflict": "id_conflict",
    "ThreadBusy": "thread_busy",
    "Unauthenticated": "unauthenticated",
    "NotAdmitted": "not_admitted",
    "PeerRefused": "peer_refused",
    "NotStarted": "not_started",
    "Draining": "draining",
    "StoreError": "store_error",
    "StoreUnavailable": "store_unavailable",
    "StoreBusy": "store_busy",
    "StoreFull": "store_full",
    "StoreReadOnly": "store_read_only",
    "StoreCorrupt": "store_corrupt",
    "SchemaNewer": "schema_newer",
    "OwnershipError": "ownership_lost",
    "Fenced": "fenced",
    "ClaimLost": "claim_lost",
    "HeadConflict": "head_conflict",
    "LogRefused": "log_refused",
    "LogFull": "log_full",
    "EventTooLarge": "event_too_large",
    "OutboxFull": "outbox_full",
    "WorkerError": "worker_error",
    "WorkerRaised": "worker_error",
    "Retry": "worker_failed",
    "WireError": "wire_invalid",
    "WrongServer": "wrong_server",
    "Unanswered": "unanswered",
    "ClientClosed": "client_closed",
}
"""Part of the public contract: a code is added, never changed."""


def drawn() -> dict[str, str]:
    """Read the drawing at the top of the module: each error's name and its parent's."""
    parents: dict[str, str] = {}
    above: dict[int, str] = {0: "OutlastError"}
    for line in (errors.__doc__ or "").splitlines():
        if branch := re.match(r"    ([│├└─ ]+) (\w+(?: · \w+)*)(?:  |$)", line):
            depth = len(branch[1]) // 4 + 1
            for name in branch[2].split(" · "):
                parents[name] = above[depth - 1]
                above[depth] = name
    return parents


def test_the_tree_is_as_drawn() -> None:
    built = {error.__name__: error.__bases__[0].__name__ for error in EVERY if error is not OutlastError}
    assert drawn() == built


def test_codes_are_as_published() -> None:
    assert {error.__name__: error.code for error in EVERY} == CODES


def test_no_two_errors_share_a_code_but_a_worker_s_verdict_and_its_base() -> None:
    codes = [error.code for error in EVERY if error.__name__ != "WorkerRaised"]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("error", [errors.LogFull, errors.EventTooLarge, errors.WorkerError, errors.Retry])
def test_an_error_that_ends_a_run_has_the_code_of_its_outcome(error: type[OutlastError]) -> None:
    assert error.code in set(FailureCode)


def test_a_busy_thread_names_its_live_run() -> None:
    busy = ThreadBusy("The thread has a live run.", live="r7")
    assert (str(busy), busy.live) == ("The thread has a live run.", "r7")


def test_bytes_that_are_not_what_they_claim_are_a_value_error_too() -> None:
    assert issubclass(errors.WireError, ValueError)


def test_a_log_line_says_an_error_s_code_or_the_name_of_its_type() -> None:
    assert errors.code_of(errors.StoreBusy("secret")) == "store_busy"
    assert errors.code_of(KeyError("secret")) == "KeyError"
