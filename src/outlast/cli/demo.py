"""The demonstration: an agent explains a module of the standard library, and outlives the server it runs on."""

import asyncio
import os
import secrets
import socket
import sys
import webbrowser
from collections.abc import Iterable
from pathlib import Path
from shutil import which
from typing import Final

import click

from outlast.assembly.outlast import Outlast
from outlast.cli import library
from outlast.cli.endpoint import endpoint
from outlast.cli.explainer import PACE, SLOWEST, explain, module_of
from outlast.cli.listener import PORT, address_of, listen, resolve
from outlast.cli.options import URL
from outlast.cli.remote import Remote
from outlast.cli.serve import configure_logs, kept, run
from outlast.cli.terminal import inline
from outlast.cli.wording import LONGEST
from outlast.errors import InputInvalid, PortTaken
from outlast.log.event import JSON

WORKER: Final = "explain"
STORE: Final = "sqlite:///outlast-demo.db"
"""A file in the current folder: who looks for it finds it, and who deletes it begins anew."""
PORTS: Final = 20
"""Ports that are tried from the usual one on."""
EXAMPLES: Final = "\b\nExamples:\n  outlast demo\n  outlast demo json --pace 0.05 --open\n"
"""The first character tells click to leave the lines as they are."""


@click.command(epilog=EXAMPLES)
@click.argument("module", default="heapq")
@click.option("--store", metavar="URL", default=STORE, show_default=True, help="Where the runs are kept.")
@click.option("--port", type=click.IntRange(1, 65535), help=f"Where to answer; {PORT}, or the next free port after it.")
@click.option("--pace", type=float, default=PACE, show_default=True, help="Seconds per word.")
@click.option(
    "--model",
    metavar="URL",
    help="Let a model explain: any OpenAI-compatible endpoint, such as http://localhost:11434/v1",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
def demo(module: str, store: str, port: int | None, pace: float, model: str | None, *, opens: bool) -> int:
    """Show a run that outlives the server it started on.

    An agent explains MODULE of the standard library, word by word, with no network and no model. Read along on the
    page or with `outlast tail`, kill the server in the middle, and start the demo again: the run is taken over, and
    whoever was reading reads on.
    """
    if not 0 <= pace <= SLOWEST:
        raise InputInvalid(f"--pace is a number of seconds per word from 0 to {SLOWEST:g}.")
    configure_logs(verbose=False)
    try:
        library.find_module(module)
    except library.ModuleRefused as refusal:
        raise InputInvalid(f"The demo cannot explain this: {refusal}.") from refusal
    outlast = Outlast(store)
    outlast.worker(WORKER)(endpoint(model) if model else explain)
    listener = first_free(range(PORT, PORT + PORTS) if port is None else [port])
    input: JSON = {"module": module, "pace": pace}

    async def greet() -> None:
        address = address_of(listener)
        if port is None and listener.getsockname()[1] != PORT:
            click.echo(f"Port {PORT} is in use, so this answers at another.")
        name, resumed = await asyncio.to_thread(pick, address, input)
        click.echo(greeting(outlast, address, name, resumed=resumed))
        if opens:
            await asyncio.to_thread(webbrowser.open, _page(address, name))

    return run(outlast, listener, greet)


def first_free(ports: Iterable[int]) -> socket.socket:
    """Take the first port that is free: a demo that comes back finds its old one again. Raises `PortTaken`."""
    taken = PortTaken("No port was offered.")
    for port in ports:
        try:
            return listen(resolve("127.0.0.1", port))
        except PortTaken as refusal:
            taken = refusal
    raise taken


def pick(address: str, input: JSON) -> tuple[str, bool]:
    """Return the run to look at, and whether an earlier demo began it; where none is under way, one is started."""
    with Remote(address, None) as remote:
        for document in remote.unfinished():
            return str(document["id"]), True
        name = f"{module_of(input)}-{secrets.token_hex(2)}"
        return str(remote.start(WORKER, input, id=name, thread=None)["id"]), False


def greeting(outlast: Outlast, address: str, name: str, *, resumed: bool) -> str:
    """Return what a person needs to see the run live, to kill it, and to see it go on."""
    run = inline(name, LONGEST)
    first = (
        f"Going on with run {run}: its last server is gone, this one takes it over."
        if resumed
        else f"Run {run} has begun."
    )
    url = "" if address == URL else f" --url {address}"
    return f"""{first} Runs are {kept(outlast)}.

  read along    {_page(address, run)}
                {program()} tail {run}{url}
  kill me       kill -9 {os.getpid()}
                and start me again: the run goes on. This worker begins anew, and readers fold away
                what it said before; one of kind="resume" goes on from its last checkpoint.

Ctrl-C stops the demo."""


def _page(address: str, name: str) -> str:
    return f"{address}/#{name}"


def program() -> str:
    """Return how this program is called from where the person is."""
    if which("outlast") is not None:
        return "outlast"
    called = Path(sys.argv[0])
    if called.stem == "__main__":
        return f"{sys.executable} -m outlast"
    return min(os.path.relpath(called), str(called), key=len)
