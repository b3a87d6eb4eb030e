"""Follows a run in a terminal, a pipe or a file, across lost connections and restarted servers."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

import click

from outlast.cli import options
from outlast.cli.remote import Remote
from outlast.cli.terminal import Screen, screen_for
from outlast.cli.transcript import Listing, Telling, Transcript, is_takeover
from outlast.cli.wording import counted, link_sentence
from outlast.client.follow import Connecting, LinkState, Live, Waiting, follow
from outlast.client.received import Received, ReceivedEvent
from outlast.log.event import OWN_PREFIX
from outlast.run import Status

TICK: Final = 1.0
"""Seconds between two looks at the status line: it counts seconds down."""
COMPLETED: Final = 0
NOT_COMPLETED: Final = 1
EXAMPLES: Final = "\b\nExamples:\n  outlast tail 5f1c2d3e\n  outlast tail 5f1c2d3e --json | jq .data\n"
"""The first character tells click to leave the lines as they are."""


@click.command(epilog=EXAMPLES)
@options.run
@options.url
@options.token
@click.option("--after", metavar="CURSOR", default="", help="Begin after this place instead of at the first event.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with cursor, seq, type and data.")
def tail(run: str, url: str, token: str | None, after: str, *, as_json: bool) -> int:
    """Follow RUN until it ends, from its first event on.

    A lost connection is made again for as long as it takes: a server may be killed and started anew meanwhile, and
    each event is still shown once. Ctrl-C leaves; the run goes on without you.

    The exit code is 0 when the run completed, 1 when it failed or was stopped, and 2 when it was refused.
    """
    return watch(run, url=url, token=token, after=after, as_json=as_json)


def watch(run: str, *, url: str, token: str | None, after: str = "", as_json: bool = False) -> int:
    """Show a run until it ends and return the exit code. Raises what `follow` raises."""
    screen = screen_for(sys.stdout, sys.stderr)
    view = View(screen, Listing(screen) if as_json else Transcript(screen), url)
    try:
        asyncio.run(_watch(view, run, url=url, token=token, after=after))
    finally:
        screen.close()
    status = view.outcome
    if status is None:  # it was read to its end before
        with Remote(url, token) as remote:
            status = remote.status(run).get("status")
    return COMPLETED if status == Status.COMPLETED else NOT_COMPLETED


async def _watch(view: "View", run: str, *, url: str, token: str | None, after: str) -> None:
    loop = asyncio.get_running_loop()
    view.clock = loop.time
    ticking = asyncio.create_task(_tick(view))
    followed = follow(url, run, after=after, headers=options.headers(token), on_state=view.link)
    try:
        async with aclosing(followed):
            async for received in followed:
                view.take(received)
    finally:
        ticking.cancel()
        await asyncio.wait([ticking])  # it ends at once: nothing in it resists


async def _tick(view: "View") -> None:
    while True:
        await asyncio.sleep(TICK)
        view.refresh()


class View:
    """What is shown of a run: what it said, and below it how things stand."""

    def __init__(self, screen: Screen, telling: Telling, url: str) -> None:
        self.clock: Callable[[], float] = float
        self.outcome: str | None = None
        self._screen = screen
        self._telling = telling
        self._url = url
        self._state: LinkState = Connecting(attempt=1)
        self._since = 0.0
        self._was_lost = False
        self._seq = 0
        self._takeovers = 0

    def take(self, received: Received) -> None:
        """Show one thing that was received."""
        self._seq = received.cursor.seq
        if isinstance(received, ReceivedEvent):
            self._takeovers += is_takeover(received)
            if received.is_terminal:
                self.outcome = received.type.removeprefix(OWN_PREFIX)
        self._telling.take(received)

    def link(self, state: LinkState) -> None:
        """Take in what has become of the connection."""
        if isinstance(state, Waiting):
            where = "" if self._was_lost else f" ({self._url})"  # once: the address may be the mistake
            self._screen.notice(f"outlast: {link_sentence(state, left=state.seconds)}{where}")
        elif isinstance(state, Live) and self._was_lost:
            self._screen.notice("outlast: connected again")
        self._was_lost = isinstance(state, Waiting) or (self._was_lost and not isinstance(state, Live))
        self._state = state
        self._since = self.clock()
        self.refresh()

    def refresh(self) -> None:
        """Show how things stand now."""
        left = self._state.seconds - (self.clock() - self._since) if isinstance(self._state, Waiting) else 0.0
        light = "●" if isinstance(self._state, Live) else "○"
        parts = [f"{light} {link_sentence(self._state, left=left)}", f"event {self._seq}"]
        if self._takeovers:
            parts.append(counted(self._takeovers, "takeover"))
        self._screen.status(" · ".join([*parts, "Ctrl-C leaves, the run goes on"]))
