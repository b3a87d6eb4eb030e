"""Figures: a policy made of what is no number is refused with a sentence, wherever it is."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from outlast.assembly.settings import Settings
from outlast.errors import SettingsError
from outlast.lease import LeasePolicy
from outlast.log.limits import LogLimits
from outlast.number import is_finite, is_whole
from outlast.recovery import RecoveryPolicy

NONE = [math.nan, math.inf, -math.inf, True, "5", None]
SECONDS: list[tuple[Callable[..., object], str]] = [
    *((LeasePolicy, name) for name in ("ttl", "renew_every", "margin", "stall_limit")),
    *((RecoveryPolicy, name) for name in ("window", "base", "cap")),
    (LogLimits, "age"),
    (Settings, "heartbeat"),
    (Settings, "stop_grace"),
]
COUNTS: list[tuple[Callable[..., object], str]] = [
    *((RecoveryPolicy, name) for name in ("takeovers", "life", "handoffs", "calls", "tries")),
    *((LogLimits, name) for name in ("events", "bytes", "event_bytes")),
    *((Settings, name) for name in ("readers_per_owner", "readers_per_node")),
]


@pytest.mark.behaviour("B23")
@pytest.mark.parametrize("value", NONE)
@pytest.mark.parametrize(("policy", "name"), SECONDS)
def test_seconds_are_a_finite_number(policy: Callable[..., object], name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=f"{name} must be a finite number of seconds"):
        policy(**{name: value})


@pytest.mark.behaviour("B23")
@pytest.mark.parametrize("value", [*NONE, 5.0, 2.5])
@pytest.mark.parametrize(("policy", "name"), COUNTS)
def test_what_is_counted_is_a_whole_number(policy: Callable[..., object], name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=f"{name} must be a whole number"):
        policy(**{name: value})


@pytest.mark.behaviour("B23")
@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "variable", ["OUTLAST_HEARTBEAT", "OUTLAST_STOP_GRACE", "OUTLAST_LEASE_TTL", "OUTLAST_LIMITS_AGE"]
)
def test_a_variable_is_held_to_the_same(variable: str, text: str) -> None:
    with pytest.raises(SettingsError):
        Settings.resolve({}, {variable: text})


def test_whole_seconds_are_seconds() -> None:
    assert LeasePolicy(ttl=15, renew_every=5).ttl == 15
    assert (is_whole(3), is_whole(3.0), is_whole(False)) == (True, False, False)
    assert (is_finite(3), is_finite(3.5), is_finite(math.nan), is_finite(True)) == (True, True, False, False)
