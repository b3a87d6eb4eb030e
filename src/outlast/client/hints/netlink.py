"""Linux's netlink messages about interfaces, addresses and routes: questions to bytes, bytes to facts.

What is cut short, unknown or of another kind is passed over: a kernel may say more than this version knows.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from types import MappingProxyType
from typing import Final

from outlast.client.hints.path import Address, Interface, Route

GROUPS: Final = 0x1 | 0x10 | 0x40 | 0x100 | 0x400
"""What a subscriber is told of: interfaces, then addresses and routes, of IPv4 and of IPv6."""

_ERROR, _DONE, _NEW_LINK, _NEW_ADDRESS, _NEW_ROUTE = 2, 3, 16, 20, 24
_ASK_LINK, _ASK_ADDRESS, _ASK_ROUTE = 18, 22, 26
_REQUEST, _OF_MANY, _INTERRUPTED, _DUMP = 0x1, 0x2, 0x10, 0x300
_IPV4, _IPV6 = 2, 10  # Linux's numbers: `socket` has another one for IPv6 elsewhere

_HEADER: Final = struct.Struct("=IHHII")  # length, kind, flags, sequence, port
_LINK: Final = struct.Struct("=BxHiII")  # family, hardware, index, flags, changed
_ADDRESS: Final = struct.Struct("=BBBBI")  # family, prefix, flags, scope, index
_ROUTE: Final = struct.Struct("=BBBBBBBBI")  # family, prefixes, tos, table, protocol, scope, type, flags
_ATTRIBUTE: Final = struct.Struct("=HH")  # length, kind
_NUMBER: Final = struct.Struct("=I")

_UP, _LOOPBACK, _RUNNING = 0x1, 0x8, 0x40
_MASTER, _WITHOUT_STATISTICS, _FILTER, _DETAILS, _DETAILS_KIND = 10, 0x8, 29, 18, 1
_ADDRESS_ITSELF, _ADDRESS_LOCAL, _ADDRESS_FLAGS = 1, 2, 8
_TEMPORARY, _FAILED, _TENTATIVE = 0x1, 0x8, 0x40
_LINK_SCOPE, _HOST_SCOPE = 253, 254
_ROUTE_TO, _ROUTE_OUT, _ROUTE_GATEWAY, _ROUTE_VIA, _UNICAST = 1, 4, 5, 18, 1

OUTSIDE: Final[Mapping[int, IPv4Address | IPv6Address]] = MappingProxyType(
    {_IPV4: IPv4Address("203.0.113.1"), _IPV6: IPv6Address("2001:db8::1")}
)
"""Where a way out would lead, by family: addresses kept for documentation, which no network has. Nothing is sent there;
the kernel is asked which way it would take, so that rules and tunnels count as it counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the kernel is asked; a listing is answered by many messages, and then by a last one."""

    kind: int
    is_listing: bool
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message; an answer bears the number of its question and the port that asked."""

    kind: int
    flags: int
    sequence: int
    port: int
    body: bytes

    @property
    def is_last(self) -> bool:
        """Whether nothing more answers that question."""
        return self.kind in {_DONE, _ERROR} or not self.flags & _OF_MANY

    @property
    def is_refusal(self) -> bool:
        """Whether the question was not answered, or not to the end."""
        return self.kind == _ERROR or (self.kind == _DONE and any(self.body[:4]))

    @property
    def is_interrupted(self) -> bool:
        """Whether what is listed changed while the kernel listed it."""
        return bool(self.flags & _INTERRUPTED)


# ---- questions ------------------------------------------------------------------------------------


def questions() -> tuple[Question, ...]:
    """Return what is to be asked, in order, for a whole path."""
    links = _LINK.pack(0, 0, 0, 0, 0) + _attribute(_FILTER, _NUMBER.pack(_WITHOUT_STATISTICS))
    ways = (
        _ROUTE.pack(family, to.max_prefixlen, *(0,) * 7) + _attribute(_ROUTE_TO, to.packed)
        for family, to in OUTSIDE.items()
    )
    return (
        Question(kind=_ASK_LINK, is_listing=True, body=links),
        Question(kind=_ASK_ADDRESS, is_listing=True, body=_ADDRESS.pack(0, 0, 0, 0, 0)),
        *(Question(kind=_ASK_ROUTE, is_listing=False, body=way) for way in ways),
    )


