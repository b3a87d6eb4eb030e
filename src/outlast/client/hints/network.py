"""Reads the machine's path from Linux, and hears when it may have changed.

Rules:
1. It is subscribed before anything is read, so nothing is lost between the two.
2. A report says that something changed, never what: what counts is read afterwards. So nothing is lost either when
   the kernel drops reports because too many came.
3. Reports and answers come in one order, over one socket. A reading during which a report came in may be older than
   that report: it is dropped, and asked for again.
4. The kernel answers within the call that asks, so a reading never waits.
"""

import errno
import socket
import sys
from typing import Final, Self

from outlast.client.hints import netlink
from outlast.client.hints.path import Address, Interface, Path, Route, path_of

DATAGRAM: Final = 64 * 1024
"""Bytes received at once: the kernel answers in pieces of 32 KiB at most."""
LOST: Final = b""
"""Stands for reports that nobody will ever see."""
KERNEL: Final = 0
"""The kernel's own port."""
REPORTS: Final = 64
"""Datagrams of reports that are received in one go, so that others get their turn."""


class Network:
    """A subscription; to be closed."""

    def __init__(self, subscribed: socket.socket) -> None:
        self._socket = subscribed
        self._port = subscribed.getsockname()[0]
        self._sequence = 0

    @classmethod
    def subscribe(cls) -> Self | None:
        """Subscribe; None where this is not Linux, or a sandbox does not let us."""
        if sys.platform != "linux":
            return None
        try:
            subscribed = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
        except OSError:
            return None
        try:
            subscribed.bind((0, netlink.GROUPS))
            return cls(subscribed)
        except OSError:
            subscribed.close()
            return None

    def fileno(self) -> int:
        """Return what becomes readable when there are reports."""
        return self._socket.fileno()

    def heard(self) -> bool:
        """Take the reports that have come in, and tell whether there were any. Raises OSError."""
        for count in range(REPORTS):
            if self._receive() is None:
                return count > 0
        return True

    def read(self) -> Path | None:
        """Return the path as it is; None when it may have changed meanwhile. Raises OSError."""
        facts: list[Interface | Address | Route] = []
        is_fresh = True
        for question in netlink.questions():
            self._sequence += 1
            self._socket.send(netlink.encode(question, sequence=self._sequence))
            is_fresh = self._collect(facts, is_needed=question.is_listing) and is_fresh
        return path_of(facts) if is_fresh else None

    def close(self) -> None:
        """End the subscription. Harmless twice."""
        self._socket.close()

    def _collect(self, facts: list[Interface | Address | Route], *, is_needed: bool) -> bool:
        """Add one question's answers to the facts, and tell whether nothing else was heard meanwhile."""
        is_fresh = True
        while (datagram := self._receive()) is not None:
            is_last = False
            for message in netlink.messages(datagram):
                if (message.port, message.sequence) != (self._port, self._sequence):
                    is_fresh = False
                    continue
                if message.is_refusal and is_needed:
                    raise OSError("The kernel does not list its interfaces and addresses.")
                is_last = is_last or message.is_last
                is_fresh = is_fresh and not message.is_interrupted
                facts.extend(filter(None, [netlink.fact(message)]))
            is_fresh = is_fresh and datagram != LOST
            if is_last:
                return is_fresh
        if is_fresh:
            raise BlockingIOError("The kernel leaves a question unanswered.")
        return False  # so many reports that there was no room for the answer

    def _receive(self) -> bytes | None:
        """Return a datagram, LOST instead of what the kernel had no room for, None when there is nothing."""
        try:
            datagram, (port, _groups) = self._socket.recvfrom(DATAGRAM)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                return LOST
            raise
        return datagram if port == KERNEL else LOST  # another process may talk to us: at worst we read once more
