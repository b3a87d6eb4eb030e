"""What answers at a beacon: a boot id and a lag to everybody, nothing else to anybody, whatever others do there."""

import errno
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pytest

from outlast.server.lamp import BEAT, PLACES, REQUEST_BYTES, Lamp
from tests.beacon import GET, PATIENCE, all_of, ask, connect, is_refused


@dataclass
class Lit:
    """A lamp in a thread: its port, and the end of its beats that its process would have."""

    port: int
    beats: socket.socket
    thread: threading.Thread


class Hasty(Lamp):
    """One that gives peers next to no time."""

    within = 0.01


class Exhausted(socket.socket):
    """A listening socket of a process that has no file descriptor left, for the first few connections."""

    failures = 3

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


@contextmanager
def lit(
    kind: type[Lamp] = Lamp,
    *,
    listener: socket.socket | None = None,
    is_orphan: Callable[[], bool] = lambda: False,
) -> Iterator[Lit]:
    listener = listener or socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    ours, its = socket.socketpair()
    lamp = kind(listener, its, "b00t")
    thread = threading.Thread(target=lamp.shine, args=(is_orphan,), name="outlast-lamp")
    thread.start()
    try:
        yield Lit(port=port, beats=ours, thread=thread)
    finally:
        ours.close()
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert is_refused(port)


def is_cut(connection: socket.socket) -> bool:
    """Wait for the other side to end the connection without having said anything. One that stays open is an error."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def beat(due_in: float) -> bytes:
    return BEAT.pack(time.monotonic() + due_in)


@pytest.mark.attack("Z16")
@pytest.mark.parametrize("path", ["/", "/healthz", "/runs", "/?boot_id=x", "http://elsewhere.example/"])
def test_whoever_asks_whatever_is_told_the_boot_id_and_the_lag_and_nothing_else(path: str) -> None:
    with lit() as lamp, connect(lamp.port) as connection:
        lamp.beats.sendall(beat(60))
        asked = f"GET {path} HTTP/1.1\r\nhost: elsewhere.example\r\norigin: https://a.example\r\ncookie: a=b\r\n\r\n"
        connection.sendall(asked.encode())
        head, _, body = all_of(connection).partition(b"\r\n\r\n")
    assert json.loads(body) == {"boot_id": "b00t", "loop_lag": 0.0}
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"content-type: application/json",
        b"cache-control: no-store",
        b"content-length: %d" % len(body),
        b"connection: close",
    ]


@pytest.mark.attack("Z16")
@pytest.mark.parametrize("method", ["HEAD", "POST", "OPTIONS", "get", "GETS", "X"])
def test_what_is_no_get_is_refused_without_a_word_about_the_process(method: str) -> None:
    with lit() as lamp, connect(lamp.port) as connection:
        connection.sendall(f"{method} / HTTP/1.1\r\n\r\n".encode())
        answer = all_of(connection)
        assert ask(lamp.port)["boot_id"] == "b00t"
    assert answer.startswith(b"HTTP/1.1 405 ")
    assert b"b00t" not in answer


def test_the_lag_is_how_late_the_next_beat_is_by_now() -> None:
    with lit() as lamp:
        lamp.beats.sendall(beat(-7) + beat(60))
        assert ask(lamp.port)["loop_lag"] == 0.0, "the newest beat counts"
        late = beat(-7)
        lamp.beats.sendall(late[:3])
        assert ask(lamp.port)["loop_lag"] == 0.0, "half a beat is none yet"
        lamp.beats.sendall(late[3:])
        first = ask(lamp.port)["loop_lag"]
        assert first >= 7
        while (second := ask(lamp.port)["loop_lag"]) == first:  # it is told to the millisecond
            pass
        assert second > first, "it grows while nothing comes"


def test_it_speaks_before_the_first_beat() -> None:
    with lit() as lamp:
        assert ask(lamp.port)["loop_lag"] >= 0


def test_a_request_may_come_byte_by_byte_and_end_its_lines_as_people_do() -> None:
    with lit() as lamp:
        for request in (GET, b"GET / HTTP/1.0\n\n"):
            with connect(lamp.port) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for byte in request:
                    connection.sendall(bytes([byte]))
                assert b"b00t" in all_of(connection)


@pytest.mark.parametrize("said", [b"", b"\0" * 5000, b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/1.1\r\n", b"GET"])
def test_a_peer_that_sends_garbage_or_half_a_request_and_goes_costs_nothing(said: bytes) -> None:
    with lit() as lamp:
        for _ in range(2 * PLACES):
            with connect(lamp.port) as connection:
                connection.sendall(said)
        assert ask(lamp.port)["boot_id"] == "b00t"


def test_a_peer_that_takes_too_long_loses_its_place() -> None:
    with lit(Hasty) as lamp, connect(lamp.port) as connection:
        connection.sendall(GET[:-1])
        assert is_cut(connection)


def test_a_request_without_an_end_is_cut() -> None:
    with lit() as lamp, connect(lamp.port) as connection:
        with suppress(ConnectionError):
            connection.sendall(b"a" * 2 * REQUEST_BYTES)
        assert is_cut(connection)


@pytest.mark.attack("Z8")
def test_five_hundred_silent_peers_keep_nobody_out() -> None:
    with lit() as lamp:
        silent: list[socket.socket] = []
        try:
            for number in range(500):
                silent.append(connect(lamp.port))
                if number % 3 == 0:
                    silent[-1].sendall(b"GET / HTTP/1.1\r\nx: ")
            assert ask(lamp.port)["boot_id"] == "b00t"
            assert all(map(is_cut, silent[: 500 - PLACES])), "who came first made way"
        finally:
            for connection in silent:
                connection.close()


def test_where_no_connection_can_be_taken_it_tries_again() -> None:
    listener = Exhausted(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    with lit(listener=listener) as lamp:
        assert ask(lamp.port)["boot_id"] == "b00t"
    assert listener.failures == 0


def test_it_ends_with_its_beats_whoever_is_there() -> None:
    with lit() as lamp, connect(lamp.port) as connection:
        connection.sendall(GET[:-1])
        ask(lamp.port)  # so the other has its place
        lamp.beats.close()
        assert is_cut(connection)


def test_it_ends_with_its_parent_though_somebody_else_keeps_its_beats_open() -> None:
    orphaned = threading.Event()
    with lit(is_orphan=orphaned.is_set) as lamp:
        assert ask(lamp.port)["boot_id"] == "b00t"
        orphaned.set()
        lamp.thread.join(PATIENCE)
        assert not lamp.thread.is_alive()
        assert is_refused(lamp.port)