def encode(question: Question, *, sequence: int) -> bytes:
    """Return the bytes that ask a question under a number."""
    flags = _REQUEST | _DUMP if question.is_listing else _REQUEST
    return _HEADER.pack(_HEADER.size + len(question.body), question.kind, flags, sequence, 0) + question.body


def _attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value  # all that is asked has whole words


# ---- answers --------------------------------------------------------------------------------------


def messages(datagram: bytes) -> Iterator[Message]:
    """Yield the messages of a datagram."""
    at = 0
    while at + _HEADER.size <= len(datagram):
        length, kind, flags, sequence, port = _HEADER.unpack_from(datagram, at)
        if length < _HEADER.size or at + length > len(datagram):
            return
        body = datagram[at + _HEADER.size : at + length]
        yield Message(kind=kind, flags=flags, sequence=sequence, port=port, body=body)
        at += _aligned(length)


def fact(message: Message) -> Interface | Address | Route | None:
    """Return what a message tells; None when that is nothing to us."""
    reader = _FACTS.get(message.kind)
    try:
        return None if reader is None else reader(message.body)
    except struct.error:  # cut short
        return None


def _interface(body: bytes) -> Interface:
    _family, _hardware, index, flags, _changed = _LINK.unpack_from(body)
    said = _attributes(body, _LINK.size)
    details = _attributes(said.get(_DETAILS, b""), 0)
    return Interface(
        index=index,
        is_up=flags & (_UP | _RUNNING) == _UP | _RUNNING,
        is_loopback=bool(flags & _LOOPBACK),
        kind=details.get(_DETAILS_KIND, b"").rstrip(b"\0").decode("ascii", "replace"),
        master=_number(said.get(_MASTER)),
    )


def _address(body: bytes) -> Address | None:
    family, _prefix, flags, scope, index = _ADDRESS.unpack_from(body)
    said = _attributes(body, _ADDRESS.size)
    # Of a line with two ends the first is the other end's.
    packed = said.get(_ADDRESS_LOCAL, said.get(_ADDRESS_ITSELF))
    if packed is None:
        return None
    if family == _IPV4:
        return Address(interface=index, packed=packed) if scope < _HOST_SCOPE else None
    flags = _number(said.get(_ADDRESS_FLAGS)) or flags
    # An address that is being checked is not one yet; a temporary one is changed every day beside one that stays.
    is_lasting = not flags & (_TEMPORARY | _FAILED | _TENTATIVE)
    return Address(interface=index, packed=packed) if family == _IPV6 and scope < _LINK_SCOPE and is_lasting else None


def _route(body: bytes) -> Route | None:
    kind = _ROUTE.unpack_from(body)[7]
    said = _attributes(body, _ROUTE.size)
    interface = _number(said.get(_ROUTE_OUT))
    if kind != _UNICAST or interface is None:
        return None
    return Route(interface=interface, gateway=said.get(_ROUTE_GATEWAY, said.get(_ROUTE_VIA, b"")))


def _attributes(body: bytes, at: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while at + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, at)
        if length < _ATTRIBUTE.size or at + length > len(body):
            break
        found[kind & 0x3FFF] = body[at + _ATTRIBUTE.size : at + length]  # the two highest bits are marks
        at += _aligned(length)
    return found


def _number(value: bytes | None) -> int | None:
    return int(_NUMBER.unpack(value)[0]) if value is not None and len(value) == _NUMBER.size else None


def _aligned(length: int) -> int:
    return (length + 3) & ~3


_FACTS: Final[Mapping[int, Callable[[bytes], Interface | Address | Route | None]]] = MappingProxyType(
    {_NEW_LINK: _interface, _NEW_ADDRESS: _address, _NEW_ROUTE: _route}
)
