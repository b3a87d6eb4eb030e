"""Facts as log lines: one line each, its fields as structured extras and in the text.

A fact holds only enums, numbers and ids that Outlast minted, so nothing from outside can reach a line.
"""

import logging
from dataclasses import fields
from enum import Enum
from typing import Final, cast

from outlast.facts import (
    AbortFailed,
    ControllerPaused,
    Fact,
    HookTroubled,
    PrerequisiteFailed,
    RunClaimed,
    RunReleased,
    StoreTroubled,
    WorkerFailed,
)
from outlast.run import Cause

logger = logging.getLogger("outlast")

_WARNINGS: Final = (AbortFailed, ControllerPaused, HookTroubled, PrerequisiteFailed, RunReleased, StoreTroubled)


def record(fact: Fact) -> None:
    """Log one fact."""
    said = {each.name: _plain(getattr(fact, each.name)) for each in fields(fact)}
    name = type(fact).__name__
    text = " ".join(f"{field}={value}" for field, value in said.items() if value is not None)
    logger.log(_level(fact), "%s %s", name, text, extra={"fact": name, **{f"outlast_{k}": v for k, v in said.items()}})


def _level(fact: Fact) -> int:
    match fact:
        case WorkerFailed():
            return logging.ERROR
        case RunClaimed(exhausted=limit) if limit is not None:
            return logging.WARNING
        case RunReleased(cause=Cause.HANDOFF):  # a deploy, nothing to wake up for
            return logging.INFO
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
