"""What a measured row leaves: a document of its figures, and the lines of the table in which people read them."""

import json
import os
import platform
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.measure import OURS, Goal, Kind, Row, Sample, compare, is_reached, spread

RESULTS = Path(__file__).parent / "results"
HEADS = ("row", "quantity", "ours", "reference", "ratio [least – most]", "goal", "reached")


def surroundings() -> dict[str, Any]:
    """Return what a figure depends on and may be told: versions and cores, no names and no places."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "system": platform.system(),
        "cores": os.cpu_count(),
        "nice": os.nice(0),
    }


def document(name: str, row: Row, samples: Mapping[str, Sequence[Sample]], *, load: Sequence[float]) -> dict[str, Any]:
    """Return everything about a measured row as JSON values; `load` is the machine's, before and after."""
    return {
        "row": name,
        "question": row.question,
        **surroundings(),
        "load": [round(each, 1) for each in load],
        "rounds": len(samples[OURS]),
        "quantities": {
            quantity: {
                "unit": described.unit,
                **{side: [_short(sample[quantity]) for sample in told] for side, told in samples.items()},
            }
            for quantity, described in row.quantities.items()
        },
        "goals": [_judged(row, goal, samples) for goal in row.goals],
    }


def _judged(row: Row, goal: Goal, samples: Mapping[str, Sequence[Sample]]) -> dict[str, Any]:
    found = compare(row, goal, samples)
    return {
        **asdict(goal),
        "kind": row.quantities[goal.quantity].kind,
        "unit": row.quantities[goal.quantity].unit,
        "found": {end: _short(value) for end, value in asdict(found).items()},
        "reached": is_reached(row, goal, found),
    }


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def write(told: Mapping[str, Any], folder: Path | None = None) -> Path:
    """Write a document beside the others and return its place."""
    folder = folder or RESULTS
    folder.mkdir(exist_ok=True)
    path = folder / f"{told['row']}.json"
    path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def read(folder: Path | None = None) -> Iterator[dict[str, Any]]:
    """Return the documents that were written, by the names of their rows."""
    for path in sorted((folder or RESULTS).glob("*.json")):
        yield json.loads(path.read_text(encoding="utf-8"))


# ---- the table ----------------------------------------------------------------------------------


def cells(told: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Return the lines of one row: each goal with the medians, the ratio and whether it is reached."""
    for goal in told["goals"]:
        figures, reference, unit = told["quantities"][goal["quantity"]], goal["reference"], goal["unit"]
        theirs = f"{_figure(spread(figures[reference]).median, unit)} ({reference})" if reference else "–"
        yield (
            told["row"],
            goal["quantity"],
            _figure(spread(figures[OURS]).median, unit),
            theirs,
            _ends(goal["found"], "×" if reference else unit),
            _bound(goal, "×" if reference else unit),
            {True: "yes", False: "**no**", None: "reported"}[goal["reached"]],
        )


def _figure(value: float, unit: str) -> str:
    number = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{number} {unit}".strip()


def _ends(found: Mapping[str, float], unit: str) -> str:
    return f"{_figure(found['median'], unit)} [{_figure(found['least'], '')} – {_figure(found['most'], '')}]"


def _bound(goal: Mapping[str, Any], unit: str) -> str:
    if goal["bound"] is None:
        return "–"
    above = goal["kind"] == Kind.DELAY or (goal["kind"] == Kind.COST and goal["reference"] is None)
    sign = "≤" if above else "≥"
    return f"{sign} {_figure(goal['bound'], unit)}"


def markdown(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the table as a page holds it."""
    lines = [HEADS, tuple("---" for _ in HEADS), *(line for told in documents for line in cells(told))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def circumstances(documents: Sequence[Mapping[str, Any]]) -> str:
    """Say on what, when and how the figures were found."""
    kinds = {
        f"{told['cores']} cores, {told['system']}, Python {told['python']}, SQLite {told['sqlite']}, {told['date']}"
        for told in documents
    }
    loads = [load for told in documents for load in told["load"]]
    fewest = min(told["rounds"] for told in documents)
    raised = [f"`{told['row']}`" for told in documents if told.get("nice", 0) < 0]
    return (
        f"Measured on {'; '.join(sorted(kinds))}. At least {fewest} rounds each. The machine's load average was "
        f"{min(loads):.1f} to {max(loads):.1f}, the bench's own included."
        + (f" Measured ahead of other programs (`nice` below 0): {', '.join(raised)}." if raised else "")
    )


def text(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the table as a terminal shows it."""
    lines = [HEADS, *(line for told in documents for line in cells(told))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADS))]
    padded = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    return "\n".join(line.replace("**", "").rstrip() for line in padded)
