"""Rows *idle* and *renewal*: what runs cost that nobody hears anything of."""

import asyncio
import json
import os
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

from bench.append import stored
from bench.crowd import Crowd, Teller, seats
from bench.fanout import OURS, lacks, staged, tell
from bench.measure import Goal, Kind, Quantity, Row, Sample, check, percentile

CORE = "share of a core"
OPERATIONS = "store operations a second"
STATEMENTS = "SQL statements a second"
DELAY = "said to heard, p99"
ROWS = "rows written by a renewal"
ONE = "1 run held"
CAUGHT_UP = b"caught-up"
BEAT = b"server_time"
OFTEN = 0.2
"""Seconds between renewals, so that many happen while events are timed."""


def waiting(runs: int, seconds: float) -> Sample:
    """Hold so many runs, each with a reader, and return what the server does while nothing happens."""
    with staged([*OURS, f"held={runs}"]) as (server, url):
        urls = [url.replace("/crowd/", f"/held{number}/") for number in range(runs)]
        with Crowd(urls) as crowd:
            crowd.until(CAUGHT_UP)
            crowd.rest(1.0)
            before, spent, began = count(server.url), server.cpu(), time.perf_counter()
            crowd.rest(seconds)
            after, spent, took = count(server.url), server.cpu() - spent, time.perf_counter() - began
            crowd.until(BEAT)
    return {
        CORE: spent / took * 100,
        OPERATIONS: (after["operations"] - before["operations"]) / took,
        STATEMENTS: (after["statements"] - before["statements"]) / took,
    }


def count(url: str) -> dict[str, float]:
    """Ask what the store was asked so far, over a new connection: servers hang up on one that rests."""
    with closing(Teller(url)) as teller:
        return dict(json.loads(teller.ask("GET", "/count")))


# ---- renewals -----------------------------------------------------------------------------------


def delayed(runs: int, events: int) -> Sample:
    """Renew often while so many runs are held; return how long events take, and what a renewal writes."""
    environ = {**os.environ, "OUTLAST_RENEW_EVERY": str(OFTEN)}
    with (
        staged([*OURS, f"held={runs - 1}"], environ) as (server, url),
        closing(Teller(server.url)) as teller,
        Crowd([url]) as reader,
    ):
        took: list[float] = []
        for number in range(events):
            began = time.perf_counter()
            tell(teller, reader, number, 1)
            took.append(time.perf_counter() - began)
        reader.check(events)
        check(True, count(server.url)["renew"] > 0, "renewals meanwhile")
    return {DELAY: percentile(took, 0.99) * 1e3, ROWS: float(asyncio.run(written(runs)))}


async def written(runs: int) -> int:
    """Return how many rows a renewal writes for a node that holds so many runs: SQLite's triggers count them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        async with stored(path, runs) as (store, claimed):
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                watch(connection)
                renewer = store.renewer("node", ttl=3600.0, workers=[])
                renewal = renewer.renew(stalled=False)
                renewer.close()
                check(len(claimed), len(renewal.held), "runs that are held by the rows")
                (found,) = connection.execute("SELECT count(*) FROM written").fetchone()
    return int(found)


def watch(connection: sqlite3.Connection) -> None:
    """Have every row that is written from now on noted in a table."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    names = [name for (name,) in tables.fetchall()]
    connection.execute("CREATE TABLE written (place INTEGER PRIMARY KEY)")
    for name in names:
        for what in ("INSERT", "UPDATE", "DELETE"):
            body = "BEGIN INSERT INTO written VALUES (NULL); END"
            connection.execute(f'CREATE TRIGGER "written_{name}_{what}" AFTER {what} ON "{name}" {body}')


# ---- the rows -----------------------------------------------------------------------------------


def cost(share: float) -> Row:
    """Ask what waiting costs."""
    runs = seats(max(2, int(1000 * share)))
    seconds = max(0.5, 12 * share)
    return Row(
        question=f"{runs:,} runs that wait, each with a reader of its own at a socket, and nothing happens.",
        quantities={
            CORE: Quantity(unit="%", kind=Kind.COST),
            OPERATIONS: Quantity(unit="/s", kind=Kind.COST),
            STATEMENTS: Quantity(unit="/s", kind=Kind.COST),
        },
        ours=lambda: waiting(runs, seconds),
        goals=[
            Goal(quantity=CORE, bound=3.0),
            Goal(quantity=OPERATIONS, bound=3.0),
            Goal(quantity=STATEMENTS),
        ],
        lacks=lacks(),
    )


def renewal(share: float) -> Row:
    """Ask whether anybody feels that a node with many runs renews its lease."""
    runs, events = max(2, int(500 * share)), max(20, int(1000 * share))
    return Row(
        question=f"A node that holds {runs:,} runs renews every 0.2 s while one of them says an event at a time.",
        quantities={DELAY: Quantity(unit="ms", kind=Kind.DELAY), ROWS: Quantity(unit="rows", kind=Kind.COST)},
        ours=lambda: delayed(runs, events),
        references={ONE: lambda: delayed(1, events)},
        goals=[Goal(quantity=DELAY, reference=ONE, bound=1.2), Goal(quantity=ROWS, bound=1.0)],
        lacks=lacks(),
    )
