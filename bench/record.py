"""The events that rows write: known payloads, so that whoever reads them back can tell whether all are there."""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from bench.measure import check

SIZE = 148
"""Characters of a payload: with its type and quotes an event has 160 bytes, a sentence of a model's answer."""

PACE = 0.005
"""Seconds between two events of a paced run."""


def say(number: int) -> str:
    """Return the text of event `number`, different from all others."""
    return f"{number:08d}".ljust(SIZE, "x")


def digest(payloads: Iterable[bytes]) -> str:
    """Return a hash over payloads in their order."""
    whole = hashlib.blake2b(digest_size=16)
    for payload in payloads:
        whole.update(len(payload).to_bytes(4) + payload)
    return whole.hexdigest()


def check_file(path: Path, runs: Sequence[int]) -> None:
    """Check that a file holds the known events of each of `runs`, so many each, in order and no others."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT data FROM events WHERE type = 'text' ORDER BY place").fetchall()
    found = [data.encode() if isinstance(data, str) else bytes(data) for (data,) in rows]
    said = [json.dumps(say(number)).encode() for events in runs for number in range(events)]
    check(len(said), len(found), "events in the file")
    check(digest(said), digest(found), "the hash of the events")
