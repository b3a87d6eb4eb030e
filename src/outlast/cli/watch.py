"""The command that shows how the links to servers are: live, slow, busy or lost, and since when."""

import asyncio
import json
import shutil
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, NoReturn

import click

from outlast.cli import options
from outlast.cli.table import columns
from outlast.cli.terminal import inline
from outlast.cli.wording import link_sentence
from outlast.client.client import Client
from outlast.client.registry import Registry
from outlast.log.event import JSON
from outlast.supervision.phase import Phase
from outlast.supervision.record import LinkRecord

TICK: Final = 1.0
"""Seconds between two looks at the screen: it counts seconds."""
CLEAR: Final = "\x1b[H\x1b[J"
AWAY, BACK = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
EXAMPLES: Final = "\b\nExamples:\n  outlast watch http://a:8400 http://b:8400\n  outlast watch --json | jq .phase\n"
"""The first character tells click to leave the lines as they are."""


@click.command(epilog=EXAMPLES)
@click.argument("urls", nargs=-1, metavar="[URL]...")
@options.token
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each change.")
def watch(urls: Sequence[str], token: str | None, *, as_json: bool) -> None:
    """Show how the link to each URL is, until Ctrl-C.

    A server that is only busy is told apart from one that is gone: something has to speak for it, such as its beacon,
    another node, or its machine's kernel. Where there is no terminal, each change is a line.
    """
    asyncio.run(_watch(list(dict.fromkeys(urls)) or [options.URL], token, as_json=as_json))


async def _watch(urls: Sequence[str], token: str | None, *, as_json: bool) -> None:
    async with Registry() as servers:
        for url in urls:
            await servers.add(url, url, headers=options.headers(token))
        if sys.stdout.isatty() and not as_json:
            await _show(servers)
        width = max(map(len, urls))
        async with asyncio.TaskGroup() as listing:
            for url, client in servers.items():
                listing.create_task(_list(url, client, width=width, as_json=as_json), name="list")


async def _list(url: str, client: Client, *, width: int, as_json: bool) -> None:
    async for line in lines_of(url, client, width=width, as_json=as_json):
        click.echo(line)


async def lines_of(url: str, client: Client, *, width: int, as_json: bool) -> AsyncIterator[str]:
    """Yield a line for each change of a link, until its client is closed."""
    before: LinkRecord | None = None
    async for record in client.state:
        link = record.link
        if before is None or _differs(link, before):
            before, now = link, time.monotonic()
            yield json.dumps(document(url, link, now=now)) if as_json else f"{url:<{width}}  {told(link, now=now)}"


async def _show(servers: Mapping[str, Client]) -> NoReturn:
    """Show every link in place, each second and at each change."""
    click.echo(AWAY, nl=False)
    try:
        while True:  # until Ctrl-C
            size = shutil.get_terminal_size()
            records = {url: client.state.record.link for url, client in servers.items()}
            lines = view(records, now=time.monotonic(), width=size.columns)[: size.lines - 1]
            click.echo(CLEAR + "\n".join(lines), nl=False)
            await _change(servers)
    finally:
        click.echo(BACK, nl=False)


async def _change(servers: Mapping[str, Client]) -> None:
    """Wait for a change of any link, a second at most."""
    changes = [asyncio.ensure_future(client.state.changed()) for client in servers.values()]
    try:
        await asyncio.wait(changes, timeout=TICK, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for change in changes:
            change.cancel()


def view(records: Mapping[str, LinkRecord], *, now: float, width: int) -> list[str]:
    """Return the links as lines of at most `width` columns; `now` is on the records' clock."""
    rows = [("", "server", "link", "for", "last heard")]
    for url, link in records.items():
        light = "●" if link.phase is Phase.LIVE else "○"
        heard = "" if link.last_heard is None else f"{now - link.last_heard:.0f} s ago"
        rows.append((light, url, link_sentence(link, now=now), f"{now - link.since:.0f} s", heard))
    return columns(rows, width=width, stretch=2)


def told(link: LinkRecord, *, now: float) -> str:
    """Return a link as one line says it."""
    return inline(link_sentence(link, now=now), 200)


def document(url: str, link: LinkRecord, *, now: float) -> dict[str, JSON]:
    """Return a link as JSON; what is a time on its clock becomes seconds from now."""
    return {
        "url": url,
        "phase": link.phase.value,
        "sentence": link_sentence(link, now=now),
        "generation": link.generation,
        "heard_ago": None if link.last_heard is None else round(now - link.last_heard, 3),
        "attempt": link.attempt,
        "retry_in": None if link.retry_at is None else round(link.retry_at - now, 3),
        "trouble": None if link.trouble is None else link.trouble.value,
        "evidence": None if link.evidence is None else link.evidence.value,
        "can_send": link.can_send,
    }


def _differs(link: LinkRecord, before: LinkRecord) -> bool:
    """Say whether it is worth a line: that something was heard again is not."""
    names = ("phase", "generation", "retry_at", "trouble", "evidence")
    return any(getattr(link, name) != getattr(before, name) for name in names)
