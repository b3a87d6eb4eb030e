"""Rows *client*: what a reader's process spends on an event, from a server whose bytes are ready.

Every side is a process of its own that reads the same stream, as `bench.reader` tells.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from bench.measure import Goal, Kind, Quantity, Row, Sample, check
from bench.peers import package
from bench.process import ROOT, WITHIN, serving
from bench.record import digest, say
from outlast.log.event import encode_json

CPU = "client CPU per event"
PARSER = "own parser on a socket"
RAW = "httpx2, bytes only"
HTTPX_SSE = "httpx-sse"
LANGGRAPH = "langgraph-sdk"
LANGGRAPH_VERSION = "0.4.14"


def spent(kind: str, events: int, together: int, pause: float, folders: Sequence[str] = ()) -> Sample:
    """Let one process read the whole stream in one way, and return what an event cost it."""
    with serving("bench.premade", str(events), str(together), str(pause)) as server:
        command = [sys.executable, "-m", "bench.reader", kind, server.url, *folders]
        done = subprocess.run(
            command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=WITHIN + events * pause
        )
    check(0, done.returncode, f"{kind} ended otherwise: {done.stderr[-300:]}")
    told: dict[str, Any] = json.loads(done.stdout)
    check(events, told["events"], f"events that {kind} read")
    check(digest(encode_json(say(number)) for number in range(events)), told["digest"], "the hash of the events")
    return {CPU: told["cpu"] / events * 1e6}


# ---- the rows -----------------------------------------------------------------------------------


def row(question: str, share: float, events: int, together: int, pause: float) -> Row:
    """Return a row about a stream of so many events, so many of them at once."""

    def side(kind: str) -> Callable[[], Sample]:
        return lambda: spent(kind, events, together, pause)

    def langgraph() -> Sample:
        return spent("langgraph", events, together, pause, [str(package(LANGGRAPH, LANGGRAPH_VERSION))])

    references = {PARSER: side("parser"), RAW: side("raw"), HTTPX_SSE: side("httpx-sse"), LANGGRAPH: langgraph}
    goals = {PARSER: 0.5, RAW: 0.87, HTTPX_SSE: 1.0, LANGGRAPH: 1.0}
    if share < 1:  # a test does not install any, and loading it takes as long as all others together
        del references[LANGGRAPH], goals[LANGGRAPH]
    return Row(
        question=question,
        quantities={CPU: Quantity(unit="µs", kind=Kind.COST)},
        ours=side("ours"),
        references=references,
        goals=[Goal(quantity=CPU, reference=name, bound=least) for name, least in goals.items()],
    )


def long(share: float) -> Row:
    """Ask about a stream that comes as fast as it is read."""
    events = max(300, int(50_000 * share))
    return row(f"A client reads {events:,} events that are all there.", share, events, 200, 0.0)


def bursts(share: float) -> Row:
    """Ask about much at once, and nothing between."""
    events = max(2000, int(20_000 * share))
    return row(f"A client reads {events:,} events that come in bursts of 1,000.", share, events, 1000, 0.02)


def live(share: float) -> Row:
    """Ask about a model that speaks: nothing to share with the next event."""
    events = max(50, int(2000 * share))
    return row(f"A client reads {events:,} events that come one at a time.", share, events, 1, 0.001)
