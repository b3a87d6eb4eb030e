"""Many readers at once, each a bare socket: one thread and one `epoll` take what comes, so that the server is the cost.

Every reader speaks HTTP/1.0: its body is what the server said, without chunks in between.
"""

import re
import resource
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from bench.measure import check
from bench.process import WITHIN
from bench.record import digest, say

AT_ONCE: Final = 100
"""Connections that are opened before the first of them must be answered."""
PART: Final = 256 * 1024
SPARE: Final = 256
"""Descriptors for everything that is no reader."""
_TEXT: Final = re.compile(rb'^data: ("[^"\r\n]*")\r?$', re.MULTILINE)


def seats(wanted: int) -> int:
    """Return how many of the `wanted` readers this machine lets one process have, and allow as many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + SPARE
    if soft != resource.RLIM_INFINITY and soft < needed:
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        return min(wanted, allowed - SPARE)
    return wanted


class Crowd:
    """Reads the stream at each of `urls`; `buffer` bounds what the kernel takes for one of them, in bytes."""

    def __init__(self, urls: Sequence[str], *, buffer: int | None = None) -> None:
        self.heard = [bytearray() for _ in urls]
        self._urls = urls
        self._buffer = buffer
        self._sockets: list[socket.socket] = []
        self._selector = selectors.DefaultSelector()
        self._attended = 0

    def __enter__(self) -> Self:
        """Connect everybody, and return when all are answered."""
        for first in range(0, len(self._urls), AT_ONCE):
            for number, url in enumerate(self._urls[first : first + AT_ONCE], first):
                self._selector.register(self._connect(url), selectors.EVENT_READ, number)
            self.until(b"\r\n\r\n", range(first, min(first + AT_ONCE, len(self._urls))))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave all at once."""
        self._selector.close()
        for each in self._sockets:
            each.close()

    def until(self, text: bytes, readers: Sequence[int] | None = None) -> None:
        """Read until each of `readers`, or everybody, has heard `text`."""
        missing = set(range(len(self.heard)) if readers is None else readers)
        missing -= {number for number in missing if text in self.heard[number]}
        while missing:
            for number, heard, new in self._take():
                if number in missing and heard.find(text, max(0, new - len(text))) >= 0:
                    missing.discard(number)

    def rest(self, seconds: float) -> None:
        """Read for a while whatever comes, if anything does."""
        ends = time.perf_counter() + seconds
        while (left := ends - time.perf_counter()) > 0:
            for key, _ in self._selector.select(left):
                self.hear(key)

    def attend(self, connection: socket.socket, turn: Callable[[], bool]) -> None:
        """While it works, call `turn` whenever something comes over this connection, until it says False."""
        self._selector.register(connection, selectors.EVENT_READ, turn)
        self._attended += 1

    def work(self) -> None:
        """Read, and let those who were given to `attend` have their turns, until all of them are done."""
        while self._attended:
            for _ in self._take():
                pass

    def to_the_end(self) -> None:
        """Read until every server's answer is complete."""
        while self._selector.get_map():
            for _ in self._take():
                pass

    def check(self, events: int) -> None:
        """Check that everybody heard the known texts, once and in order."""
        expected = digest(b'"%b"' % say(number).encode() for number in range(events))
        for heard in self.heard:
            texts = _TEXT.findall(heard)
            check(events, len(texts), "events at a reader")
            check(expected, digest(texts), "the hash of what a reader saw")

    def _connect(self, url: str) -> socket.socket:
        place = urlsplit(url)
        connection = socket.socket()
        self._sockets.append(connection)
        if self._buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._buffer)
        connection.settimeout(WITHIN)
        connection.connect((place.hostname, place.port))
        path = f"{place.path}?{place.query}" if place.query else place.path
        connection.sendall(f"GET {path} HTTP/1.0\r\nhost: {place.netloc}\r\naccept: text/event-stream\r\n\r\n".encode())
        connection.setblocking(False)
        return connection

    def _take(self) -> Iterator[tuple[int, bytearray, int]]:
        """Yield who has something new, all that it heard, and where the new part begins."""
        ready = self._selector.select(WITHIN)
        check(True, bool(ready), "readers that are told something in time")
        for key, _ in ready:
            if callable(key.data):
                self._attend(key)
                continue
            new = self.hear(key)
            if new is not None:
                yield key.data, self.heard[key.data], new

    def _attend(self, key: selectors.SelectorKey) -> None:
        if not key.data():
            self._selector.unregister(key.fileobj)
            self._attended -= 1

    def hear(self, key: selectors.SelectorKey) -> int | None:
        """Take what one reader has, and return where that begins; None when its answer is complete."""
        connection, heard = self._sockets[key.data], self.heard[key.data]
        part = connection.recv(PART)
        if not part:
            self._selector.unregister(connection)
            return None
        heard += part
        return len(heard) - len(part)


class Teller:
    """Asks a server, over one connection of its own, to say known texts to its crowd."""

    def __init__(self, url: str) -> None:
        self._place = urlsplit(url)
        self._connection = socket.create_connection((self._place.hostname or "", self._place.port or 80), WITHIN)

    def say(self, first: int, events: int) -> None:
        """Return when the texts from `first` on were said."""
        self.ask("POST", f"/say?first={first}&events={events}")

    def ask(self, method: str, path: str) -> bytes:
        """Return the body of one answer."""
        request = f"{method} {path} HTTP/1.1\r\nhost: {self._place.netloc}\r\ncontent-length: 0\r\n\r\n"
        self._connection.sendall(request.encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._more()
        head, _, body = answer.partition(b"\r\n\r\n")
        check(b"200", head.split(b" ", 2)[1], "an answer")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        while len(body) < int(length.partition(b":")[2]):
            body += self._more()
        return body

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def _more(self) -> bytes:
        part = self._connection.recv(PART)
        check(True, bool(part), "an answer that is complete")
        return part
