"""What counts as a path, and what is told when it is another one."""

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address

import pytest

from outlast.client.hints import netlink
from outlast.client.hints.path import Address, Hint, Interface, Path, Route, news, path_of
from outlast.supervision.inputs import WentOffline, Woken
from outlast.supervision.phase import Wakeup
from tests.netlink import BRIDGE, CONTAINER, MACHINE, Recording

ONLINE, CHANGED, OFFLINE = Woken(wakeup=Wakeup.ONLINE), Woken(wakeup=Wakeup.PATH_CHANGED), WentOffline()


def facts(recording: Recording) -> Iterator[Interface | Address | Route]:
    for answer in recording:
        yield from filter(None, map(netlink.fact, netlink.messages(answer)))


def interface(index: int, kind: str = "", *, up: bool = True, master: int | None = None) -> Interface:
    return Interface(index=index, is_up=up, is_loopback=False, kind=kind, master=master)


def address(index: int, text: str = "192.0.2.2") -> Address:
    return Address(interface=index, packed=ip_address(text).packed)


LOOPBACK = Interface(index=1, is_up=True, is_loopback=True, kind="", master=None)
NOWHERE = Path(addresses=frozenset(), routes=frozenset())
HOME = path_of([LOOPBACK, interface(2), address(2), Route(interface=2, gateway=b"\x01")])


@pytest.mark.parametrize(
    ("recording", "addresses"),
    [
        (MACHINE, {address(4), address(4, "fd00::2")}),
        (CONTAINER, {address(4, "198.51.100.2"), address(4, "2001:db8:1::2")}),
        (BRIDGE, set()),
    ],
    ids=["machine", "container", "a bridge between containers"],
)
def test_recorded_machines_have_the_addresses_that_lead_somewhere(
    recording: Recording, addresses: set[Address]
) -> None:
    path = path_of(facts(recording))
    assert path.addresses == addresses
    assert path.is_online is bool(addresses)


def test_loopback_and_what_is_down_lead_nowhere() -> None:
    assert path_of([LOOPBACK, address(1), interface(2, up=False), address(2)]) == NOWHERE
    down = [interface(2, up=False), Route(interface=2, gateway=b"")]  # a way whose cable is pulled is still named
    assert path_of([LOOPBACK, *down, Route(interface=1, gateway=b"")]) == NOWHERE
    assert not NOWHERE.is_online


def test_a_bridge_counts_when_a_wire_is_part_of_it_or_the_way_out_goes_through_it() -> None:
    bridge = [interface(5, "bridge"), address(5)]
    assert not path_of([*bridge, interface(6, "veth", master=5), interface(7, "tun", master=5)]).is_online
    assert not path_of([*bridge, interface(6, up=False, master=5)]).is_online
    assert path_of([*bridge, interface(6, master=5)]).addresses == {address(5)}
    assert path_of([*bridge, Route(interface=5, gateway=b"\x01")]).addresses == {address(5)}


def test_a_machine_whose_way_out_needs_no_address_is_online() -> None:
    assert path_of([LOOPBACK, address(1), interface(2), Route(interface=2, gateway=b"\x01")]).is_online


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (None, HOME, None),
        (None, NOWHERE, OFFLINE),
        (HOME, HOME, None),
        (NOWHERE, NOWHERE, None),
        (HOME, NOWHERE, OFFLINE),
        (NOWHERE, HOME, ONLINE),
        (HOME, replace(HOME, addresses=frozenset({address(2, "192.0.2.3")})), CHANGED),
        (HOME, replace(HOME, routes=frozenset({Route(interface=2, gateway=b"\x02")})), CHANGED),
        (HOME, replace(HOME, addresses=HOME.addresses | {address(3)}), CHANGED),
    ],
    ids=[
        "online from the beginning",
        "offline from the beginning",
        "the same",
        "offline as before",
        "gone offline",
        "online again",
        "another address",
        "another gateway",
        "one address more",
    ],
)
@pytest.mark.behaviour("N5")
def test_what_is_told_is_what_changed_and_only_then(before: Path | None, after: Path, told: Hint | None) -> None:
    assert news(before, after) == told
