"""The command that shows a store at work: its nodes, and its runs with how fast they grow, in place."""

import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from outlast.cli import options
from outlast.cli.listing import state
from outlast.cli.remote import Remote
from outlast.cli.table import columns
from outlast.cli.terminal import inline
from outlast.cli.wording import LONGEST, ago, counted, node_sentence

EVERY: Final = 2.0
"""Seconds between two looks: a person reads no faster."""
SHOWN: Final = 20
"""Runs whose heads are asked for at each look: a look stays a handful of small questions."""
NODES: Final = 8
"""Nodes that have a line of their own: a look leaves room for the runs."""
CLEAR: Final = "\x1b[H\x1b[J"
AWAY, BACK = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


@click.command()
@options.url
@options.token
@click.option(
    "--every", type=click.FloatRange(0.5, 60), default=EVERY, show_default=True, help="Seconds between looks."
)
@click.option("--once", is_flag=True, help="Look once, print it, and end; so it is where no terminal shows it.")
@click.option("--json", "as_json", is_flag=True, help="One look as one JSON object.")
def top(url: str, token: str | None, every: float, *, once: bool, as_json: bool) -> int:
    """Show what a server is doing: the nodes of its store, and the runs that have no outcome yet.

    A node is shown with what is left of its lease and how late its event loop is; a run with its events, how fast they
    come, its takeovers, and why it is not moving if it is not. Ctrl-C ends it.
    """
    with Remote(url, token) as remote:
        if as_json:
            click.echo(json.dumps(look(remote), indent=2))
        elif once or not sys.stdout.isatty():
            click.echo("\n".join(view(look(remote), {}, width=shutil.get_terminal_size().columns)))
        else:
            _watch(remote, every)
    return 0


def _watch(remote: Remote, every: float) -> None:
    before: Mapping[str, tuple[float, int]] = {}
    click.echo(AWAY, nl=False)
    try:
        while True:  # until Ctrl-C
            seen = look(remote)
            at = time.monotonic()
            size = shutil.get_terminal_size()
            lines = view(seen, rates(seen, before, at=at), width=size.columns)[: size.lines - 1]
            click.echo(CLEAR + "\n".join(lines), nl=False)
            before = {run["id"]: (at, events(run)) for run in seen["runs"]}
            time.sleep(every)
    finally:
        click.echo(BACK, nl=False)


def look(remote: Remote) -> dict[str, Any]:
    """Return the nodes and the unfinished runs, the first of them with their heads."""
    nodes, found = remote.nodes(), remote.unfinished()
    headed = [remote.status(str(run["id"])) for run in found[:SHOWN]]
    return {"nodes": nodes, "runs": [*headed, *found[SHOWN:]]}


def rates(seen: Mapping[str, Any], before: Mapping[str, tuple[float, int]], *, at: float) -> dict[str, float]:
    """Return the events per second of each run that was there at the look before."""
    found: dict[str, float] = {}
    for run in seen["runs"]:
        then = before.get(run["id"])
        if then is not None and "head" in run and at > then[0]:
            found[run["id"]] = max(0.0, (events(run) - then[1]) / (at - then[0]))
    return found


def view(seen: Mapping[str, Any], rate: Mapping[str, float], *, width: int) -> list[str]:
    """Return one look as lines of at most `width` columns."""
    nodes, runs = seen["nodes"], seen["runs"]
    states = [state(run) for run in runs]
    groups = [f"{states.count(name)} {name}" for name in ("active", "recovering", "stopping", "queued", "parked")]
    takeovers = sum(run["budget"]["life"]["used"] for run in runs)
    head = [node_sentence(node) for node in nodes[:NODES]] or ["no node"]
    if len(nodes) > NODES:
        head.append(f"and {counted(len(nodes) - NODES, 'node')} more")
    lines = [*head, f"{counted(len(runs), 'run')}: {', '.join(groups)}; {counted(takeovers, 'takeover')}", ""]
    return [inline(line, width) for line in lines] + (_table(runs, rate, width=width) if runs else ["Nothing to do."])


def _table(runs: Sequence[Mapping[str, Any]], rate: Mapping[str, float], *, width: int) -> list[str]:
    rows = [("run", "worker", "state", "events", "per s", "takeovers", "started")]
    now = datetime.now(UTC)
    for run in runs:
        speed = f"{rate[run['id']]:.0f}" if run["id"] in rate else ""
        takeovers = str(run["budget"]["life"]["used"] or "")
        worker, told = inline(str(run["worker"]), 20), str(events(run)) if "head" in run else ""
        started = ago(str(run["created_at"]), now=now)
        rows.append((inline(str(run["id"]), 128), worker, state(run), told, speed, takeovers, started))
    lines = columns(rows, width=width, stretch=0)
    laid = [lines[0]]
    for run, line in zip(runs, lines[1:], strict=True):
        laid.append(line)
        if run.get("standstill"):
            laid.append(inline(f"  {inline(str(run['standstill'].get('message')), LONGEST)}", width))
    return laid


def events(run: Mapping[str, Any]) -> int:
    """Return how many events a status document tells of."""
    number = str(run.get("head", "0")).partition("-")[0]
    return int(number) if number.isdecimal() else 0
