"""What can be set, where it comes from, and why a value is refused.

A keyword of `Outlast(…)` beats its variable `OUTLAST_…`, which beats the default. Nested settings join their names:
`recovery=RecoveryPolicy(takeovers=3)` is `OUTLAST_RECOVERY_TAKEOVERS=3`, `limits=LogLimits(events=1000)` is
`OUTLAST_LIMITS_EVENTS=1000`, `retention=Retention(finished=86400)` is `OUTLAST_RETENTION_FINISHED=86400`.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self, TypeVar

from outlast import number
from outlast.errors import SettingsError
from outlast.lease import LeasePolicy
from outlast.log.limits import LogLimits
from outlast.recovery import RecoveryPolicy
from outlast.retention import Retention
from outlast.server.beacon import Address
from outlast.server.conditions import STOP_GRACE
from outlast.server.drain import GRACE
from outlast.server.origins import check
from outlast.server.readers.feed import HEARTBEAT
from outlast.server.seats import PER_NODE, PER_OWNER

STORE: Final = "sqlite:///outlast.db"
"""A file beside the program: the run survives the process without anything to set up."""
DURABILITY: Final = "process"
"""Survives the death of every process; "power" survives power loss as well, at one disk flush per group of commits."""
SIGNALS: Final = True
"""Hears SIGTERM and SIGINT before the server does: a server's own way of stopping waits for open streams."""
HOSTS: Final[tuple[str, ...]] = ()
"""Further names under which an application without `authenticate` answers: localhost alone needs none."""
ALLOW_ANONYMOUS: Final = False
"""Answers everybody without `authenticate`: whoever means that says so."""
ORIGINS: Final[tuple[str, ...]] = ()
"""Further origins whose pages may ask, such as https://app.example.org: pages of our own need no naming."""
METRICS: Final = False
"""Opens `/metrics`: nobody counts where nobody asks, and it needs the extra `outlast[metrics]`."""
TRACING: Final = False
"""Makes spans of runs: only where an application exports them, and it needs the extra `outlast[otel]`."""
BEACON: Final = ""
"""A port, such as 8401, or an address with one, at which clients can tell a blocked server from a dead one; none unless
asked for, because it is a second port to open."""
BEACON_PROCESS: Final = False
"""Answers at the beacon from a process of its own, 12 MB large, instead of a thread: only where one call keeps the
interpreter to itself for seconds, or where the process may be stopped."""
WEBSOCKET: Final = False
"""Opens a WebSocket at `/session`: only where asked for, since a host's middlewares of HTTP do not see what it asks."""
PREFIX: Final = "OUTLAST_"
SHORTEST_HEARTBEAT: Final = 0.1
"""Seconds: more often is noise."""
LONGEST_HEARTBEAT: Final = 15.0
"""Seconds: proxies cut silent streams at 30 or 60, and a client must be able to miss one (F10)."""

