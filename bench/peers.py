"""Rows *peers*: appends over HTTP before a hundred live readers, against two servers of the Durable Streams protocol.

The peers are installed when a row is first measured, into a folder of the bench's own, at the versions that stand here.
An append is answered when it is kept: ours survives the death of its process, the peers' wait for the disk's sync, and
so does ours with `durability="power"`, which is measured beside them.
"""

import bisect
import os
import re
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from bench.crowd import Crowd
from bench.measure import Goal, Kind, Quantity, Row, Sample, check, percentile
from bench.process import WITHIN, Server, serving, started
from bench.record import SIZE, digest, say

FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "outlast-bench"
"""Where the peers are installed; nothing else uses it."""
NODE = "@durable-streams/server"
NODE_VERSION = "0.3.7"
PYTHON = "rakaia-streams"
PYTHON_VERSION = "0.9.0"
POWER = 'ours, durability="power"'

RATE = "events a second"
LATE = "said to heard, p99"
READERS = 100
TIMED = 10
"""One reader of so many notes when it heard what: enough to tell, and the bench is not the slowest."""

SCRIPT = """
import { DurableStreamTestServer } from "@durable-streams/server"
console.info = console.log = () => {}
const server = new DurableStreamTestServer({ port: 0, host: "127.0.0.1", dataDir: process.argv[2], compression: false })
process.stdout.write(`${await server.start()}\\n`)
"""
APPLICATION = """
import asyncio, sys
sys.path.append(sys.argv[2])
from rakaia import create_app
from rakaia.jsonl_store import JsonlStreamStore
from bench.stage import server
asyncio.run(server(create_app(JsonlStreamStore(sys.argv[1]))).serve())
"""
_TEXT: Final = re.compile(rb'"(\d{8}x{%d})"' % (SIZE - 8))
_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


Serve: TypeAlias = Callable[[Path], AbstractContextManager[tuple[Server, str, str]]]
"""Serves from a folder; yields the server, and where to append and to read."""


# ---- the peers ----------------------------------------------------------------------------------


def install(command: Sequence[str], there: Path) -> None:
    """Install a peer unless it is there."""
    if there.exists():
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    print(f"  installing {command[-1]} into {FOLDER}", file=sys.stderr)
    done = subprocess.run(command, cwd=FOLDER, check=False, capture_output=True, text=True, timeout=300)
    check(0, done.returncode, f"{command[-1]} could not be installed: {(done.stderr or done.stdout)[-300:]}")


def package(name: str, version: str) -> Path:
    """Return the folder that a peer of Python is installed in, with all that it needs."""
    there, uv = place_of(name, version), Path(sys.executable).with_name("uv")
    install([str(uv), "pip", "install", "-q", "--target", str(there), f"{name}=={version}"], there)
    return there


def place_of(name: str, version: str) -> Path:
    """Return where such a folder is, or would be."""
    return FOLDER / f"{name}-{version}"


@contextmanager
def node(folder: Path) -> Generator[tuple[Server, str, str], None, None]:
    """Serve the protocol's own server from files, and yield it with where to append and where to read."""
    install(["npm", "install", "--no-audit", "--no-fund", f"{NODE}@{NODE_VERSION}"], FOLDER / "node_modules" / NODE)
    script = FOLDER / "serve.mjs"
    script.write_text(SCRIPT, encoding="utf-8")
    with started("node", str(script), str(folder), folder=FOLDER) as server:
        yield server, *opened(server)


@contextmanager
def rakaia(folder: Path) -> Generator[tuple[Server, str, str], None, None]:
    """Serve rakaia-streams on uvicorn from files, which it syncs."""
    there = package(PYTHON, PYTHON_VERSION)
    with started(sys.executable, "-c", APPLICATION, str(folder), str(there)) as server:
        yield server, *opened(server)


def opened(server: Server) -> tuple[str, str]:
    """Open a stream on a server of the protocol."""
    url = f"{server.url}/bench"
    request = urllib.request.Request(url, method="PUT", headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30):
        return url, f"{url}?offset=-1&live=sse"


def ours(*options: str) -> Serve:
    """Return how ours is served: one long run, whose worker says what is posted to the application beside it."""

    @contextmanager
    def serve(folder: Path) -> Generator[tuple[Server, str, str], None, None]:
        with serving("bench.relay", str(folder / "runs.db"), *options) as server:
            yield server, f"{server.url}/append", f"{server.url}/runs/crowd/events"

    return serve


# ---- the load -----------------------------------------------------------------------------------


