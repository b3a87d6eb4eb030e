"""The command `python3 dev.py bench`: measures the named rows, or all, and writes what was found."""

import argparse
import os
import sys
import textwrap
import time
from collections.abc import Sequence
from typing import Any

from bench import report
from bench.measure import WrongWork, measure
from bench.rows import ROWS

ROUNDS = 5
"""Below this a median and a spread say little."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, and return the exit code: 0 whether or not the goals were reached."""
    asked = parse(arguments)
    if asked.list:
        print("\n".join(f"{name:<20} {make(1.0).question}" for name, make in ROWS.items()))
        return 0
    documents: list[dict[str, Any]] = []
    for name in asked.row or ROWS:
        told = run(name, rounds=asked.rounds)
        if told is not None:
            documents.append(told)
            if not asked.dry:
                report.write(told)
    print(report.text(documents))
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; what it cannot mean is told in a sentence."""
    parser = argparse.ArgumentParser(
        prog="python3 dev.py bench",
        description="Measure rows of the bench: ours and each reference in turn, round by round.",
        epilog="What the rows ask and how to read them: docs/performance.md.",
    )
    parser.add_argument("row", nargs="*", help="names of rows; all when none is given")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="rounds that count, after one to warm up (%(default)s)"
    )
    parser.add_argument("--list", action="store_true", help="list the rows with what they ask")
    parser.add_argument("--dry", action="store_true", help="write nothing to bench/results")
    asked = parser.parse_args(arguments)
    unknown = sorted(set(asked.row) - ROWS.keys())
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}; --list names them")
    if asked.rounds < 1:
        parser.error("at least one round must count")
    return asked


def run(name: str, *, rounds: int) -> dict[str, Any] | None:
    """Measure one row and return its document; None, with the reason told, where it cannot be measured."""
    row = ROWS[name](1.0)
    if row.lacks is not None:
        print(f"{name}: skipped, {row.lacks}\n")
        return None
    print(f"{name}: {row.question}")
    began, before = time.monotonic(), load()
    try:
        samples = measure(row, rounds=rounds, tell=progress)
    except WrongWork as error:
        progress("")
        sys.exit(f"{name}: wrong work, nothing was measured: {error}")
    progress("")
    told = report.document(name, row, samples, load=(before, load()))
    print(textwrap.indent(report.text([told]), "  "))
    print(f"  {time.monotonic() - began:.0f} s, load {told['load'][0]} to {told['load'][1]}\n")
    return told


def load() -> float:
    """Return how many processes want a core: above the number of cores, figures are those of a busy machine."""
    return os.getloadavg()[0]


def progress(what: str) -> None:
    """Show what is being measured, in one line that is written over; a file is spared it."""
    if sys.stderr.isatty():
        print(f"\r\033[K  {what}" if what else "\r\033[K", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
