"""A server whose every byte is ready before it is asked: one run's stream as Outlast sends it, to whoever reads it.

`python -m bench.premade EVENTS TOGETHER PAUSE`: so many events, so many of them in one piece, and seconds between two
pieces. The first event comes alone and a little ahead, so that a reader can tell its reading from its connecting.
HTTP/1.1 is answered in chunks, HTTP/1.0 with nothing but the stream.
"""

import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from bench.process import greet
from bench.record import say
from outlast.log.cursor import chain, origin
from outlast.log.event import JSON_TYPE, OWN_PREFIX, Event, StoredEvent, encode_json, restore
from outlast.run import Status
from outlast.wire import native

RUN = "premade"
TYPE = "text"
BOOT = "premade"
HEARTBEAT = 15.0
AHEAD = 0.1
"""Seconds after the first event: a reader is done with it by then."""
HEAD = b"HTTP/1.%d 200 OK\r\ncontent-type: %b\r\nconnection: close\r\n%b\r\n"


def frames(count: int) -> list[bytes]:
    """Return the frames of so many known events and of the one that ends them."""
    events = [Event(TYPE, say(number)) for number in range(count)]
    events.append(restore(f"{OWN_PREFIX}{Status.COMPLETED}", b"{}", JSON_TYPE))
    cursors = chain(origin(RUN), events)
    return [
        native.event_frame(StoredEvent(cursor=cursor, event=event, epoch=1, time=0.0))
        for cursor, event in zip(cursors, events, strict=True)
    ] + [native.end(cursors[-1])]


def pieces(count: int, together: int) -> list[bytes]:
    """Return the stream as it is sent, the greeting and the first event alone."""
    first, *rest = frames(count)
    hello = native.hello(boot_id=BOOT, heartbeat=HEARTBEAT, head=origin(RUN))
    return [hello + first, *(b"".join(rest[at : at + together]) for at in range(0, len(rest), together))]


def chunk(piece: bytes) -> bytes:
    """Return a piece as a chunk of HTTP/1.1."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def answer(connection: socket.socket, ready: Sequence[bytes], pause: float) -> None:
    """Answer one request: whatever asks for a stream gets it, and everything else who is there."""
    with connection, suppress(ConnectionError):  # a reader that has all it wants goes
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = b""
        while b"\r\n\r\n" not in request:
            part = connection.recv(64 * 1024)
            if not part:
                return
            request += part
        asked = request.partition(b"\r\n")[0]
        if b"/events" not in asked and b"/stream" not in asked:
            said = encode_json(native.greeting(boot_id=BOOT, heartbeat=HEARTBEAT))
            connection.sendall(HEAD % (1, JSON_TYPE.encode(), b"content-length: %d\r\n" % len(said)) + said)
            return
        is_plain = asked.endswith(b"1.0")
        connection.sendall(
            HEAD % (not is_plain, b"text/event-stream", b"" if is_plain else b"transfer-encoding: chunked\r\n")
        )
        for number, piece in enumerate([*ready, b""] if not is_plain else ready):
            if number == 1:
                time.sleep(AHEAD)
            elif number and pause:
                time.sleep(pause)
            connection.sendall(piece if is_plain else chunk(piece))


def main(events: int, together: int, pause: float) -> None:
    """Serve until killed."""
    ready = pieces(events, together)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        greet(listener)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=answer, args=(connection, ready, pause), daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
