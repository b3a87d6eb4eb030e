"""Rows *disk*: what a slow disk costs, made repeatable by a library that answers every sync after a fixed time.

The library is compiled when a row is measured and loaded before all others into a process of its own. It stands in
for the disk, so nothing written there is safe: the process works in a folder that is thrown away.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

from bench.append import appending, stored
from bench.lateness import LAG, MEDIAN, Lateness
from bench.measure import Goal, Kind, Quantity, Row, Sample, check
from bench.record import check_file

SYNC = r"""
#include <stdlib.h>
#include <time.h>

static int wait_as_told(void) {
    const char *told = getenv("BENCH_SYNC_NS");
    struct timespec left = {0, told ? atol(told) : 0};
    while (nanosleep(&left, &left)) {}
    return 0;
}

int fsync(int descriptor) { (void)descriptor; return wait_as_told(); }
int fdatasync(int descriptor) { (void)descriptor; return wait_as_told(); }
"""
FAST = 0.0001
SLOW = 0.004
"""Seconds a sync takes: a good disk with a battery behind it, and a rented one."""
RUNS = 50
TURN = 0.002
"""Seconds that a group of commits may keep the loop, and that the busy reference does."""

RATE = "events a second"


def lacks() -> str | None:
    """Say why a fixed sync cannot be had here."""
    if not sys.platform.startswith("linux"):
        return "only Linux lets a library be loaded before all others this way"
    return None if compiler() else "there is no C compiler here (cc)"


def compiler() -> str | None:
    """Return the C compiler's place."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def compiled(folder: Path) -> Path:
    """Compile the library in a folder and return its place."""
    source = folder / "sync.c"
    source.write_text(SYNC, encoding="utf-8")
    command = [compiler() or "cc", "-shared", "-fPIC", "-O2", "-o", str(folder / "sync.so"), str(source)]
    subprocess.run(command, check=True, timeout=60)
    return folder / "sync.so"


def with_sync(load: str, seconds: float, ticks: int) -> Sample:
    """Carry one of the loads below in a process whose syncs take so long, and return what it told."""
    with tempfile.TemporaryDirectory() as folder:
        preloaded = {"LD_PRELOAD": str(compiled(Path(folder))), "BENCH_SYNC_NS": str(round(seconds * 1e9))}
        done = subprocess.run(
            [sys.executable, "-m", "bench.disk", load, str(ticks), str(seconds)],
            cwd=Path(__file__).parents[1],
            env={**os.environ, **preloaded},
            check=True,
            stdout=subprocess.PIPE,
            timeout=600,
        )
    return dict(json.loads(done.stdout))


# ---- in that process ----------------------------------------------------------------------------


async def lagging(path: Path, ticks: int) -> Sample:
    """Append as fast as it goes."""
    return await loaded(path, each=10, ticks=ticks, durability="process")


async def busy(ticks: int) -> Sample:
    """Compute for as long as one group of commits may take, turn after turn: what the machine itself makes of that."""
    with Lateness() as late:
        for _ in range(5 * ticks):
            ends = time.thread_time() + TURN
            while time.thread_time() < ends:
                pass
            await asyncio.sleep(0)
    return {**late.told(), RATE: 0.0}


async def powered(path: Path, ticks: int) -> Sample:
    """Let every run wait for the disk with every single event."""
    return await loaded(path, each=1, ticks=ticks, durability="power")


async def loaded(
    path: Path,
    *,
    each: int,
    ticks: int,
    durability: Literal["process", "power"],
) -> Sample:
    """Carry the load of all runs, and return its rate and how late the loop was for others meanwhile."""
    async with stored(path, RUNS, durability=durability) as (store, runs):
        tick = appending(store, runs, each, ticks)
        began = time.perf_counter()
        with Lateness() as late:
            for _ in range(ticks):
                await tick()
        spent = time.perf_counter() - began
    check_file(path, [each * ticks] * RUNS)
    return {RATE: RUNS * each * ticks / spent, **late.told()}


def bare(path: Path, ticks: int) -> Sample:
    """Tell what would be possible if every sync carried one event of every run and nothing else took time."""
    with path.open("wb") as file:
        began = time.perf_counter()
        for _ in range(ticks):
            os.fdatasync(file.fileno())
        return {RATE: RUNS * ticks / (time.perf_counter() - began)}


def main(load: str, ticks: int, seconds: float) -> None:
    """Carry a load here and print what it told."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        began = time.perf_counter()
        with path.with_suffix(".sync").open("wb") as file:
            os.fdatasync(file.fileno())
        took = time.perf_counter() - began
        check(True, seconds <= took, f"a sync took {took * 1e3:.2f} ms, which is not the library's doing")
        match load:
            case "lagging":
                sample = asyncio.run(lagging(path, ticks))
            case "powered":
                sample = asyncio.run(powered(path, ticks))
            case "busy":
                sample = asyncio.run(busy(ticks))
            case _:
                sample = bare(path, ticks)
    print(json.dumps(sample))


# ---- the rows -----------------------------------------------------------------------------------

FAST_SYNC = "0.1 ms sync"
BUSY = "2 ms of Python a turn"
ONE_SYNC = "a sync for one event of each run"


def lag(share: float) -> Row:
    """Ask how late a slow disk makes the loop, with a checkpoint every few megabytes."""
    ticks = max(2, int(200 * share))
    return Row(
        question="50 runs × 10 as fast as it goes, on a disk whose every sync takes 4 ms.",
        quantities={
            LAG: Quantity(unit="ms", kind=Kind.DELAY),
            MEDIAN: Quantity(unit="ms", kind=Kind.DELAY),
            RATE: Quantity(unit="/s", kind=Kind.RATE),
        },
        ours=lambda: with_sync("lagging", SLOW, ticks),
        references={
            FAST_SYNC: lambda: with_sync("lagging", FAST, ticks),
            BUSY: lambda: with_sync("busy", FAST, ticks),
        },
        goals=[
            Goal(quantity=LAG, reference=FAST_SYNC, bound=1.5),
            Goal(quantity=LAG, bound=8.0),
            Goal(quantity=LAG, reference=BUSY),
            Goal(quantity=MEDIAN, reference=BUSY),
            Goal(quantity=RATE, reference=FAST_SYNC),
        ],
        lacks=lacks(),
    )


def power(share: float) -> Row:
    """Ask what it costs to survive power loss."""
    ticks = max(2, int(300 * share))
    return Row(
        question='50 runs make one event durable at a time with durability="power", on a disk whose sync takes 4 ms.',
        quantities={RATE: Quantity(unit="/s", kind=Kind.RATE)},
        ours=lambda: with_sync("powered", SLOW, ticks),
        references={ONE_SYNC: lambda: with_sync("bare", SLOW, ticks)},
        goals=[Goal(quantity=RATE, reference=ONE_SYNC, bound=0.25)],
        lacks=lacks(),
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