T = TypeVar("T")
P = TypeVar("P", LeasePolicy, RecoveryPolicy, LogLimits, Retention)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting of an `Outlast`; times in seconds, sizes in bytes.

    `store` is a URL. `durability` is "process" (survives the death of every process) or "power" (survives power
    loss as well, at one disk flush per group of commits). `hosts` are names besides localhost under which an
    application without `authenticate` answers; `allow_anonymous` lets it answer everybody. `origins` are the front ends
    of other origins that may use the routes from a browser. `readers_per_owner` and `readers_per_node` bound the
    streams that are open at once. `metrics` opens `/metrics` for Prometheus and needs the extra `outlast[metrics]`;
    `tracing` makes spans of runs for OpenTelemetry and needs `outlast[otel]`. `beacon` is a port, or an address with
    one, at which clients can tell a blocked server from a dead one, answered by a thread, or by a process of its own
    with `beacon_process`; "" is no beacon. `websocket` opens one at `/session`, in which all may be asked that is
    asked over HTTP. `grace` is how long a drain may take from the signal to the end; `signals=False` leaves SIGTERM and
    SIGINT to others.
    """

    store: str = STORE
    durability: str = DURABILITY
    heartbeat: float = HEARTBEAT
    stop_grace: float = STOP_GRACE
    grace: float = GRACE
    signals: bool = SIGNALS
    hosts: tuple[str, ...] = HOSTS
    allow_anonymous: bool = ALLOW_ANONYMOUS
    origins: tuple[str, ...] = ORIGINS
    readers_per_owner: int = PER_OWNER
    readers_per_node: int = PER_NODE
    metrics: bool = METRICS
    tracing: bool = TRACING
    beacon: str = BEACON
    beacon_process: bool = BEACON_PROCESS
    websocket: bool = WEBSOCKET
    lease: LeasePolicy = field(default_factory=LeasePolicy)
    recovery: RecoveryPolicy = field(default_factory=RecoveryPolicy)
    limits: LogLimits = field(default_factory=LogLimits)
    retention: Retention = field(default_factory=Retention)

    def __post_init__(self) -> None:
        """Refuse what cannot work, with a sentence that says what to change (B23)."""
        number.check(self)
        if self.durability not in ("process", "power"):
            raise SettingsError("durability is 'process' or 'power'.")
        if not SHORTEST_HEARTBEAT <= self.heartbeat <= LONGEST_HEARTBEAT:
            raise SettingsError(
                f"heartbeat is {self.heartbeat:g} s; set it between {SHORTEST_HEARTBEAT:g} and "
                f"{LONGEST_HEARTBEAT:g}, so that proxies and clients hear one in time."
            )
        if self.stop_grace < 0:
            raise SettingsError("stop_grace must be at least 0 seconds.")
        for origin in self.origins:
            check(origin)
        if min(self.readers_per_owner, self.readers_per_node) < 1:
            raise SettingsError("readers_per_owner and readers_per_node must be at least 1.")
        if self.beacon:
            Address.parse(self.beacon)
        elif self.beacon_process:
            raise SettingsError("beacon_process needs a beacon: give that a port, such as beacon=8401.")
        if self.grace < 0:
            raise SettingsError("grace must be at least 0 seconds: it is how long a drain may take.")

    @classmethod
    def resolve(cls, given: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Self:
        """Return the settings from keywords (None: not given) and `OUTLAST_…` variables. Raises `SettingsError`."""
        environ = os.environ if environ is None else environ
        values = {name: value for name, value in given.items() if value is not None}
        lease = {name: values.pop(name) for name in LEASE_NAMES if name in values}
        for name, read in VARIABLES.items():
            variable = PREFIX + name.upper()
            if name not in values and environ.get(variable):
                values[name] = _read(variable, environ[variable], read)
        values["lease"] = _lease(lease, environ)
        values.setdefault("recovery", _nested(RecoveryPolicy, "RECOVERY_", environ))
        values.setdefault("limits", _nested(LogLimits, "LIMITS_", environ))
        values.setdefault("retention", _nested(Retention, "RETENTION_", environ))
        return cls(**values)


LEASE_NAMES: Final[Mapping[str, str]] = {
    "lease_ttl": "ttl",
    "renew_every": "renew_every",
    "lease_margin": "margin",
    "stall_limit": "stall_limit",
}
"""The keywords of a lease, and the field of `LeasePolicy` each sets."""


def _lease(given: Mapping[str, float], environ: Mapping[str, str]) -> LeasePolicy:
    values = {LEASE_NAMES[name]: value for name, value in given.items()}
    for name, part in LEASE_NAMES.items():
        variable = PREFIX + name.upper()
        if part not in values and environ.get(variable):
            values[part] = _read(variable, environ[variable], float)
    if "ttl" in values:  # a shorter or longer lease keeps its proportions unless they were given
        scale = values["ttl"] / LeasePolicy().ttl
        values.setdefault("renew_every", LeasePolicy().renew_every * scale)
        values.setdefault("margin", LeasePolicy().margin * scale)
        values.setdefault("stall_limit", max(LeasePolicy().stall_limit, values["ttl"]))
    return LeasePolicy(**values)


def _nested(kind: type[P], prefix: str, environ: Mapping[str, str]) -> P:
    values: dict[str, Any] = {}
    for each in fields(kind):
        variable = PREFIX + prefix + each.name.upper()
        if environ.get(variable):
            values[each.name] = _read(variable, environ[variable], float if each.type is float else int)
    return kind(**values)


def _flag(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


VARIABLES: Final[Mapping[str, Callable[[str], Any]]] = {
    "store": str,
    "durability": str,
    "heartbeat": float,
    "stop_grace": float,
    "grace": float,
    "signals": _flag,
    "hosts": _names,
    "allow_anonymous": _flag,
    "origins": _names,
    "readers_per_owner": int,
    "readers_per_node": int,
    "metrics": _flag,
    "tracing": _flag,
    "beacon": str,
    "beacon_process": _flag,
    "websocket": _flag,
}
"""How the variable of each plain setting is read."""

_FORMS: Final[Mapping[Callable[[str], Any], str]] = {float: "a number", int: "a whole number", _flag: "true or false"}


def _read(variable: str, text: str, read: Callable[[str], T]) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise SettingsError(f"{variable} must be {_FORMS[read]}.") from error
