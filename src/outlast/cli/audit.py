"""The command that audits one run: who held it, and whether its log, its lineage and its row tell one story."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

import click

from outlast.assembly.stores import open_existing
from outlast.audit import Account, Audit
from outlast.cli import options
from outlast.cli.remote import Remote
from outlast.cli.table import columns
from outlast.cli.terminal import inline
from outlast.cli.wording import LONGEST, counted
from outlast.client.connect import follow
from outlast.client.received import ReceivedEvent
from outlast.errors import StoreCorrupt, WireError
from outlast.lineage import Entry, Kind, Lineage
from outlast.log.cursor import Cursor
from outlast.run import Cause, Status
from outlast.stores.base import LogStore
from outlast.wire.status import moment

PAGE: Final = 1000
"""Events read at a time."""
PAGE_BYTES: Final = 4 * 1024 * 1024
SOUND: Final = 0
WRONG: Final = 1
EXAMPLES: Final = (
    "\b\n"
    "Examples:\n"
    "  outlast audit 5f1c2d3e\n"
    "  outlast audit 5f1c2d3e --store sqlite:///outlast.db    with no server running\n"
)
"""The first character tells click to leave the lines as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """A run that was read to its head, and what was found wrong with it."""

    run: str
    log: str
    account: Account
    lineage: Lineage
    findings: Sequence[str]
    notes: Sequence[str]
    events: int


@click.command(epilog=EXAMPLES)
@options.run
@options.url
@options.token
@click.option("--store", metavar="URL", help="Read this store itself, such as sqlite:///runs.db; no server is asked.")
@click.option("--owner", metavar="OWNER", default="", help="Whose run it is, with --store.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def audit(run: str, url: str, token: str | None, store: str | None, owner: str, *, as_json: bool) -> int:
    """Tell who held RUN, and verify its log from the first event on.

    Each claim is listed with its epoch, node, cause and calls. Then the whole log is read: its chain is counted anew
    from the origin, its numbers must have no hole, its terminal event must be the only one and the last, and log,
    lineage and row must agree. The exit code is 1 when anything is wrong.
    """
    audited = audit_remote(run, url=url, token=token) if store is None else audit_store(run, store, owner=owner)
    if as_json:
        click.echo(json.dumps(as_document(audited), indent=2))
    else:
        for line in lines(audited):
            click.echo(line)
    return WRONG if audited.findings else SOUND


def audit_remote(run: str, *, url: str, token: str | None) -> Audited:
    """Audit a run over HTTP, up to the head it has now."""
    with Remote(url, token) as remote:
        # The row first: what is claimed or said while we read is not judged by an older row.
        document, told = remote.status(run), remote.lineage(run)
    account = account_of(document)
    lineage = [entry for entry in map(entry_of, told["lineage"]) if entry.epoch <= account.epoch]
    judge = Audit(str(told["log"]), first=account.first)
    if account.head.seq >= account.first:
        try:
            asyncio.run(_read(judge, run, url=url, token=token, until=account.head.seq))
        except WireError as error:  # a log that leaves events out, say
            judge.findings.append(str(error))
    return _closed(run, judge, account, lineage)


async def _read(judge: Audit, run: str, *, url: str, token: str | None, until: int) -> None:
    async with aclosing(follow(url, run, after=str(judge.cursor.seq), headers=options.headers(token))) as followed:
        async for received in followed:
            if isinstance(received, ReceivedEvent):
                judge.take(received.cursor, received.event)
            if received.cursor.seq >= until:
                return


def audit_store(run: str, store: str, *, owner: str) -> Audited:
    """Audit a run in a store that this process opens itself."""
    return asyncio.run(_audit_store(run, store, owner=owner))


async def _audit_store(id: str, url: str, *, owner: str) -> Audited:
    async with open_existing(url) as store:
        run = (await store.runs.load(owner, id)).run
        head = await store.logs.head(run.log)
        lineage = [entry for entry in await store.runs.lineage(owner, id) if entry.epoch <= run.epoch]
        account = Account(
            status=run.status,
            epoch=run.epoch,
            takeovers=run.budget.life,
            handoffs=run.budget.handoffs,
            calls=run.budget.calls,
            head=head.cursor,
            first=head.first,
        )
        judge = Audit(run.log, first=head.first)
        try:
            await _read_pages(judge, store.logs, until=head.cursor.seq)
        except StoreCorrupt as error:
            judge.findings.append(str(error))
        return _closed(id, judge, account, lineage)


async def _read_pages(judge: Audit, logs: LogStore, *, until: int) -> None:
    while judge.cursor.seq < until:
        left = min(PAGE, until - judge.cursor.seq)
        page = await logs.read(judge.log, after=judge.cursor.seq, limit=left, max_bytes=PAGE_BYTES)
        if not page:
            return
        for stored in page:
            judge.take(stored.cursor, stored.event)


def _closed(run: str, judge: Audit, account: Account, lineage: Lineage) -> Audited:
    findings = judge.close(account, lineage)
    return Audited(
        run=run,
        log=judge.log,
        account=account,
        lineage=lineage,
        findings=findings,
        notes=judge.notes,
        events=judge.events,
    )


# ---- from JSON, and back ------------------------------------------------------------------------


def account_of(document: Mapping[str, Any]) -> Account:
    """Return what a status document says, as far as it is audited."""
    budget = document["budget"]
    return Account(
        status=Status(document["status"]),
        epoch=document["epoch"],
        takeovers=budget["life"]["used"],
        handoffs=budget["handoffs"]["used"],
        calls=budget["calls"]["used"],
        head=Cursor.parse(document["head"]),
        first=document["first"],
    )


def entry_of(told: Mapping[str, Any]) -> Entry:
    """Return an entry as a server told it."""
    return Entry(
        epoch=told["epoch"],
        claim=told["claim"],
        node=told["node"],
        at=datetime.fromisoformat(told["at"]).timestamp(),
        kind=Kind(told["kind"]),
        cause=None if told["cause"] is None else Cause(told["cause"]),
        calls=told["calls"],
    )


def as_document(audited: Audited) -> dict[str, Any]:
    """Return an audit as JSON."""
    return {
        "run": audited.run,
        "log": audited.log,
        "status": audited.account.status.value,
        "epoch": audited.account.epoch,
        "head": str(audited.account.head),
        "events": audited.events,
        "lineage": [{**asdict(entry), "at": moment(entry.at)} for entry in audited.lineage],
        "sound": not audited.findings,
        "findings": list(audited.findings),
        "notes": list(audited.notes),
    }


def lines(audited: Audited) -> list[str]:
    """Return an audit as lines for people."""
    account = audited.account
    rows = [("epoch", "what", "cause", "node", "calls", "when")]
    rows += [
        (
            str(entry.epoch),
            entry.kind.value,
            entry.cause.value if entry.cause else "",
            inline(entry.node or "", 24),
            str(entry.calls),
            moment(entry.at),
        )
        for entry in audited.lineage
    ]
    told = columns(rows) if audited.lineage else ["Nobody has claimed this run yet."]
    read = f"{counted(audited.events, 'event')} read up to {account.head}"
    if not audited.findings:
        verdict = f"sound: {read}; the chain holds from its origin, and log, lineage and row tell one story."
    else:
        verdict = f"wrong: {counted(len(audited.findings), 'finding')} ({read})."
    notes = [f"  note: {note}" for note in audited.notes]
    return [
        f"log {inline(audited.log, LONGEST)}",
        "",
        *told,
        "",
        verdict,
        *(f"  {finding}" for finding in audited.findings),
        *notes,
    ]
