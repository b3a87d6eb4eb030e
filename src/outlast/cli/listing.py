"""The command that lists runs: one line each, newest first, fitted to the terminal."""

import json
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from outlast.cli import options
from outlast.cli.remote import Remote
from outlast.cli.table import columns
from outlast.cli.terminal import inline
from outlast.cli.wording import ago
from outlast.run import Status

LIMIT: Final = 20
"""Runs that fit a usual terminal with room for what was typed."""
MOST: Final = 1000
"""Five questions: who wants more of them asks the HTTP interface."""
PAGE: Final = 200
"""Runs that a server gives at once."""
EXAMPLES: Final = "\b\nExamples:\n  outlast runs --status active\n  outlast runs --limit 200 --json | jq -r '.[].id'\n"
"""The first character tells click to leave the lines as they are."""


@click.command(epilog=EXAMPLES)
@options.url
@options.token
@click.option("--status", type=click.Choice([status.value for status in Status]), help="Only runs that stand so.")
@click.option("--thread", metavar="ID", help="Only runs of this thread.")
@click.option("--limit", type=click.IntRange(1, MOST), default=LIMIT, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of status documents.")
def runs(url: str, token: str | None, status: str | None, thread: str | None, limit: int, *, as_json: bool) -> int:
    """List your runs, the newest first."""
    with Remote(url, token) as remote:
        found = collect(remote, limit=limit, status=status, thread=thread)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif not found:
        click.echo("No run is like that." if status or thread else "No run yet.")
    else:
        for line in table(found, now=datetime.now(UTC), width=shutil.get_terminal_size().columns):
            click.echo(line)
    return 0


def collect(remote: Remote, *, limit: int, status: str | None, thread: str | None) -> list[dict[str, Any]]:
    """Return the newest runs, over as many pages as it takes."""
    found: list[dict[str, Any]] = []
    after: str | None = None
    while len(found) < limit:
        page = remote.runs(limit=min(PAGE, limit - len(found)), after=after, status=status, thread=thread)
        found += page["runs"]
        after = page["next"]
        if after is None:
            break
    return found[:limit]


def table(found: Sequence[Mapping[str, Any]], *, now: datetime, width: int) -> list[str]:
    """Return runs as lines of at most `width` columns."""
    rows = [("run", "worker", "state", "takeovers", "calls", "started")]
    rows += [
        (
            inline(str(run["id"]), 128),
            inline(str(run["worker"]), 24),
            state(run),
            str(run["budget"]["life"]["used"] or ""),
            str(run["budget"]["calls"]["used"] or ""),
            ago(str(run["created_at"]), now=now),
        )
        for run in found
    ]
    return columns(rows, width=width, stretch=0)


def state(run: Mapping[str, Any]) -> str:
    """Return how a run stands in one word, from its status document: also what is no status of the row."""
    if run["outcome"]:
        return f"{run['status']}" if run["status"] != "failed" else f"failed ({run['outcome']['code']})"
    if run["stop_requested"]:
        return "stopping"
    return "recovering" if run["recovering"] else str(run["status"])
