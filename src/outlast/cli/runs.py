"""The commands that ask one question about a run: start it, show it, stop it, erase it."""

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import click

from outlast.cli import options
from outlast.cli.remote import Remote
from outlast.cli.tail import watch
from outlast.cli.terminal import inline
from outlast.cli.wording import LONGEST, outcome_sentence, plain, recovery_sentence
from outlast.errors import InputInvalid, RunGone
from outlast.log.event import JSON

EXAMPLES: Final = (
    "\b\n"
    "Examples:\n"
    '  outlast start explain \'{"module": "heapq"}\' --follow\n'
    "  jq .request ticket.json | outlast start triage - --id ticket-4711\n"
)
"""The first character tells click to leave the lines as they are."""

UNASKED: Final = "What is deleted is gone for good, and nobody is here to be asked: say --yes."
UNKNOWN: Final = "no run has this id yet: the stop is remembered for ten minutes, and stops one that is started by then"


@click.command(epilog=EXAMPLES)
@click.argument("worker")
@click.argument("input", required=False)
@options.url
@options.token
@click.option("--id", metavar="ID", help="Choose the run's id: the same id and input again is the same run.")
@click.option("--thread", metavar="ID", help="The thread it belongs to; one live run a thread.")
@click.option("--follow", is_flag=True, help="Show it until it ends, as `outlast tail` does.")
def start(
    worker: str, input: str | None, *, url: str, token: str | None, id: str | None, thread: str | None, follow: bool
) -> int:
    """Start a run of WORKER and print its id.

    INPUT is JSON; `-` reads it from standard input, and without it the input is null. When the id is printed, the
    run is durable: it survives the death of every process.
    """
    with Remote(url, token) as remote:
        run = str(remote.start(worker, _input(input), id=id, thread=thread)["id"])
    if follow:
        click.echo(f"outlast: run {inline(run, LONGEST)}", err=True)
        return watch(run, url=url, token=token)
    click.echo(inline(run, LONGEST))
    return 0


@click.command()
@options.run
@options.url
@options.token
@click.option("--json", "as_json", is_flag=True, help="The status document as the server told it, and its log.")
def show(run: str, url: str, token: str | None, *, as_json: bool) -> int:
    """Show how RUN stands: its status, its recovery budget, its outcome.

    `log` is the name that this run has in the server's log lines and traces.
    """
    with Remote(url, token) as remote:
        document = {**remote.status(run), "log": remote.lineage(run).get("log")}
    if as_json:
        click.echo(json.dumps(document, indent=2))
        return 0
    for name, said in described(document):
        click.echo(f"{name:<12} {said}")
    return 0


@click.command()
@options.run
@options.url
@options.token
@click.option("--reason", metavar="TEXT", help="Told to everyone who reads the run.")
def stop(run: str, url: str, token: str | None, reason: str | None) -> int:
    """Stop RUN: its outcome becomes `cancelled`, and what it said stays readable.

    An id that is not known yet is remembered for ten minutes: the run is then stopped as soon as it is started.
    """
    with Remote(url, token) as remote:
        said = remote.stop(run, reason=reason)
    known = said.get("status") is not None
    sentences = {
        "accepted": "accepted: the run is being stopped" if known else UNKNOWN,
        "settled": "stopped",
        "already": f"it had ended before: {_outcome(said)}",
    }
    click.echo(sentences.get(str(said.get("answer")), inline(str(said.get("answer")), LONGEST)))
    return 0


@click.command()
@options.run
@options.url
@options.token
@click.option("--yes", is_flag=True, help="Ask nothing.")
def erase(run: str, url: str, token: str | None, *, yes: bool) -> int:
    """Delete RUN, which has ended, and all that it said.

    Nothing of it can be read again. Its id is kept as gone for thirty days, so that whoever asks for it is told so.
    A person at a terminal is asked first; a script says `--yes`.
    """
    if not yes and not sys.stdin.isatty():
        raise click.UsageError(UNASKED)
    with Remote(url, token) as remote:
        if not yes:
            status = remote.status(run)["status"]
            click.confirm(f"{inline(run, LONGEST)} ({inline(str(status), LONGEST)}): delete it?", abort=True, err=True)
        try:
            remote.erase(run)
        except RunGone:  # also when our own first question was heard and its answer lost
            click.echo("gone already")
        else:
            click.echo("deleted")
    return 0


def described(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a status document says as pairs for people, without what has nothing to say."""
    for name in ("id", "log", "worker", "thread", "status"):
        if document.get(name) is not None:
            yield name, inline(str(document[name]), LONGEST)
    if document.get("outcome"):
        yield "outcome", _outcome(document)
    if recovering := recovery_sentence(document.get("recovering")):
        yield "recovering", recovering
    standstill = document.get("standstill")
    if isinstance(standstill, Mapping):
        yield "not moving", plain(cast("Mapping[str, JSON]", standstill), "message")
    if document.get("stop_requested") and not document.get("outcome"):
        yield "stop", "asked for"
    yield "events", inline(str(document.get("head")).partition("-")[0], LONGEST)
    for name, spent in cast("Mapping[str, Mapping[str, Any]]", document.get("budget") or {}).items():
        words = {"life": "in its life", "handoffs": "hand-offs"}.get(name, name)
        yield words, f"{spent.get('used')} of {spent.get('limit')}"
    for name in ("created_at", "settled_at"):
        if document.get(name):
            yield name.removesuffix("_at"), inline(str(document[name]), LONGEST)


def _outcome(said: Mapping[str, Any]) -> str:
    return outcome_sentence(str(said.get("status")), cast("Mapping[str, JSON]", said.get("outcome") or {}))


def _input(given: str | None) -> JSON:
    if given is None:
        return None
    try:
        text = sys.stdin.read() if given == "-" else given
        return cast("JSON", json.loads(text))
    except (ValueError, RecursionError) as error:
        raise InputInvalid(
            """INPUT is not JSON; text is given in double quotes inside single ones: '"hello"'."""
        ) from error
