"""Rows *fanout*: one run before a crowd of readers at sockets, against what sends the same bytes without a log.

An event is said when everybody has the one before it, so no side can save work by sending several at once.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from bench.crowd import Crowd, Teller, seats
from bench.lateness import LAG, MEDIAN
from bench.measure import Goal, Kind, Quantity, Row, Sample, check
from bench.process import Server, serving
from bench.record import say

CPU = "server CPU per delivery"

RAW = "bare ASGI"
STARLETTE = "sse-starlette"
FASTAPI = "FastAPI"
WRITE = "bare transport.write"
OURS: Sequence[str] = ("relay",)
MOUNTED: Sequence[str] = ("mounted",)
SERVERS: dict[str, Sequence[str]] = {
    RAW: ("plain", "raw"),
    STARLETTE: ("frameworks", "sse-starlette"),
    FASTAPI: ("frameworks", "fastapi"),
    WRITE: ("plain", "write"),
}


@contextmanager
def staged(kind: Sequence[str], environ: Mapping[str, str] | None = None) -> Generator[tuple[Server, str], None, None]:
    """Start a server and yield it with the address of its stream; ours has a new file."""
    module, *options = kind
    with tempfile.TemporaryDirectory() as folder:
        kept = module in ("relay", "mounted")
        place = [str(Path(folder) / "runs.db")] if kept else []
        with serving(f"bench.{module}", *place, *options, environ=environ) as server:
            yield server, server.url + ("/runs/crowd/events" if kept else "/events")


def told(kind: Sequence[str], readers: int, times: int, each: int) -> Sample:
    """Say `each` events at once, `times` over, to so many readers, and return what the server spent on one of them."""
    with staged(kind) as (server, url), closing(Teller(server.url)) as teller, Crowd([url] * readers) as crowd:
        tell(teller, crowd, 0, each)
        before = server.cpu()
        for number in range(1, times):
            tell(teller, crowd, number, each)
        used = server.cpu() - before
        crowd.check(times * each)
    return {CPU: used / ((times - 1) * each * readers) * 1e6}


def tell(teller: Teller, crowd: Crowd, number: int, each: int) -> None:
    """Say one batch and wait until everybody has all of it."""
    teller.say(number * each, each)
    crowd.until(say((number + 1) * each - 1).encode())


def late(kind: Sequence[str], readers: int, times: int) -> Sample:
    """Return how late the server's loop was while each of so many readers got some events."""
    with staged(kind) as (server, url), closing(Teller(server.url)) as teller, Crowd([url] * readers) as crowd:
        tell(teller, crowd, 0, 1)
        teller.ask("GET", "/lag")
        for number in range(1, times):
            tell(teller, crowd, number, 1)
        lags = json.loads(teller.ask("GET", "/lag"))
        crowd.check(times)
    return dict(lags)


def idle(kind: Sequence[str], times: int) -> Sample:
    """Return how late a loop is that has nobody to serve but the bench."""
    with staged(kind) as (server, _), closing(Teller(server.url)) as teller:
        teller.ask("GET", "/lag")
        for number in range(20 * times):
            teller.say(number, 1)
        lags = json.loads(teller.ask("GET", "/lag"))
        check(True, MEDIAN in lags, "a lag that was measured")
    return dict(lags)


# ---- the rows -----------------------------------------------------------------------------------


def lacks() -> str | None:
    """Say why the CPU of another process cannot be read here."""
    return None if sys.platform.startswith("linux") else "only Linux tells another process's CPU in /proc"


def cost(question: str, readers: int, times: int, each: int, goals: Sequence[Goal]) -> Row:
    """Return a row about the CPU of a delivery."""

    def side(kind: Sequence[str]) -> Callable[[], Sample]:
        return lambda: told(kind, readers, times, each)

    return Row(
        question=question,
        quantities={CPU: Quantity(unit="µs", kind=Kind.COST)},
        ours=side(OURS),
        references={name: side(SERVERS[name]) for goal in goals if (name := goal.reference) is not None},
        goals=goals,
        lacks=lacks(),
    )


def one(share: float) -> Row:
    """Ask about single events."""
    readers = max(2, int(1000 * share))
    return cost(
        f"{readers:,} readers of one run at sockets get one event at a time.",
        readers,
        max(2, int(40 * share)),
        1,
        [
            Goal(quantity=CPU, reference=RAW, bound=1 / 1.15),
            Goal(quantity=CPU, reference=STARLETTE, bound=2.5),
            Goal(quantity=CPU, reference=FASTAPI, bound=8.0),
        ],
    )


def pending(share: float) -> Row:
    """Ask about events that came together."""
    readers = max(2, int(1000 * share))
    return cost(
        f"{readers:,} readers of one run at sockets get ten events at a time.",
        readers,
        max(2, int(40 * share)),
        10,
        [Goal(quantity=CPU, reference=WRITE, bound=1 / 2.5), Goal(quantity=CPU, reference=RAW)],
    )


def lag(share: float) -> Row:
    """Ask how long a big room keeps its server from everything else."""
    wanted = max(2, int(5000 * share))
    readers, times = seats(wanted), max(2, int(20 * share))
    fewer = f" (this machine allows no {wanted:,})" if readers < wanted else ""
    return Row(
        question=f"{readers:,} readers of one run{fewer} get an event: how late the loop is for others meanwhile.",
        quantities={LAG: Quantity(unit="ms", kind=Kind.DELAY), MEDIAN: Quantity(unit="ms", kind=Kind.DELAY)},
        ours=lambda: late(OURS, readers, times),
        references={
            "no reader": lambda: idle(OURS, times),
            RAW: lambda: late(SERVERS[RAW], readers, times),
        },
        goals=[
            Goal(quantity=LAG, bound=15.0),
            Goal(quantity=LAG, reference="no reader"),
            Goal(quantity=LAG, reference=RAW),
            Goal(quantity=MEDIAN, reference="no reader"),
        ],
        lacks=lacks(),
    )
