"""What people are shown while a server stands still, by this client and by two usual ways to hold a stream.

`python -m tests.integration.comparison` does everything to servers side by side, in about three minutes, and writes
what came of it to comparison.json, from which the table of docs/busy.md is drawn. The usual ways are a loop around an
HTTP client that reconnects on every error, with that client's own read timeout of 5 s, and the same loop with one
deadline of two heartbeats.
"""

import asyncio
import json
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from bench.report import surroundings
from outlast.log.cursor import Cursor
from outlast.run import TERMINALS
from outlast.supervision.phase import Phase, Wakeup
from outlast.supervision.profile import STANDARD
from outlast.testing.network import BlackHole
from outlast.testing.proxy import FaultProxy
from outlast.wire.sse import Message, Parser
from tests.integration.busy import TRUE, Watch, hindrance, longest, stop, stored, tell, watching
from tests.integration.programs import House, Program, house
from tests.integration.readers import start

RESULTS = Path(__file__).with_name("comparison.json")
BETWEEN = 1.0
"""Seconds between two tries of the usual ways, as most of them wait."""
USUAL: Mapping[str, float] = {"loop": 5.0, "deadline": 20.0}
"""Seconds of silence that the usual ways bear: an HTTP client's own read timeout, and two heartbeats."""
KINDS = ("outlast", *USUAL)
PATIENCE = 400.0
"""Seconds for everything."""


@dataclass(slots=True)
class Usual:
    """A loop that reconnects on every error and after `bears` seconds of silence, from the last id it saw."""

    bears: float
    received: list[Message] = field(default_factory=list[Message])
    taken_at: list[float] = field(default_factory=list[float])
    requests: int = 0
    mute: float = 0.0
    first_lost_at: float | None = None
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_over(self) -> bool:
        """Whether the run's end has come."""
        return any(each.event in TERMINALS for each in self.received)

    async def follow(self, urls: Sequence[str], run: str) -> None:
        """Follow a run to its end."""
        clock, lost_at = asyncio.get_running_loop().time, None
        async with httpx2.AsyncClient(timeout=httpx2.Timeout(5.0, read=self.bears), trust_env=False) as client:
            while not self.is_over:
                url = urls[self.requests % len(urls)]
                try:
                    async with client.stream("GET", f"{url}/runs/{run}/events", headers=self._headers()) as response:
                        response.raise_for_status()
                        self.mute += 0.0 if lost_at is None else clock() - lost_at
                        lost_at = None
                        await self._read(response)
                except httpx2.HTTPError:
                    pass
                if not self.is_over:
                    lost_at = clock() if lost_at is None else lost_at
                    self.first_lost_at = lost_at if self.first_lost_at is None else self.first_lost_at
                    await asyncio.sleep(BETWEEN)

    def _headers(self) -> dict[str, str]:
        self.requests += 1
        last = self.received[-1].id if self.received else None
        return {"accept": "text/event-stream"} | ({"last-event-id": last} if last else {})

    async def _read(self, response: httpx2.Response) -> None:
        parser = Parser()
        async for chunk in response.aiter_bytes():
            self.received += [each for each in parser.feed(chunk) if each.id]
            self.taken_at.append(asyncio.get_running_loop().time())
            self.begun.set()
            if self.is_over:
                return


# ---- what is done -------------------------------------------------------------------------------


