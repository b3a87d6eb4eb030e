"""Rows *replay*: readers that come to a log that is finished, in a process that has never read it.

What is counted is all that such a reader costs: its request, the log, the bytes.
"""

import json
import shutil
import tempfile
import urllib.request
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.crowd import Crowd
from bench.fanout import lacks
from bench.measure import Goal, Kind, Quantity, Row, Sample
from bench.process import Server, outlast, serving

CPU = "server CPU per event"
JOIN = "one join per reader"
SHORT = "logs of 1,000 events"


class Logs:
    """A file with finished runs of known events, made when it is first asked for and kept as long as this is."""

    def __init__(self, runs: int, events: int) -> None:
        self.events = events
        self.ids = [f"run{number}" for number in range(runs)]
        self._path: Path | None = None

    def path(self) -> Path:
        """Return the place of the file."""
        self._path = self._path or self._made()
        return self._path

    def _made(self) -> Path:
        folder = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, folder)
        path = Path(folder) / "runs.db"
        with serving(*outlast(path)) as server:
            for id in self.ids:
                begin(server.url, id, self.events)
                with Crowd([f"{server.url}/runs/{id}/events"]) as reader:
                    reader.to_the_end()
                    reader.check(self.events)
        return path


def begin(url: str, id: str, events: int) -> None:
    """Start a run of so many events."""
    body = json.dumps({"worker": "burst", "id": id, "input": {"events": events}}).encode()
    request = urllib.request.Request(f"{url}/runs", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30):
        pass


def spent(server: Server, urls: Sequence[str], events: int, *, warm: str | None = None) -> Sample:
    """Read all of `urls` at once, and return what the server spent on an event; `warm` is read before that."""
    if warm is not None:
        with Crowd([warm]) as reader:
            reader.to_the_end()
    before = server.cpu()
    with Crowd(urls) as crowd:
        crowd.to_the_end()
        used = server.cpu() - before
        crowd.check(events)
    return {CPU: used / (len(urls) * events) * 1e6}


def ours(logs: Logs, readers: int) -> Sample:
    """Let so many readers come to each log of a file, all at once."""
    with serving(*outlast(logs.path())) as server:
        urls = [f"{server.url}/runs/{id}/events" for id in logs.ids]
        return spent(server, urls * readers, logs.events, warm=f"{server.url}/healthz")


def joined(readers: int, events: int) -> Sample:
    """Let so many readers come to a bare ASGI application that joins the frames for each of them."""
    with serving("bench.plain", "joined", str(events)) as server:
        return spent(server, [f"{server.url}/events"] * readers, events, warm=f"{server.url}/events")


# ---- the rows -----------------------------------------------------------------------------------


def row(question: str, work: Callable[[], Sample], name: str, reference: Callable[[], Sample], *goals: Goal) -> Row:
    """Return a row about the CPU of an event."""
    quantities = {CPU: Quantity(unit="µs", kind=Kind.COST)}
    return Row(
        question=question, quantities=quantities, ours=work, references={name: reference}, goals=goals, lacks=lacks()
    )


def many(share: float) -> Row:
    """Ask about a crowd that comes at once."""
    readers, events = max(2, int(500 * share)), max(20, int(1000 * share))
    logs = Logs(1, events)
    return row(
        f"{readers:,} readers come at once to a finished log of {events:,} events that nobody has read yet.",
        lambda: ours(logs, readers),
        JOIN,
        lambda: joined(readers, events),
        Goal(quantity=CPU, bound=0.6),
        Goal(quantity=CPU, reference=JOIN),
    )


def long(share: float) -> Row:
    """Ask whether the thousandth page costs what the first does."""
    events = max(100, int(100_000 * share))
    whole, parts = Logs(1, events), Logs(max(2, events // 1000), min(events, 1000))
    return row(
        f"One reader comes to a finished log of {events:,} events that nobody has read yet.",
        lambda: ours(whole, 1),
        SHORT,
        lambda: ours(parts, 1),
        Goal(quantity=CPU, reference=SHORT, bound=0.75),
    )
