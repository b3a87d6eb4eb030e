"""Asking at a beacon, as a client does."""

import json
import os
import socket
from pathlib import Path
from typing import Any, Final

PATIENCE: Final = 30.0
"""Seconds for an answer: a hang shows as a failure."""
GET: Final = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


def connect(port: int, *, host: str = "127.0.0.1", timeout: float = PATIENCE) -> socket.socket:
    """Return a connection to the beacon. Raises `ConnectionRefusedError` where there is none."""
    return socket.create_connection((host, port), timeout=timeout)


def all_of(connection: socket.socket) -> bytes:
    """Return what comes until the other side has ended it."""
    said = b""
    while more := connection.recv(65536):
        said += more
    return said


def ask(port: int, *, timeout: float = PATIENCE) -> dict[str, Any]:
    """Return what the beacon tells. Raises `TimeoutError` where it says nothing for so long."""
    with connect(port, timeout=timeout) as connection:
        connection.sendall(GET)
        head, _, body = all_of(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n"), head
    return dict(json.loads(body))


def is_refused(port: int, *, host: str = "127.0.0.1") -> bool:
    """Say whether nothing listens there."""
    try:
        connect(port, host=host).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        return False  # it goes at this very moment
    return False


def lamps(parent: int) -> list[int]:
    """Return the processes that answer for `parent`; Linux alone can tell."""
    return [pid for pid in map(int, _children(parent)) if b"lamp.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def wait_for_end(child: int) -> None:
    """Return when a child of this process has ended, leaving it to whoever started it."""
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)


def _children(parent: int) -> list[str]:
    tasks = Path(f"/proc/{parent}/task").iterdir()
    return [child for task in tasks for child in (task / "children").read_text().split()]