@dataclass(slots=True)
class Scene:
    """Servers, the addresses that clients have of them, a run, and a client that has seen it begin."""

    house: House
    servers: list[Program]
    urls: list[str]
    run: str = ""
    watch: Watch = field(default_factory=lambda: Watch(""))
    proxy: FaultProxy | None = None
    began: float = 0.0

    def begin(self) -> None:
        """Note that from now on something is wrong."""
        self.began = asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something that is wrong for so many seconds; `done` does it, where the run does not do it itself."""

    name: str
    seconds: float
    way: str = ""
    beacon: str = "process"
    nodes: int = 1
    proxied: bool = False
    done: Callable[["Scene", float], Awaitable[None]] | None = None

    @property
    def environ(self) -> dict[str, str]:
        process = "1" if self.beacon == "process" else "0"
        return {**TRUE, "OUTLAST_BEACON": "0" if self.beacon else "", "OUTLAST_BEACON_PROCESS": process}


async def halt(scene: Scene, seconds: float) -> None:
    """Stop the first server, and let it go on later."""
    await stop(scene.servers[0], scene.house.folder)
    scene.begin()
    await asyncio.sleep(seconds)
    scene.servers[0].signal(signal.SIGCONT)


async def kill(scene: Scene, seconds: float) -> None:
    """Kill the first server, and start it again later."""
    scene.begin()
    await scene.servers[0].kill()
    await asyncio.sleep(seconds)
    scene.servers[0] = await scene.house.serve(port=int(scene.urls[0].rpartition(":")[2]))


async def swallow(scene: Scene, _seconds: float) -> None:
    """Let every connection that there is be forgotten on the way; new ones are as good as ever."""
    assert scene.proxy is not None, "this scene has one"
    scene.begin()
    for connection in scene.proxy.connections:
        connection.impose(BlackHole())
    seen = len(scene.watch.received)
    await scene.watch.until(lambda watch: len(watch.received) > seen)


async def engulf(scene: Scene, seconds: float) -> None:
    """Let everything be swallowed on the way for so long; connections from before stay lost."""
    await _engulf(scene, seconds)


async def engulf_seen(scene: Scene, seconds: float) -> None:
    """Let somebody look when that has begun."""
    await _engulf(scene, seconds, lambda: scene.watch.client.wakeup(Wakeup.VISIBLE))


async def engulf_slept(scene: Scene, seconds: float) -> None:
    """Let the machine wake from a short sleep when that has begun."""
    await _engulf(scene, seconds, lambda: scene.watch.client.wakeup(Wakeup.RESUMED, seconds=5.0))


async def _engulf(scene: Scene, seconds: float, wake: Callable[[], None] = lambda: None) -> None:
    assert scene.proxy is not None, "this scene has one"
    swallowed = scene.proxy.connections
    scene.proxy.impose(BlackHole())
    await asyncio.sleep(BETWEEN)  # what had come through before has been taken
    scene.begin()
    wake()
    await asyncio.sleep(seconds)
    scene.proxy.lift()
    for connection in swallowed:
        connection.impose(BlackHole())


CONDITIONS = (
    Condition(name="asleep", seconds=5, way="sleep"),
    Condition(name="asleep", seconds=20, way="sleep"),
    Condition(name="asleep", seconds=60, way="sleep"),
    Condition(name="asleep, no beacon", seconds=60, way="sleep", beacon=""),
    Condition(name="at work in Python", seconds=60, way="loop", beacon="thread"),
    Condition(name="in one call of C", seconds=60, way="call"),
    Condition(name="stopped (SIGSTOP)", seconds=60, done=halt),
    Condition(name="stopped (SIGSTOP), no beacon", seconds=60, beacon="", done=halt),
    Condition(name="stopped (SIGSTOP)", seconds=100, done=halt),
    Condition(name="asleep, no beacon, behind a proxy", seconds=60, way="sleep", beacon="", proxied=True),
    Condition(name="killed, and started again", seconds=5, done=kill),
    Condition(name="connections swallowed on the way", seconds=0, proxied=True, done=swallow),
    Condition(name="all swallowed on the way", seconds=40, proxied=True, done=engulf),
    Condition(name="the same, and somebody looks", seconds=40, proxied=True, done=engulf_seen),
    Condition(name="the same, after a short sleep", seconds=40, proxied=True, done=engulf_slept),
    Condition(name="one of two nodes stopped (SIGSTOP)", seconds=60, beacon="", nodes=2, done=halt),
)


async def measure(condition: Condition, folder: Path) -> dict[str, Any]:
    """Do it to servers, with one client of each kind, and return what came of it."""
    usual = {name: Usual(bears) for name, bears in USUAL.items()}
    async with staged(condition, folder) as scene:
        said = hindrance(condition.way, condition.seconds)
        scene.run = await start(scene.servers[0], "hindered", said)
        async with asyncio.TaskGroup() as others, watching(scene.urls, scene.run, profile=STANDARD) as scene.watch:
            for each in usual.values():
                others.create_task(each.follow(scene.urls, scene.run))
            await scene.watch.begun()
            for each in usual.values():
                await each.begun.wait()
            scene.begin()
            if condition.done is not None:
                await condition.done(scene, condition.seconds)
            tell(scene.house.folder)
        places = [each.cursor for each in await stored(scene.servers[-1], scene.run)]
    sys.stdout.write(f"{condition.name} {condition.seconds:g}: {scene.watch.summary}\n")
    return {
        "condition": condition.name,
        "seconds": condition.seconds,
        "outlast": _ours(scene, places),
        **{name: _theirs(each, scene, places) for name, each in usual.items()},
    }


@asynccontextmanager
async def staged(condition: Condition, folder: Path) -> AsyncIterator[Scene]:
    """Yield servers, and a proxy before the first of them where there is to be one."""
    async with house(folder, **condition.environ) as servers:
        programs = [await servers.serve() for _ in range(condition.nodes)]
        urls = [each.url for each in programs]
        if not condition.proxied:
            yield Scene(servers, programs, urls)
            return
        async with FaultProxy("127.0.0.1", int(urls[0].rpartition(":")[2])) as proxy:
            yield Scene(servers, programs, [proxy.url], proxy=proxy)


def _ours(scene: Scene, places: Sequence[Cursor]) -> dict[str, Any]:
    watch = scene.watch
    after = [each for each in watch.shown if each.at >= scene.began]
    phases: dict[str, float] = {}
    for each in after:
        if each.phase not in {Phase.LIVE, *phases}:
            phases[each.phase] = round(each.at - scene.began, 1)
    return {
        "shown": phases,
        "evidence": sorted(watch.evidence),
        "connections": watch.generations,
        "mute": round(watch.mute, 1),
        "waited": round(longest(watch.taken_at), 1),
        **_missing([each.cursor for each in watch.received], places),
    }


def _theirs(usual: Usual, scene: Scene, places: Sequence[Cursor]) -> dict[str, Any]:
    lost = usual.first_lost_at
    return {
        "lost": None if lost is None else round(lost - scene.began, 1),
        "connections": usual.requests,
        "mute": round(usual.mute, 1),
        "waited": round(longest(usual.taken_at), 1),
        **_missing([Cursor.parse(each.id or "") for each in usual.received], places),
    }


def _missing(received: Sequence[Cursor], places: Sequence[Cursor]) -> dict[str, int]:
    return {"missing": len(set(places) - set(received)), "doubled": len(received) - len(set(received))}


# ---- the table ----------------------------------------------------------------------------------


HEADS = ("the server is", "seconds", "shown, after seconds", "connections", "mute", "longest wait")
"""What the table tells of this client; of the usual ways it tells the last three together."""


def table(found: Mapping[str, Any]) -> str:
    """Return the table as it stands in the docs."""
    heads = [*HEADS, *(f"{name} of {bears:g} s" for name, bears in USUAL.items())]
    lines = [heads, ["---"] * len(heads), *map(_cells, found["conditions"])]
    rows = [f"| {' | '.join(line)} |" for line in lines]
    lost = sum(each[kind][name] for each in found["conditions"] for kind in KINDS for name in ("missing", "doubled"))
    where = f"{found['cores']} cores, {found['system']}, Python {found['python']}, {found['date']}"
    return "\n".join([*rows, "", f"Events missing or doubled, all clients together: {lost}. Measured on {where}."])


def _cells(measured: Mapping[str, Any]) -> list[str]:
    ours = measured["outlast"]
    shown = ", ".join(f"{phase} {at:g}" for phase, at in ours["shown"].items()) or "live throughout"
    evidence = f" ({', '.join(ours['evidence'])})" if ours["evidence"] else ""
    first = [measured["condition"], f"{measured['seconds']:g}", shown + evidence]
    usual = (measured[name] for name in USUAL)
    return [*first, *_counted(ours), *(", ".join(_counted(each)) for each in usual)]


def _counted(told: Mapping[str, Any]) -> list[str]:
    return [str(told["connections"]), f"{told['mute']:g} s", f"{told['waited']:g} s"]


def read() -> str:
    """Return the table of what was measured last."""
    return table(json.loads(RESULTS.read_text(encoding="utf-8")))


async def compare(folder: Path) -> dict[str, Any]:
    """Do everything side by side."""
    folders = [folder / str(number) for number, _ in enumerate(CONDITIONS)]
    for each in folders:
        each.mkdir()
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        measured = [tasks.create_task(measure(*each)) for each in zip(CONDITIONS, folders, strict=True)]
    return {**surroundings(), "conditions": [task.result() for task in measured]}


def main() -> str:
    """Measure, write the result, and return the table."""
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(compare(Path(folder)))
    RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return table(found)


if __name__ == "__main__":
    sys.stdout.write(f"{main()}\n")