class Watched(Crowd):
    """A crowd of which some note when they heard what."""

    def __init__(self, urls: Sequence[str]) -> None:
        super().__init__(urls)
        self.heard_at: dict[int, list[tuple[int, float]]] = {number: [] for number in range(0, len(urls), TIMED)}

    def hear(self, key: selectors.SelectorKey) -> int | None:
        """Take what one reader has, and note when."""
        new = super().hear(key)
        if new is not None and key.data in self.heard_at:
            self.heard_at[key.data].append((len(self.heard[key.data]), time.perf_counter()))
        return new

    def delays(self, said_at: Mapping[bytes, float]) -> list[float]:
        """Return how long after it was posted each text was heard, by each of those who note it."""
        found: list[float] = []
        for number, notes in self.heard_at.items():
            places = [size for size, _ in notes]
            for text in _TEXT.finditer(self.heard[number]):
                _, at = notes[bisect.bisect_left(places, text.end())]
                found.append(at - said_at[text[1]])
        return found

    def check_all(self, events: int) -> None:
        """Check that everybody heard every known text once, and all in the same order."""
        known = sorted(say(number).encode() for number in range(events))
        orders = [_TEXT.findall(heard) for heard in self.heard]
        check(events, len(orders[0]), "events at a reader")
        check(digest(known), digest(sorted(orders[0])), "the hash of what a reader heard")
        check(1, len({digest(order) for order in orders}), "orders in which it was heard")


class Writer:
    """Posts one text after the other over its own connection, the next when the last is answered."""

    def __init__(self, url: str, texts: Iterator[bytes], said_at: dict[bytes, float]) -> None:
        place = urlsplit(url)
        self.socket = socket.create_connection((place.hostname or "", place.port or 80), WITHIN)
        self._head = f"POST {place.path} HTTP/1.1\r\nhost: {place.netloc}\r\ncontent-type: application/json\r\n"
        self._texts = texts
        self._said_at = said_at
        self._answer = b""

    def post(self) -> bool:
        """Post the next text; say whether there was one."""
        text = next(self._texts, None)
        if text is None:
            return False
        self._said_at[text] = time.perf_counter()
        self.socket.sendall(self._head.encode() + b'content-length: %d\r\n\r\n"%b"' % (len(text) + 2, text))
        return True

    def hear(self) -> bool:
        """Take what was answered, and post the next text when that is all of it; say whether there is more to come."""
        part = self.socket.recv(65536)
        check(True, bool(part), "an answer that is complete")
        self._answer += part
        head, found, body = self._answer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not found or len(body) < (int(length[1]) if length else 0):
            return True
        check(b"2", head.split(b" ", 2)[1][:1], "the class of an answer")
        self._answer = b""
        return self.post()


def appended(serve: Serve, writers: int, events: int) -> Sample:
    """Append from so many writers before the readers, and return how fast, and how late events are heard."""
    said_at: dict[bytes, float] = {}
    texts = iter([say(number).encode() for number in range(events)])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _, into, out = stack.enter_context(serve(folder))
        crowd = stack.enter_context(Watched([out] * READERS))
        posting = [Writer(into, texts, said_at) for _ in range(min(writers, events))]
        began = time.perf_counter()
        for writer in posting:
            stack.callback(writer.socket.close)
            writer.post()
            crowd.attend(writer.socket, writer.hear)
        crowd.work()
        for number in range(max(0, events - writers), events):
            crowd.until(say(number).encode())
        took = time.perf_counter() - began
        crowd.check_all(events)
    return {RATE: events / took, LATE: percentile(crowd.delays(said_at), 0.99) * 1e3}


# ---- the rows -----------------------------------------------------------------------------------


def lacks(share: float) -> str | None:
    """Say which peer cannot be had here; a test does not install any."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "node and npm are not here, and one of the peers is theirs"
    there = (FOLDER / "node_modules" / NODE, place_of(PYTHON, PYTHON_VERSION))
    if share < 1 and not all(each.exists() for each in there):
        return "its peers are not installed: `python3 dev.py bench peers-one` does that"
    return None


def row(share: float, writers: int, events: int, least: float) -> Row:
    """Return a row about so many writers."""

    def side(serve: Serve) -> Callable[[], Sample]:
        return lambda: appended(serve, writers, max(20, int(events * share)))

    peers = {NODE: side(node), PYTHON: side(rakaia)}
    return Row(
        question=f"{writers} writers append over HTTP, {READERS} live readers hear it."
        if writers > 1
        else f"One writer appends over HTTP, {READERS} live readers hear it.",
        quantities={RATE: Quantity(unit="/s", kind=Kind.RATE), LATE: Quantity(unit="ms", kind=Kind.DELAY)},
        ours=side(ours()),
        references={**peers, POWER: side(ours("power"))},
        goals=[
            *(Goal(quantity=RATE, reference=name, bound=least) for name in peers),
            *(Goal(quantity=LATE, reference=name, bound=0.1) for name in peers),
            Goal(quantity=RATE, reference=POWER),
        ],
        lacks=lacks(share),
    )


def one(share: float) -> Row:
    """Ask about one writer."""
    return row(share, 1, 120, 3.0)  # a peer may take a third of a second for each


def many(share: float) -> Row:
    """Ask about sixteen at once."""
    return row(share, 16, 240, 8.0)
