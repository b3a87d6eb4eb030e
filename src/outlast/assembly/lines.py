"""Facts as log lines: one line each, its fields as structured extras and in the text.

A fact holds only enums, numbers and ids that Outlast minted, so nothing from outside can reach a line.
"""

import logging
from dataclasses import fields
from enum import Enum
from typing import Final, cast

from outlast.facts import (
    AbortFailed,
    BeaconLost,
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
    StoreTroubled,
    WorkerFailed,
)
from outlast.run import Cause

logger = logging.getLogger("outlast")

_WARNINGS: Final = (
    AbortFailed,
    BeaconLost,
    ControllerPaused,
    HookTroubled,
    PrerequisiteFailed,
    RunReleased,
    StoreTroubled,
)
_DETAILS: Final = (EventsAppended, ReaderClosed, ReaderOpened)


def record(fact: Fact) -> None:
    """Log one fact, where its level is logged."""
    level = _level(fact)
    if not logger.isEnabledFor(level):
        return
    said = {each.name: _plain(getattr(fact, each.name)) for each in fields(fact)}
    name = type(fact).__name__
    text = " ".join(f"{field}={value}" for field, value in said.items() if value is not None)
    logger.log(level, "%s %s", name, text, extra={"fact": name, **{f"outlast_{k}": v for k, v in said.items()}})


def _level(fact: Fact) -> int:
    match fact:
        case WorkerFailed() | RunCorrupt():
            return logging.ERROR
        case RunClaimed(exhausted=limit) if limit is not None:
            return logging.WARNING
        case RunReleased(cause=Cause.HANDOFF):  # a deploy, nothing to wake up for
            return logging.INFO
        case _ if isinstance(fact, _DETAILS):  # as many as readers come, or more
            return logging.DEBUG
        case _:
            return logging.WARNING if isinstance(fact, _WARNINGS) else logging.INFO


def _plain(value: object) -> object:
    match value:
        case Enum():
            return value.value
        case float():
            return round(value, 3)
        case tuple():
            return " < ".join(str(part) for part in reversed(cast("tuple[object, ...]", value)))
        case _:
            return value
