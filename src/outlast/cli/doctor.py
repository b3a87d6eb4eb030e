"""The command that looks at everything a run depends on, and says what to do about what is not well."""

import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import click

from outlast.assembly.settings import PREFIX, Settings
from outlast.assembly.stores import file_of, nodes_of, path_of, peek
from outlast.cli import options
from outlast.cli.remote import Remote
from outlast.cli.terminal import inline
from outlast.cli.wording import LONGEST, counted, node_sentence
from outlast.errors import OutlastError, Unanswered
from outlast.stores.base import Node

PYTHON: Final = (3, 11)
"""TaskGroup and asyncio.timeout came with it."""
UNMADE: Final = ".outlast-unmade"
"""A file that is not there: what is asked about is its folder."""
FREE: Final = 1024**3
"""Bytes of disk below which a store is worth a warning: four logs at their limit."""
FULL: Final = 64 * 1024**2
"""Bytes of disk below which nothing can be relied on: one burst of the WAL."""
LAG: Final = 0.5
"""Seconds a node's loop may lag before readers notice."""
SHOWN: Final = 10
"""Nodes and runs that have a line of their own."""
STALLED: Final = "Its event loop stood still past stall_limit: look for a call that blocks, and restart that server."
EXAMPLES: Final = "\b\nExamples:\n  outlast doctor\n  outlast doctor --store sqlite:////var/lib/runs.db --no-server\n"
"""The first character tells click to leave the lines as they are."""


class Health(StrEnum):
    """How one thing is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at; `advice` says what to do, and is empty where nothing is to be done."""

    name: str
    health: Health
    found: str
    advice: str = ""


