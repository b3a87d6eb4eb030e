"""The way from this machine into the network, what counts as another one, and what is told of that.

Rules:
1. A path is where this machine may be reached and which way it goes out: the addresses of the interfaces that work,
   and the gateways. Two readings that are equal are one path, whatever was reported between them.
2. Loopback leads nowhere. A bridge between containers is no path; one that a wire or a radio is part of is, and so is
   one that the way out goes through. The cables of containers end here without an address that leads anywhere.
3. Offline is told only when nothing is left that could be a way, and only then: told wrongly, it would keep a client
   from trying at all, while a client that tries in vain loses nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from outlast.supervision.inputs import WentOffline, Woken
from outlast.supervision.phase import Wakeup

Hint: TypeAlias = Woken | WentOffline
"""What is told to the machine."""

BRIDGE: Final = "bridge"
CABLES: Final = frozenset({"veth", "tun"})
"""The kinds of interface that containers and virtual machines are plugged in with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """An interface; `kind` is empty for hardware, `master` the bridge or bond that it is part of."""

    index: int
    is_up: bool
    is_loopback: bool
    kind: str
    master: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An address that may be used, of an interface."""

    interface: int
    packed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The way out: through an interface, to a gateway where there is one."""

    interface: int
    gateway: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """The addresses and the ways out that this machine has."""

    addresses: frozenset[Address]
    routes: frozenset[Route]

    @property
    def is_online(self) -> bool:
        """Whether there may be a way into the network."""
        return bool(self.addresses or self.routes)


def path_of(facts: Iterable[Interface | Address | Route]) -> Path:
    """Return the path that a whole reading amounts to."""
    facts = tuple(facts)
    working = {fact.index: fact for fact in facts if isinstance(fact, Interface) and fact.is_up}
    outward = {index for index, interface in working.items() if not interface.is_loopback}
    routes = frozenset(fact for fact in facts if isinstance(fact, Route) and fact.interface in outward)
    leading = {route.interface for route in routes} | {
        interface.master for interface in working.values() if interface.master and interface.kind not in CABLES
    }
    counted = {index for index in outward if working[index].kind != BRIDGE or index in leading}
    addresses = frozenset(fact for fact in facts if isinstance(fact, Address) and fact.interface in counted)
    return Path(addresses=addresses, routes=routes)


def news(before: Path | None, after: Path) -> Hint | None:
    """Return what a reading has to tell after the one `before`; a machine counts as online until it is known."""
    was_online = before is None or before.is_online
    if after.is_online != was_online:
        return Woken(wakeup=Wakeup.ONLINE) if after.is_online else WentOffline()
    if before is None or before == after:
        return None
    return Woken(wakeup=Wakeup.PATH_CHANGED)
