"""Follows a run in a terminal, a pipe or a file, across lost connections and restarted servers."""

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

import click

from outlast.cli import options
from outlast.cli.remote import Remote
from outlast.cli.terminal import Screen, screen_for
from outlast.cli.transcript import Listing, Telling, Transcript, is_takeover
from outlast.cli.wording import counted, link_sentence, recovery_sentence
from outlast.client.client import Client
from outlast.client.connect import connect
from outlast.client.received import Received, ReceivedEvent
from outlast.client.record import ClientRecord
from outlast.log.event import OWN_PREFIX
from outlast.run import Status
from outlast.supervision.phase import Phase
from outlast.supervision.record import LinkRecord

TICK: Final = 1.0
"""Seconds between two looks at the status line: it counts seconds down."""
WORTH_A_LINE: Final = frozenset({Phase.SLOW, Phase.BUSY, Phase.SWITCHING, Phase.BACKOFF, Phase.OFFLINE, Phase.BLOCKED})
"""Phases that are told to those without a status line."""
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
    async with connect(url, headers=options.headers(token)) as client:
        telling = [asyncio.create_task(each) for each in (_tell(view, client), _tick(view))]
        try:
            await _read(view, client, run, after)
        finally:
            for each in telling:
                each.cancel()
            await asyncio.wait(telling)  # they end at once: nothing in them resists


async def _read(view: "View", client: Client, run: str, after: str) -> None:
    async with aclosing(client.follow(run, after=after, patient=False)) as followed:
        async for received in followed:
            view.take(received)


async def _tell(view: "View", client: Client) -> None:
    async for record in client.state:
        view.show(record)


async def _tick(view: "View") -> None:
    while True:
        await asyncio.sleep(TICK)
        view.refresh()


class View:
    """What is shown of a run: what it said, and below it how things stand."""

    def __init__(
        self, screen: Screen, telling: Telling, url: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.clock: Callable[[], float] = clock
        self.outcome: str | None = None
        self._clock = clock
        self._screen = screen
        self._telling = telling
        self._url = url
        self._record: ClientRecord | None = None
        self._told: LinkRecord | None = None
        self._was_live = False
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

    def show(self, record: ClientRecord) -> None:
        """Take in how things stand. What is worth a line is told once; the rest is the status line's."""
        link, told = record.link, self._told
        self._record = record
        if link.phase is Phase.LIVE and told is not None:
            self._screen.notice("outlast: connected again")
            self._told = None
        elif link.phase in WORTH_A_LINE and (told is None or _is_news(link, told)):
            where = "" if told is not None or self._was_live else f" ({self._url})"  # the address may be the mistake
            self._screen.notice(f"outlast: {link_sentence(link, now=self._clock())}{where}")
            self._told = link
        self._was_live = self._was_live or link.phase is Phase.LIVE
        self.refresh()

    def refresh(self) -> None:
        """Show how things stand now."""
        if self._record is None:
            return
        link = self._record.link
        light = "●" if link.phase is Phase.LIVE else "○"
        parts = [f"{light} {link_sentence(link, now=self._clock())}", f"event {self._seq}"]
        recovering = [recovery_sentence(run.recovering) for run in self._record.runs.values()]
        parts[1:1] = [said for said in recovering if said is not None]
        if self._takeovers:
            parts.append(counted(self._takeovers, "takeover"))
        self._screen.status(" · ".join([*parts, "Ctrl-C leaves, the run goes on"]))


def _is_news(link: LinkRecord, told: LinkRecord) -> bool:
    return (link.phase, link.retry_at) != (told.phase, told.retry_at)
