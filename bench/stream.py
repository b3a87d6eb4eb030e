"""Rows *stream*: from a worker through the file to one reader at a socket, each server a process of its own.

The reader is a bare socket, so that both cores are the servers' own for all that can be helped.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.measure import Goal, Kind, Quantity, Row, Sample, check, percentile
from bench.process import Heard, Server, hear, outlast, serving
from bench.record import SIZE, check_file, digest, say

RATE = "events a second"
CPU = "server CPU per event"
MEDIAN = "event to reader, median"
LATE = "event to reader, p99"

PEER = "aiosqlite + sse-starlette"
BARE = "bare commit + bare write"

Serve = Callable[[Path], tuple[str, ...]]
"""Tells the command of a server that keeps its events in this file."""
SERVERS: dict[str, Serve] = {
    "ours": outlast,
    PEER: lambda path: ("bench.peer", str(path)),
    BARE: lambda path: ("bench.bare", str(path)),
}


def burst(serve: Serve, events: int) -> Sample:
    """Read one run that says as much as is taken."""
    warm = max(2, events // 20)

    def work(server: Server) -> Sample:
        texts(hear(server.url, "burst", warm), warm)
        before = server.cpu()
        heard = hear(server.url, "burst", events)
        used = server.cpu() - before
        texts(heard, events)
        return {RATE: events / heard.seconds, CPU: used / events * 1e6}

    return served(serve, work, [warm, events])


def paced(serve: Serve, events: int) -> Sample:
    """Read one run that says a little at a time."""

    def work(server: Server) -> Sample:
        late = [(at - said["at"]) / 1e6 for at, said in stamps(hear(server.url, "paced", events), events)]
        return {MEDIAN: percentile(late, 0.5), LATE: percentile(late, 0.99)}

    return served(serve, work, None)


def served(serve: Serve, work: Callable[[Server], Sample], runs: list[int] | None) -> Sample:
    """Measure a server in a process and a folder of its own; killed, it must have kept every event of `runs`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        with serving(*serve(path)) as server:
            sample = work(server)
        if runs is not None:
            check_file(path, runs)
        return sample


def texts(heard: Heard, events: int) -> None:
    """Check that a reader got every known text, once and in order."""
    data = [message.data for _, message in heard.messages()]
    check(events, len(data), "events at the reader")
    check(digest(json.dumps(say(number)).encode() for number in range(events)), digest(data), "the hash of them")


def stamps(heard: Heard, events: int) -> list[tuple[int, dict[str, int]]]:
    """Return what a reader got of a paced run, with its times, and check that all of it is there in order."""
    found = [(at, json.loads(message.data)) for at, message in heard.messages()]
    check(list(range(events)), [said["number"] for _, said in found], "numbers at the reader")
    check({SIZE}, {len(said["text"]) for _, said in found}, "sizes at the reader")
    return found


# ---- the rows -----------------------------------------------------------------------------------


def lacks() -> str | None:
    """Say why the CPU of another process cannot be read here."""
    return None if sys.platform.startswith("linux") else "only Linux tells another process's CPU in /proc"


def fast(share: float) -> Row:
    """Ask about throughput."""
    events = max(20, int(20_000 * share))
    return Row(
        question="One run says as much as is taken: worker, durable, one reader at a socket.",
        quantities={RATE: Quantity(unit="/s", kind=Kind.RATE), CPU: Quantity(unit="µs", kind=Kind.COST)},
        ours=lambda: burst(SERVERS["ours"], events),
        references={PEER: lambda: burst(SERVERS[PEER], max(20, events // 4))},
        goals=[
            Goal(quantity=RATE, reference=PEER, bound=3.0),
            Goal(quantity=CPU, reference=PEER, bound=3.0),
        ],
        lacks=lacks(),
    )


def slow(share: float) -> Row:
    """Ask about latency."""
    events = max(20, int(600 * share))
    return Row(
        question="One run says an event every 5 ms: how long until its one reader has it.",
        quantities={MEDIAN: Quantity(unit="ms", kind=Kind.DELAY), LATE: Quantity(unit="ms", kind=Kind.DELAY)},
        ours=lambda: paced(SERVERS["ours"], events),
        references={name: lambda name=name: paced(SERVERS[name], events) for name in (BARE, PEER)},
        goals=[
            Goal(quantity=LATE, reference=BARE, bound=1.3),
            Goal(quantity=MEDIAN, reference=BARE),
            Goal(quantity=LATE, reference=PEER),
        ],
        lacks=lacks(),
    )
