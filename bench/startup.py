"""Rows *start*: what a person waits for when a program that uses Outlast begins, or begins again.

Python's own compiled files are kept in a folder of the row's, so that what is timed is an installed package and not
its first start.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.measure import Goal, Kind, Quantity, Row, Sample, check
from bench.process import outlast, serving

WALL = "time"
CPU = "CPU"


@contextmanager
def installed() -> Iterator[dict[str, str]]:
    """Yield an environment in which Python keeps what it compiled, as an installation does."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        yield {**environ, "PYTHONPYCACHEPREFIX": folder}


# ---- importing ----------------------------------------------------------------------------------


def importing(times: int) -> Sample:
    """Return what `import outlast` adds to an empty program: the best of some starts of each, taken in turn.

    The best, because a start is the same work every time and a busy machine can only add to it.
    """
    with installed() as environ:
        python("import outlast", environ)
        pairs = [(python("import outlast", environ), python("", environ)) for _ in range(times)]
    return {name: min(one[name] for one, _ in pairs) - min(other[name] for _, other in pairs) for name in (WALL, CPU)}


def python(code: str, environ: dict[str, str]) -> Sample:
    """Run a program and return what it took."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], env=environ, check=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {WALL: time.perf_counter() - began, CPU: used}


# ---- serving ------------------------------------------------------------------------------------


def serve_first() -> Sample:
    """Return how long `outlast serve` takes from its start to the first answer, on a new file."""
    with installed() as environ, tempfile.TemporaryDirectory() as folder:
        first_answer(Path(folder) / "first.db", environ)
        return {WALL: first_answer(Path(folder) / "second.db", environ)}


def first_answer(path: Path, environ: dict[str, str]) -> float:
    """Start a server, ask whether it is well, and return when it said so."""
    began = time.perf_counter()
    with serving(*outlast(path), environ=environ) as server:
        with urllib.request.urlopen(f"{server.url}/healthz", timeout=30) as answer:
            said = json.load(answer)
            took = time.perf_counter() - began
        check("ok", said["status"], "the server's health")
    return took


# ---- the rows -----------------------------------------------------------------------------------


def importing_it(share: float) -> Row:
    """Ask about importing."""
    times = max(1, int(7 * share))
    return Row(
        question="`import outlast`, beyond what an empty program takes.",
        quantities={WALL: Quantity(unit="s", kind=Kind.DELAY), CPU: Quantity(unit="s", kind=Kind.DELAY)},
        ours=lambda: importing(times),
        goals=[Goal(quantity=WALL, bound=0.3), Goal(quantity=CPU)],
    )


def serving_it(share: float) -> Row:
    """Ask about `outlast serve`."""
    del share  # it is one start whatever the load
    return Row(
        question="From `outlast serve` to its first answer, on a new file.",
        quantities={WALL: Quantity(unit="s", kind=Kind.DELAY)},
        ours=serve_first,
        goals=[Goal(quantity=WALL, bound=1.5)],
    )
