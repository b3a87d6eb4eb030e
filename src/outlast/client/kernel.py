"""What Linux knows about a TCP connection, and when that speaks for a server that does not answer.

Rules:
1. An acknowledgement is the other machine's kernel speaking. It says that the machine is up and the way to it is
   open, also while its process is stopped or its event loop blocked; it never says that the process is well.
2. Only what was sent after `before` counts, and only when all of it was acknowledged: bytes that are repeated into a
   black hole are evidence of nothing.
3. Behind a proxy or a load balancer it is that one which acknowledges. Whoever knows that something stands between
   says so, and there is no evidence.
4. Where the kernel does not tell, because it is another system or an old one, because the connection is none of TCP
   or is closed, there is no evidence, and nothing fails.
"""

import socket
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

import httpx2


class State(StrEnum):
    """Where a connection stands, in the order of the kernel's numbers."""

    UNKNOWN = "unknown"
    ESTABLISHED = "established"
    SYN_SENT = "syn-sent"
    SYN_RECEIVED = "syn-received"
    FIN_WAIT_1 = "fin-wait-1"
    FIN_WAIT_2 = "fin-wait-2"
    TIME_WAIT = "time-wait"
    CLOSED = "closed"
    CLOSE_WAIT = "close-wait"
    LAST_ACK = "last-ack"
    LISTENING = "listening"
    CLOSING = "closing"


STATES: Final[tuple[State, ...]] = tuple(State)
"""The states by the kernel's numbers, which begin at 1."""

_INFO: Final = struct.Struct("=B x B x B 3x 16x I 28x I 60x Q Q 8x I")
"""The head of the kernel's `struct tcp_info`, up to the newest member that is used here.

Members are only ever added at its end. The last one read here came with Linux 4.6 (2016); an older kernel tells too
little.
"""
_ASKED: Final = 256
"""Bytes asked for: more than today's struct has; the kernel cuts what it gives, and we what it has added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transmission:
    """A connection's transmission at one moment.

    `unacknowledged` counts segments on their way, `unsent` bytes that wait to be sent; `retransmits` counts how often
    in a row the oldest segment was repeated, `backoff` how often the wait before that was doubled.
    `acknowledged` and `received` count bytes since the connection began. `last_acknowledged` is how many seconds ago
    the other side acknowledged anything, also an empty question of the kernel's own.
    """

    state: State
    unacknowledged: int
    unsent: int
    retransmits: int
    backoff: int
    acknowledged: int
    received: int
    last_acknowledged: float


class Socket(Protocol):
    """What is needed of a socket: Python's own, asyncio's and uvloop's have it."""

    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes:
        """Return an option's bytes. Raises OSError."""
        ...


def parse(info: bytes) -> Transmission | None:
    """Return what a `struct tcp_info` says; None where the kernel is too old to say it."""
    if len(info) < _INFO.size:
        return None
    number: int
    number, retransmits, backoff, unacknowledged, waited, acknowledged, received, unsent = _INFO.unpack_from(info)
    return Transmission(
        state=STATES[number] if number < len(STATES) else State.UNKNOWN,
        unacknowledged=unacknowledged,
        unsent=unsent,
        retransmits=retransmits,
        backoff=backoff,
        acknowledged=acknowledged,
        received=received,
        last_acknowledged=waited / 1000,
    )


def read(connection: Socket | None) -> Transmission | None:
    """Return how a connection stands now; None where the kernel does not tell."""
    if connection is None or sys.platform != "linux":  # others have an option of that name, and another struct
        return None
    try:
        return parse(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ASKED))
    except OSError:
        return None


def acknowledges(before: Transmission | None, after: Transmission | None, *, is_direct: bool) -> bool:
    """Tell whether something was sent since `before`, and all of it was acknowledged by the server's kernel.

    Both are of one connection; with `is_direct` nothing stands between this machine and the server's. That nothing was
    answered meanwhile is the caller's to know. Source: P14.
    """
    return (
        is_direct
        and before is not None
        and after is not None
        and after.state is State.ESTABLISHED
        and after.acknowledged > before.acknowledged
        and after.unacknowledged == 0
        and after.unsent == 0
    )


def own_address(response: httpx2.Response) -> str | None:
    """Return the address that the server was asked from, `host:port`.

    None where there is none, as within one process, and where the connection was closed with the answer.
    """
    stream = response.extensions.get("network_stream")
    try:
        address = None if stream is None else stream.get_extra_info("client_addr")
    except OSError:
        return None
    return None if not address else f"{address[0]}:{address[1]}"


class Handshake:
    """Note the connection that a request makes, and how it stood before the request's first byte.

    Given to httpx2 as `extensions={"trace": handshake}`, it is the way to the socket while nothing is answered.
    Nothing is noted when the request goes over a connection that was there before.
    """

    def __init__(self) -> None:
        self.socket: Socket | None = None
        self.before: Transmission | None = None

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            self.socket = info["return_value"].get_extra_info("socket")
            self.before = read(self.socket)
