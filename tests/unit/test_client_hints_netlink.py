"""Netlink's messages: questions asked, and recorded answers read, whole and cut anywhere."""

import socket
import struct
from ipaddress import ip_address

import pytest

from outlast.client.hints import netlink
from outlast.client.hints.path import Address, Interface, Route
from tests.netlink import BRIDGE, CONTAINER, MACHINE, Recording

LINKS, ADDRESSES, WAY_4, WAY_6 = range(4)


def facts(datagram: bytes) -> list[Interface | Address | Route]:
    return [fact for message in netlink.messages(datagram) if (fact := netlink.fact(message)) is not None]


def interface(index: int, kind: str = "", *, up: bool = True, master: int | None = None) -> Interface:
    return Interface(index=index, is_up=up, is_loopback=index == 1, kind=kind, master=master)


def address(index: int, text: str) -> Address:
    return Address(interface=index, packed=ip_address(text).packed)


def route(index: int, text: str) -> Route:
    return Route(interface=index, gateway=ip_address(text).packed)


def test_interfaces_are_read_with_their_kind_and_what_they_are_part_of() -> None:
    assert facts(MACHINE[LINKS]) == [
        interface(1),
        interface(2, "ifb", up=False),
        interface(3, "ifb", up=False),
        interface(4),
    ]
    assert facts(BRIDGE[LINKS]) == [
        interface(1),
        interface(2, "bridge"),
        interface(3, "veth"),
        interface(4, "veth", master=2),
    ]


def test_addresses_that_lead_nowhere_are_left_out() -> None:
    assert facts(MACHINE[ADDRESSES]) == [address(4, "192.0.2.2"), address(4, "fd00::2")]
    assert facts(CONTAINER[ADDRESSES]) == [address(4, "198.51.100.2"), address(4, "2001:db8:1::2")]
    assert facts(BRIDGE[ADDRESSES]) == [address(2, "172.17.0.1")]


def test_the_ways_out_are_read_and_none_where_there_is_none() -> None:
    assert facts(MACHINE[WAY_4]) == [route(4, "192.0.2.1")]
    assert facts(MACHINE[WAY_6]) == [route(4, "fd00::1")]
    assert facts(CONTAINER[WAY_4]) == [route(4, "198.51.100.1")]
    assert facts(CONTAINER[WAY_6]) == []
    assert [message.is_refusal for message in netlink.messages(BRIDGE[WAY_4])] == [True]


@pytest.mark.parametrize("recording", [MACHINE, CONTAINER, BRIDGE], ids=["machine", "container", "bridge"])
def test_only_the_last_message_of_an_answer_is_the_last(recording: Recording) -> None:
    for answer in recording:
        *before, last = netlink.messages(answer)
        assert last.is_last
        assert not any(message.is_last or message.is_interrupted for message in before)


def flagged(flags: int, *, family: int = socket.AF_INET6, scope: int = 0) -> bytes:
    """Write the message about an address, as the kernel does: its flags twice, at length at its end."""
    body = struct.pack("=BBBBI", 10 if family == socket.AF_INET6 else 2, 64, flags & 0xFF, scope, 4)
    packed = ip_address("2001:db8::2").packed if family == socket.AF_INET6 else ip_address("192.0.2.2").packed
    body += struct.pack("=HH", 4 + len(packed), 1) + packed + struct.pack("=HHI", 8, 8, flags)
    return struct.pack("=IHHII", 16 + len(body), 20, 2, 1, 1) + body


@pytest.mark.parametrize(
    ("flags", "counts"),
    [(0x80, True), (0x200, True), (0x40, False), (0x08, False), (0x01, False)],
    ids=["permanent", "permanent and more", "tentative", "already taken", "temporary"],
)
def test_an_address_counts_once_it_is_checked_and_unless_it_is_changed_every_day(flags: int, counts: bool) -> None:
    assert bool(facts(flagged(flags))) is counts


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value


def said(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 2, 1, 1) + body


def test_flags_that_stand_only_at_length_count() -> None:
    body = struct.pack("=BBBBI", 10, 64, 0, 0, 4) + attribute(1, ip_address("2001:db8::2").packed)
    assert facts(said(20, body))
    assert not facts(said(20, body + attribute(8, struct.pack("=I", 0x40))))


def test_of_a_line_with_two_ends_ours_is_read() -> None:
    theirs, ours = ip_address("192.0.2.1"), ip_address("192.0.2.2")
    body = struct.pack("=BBBBI", 2, 32, 0, 0, 4) + attribute(1, theirs.packed) + attribute(2, ours.packed)
    assert facts(said(20, body)) == [address(4, str(ours))]


def test_details_that_are_marked_as_nested_are_read() -> None:
    body = struct.pack("=BxHiII", 0, 1, 7, 0x41, 0) + attribute(18 | 0x8000, attribute(1, b"bridge"))
    assert facts(said(16, body)) == [interface(7, "bridge")]


@pytest.mark.parametrize(
    ("kind", "leads"), [(1, True), (2, False), (6, False), (7, False)], ids=["unicast", "local", "hole", "unreachable"]
)
def test_only_a_way_to_another_machine_is_a_way_out(kind: int, leads: bool) -> None:
    body = struct.pack("=BBBBBBBBI", 2, 32, 0, 0, 254, 0, 0, kind, 0) + attribute(4, struct.pack("=I", 4))
    assert bool(facts(said(24, body))) is leads


def test_a_second_address_of_version_4_is_no_temporary_one() -> None:
    assert facts(flagged(0x01, family=socket.AF_INET)) == [address(4, "192.0.2.2")]


def test_an_address_of_its_link_alone_counts_in_version_4_and_one_of_its_host_never() -> None:
    link, host = 253, 254
    assert facts(flagged(0, family=socket.AF_INET, scope=link))  # the only one that a cable between two machines has
    assert not facts(flagged(0, scope=link))
    assert not facts(flagged(0, family=socket.AF_INET, scope=host))


def test_a_listing_during_which_something_changed_says_so() -> None:
    (message,) = netlink.messages(struct.pack("=IHHII", 16, 3, 0x12, 1, 1))
    assert message.is_interrupted


@pytest.mark.parametrize("recording", [MACHINE, CONTAINER, BRIDGE], ids=["machine", "container", "bridge"])
def test_an_answer_cut_anywhere_is_read_as_far_as_it_is_whole(recording: Recording) -> None:
    for answer in recording:
        whole = facts(answer)
        for length in range(0, len(answer), 3):
            found = facts(answer[:length])
            assert found == whole[: len(found)]


def test_lengths_that_cannot_be_end_the_reading() -> None:
    for length in (0, 3, 15, 17, 0xFFFFFFFF):
        assert not list(netlink.messages(struct.pack("=IHHII", length, 16, 2, 1, 1)))
    cut = struct.pack("=IHHII", 20, 16, 2, 1, 1) + bytes(4)  # an interface without its own head
    (message,) = netlink.messages(cut)
    assert netlink.fact(message) is None
    for length in (0, 3, 200):
        body = struct.pack("=BBBBI", 2, 24, 0, 0, 4) + struct.pack("=HHI", length, 1, 0)
        assert not facts(struct.pack("=IHHII", 16 + len(body), 20, 2, 1, 1) + body)


def test_questions_are_whole_messages_under_their_number() -> None:
    for number, question in enumerate(netlink.questions(), 7):
        (message,) = netlink.messages(netlink.encode(question, sequence=number))
        assert (message.kind, message.sequence, message.body) == (question.kind, number, question.body)
        assert (message.flags & 0x300 == 0x300) is question.is_listing
