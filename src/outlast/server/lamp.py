"""What is lit in a beacon: answers every GET with a boot id and how late an event loop is, whatever that loop does.

Rules:
1. It knows the standard library alone, and little of that: it also runs as a program of its own, `lamp.py`, in a
   process that is there in a moment and stays small.
2. The beats of the loop come down a socket, each as the moment when the next one is due, by the monotonic clock, which
   all processes of a machine share. The end of that socket is the end of the lamp: the kernel closes it with its
   process, whatever ended that.
3. Who fork()s keeps a copy of that socket open, so a lamp in a process of its own also looks whose child it is.
4. A peer costs a place for a few seconds and nothing more. Places are few, and when all are taken whoever has had one
   longest makes way, so those that say nothing keep nobody out.
5. A boot id and a lag are all that anybody is ever told of the process. Source: Z16.
"""

import os
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar, Final

BEAT: Final = struct.Struct("=d")
"""One beat as it comes down the socket: when the next one is due, in seconds of the monotonic clock."""
PLACES: Final = 64
"""Connections at the same time: an answer takes a moment, so this many wait only where somebody means harm."""
WITHIN: Final = 5.0
"""Seconds a peer has for its request: it is one line, and whoever asks wants to know in less."""
REQUEST_BYTES: Final = 64 * 1024
"""Of a request: a browser sends the cookies of every port of a host along."""
GLANCE: Final = 1.0
"""Seconds at the most between two looks at deadlines, and at whose child this is."""
BREATH: Final = 0.05
"""Seconds of rest when no connection can be taken, as where no file descriptor is left: the next try may fail too."""

_ANSWER: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncache-control: no-store\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%b"
)
_REFUSAL: Final = b"HTTP/1.1 405 Method Not Allowed\r\nallow: GET\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Guest:
    """A peer whose request is not whole yet. What it says is not kept, but for its method and the newest bytes."""

    def __init__(self, connection: socket.socket, *, leaves_at: float) -> None:
        self.connection = connection
        self.leaves_at = leaves_at
        self.method = b""
        self.size = 0
        self._newest = b""

    def hear(self, said: bytes) -> bool:
        """Take what it says, and say whether that was the end of its request."""
        self.size += len(said)
        self.method += said[: len(b"GET ") - len(self.method)]
        newest = self._newest + said
        self._newest = newest[-len(b"\r\n\r") :]
        return b"\r\n\r\n" in newest or b"\n\n" in newest


class Lamp:
    """Answers at `listener` for as long as `beats`, whose other end the process has that it speaks for, is open.

    The seconds a peer has are the class's, for whoever wants others.
    """

    within: ClassVar[float] = WITHIN

    def __init__(self, listener: socket.socket, beats: socket.socket, boot_id: str) -> None:
        self._listener = listener
        self._beats = beats
        self._boot_id = boot_id.encode()
        self._due_at = time.monotonic()
        self._heard = b""
        self._guests: dict[socket.socket, Guest] = {}  # who came first stands first
        self._selector = selectors.DefaultSelector()

    def shine(self, is_orphan: Callable[[], bool] = lambda: False) -> None:
        """Answer until the beats end, or until `is_orphan`; then nothing is open any more."""
        try:
            for each in (self._listener, self._beats):
                each.setblocking(False)
                self._selector.register(each, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in self._selector.select(GLANCE)}
                if not self._hear_beats() or is_orphan():
                    return
                for guest in [guest for connection, guest in self._guests.items() if connection in ready]:
                    self._hear(guest)
                if self._listener in ready:
                    self._welcome()
                self._dismiss_who_is_late()
        finally:
            self._listener.close()
            self._beats.close()
            for connection in self._guests:
                connection.close()
            self._selector.close()

    def _hear_beats(self) -> bool:
        """Take the newest beat; False when there will be none any more."""
        while True:
            try:
                said = self._beats.recv(4096)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not said:
                return False
            self._heard += said
            whole = len(self._heard) - len(self._heard) % BEAT.size
            if whole:
                (self._due_at,) = BEAT.unpack_from(self._heard, whole - BEAT.size)
                self._heard = self._heard[whole:]

    def _welcome(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return  # it has gone again
        except OSError:
            time.sleep(BREATH)
            return
        if len(self._guests) >= PLACES:
            self._dismiss(next(iter(self._guests.values())))
        connection.setblocking(False)
        self._guests[connection] = Guest(connection, leaves_at=time.monotonic() + self.within)
        self._selector.register(connection, selectors.EVENT_READ)

    def _hear(self, guest: Guest) -> None:
        try:
            said = guest.connection.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if guest.hear(said):
            with suppress(OSError):  # it has gone, or takes nothing: these few bytes fit into any socket that is new
                guest.connection.send(self._answer() if guest.method == b"GET " else _REFUSAL)
                guest.connection.shutdown(socket.SHUT_WR)
            self._dismiss(guest)
        elif not said or guest.size > REQUEST_BYTES:
            self._dismiss(guest)

    def _answer(self) -> bytes:
        loop_lag = max(0.0, time.monotonic() - self._due_at)
        document = b'{"boot_id": "%b", "loop_lag": %.3f}' % (self._boot_id, loop_lag)
        return _ANSWER % (len(document), document)

    def _dismiss_who_is_late(self) -> None:
        now = time.monotonic()
        for guest in [guest for guest in self._guests.values() if guest.leaves_at <= now]:
            self._dismiss(guest)

    def _dismiss(self, guest: Guest) -> None:
        del self._guests[guest.connection]
        self._selector.unregister(guest.connection)
        guest.connection.close()


def main(listener: int, beats: int, boot_id: str) -> None:
    """Be a lamp in a process of its own, with these two inherited sockets: it ends with its parent and by nothing else.

    What is meant for the parent's whole group, such as the signal of a supervisor, leaves it lit: a process that
    drains is alive.
    """
    for name in ("SIGHUP", "SIGINT", "SIGTERM"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    parent = os.getppid()
    lamp = Lamp(socket.socket(fileno=listener), socket.socket(fileno=beats), boot_id)
    lamp.shine(is_orphan=lambda: os.getppid() != parent)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
