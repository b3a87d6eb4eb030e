"""A world with real clients in it: nodes at their addresses, a network between, programs that read what is said.

A storm comes over all of it, nodes, store, worker, network and programs, and then a calm, in which every program must
come to the end of everything it reads. The same seed is the same world, to the last observation.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from starlette.requests import HTTPConnection

from outlast.run import Run
from outlast.server.access import Access
from outlast.server.identity import Action, Identity
from outlast.supervision import step as machine
from outlast.supervision.inputs import Input, WentOffline
from outlast.supervision.link import Link
from outlast.supervision.phase import Phase, Wakeup
from outlast.supervision.table import TRANSITIONS
from outlast.testing.clock import run as run_virtually
from outlast.testing.history import History
from outlast.testing.invariants import check
from outlast.testing.network import BlackHole, Fault, Refuse, Stall, Way
from outlast.testing.observation import FaultMet
from outlast.testing.worker import Call, Step
from tests.simulation.network import Network, storms
from tests.simulation.visitor import Visitor
from tests.simulation.world import LAST_WORDS, World

STORM: Final = (60.0, 110.0)
"""Seconds a storm lasts: a link that says nothing is found out within half a minute."""
READ_WITHIN: Final = 150.0
"""Seconds of calm in which every program has read everything."""
SPAN: Final = 10.0
MOST_ATTEMPTS: Final = 16
"""Attempts and probes of one client in ten seconds: the ladder allows seven, each wakeup begins it anew."""
NOBODY_TO_TELL: Final = "an ASGI app failed with no client to tell"
"""What is said of a connection that breaks in the moment in which its client leaves it."""
CLIENT_FAULTS: Final = (
    *("cut", "clean end", "half open", "in pieces", "latency", "asked twice"),
    *("stall", "black hole", "refusal", "client killed", "client asleep", "path change", "offline", "visible"),
    *("token refreshed", "token expired", "signed out", "provider slow"),
    *("cancelled", "application fails", "application slow"),
)
"""What goes wrong with networks and programs."""


class Crowd(World):
    """A cluster and its clients under a storm."""

    def __init__(self, seed: int) -> None:
        access = Access(
            report=lambda _fact: None, authenticate=self.authenticate, authorize=self.authorize, clock=lambda: 0.0
        )
        super().__init__(seed, access=access)
        dice = random.Random(f"crowd {seed}")
        self.plan = replace(
            self.plan,
            nodes=dice.randint(2, 3),
            readers=dice.choice([0, 1]),
            runs=dice.randint(3, 6),
            storm=dice.uniform(*STORM),
        )
        self.network = Network(random.Random(f"network {seed}"), note=self.note)
        self.addresses = [f"node-{number}.test" for number in range(self.plan.nodes)]
        self.visitors = [self._visitor(number) for number in range(dice.randint(2, 4))]

    def _visitor(self, number: int) -> Visitor:
        name = f"client-{number}"
        dice = random.Random(f"{self.seed}/{name}")
        return Visitor(name, self.network, dice, note=self.cluster.history.note)

    # ---- what the servers are asked -----------------------------------------------------------

    async def authenticate(self, connection: HTTPConnection) -> Identity | None:
        """Let in whoever has one of the newest tokens; all programs speak for one person."""
        _, _, token = connection.headers.get("authorization", "").partition(" ")
        valid_from = min((visitor.wallet.valid_from for visitor in self.visitors), default=0)
        return Identity(owner="ann") if token.isdigit() and int(token) >= valid_from else None

    async def authorize(self, _identity: Identity, _action: Action, _owner: str, _run: Run | None) -> bool:
        """Let everybody read everything."""
        return True

    def words(self, call: Call, dice: random.Random) -> Iterator[Step]:
        """Say several times as much as elsewhere, so that there is something to be read."""
        for _ in range(dice.randint(1, 5)):
            yield from super().words(call, dice)

    async def join(self) -> None:
        """Bring up a node at an address where none is."""
        await super().join()
        member = self.nodes[-1]
        for address in self.addresses:
            there = self.network.nodes.get(address)
            if member.process.alive and (there is None or not there.process.alive):
                self.network.nodes[address] = member
                return

    async def start(self) -> None:
        """Accept one more run, and give it to some to read."""
        await super().start()
        for visitor in self.visitors:
            if self.dice.random() < 0.7:
                visitor.read(self.runs[-1])

    # ---- the storm --------------------------------------------------------------------------

    def _happenings(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        common = [
            self._weather,
            self._weather,
            self._weather,
            self._kill_client,
            self._sleep,
            self._path,
            self._offline,
        ]
        common += [self._refresh, self._expire, self._sign_out, self._slow_provider, self._look]
        return [*super()._happenings(), *common, *common]

    def _anyone(self) -> Visitor:
        return self.dice.choice(self.visitors)

    def _duration(self) -> float:
        return self.dice.choice([0.5, self.dice.uniform(1, 10), self.dice.uniform(20, 60)])

    async def _weather(self) -> None:
        name = self.dice.choice([*self.addresses, *(visitor.name for visitor in self.visitors)])
        kinds: Sequence[tuple[str, Fault | Refuse]] = (
            ("stall", Stall(self.dice.choice([Way.UP, Way.DOWN, Way.BOTH]))),
            ("black hole", BlackHole(self.dice.choice([Way.UP, Way.DOWN, Way.BOTH]))),
            ("refusal", Refuse()),
        )
        kind, fault = self.dice.choice(kinds)
        self.note(kind)
        self.network.change(name, fault)
        await asyncio.sleep(self._duration())
        self.network.change(name, None)

    async def _kill_client(self) -> None:
        visitor = self._anyone()
        if visitor.process.alive:
            self.note("client killed")
            visitor.process.kill()

    async def _sleep(self) -> None:
        visitor = self._anyone()
        if visitor.process.alive and not visitor.process.paused:
            self.note("client asleep")
            await visitor.sleep(self._duration())

    async def _path(self) -> None:
        self.note("path change")
        self._anyone().wake(Wakeup.PATH_CHANGED)

    async def _look(self) -> None:
        self.note("visible")
        self._anyone().wake(Wakeup.VISIBLE, self.dice.choice([0.0, 60.0]))

    async def _offline(self) -> None:
        visitor = self._anyone()
        if visitor.client is None or visitor.process.paused:
            return
        self.note("offline")
        self.network.change(visitor.name, BlackHole())
        visitor.client._supervisor.tell(WentOffline())
        await asyncio.sleep(self._duration())
        self.network.change(visitor.name, None)
        visitor.wake(Wakeup.ONLINE)

    async def _refresh(self) -> None:
        self.note("token refreshed")
        self._anyone().wallet.token += 1

    async def _expire(self) -> None:
        self.note("token expired")
        wallet = self._anyone().wallet
        wallet.token += 1
        wallet.valid_from = wallet.token

    async def _sign_out(self) -> None:
        self.note("signed out")
        for visitor in self.visitors:
            visitor.wallet.valid_from = max(each.wallet.token for each in self.visitors) + 1
        await asyncio.sleep(self._duration())
        for visitor in self.visitors:
            visitor.wallet.token = max(visitor.wallet.token, visitor.wallet.valid_from)
            visitor.wake(Wakeup.CREDENTIALS_CHANGED)

    async def _slow_provider(self) -> None:
        self.note("provider slow")
        wallet = self._anyone().wallet
        wallet.is_slow = True
        await asyncio.sleep(self._duration())
        wallet.is_slow = False

    # ---- the calm ---------------------------------------------------------------------------

    async def be_calm(self) -> None:
        """End everything that is wrong, with the network and the programs too."""
        await super().be_calm()
        self.network.be_calm()
        for visitor in self.visitors:
            visitor.be_calm()

    async def see_everything_read(self) -> None:
        """Wait until every program has come to the end of everything it reads."""
        deadline = self._loop.time() + READ_WITHIN
        while any(visitor.unread for visitor in self.visitors):
            if self._loop.time() >= deadline:
                return  # it is said below
            await asyncio.sleep(1)


async def live(seed: int) -> History:
    """Live through one world and return its history."""
    crowd, complaints = Crowd(seed), list[str]()
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context["message"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("outlast.client.http.direct", crowd.network.pool)
        patch.setattr("outlast.client.supervisor.step", watched)
        async with crowd.cluster as cluster:
            await weather_through(crowd)
            history = await cluster.finish()
    await asyncio.sleep(LAST_WORDS)
    assert not (asyncio.all_tasks() - {asyncio.current_task()}), f"left behind: {asyncio.all_tasks()}"
    unexpected = [complaint for complaint in complaints if complaint != NOBODY_TO_TELL]
    assert not unexpected, f"the loop complains: {unexpected}"
    return judged(crowd, history)


async def weather_through(crowd: Crowd) -> None:
    """Let the storm come and go, and everybody come to their ends."""
    await crowd.start()
    urls = [f"http://{address}" for address in crowd.addresses]
    async with asyncio.TaskGroup() as around:
        keeping = around.create_task(crowd.keep_nodes())
        starting = around.create_task(crowd.start_runs())
        readers = [around.create_task(crowd.follow(number)) for number in range(crowd.plan.readers)]
        visiting = [around.create_task(visitor.live(urls)) for visitor in crowd.visitors]
        async with asyncio.TaskGroup() as storm:
            await crowd.storm(storm)
        await starting
        await crowd.be_calm()
        await crowd.see_runs_settled()
        await crowd.see_everything_read()
        await crowd.see_aborts_told()
        for visitor in crowd.visitors:
            visitor.close()
        await asyncio.wait(visiting)
        await asyncio.sleep(LAST_WORDS)
        for task in (keeping, *readers):
            task.cancel()


def judged(crowd: Crowd, history: History) -> History:
    """Return a history that keeps every promise, of a world in which nothing is left behind."""
    check(history)
    crashed = [(node.name, node.crash) for node in crowd.nodes if node.crash is not None]
    assert not crashed, f"nodes crashed: {crashed}"
    unread = {visitor.name: [*visitor.unread] for visitor in crowd.visitors if visitor.unread}
    assert not unread, f"programs never came to the end: {unread}"
    assert not crowd.network.pools, f"links are left: {crowd.network.pools}"
    assert not crowd.network.open, f"connections are left: {len(crowd.network.open)}"
    pressed = {name: storms(asked, SPAN) for name, asked in crowd.network.asked.items()}
    assert max(pressed.values()) <= MOST_ATTEMPTS, f"servers are pressed: {pressed}"
    return history


def watched(link: Link, input: Input, *, now: float, jitter: float) -> Any:
    """Let a client's machine take a step, which the table must allow."""
    after, commands = machine.step(link, input, now=now, jitter=jitter)
    assert after.phase is link.phase or after.phase in TRANSITIONS[link.phase], f"{link.phase} to {after.phase}"
    assert link.phase is not Phase.CLOSED or (after is link and not commands), "it is over"
    assert after.can_send == (after.current is not None), "sending needs a link, and a link lets send"
    assert after.generation - link.generation in {0, 1}, "one link after the other"
    return after, commands


def history_of(seed: int) -> History:
    """Live through one world on a loop of its own, and return a history that keeps every promise."""
    return run_virtually(live(seed))


def met_in(history: History) -> list[str]:
    """Return the kinds of faults that a history met, each as often as it was met."""
    return [each.kind for each in history.of(FaultMet)]