@click.command(epilog=EXAMPLES)
@options.url
@options.token
@click.option("--store", metavar="URL", help="The store to look at; OUTLAST_STORE or the default unless given.")
@click.option("--no-server", is_flag=True, help="Ask no server, only this machine and the store.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of checks.")
def doctor(url: str, token: str | None, store: str | None, *, no_server: bool, as_json: bool) -> int:
    """Look at this machine, the store and the server, and say what is not well.

    Each line is ok, warn or fail, with what to do about it. Nothing is changed: a store that is not there is not made.
    The exit code is 1 when anything fails.
    """
    checks = list(machine())
    try:
        settings = Settings.resolve({"store": store})
        checks += [*configured(settings, given=store, served=not no_server), *stored(settings.store)]
    except OutlastError as error:
        checks.append(Check(name="settings", health=Health.FAIL, found=str(error), advice="Correct that setting."))
    if not no_server:
        checks += served(url, token)
    if as_json:
        click.echo(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        for line in lines(checks):
            click.echo(line)
    return 1 if any(check.health is Health.FAIL for check in checks) else 0


def lines(checks: Sequence[Check]) -> Iterator[str]:
    """Yield checks for people, what to do below what was found."""
    for check in checks:
        yield f"{check.health:<4}  {check.name:<14} {inline(check.found, LONGEST)}"
        if check.advice:
            yield f"      {'':<14} {check.advice}"
    failed = sum(check.health is Health.FAIL for check in checks)
    warned = sum(check.health is Health.WARN for check in checks)
    yield ""
    yield "All is well." if not failed + warned else f"{counted(failed, 'failure')}, {counted(warned, 'warning')}."


# ---- this machine -------------------------------------------------------------------------------


def machine() -> Iterator[Check]:
    """Look at Python, SQLite and the clock."""
    python = sys.version_info >= PYTHON
    yield _check("python", python, platform.python_version(), "Outlast needs Python 3.11 or newer.")
    engine = peek(None).engine
    yield _check("sqlite", engine.is_new_enough, engine.version, "Outlast needs SQLite 3.35 or newer.")
    source = f"time since boot, boot {engine.boot_id[:8]}" if engine.boot_clock else "the wall clock"
    advice = "A step of the wall clock moves every deadline: keep it in step with NTP, in small steps."
    yield _check("clock", engine.boot_clock, source, advice, otherwise=Health.WARN)


def configured(settings: Settings, *, given: str | None, served: bool) -> Iterator[Check]:
    """Tell the settings in effect here and where they come from; a server that is asked too may have others."""
    told = {f"{name.lower()}={value}" for name, value in _variables() if name != "STORE"}
    source = "--store" if given else f"{PREFIX}STORE" if dict(_variables()).get("STORE") else "the default"
    place = "" if path_of(settings.store) is None else f": {file_of(settings.store).absolute()}"
    advice = "" if given or not served else "The server may use another: name that one with --store."
    yield Check(name="store", health=Health.OK, found=f"{settings.store}{place} (from {source})", advice=advice)
    durability = {"process": "survives the death of every process, not power loss", "power": "survives power loss"}
    found = f"{settings.durability}: {durability[settings.durability]}"
    yield Check(name="durability", health=Health.OK, found=found)
    lease, recovery = settings.lease, settings.recovery
    found = f"{lease.ttl:g} s, renewed every {lease.renew_every:g} s; {recovery.takeovers} takeovers in"
    yield Check(name="lease", health=Health.OK, found=f"{found} {recovery.window:g} s, {recovery.life} for life")
    if told:
        yield Check(name="variables", health=Health.OK, found=", ".join(sorted(told)))


def _variables() -> list[tuple[str, str]]:
    secret = {"TOKEN", "URL"}
    found = {name.removeprefix(PREFIX): value for name, value in os.environ.items() if name.startswith(PREFIX)}
    return [(name, value) for name, value in found.items() if name not in secret and value]


# ---- the store ----------------------------------------------------------------------------------


def stored(url: str) -> Iterator[Check]:
    """Look at the store's place, its file, and the nodes that use it."""
    if path_of(url) is None:
        yield Check(name="file", health=Health.OK, found="memory: runs end with their process")
        return
    path = file_of(url).absolute()
    if not path.parent.is_dir():
        found = f"{path.parent} does not exist"
        yield Check(name="folder", health=Health.FAIL, found=found, advice=f"Make it: mkdir -p {path.parent}")
        return
    yield from _place(path)
    yield from _file(path, url)


def _place(path: Path) -> Iterator[Check]:
    place = peek(path.parent / UNMADE).place
    assert place is not None
    folder = str(path.parent)
    yield _check("folder", place.writable, folder, "Give this user the right to write there.")
    if not place.writable:
        return
    yield _check("wal", place.wal, "supported" if place.wal else "not supported", "Put the file on a local disk.")
    advice = "A dead node cannot be proved dead: its runs wait for its lease to run out."
    yield _check("locks", place.locks, "work" if place.locks else "do not work", advice, otherwise=Health.WARN)
    found = "folders can be synced" if place.syncs else "folders cannot be synced"
    yield _check("power loss", place.syncs, found, 'durability="power" promises nothing here.', otherwise=Health.WARN)
    left = Health.FAIL if place.free < FULL else Health.WARN if place.free < FREE else Health.OK
    advice = "" if left is Health.OK else "Free some space: a store that cannot write pauses every run."
    yield Check(name="disk", health=left, found=f"{place.free / 1024**3:.1f} GiB free", advice=advice)


def _file(path: Path, url: str) -> Iterator[Check]:
    try:
        found = peek(path).schema
    except OutlastError as error:
        yield Check(name="file", health=Health.FAIL, found=str(error), advice="Name another file, or upgrade Outlast.")
        return
    if found is None:
        advice = "The first server that uses it makes it. Another store is named with --store."
        yield Check(name="file", health=Health.WARN, found=f"{path} is not there yet", advice=advice)
        return
    schema, newest = found
    wal = path.with_name(f"{path.name}-wal")
    held = path.stat().st_size + (wal.stat().st_size if wal.exists() else 0)
    size = f"{path} ({held / 1024**2:.1f} MiB), schema version {schema} of {newest}"
    if schema < newest:
        advice = f"The next server that starts migrates it; or run: outlast migrate --store {url}"
        yield Check(name="file", health=Health.WARN, found=size, advice=advice)
        return
    yield Check(name="file", health=Health.OK, found=size)
    try:
        now, nodes = nodes_of(url)
    except OutlastError as error:
        yield Check(name="nodes", health=Health.FAIL, found=str(error), advice="Look again when the store answers.")
        return
    yield nodes_check(nodes, now=now)


def nodes_check(nodes: Sequence[Node], *, now: float) -> Check:
    """Tell which nodes have a live lease."""
    live = [node for node in nodes if node.until > now]
    stalled = [node for node in nodes if node.stalled]
    leaving = sum(node.draining for node in live)
    found = f"{counted(len(live), 'live lease')} of {counted(len(nodes), 'node')}"
    found += f", {leaving} draining" if leaving else ""
    if stalled:
        return Check(name="nodes", health=Health.WARN, found=f"{found}, {len(stalled)} stalled", advice=STALLED)
    if not live:
        advice = "Runs wait until a server with their workers runs."
        return Check(name="nodes", health=Health.WARN, found=found, advice=advice)
    return Check(name="nodes", health=Health.OK, found=found)


# ---- the server ---------------------------------------------------------------------------------


def served(url: str, token: str | None) -> Iterator[Check]:
    """Ask the server how its nodes are, and which runs are not moving."""
    with Remote(url, token, pause=lambda _: None) as remote:
        try:
            nodes, runs = remote.nodes(), remote.unfinished()
        except Unanswered as error:
            yield Check(name="server", health=Health.WARN, found=str(error), advice="Start it, or name it with --url.")
            return
        except OutlastError as error:
            yield Check(name="server", health=Health.WARN, found=str(error), advice="Give --token to look further.")
            return
    yield Check(name="server", health=Health.OK, found=f"answers, {counted(len(nodes), 'node')}")
    for node in nodes[:SHOWN]:
        yield _node(node)
    yield from still(runs)


def _node(node: Mapping[str, Any]) -> Check:
    if node["stalled"]:
        return Check(name="node", health=Health.WARN, found=node_sentence(node), advice=STALLED)
    late = node["live"] and float(node["loop_lag"]) >= LAG
    advice = "Something blocks its event loop: look for it."
    return _check("node", not late, node_sentence(node), advice, otherwise=Health.WARN)


def still(runs: Sequence[Mapping[str, Any]]) -> Iterator[Check]:
    """Tell which of these unfinished runs are not moving, and why."""
    stuck = [run for run in runs if run.get("standstill")]
    found = f"{counted(len(runs), 'run')} under way, {len(stuck)} not moving"
    yield Check(name="runs", health=Health.WARN if stuck else Health.OK, found=found)
    for run in stuck[:SHOWN]:
        yield Check(name="run", health=Health.WARN, found=inline(str(run["id"]), 40), advice=_why(run))


def _why(run: Mapping[str, Any]) -> str:
    return inline(str(run["standstill"].get("message")), LONGEST)


def _check(
    name: str,
    good: bool,  # noqa: FBT001 - it is what is checked
    found: str,
    advice: str,
    *,
    otherwise: Health = Health.FAIL,
) -> Check:
    return Check(name=name, health=Health.OK if good else otherwise, found=found, advice="" if good else advice)
