"""Settings: keywords beat variables beat defaults, and what cannot work is refused with what to change."""

import math
from collections.abc import Mapping
from typing import Any

import pytest

from outlast.assembly.outlast import Outlast
from outlast.assembly.settings import STORE, Settings
from outlast.errors import SettingsError
from outlast.lease import LeasePolicy
from outlast.log.limits import LogLimits
from outlast.recovery import RecoveryPolicy
from outlast.retention import Retention


def resolve(given: Mapping[str, Any] | None = None, **environ: str) -> Settings:
    return Settings.resolve(given or {}, environ)


def test_without_anything_the_defaults_hold() -> None:
    assert resolve() == Settings()
    assert resolve().store == STORE


def test_a_variable_beats_the_default_and_a_keyword_beats_both() -> None:
    assert resolve(OUTLAST_STORE="sqlite:///a.db").store == "sqlite:///a.db"
    assert resolve({"store": "sqlite:///b.db"}, OUTLAST_STORE="sqlite:///a.db").store == "sqlite:///b.db"


def test_a_keyword_that_was_not_given_leaves_the_variable_its_say() -> None:
    assert resolve({"store": None}, OUTLAST_STORE="sqlite:///a.db").store == "sqlite:///a.db"


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("OUTLAST_HEARTBEAT", "2.5", "heartbeat", 2.5),
        ("OUTLAST_STOP_GRACE", "1", "stop_grace", 1.0),
        ("OUTLAST_GRACE", "0.5", "grace", 0.5),
        ("OUTLAST_SIGNALS", "no", "signals", False),
        ("OUTLAST_DURABILITY", "power", "durability", "power"),
        ("OUTLAST_HOSTS", "a.example, b.example,", "hosts", ("a.example", "b.example")),
        ("OUTLAST_ALLOW_ANONYMOUS", "yes", "allow_anonymous", True),
        ("OUTLAST_ALLOW_ANONYMOUS", "0", "allow_anonymous", False),
        ("OUTLAST_METRICS", "1", "metrics", True),
        ("OUTLAST_TRACING", "1", "tracing", True),
        ("OUTLAST_WEBSOCKET", "true", "websocket", True),
        ("OUTLAST_BEACON", "0.0.0.0:8401", "beacon", "0.0.0.0:8401"),
        ("OUTLAST_RECOVERY_TAKEOVERS", "3", "recovery", RecoveryPolicy(takeovers=3)),
        ("OUTLAST_RECOVERY_BASE", "0.5", "recovery", RecoveryPolicy(base=0.5)),
        ("OUTLAST_LIMITS_EVENTS", "10", "limits", LogLimits(events=10)),
        ("OUTLAST_RETENTION_FINISHED", "3600", "retention", Retention(finished=3600.0)),
        ("OUTLAST_RETENTION_GONE", "inf", "retention", Retention(gone=math.inf)),
        ("OUTLAST_LEASE_MARGIN", "2", "lease", LeasePolicy(margin=2.0)),
    ],
)
def test_every_plain_setting_has_its_variable(variable: str, text: str, name: str, value: object) -> None:
    assert getattr(Settings.resolve({}, {variable: text}), name) == value


def test_an_empty_variable_is_no_setting() -> None:
    assert resolve(OUTLAST_HEARTBEAT="") == Settings()


def test_a_beacon_is_asked_for_by_its_port_also_as_a_number_and_taken_back_by_an_empty_one() -> None:
    settings = resolve(OUTLAST_BEACON="8401", OUTLAST_BEACON_PROCESS="1")
    assert (settings.beacon, settings.beacon_process) == ("8401", True)
    assert Outlast("sqlite://", beacon=0).settings.beacon == "0"
    assert resolve({"beacon": ""}, OUTLAST_BEACON="8401").beacon == ""


def test_a_shorter_lease_keeps_its_proportions() -> None:
    lease = resolve({"lease_ttl": 3.0}).lease
    assert (lease.ttl, lease.renew_every, lease.margin) == (3.0, 1.0, pytest.approx(0.6))
    assert lease.stall_limit == LeasePolicy().stall_limit


def test_a_lease_longer_than_the_stall_limit_raises_that_too() -> None:
    assert resolve({"lease_ttl": 300.0}).lease.stall_limit == 300.0


def test_proportions_that_were_given_are_kept() -> None:
    lease = resolve({"lease_ttl": 30.0, "renew_every": 4.0}, OUTLAST_STALL_LIMIT="60").lease
    assert (lease.renew_every, lease.stall_limit, lease.margin) == (4.0, 60.0, 6.0)


@pytest.mark.behaviour("B23")
@pytest.mark.parametrize(
    ("given", "environ", "told"),
    [
        ({"durability": "none"}, {}, "durability is 'process' or 'power'"),
        ({"heartbeat": 60.0}, {}, "set it between 0.1 and 15"),
        ({"heartbeat": 0.0}, {}, "set it between 0.1 and 15"),
        ({"stop_grace": -1.0}, {}, "stop_grace must be at least 0"),
        ({"grace": -1.0}, {}, "grace must be at least 0"),
        ({}, {"OUTLAST_GRACE": "inf"}, "grace must be a finite number"),
        ({}, {"OUTLAST_GRACE": "nan"}, "grace must be a finite number"),
        ({"beacon": "here"}, {}, "beacon is a port such as 8401"),
        ({}, {"OUTLAST_BEACON": "::1:8401"}, "in brackets"),
        ({}, {"OUTLAST_BEACON_PROCESS": "yes"}, "beacon_process needs a beacon"),
        ({}, {"OUTLAST_BEACON": "0", "OUTLAST_BEACON_PROCESS": "perhaps"}, "OUTLAST_BEACON_PROCESS must be true"),
        ({"lease_ttl": 10.0, "renew_every": 5.0}, {}, "must hold three renewals"),
        ({}, {"OUTLAST_LEASE_TTL": "soon"}, "OUTLAST_LEASE_TTL must be a number"),
        ({}, {"OUTLAST_RECOVERY_CALLS": "1.5"}, "OUTLAST_RECOVERY_CALLS must be a whole number"),
        ({}, {"OUTLAST_ALLOW_ANONYMOUS": "maybe"}, "OUTLAST_ALLOW_ANONYMOUS must be true or false"),
        ({}, {"OUTLAST_RECOVERY_LIFE": "2"}, "raise life or lower takeovers"),
        ({}, {"OUTLAST_LIMITS_EVENTS": "0"}, "must be above 0"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_with_what_to_change(
    given: Mapping[str, Any], environ: Mapping[str, str], told: str
) -> None:
    with pytest.raises(SettingsError, match=told.replace("(", r"\(")):
        resolve(given, **environ)


@pytest.mark.behaviour("B23")
def test_a_variable_that_cannot_be_read_is_never_repeated() -> None:
    with pytest.raises(SettingsError) as caught:
        resolve(OUTLAST_LEASE_TTL="s3cret")
    assert "s3cret" not in str(caught.value)
