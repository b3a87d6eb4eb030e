"""Server processes that are measured: started, asked over a socket of their own, their CPU read, killed."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.measure import check
from outlast.wire.sse import Message, Parser

ROOT = Path(__file__).parents[1]
WITHIN = 120.0
"""Seconds of silence after which a server is given up."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """One process, and the url where it answers."""

    process: "subprocess.Popen[str]"
    url: str

    def cpu(self) -> float:
        """Return the seconds of CPU that the process has used, all threads together."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Return the bytes of memory that the process has, the pages of its program not counted."""
        fields = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()
        return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")

    def kill(self) -> None:
        """End the process as the kernel's out-of-memory killer would."""
        self.process.kill()
        self.process.wait(10)


@contextmanager
def serving(*command: str, environ: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Start `python -m command`, yield it when it has said where it answers, and leave nothing of it behind."""
    with started(sys.executable, "-m", *command, environ=environ) as server:
        yield server


@contextmanager
def started(*command: str, environ: Mapping[str, str] | None = None, folder: Path = ROOT) -> Iterator[Server]:
    """Do the same with any command, in `folder`."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=dict(os.environ if environ is None else environ),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        greeting = process.stdout.readline()
        found = re.search(r"http://\S+", greeting)
        check(True, found is not None, f"a server said {greeting!r}")
        yield Server(process=process, url=found[0] if found else "")
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


def outlast(path: Path, *more: str) -> tuple[str, ...]:
    """Return the command that serves the measured application from the file at `path`."""
    return ("outlast", "serve", "bench.application:outlast", "--port", "0", "--store", f"sqlite:///{path}", *more)


def greet(listener: socket.socket) -> None:
    """Say where a server answers."""
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)


# ---- its one reader -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What one reader got: every part with the time at which it was there, and how long all of it took."""

    parts: list[tuple[int, bytes]]
    seconds: float

    def messages(self) -> Iterator[tuple[int, Message]]:
        """Return the stored events in their order, each with its time in nanoseconds."""
        parser = Parser()
        body = self.parts[0][1].partition(b"\r\n\r\n")[2]
        for at, part in [(self.parts[0][0], body), *self.parts[1:]]:
            for message in parser.feed(part):
                if message.event == "text":
                    yield at, message


def hear(url: str, worker: str, events: int) -> Heard:
    """Start a run and read its stream to the end, over a socket that does nothing else.

    HTTP/1.0: the body is not chunked, and the server closes when it is complete.
    """
    place = urlsplit(url)
    body = json.dumps({"worker": worker, "input": {"events": events}})
    request = (
        f"POST /runs HTTP/1.0\r\nhost: {place.netloc}\r\naccept: text/event-stream\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}"
    )
    parts: list[tuple[int, bytes]] = []
    began = time.perf_counter()
    with socket.create_connection((place.hostname or "", place.port or 80), timeout=WITHIN) as connection:
        connection.sendall(request.encode())
        while part := connection.recv(256 * 1024):
            parts.append((time.monotonic_ns(), part))
    seconds = time.perf_counter() - began
    while b"\r\n\r\n" not in parts[0][1]:
        (_, first), (at, second) = parts[:2]
        parts[:2] = [(at, first + second)]
    return Heard(parts=parts, seconds=seconds)
