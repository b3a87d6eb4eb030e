"""Puts runs and their logs on a real store and serves them to readers, without a node that drives them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Self

import httpx2
from starlette.types import ASGIApp

from outlast.client.asgi import StreamingTransport
from outlast.errors import RunNotFound
from outlast.facts import Fact
from outlast.log.cursor import Cursor
from outlast.log.event import Event, StoredEvent
from outlast.recovery import RecoveryPolicy
from outlast.run import Cause, Completed, Outcome, RecoveryBudget, Run, Token
from outlast.server.access import Access
from outlast.server.conditions import Conditions
from outlast.server.intake import Door, Intake
from outlast.server.readers.hub import Hub
from outlast.server.routes import build
from outlast.server.routes.entrance import Entrance
from outlast.server.routes.events import Events
from outlast.server.seats import Seats
from outlast.server.session.sessions import Sessions
from outlast.stores.base import Head, Loaded, LogStore, LogSubscription, NewClaim, RunStore, Store
from outlast.stores.sqlite import SQLiteStore
from outlast.testing.cluster import LoopClock
from outlast.testing.faulty import DeafSubscription
from outlast.wire import native
from outlast.wire.sse import Message, Parser

TTL = 15.0
NODE = "node-1"
BASE = "http://localhost:8400"


# ---- runs ---------------------------------------------------------------------------------------


def row(**said: Any) -> Run:
    """Return a run as it is accepted, but for what is said of it."""
    accepted = Run(
        owner="ann",
        id="r1",
        log="f00d",
        worker="chat",
        input=b"1",
        digest=b"d",
        created_at=0.0,
        updated_at=0.0,
    )
    return replace(accepted, **said)


class Stage:
    """What controllers do to a store, one step at a time."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.facts: list[Fact] = []
        self._numbers = count(1)
        conditions = Conditions(report=self.facts.append, mint=self.mint, jitter=lambda: 0.5)
        self.intake = Intake(store.runs, {"chat"}, conditions)
        self.intake.door = Door.OPEN

    def mint(self) -> str:
        return f"minted-{next(self._numbers)}"

    async def start(self, id: str = "r1", **said: Any) -> Run:
        """Accept a run; nobody drives it yet."""
        return (await self.intake.start(**{"owner": "", "worker": "chat", "input": None, "id": id, **said})).run

    async def claim(self, run: Run, *, budget: RecoveryBudget | None = None, not_before: float | None = None) -> Run:
        """Claim a run for the one node there is, and fence its log."""
        await self.store.runs.join(NODE, ttl=TTL, workers=[])
        at = await self.store.runs.now() if not_before is None else not_before
        claim = NewClaim(claim=self.mint(), node=NODE, budget=budget or run.budget, not_before=at)
        claimed = await self.store.runs.claim(run, claim)
        await self.store.logs.fence(run.log, claimed.token)
        return claimed

    async def active(self, id: str = "r1", **said: Any) -> Run:
        """Start and claim a run."""
        return await self.claim(await self.start(id, **said))

    async def say(self, run: Run, *events: Event | str) -> Cursor:
        """Append to the log of a claimed run; a string is a `text` event."""
        head = await self.store.logs.head(run.log)
        said = [Event("text", event) if isinstance(event, str) else event for event in events]
        return await self.store.logs.append(run.log, run.token, head.cursor, said)

    async def settle(self, run: Run, outcome: Outcome | None = None) -> Run:
        """Settle a claimed run."""
        return await self.store.runs.settle(run, run.token, outcome or Completed())

    async def release(self, run: Run, cause: Cause = Cause.STORE) -> None:
        """Give a claimed run up."""
        await self.store.runs.release(run, run.token, cause)

    async def log(self, run: Run) -> Sequence[StoredEvent]:
        """Return all that is stored."""
        return await self.store.logs.read(run.log, after=0, limit=1_000_000, max_bytes=1 << 40)


@asynccontextmanager
async def staged() -> AsyncIterator[Stage]:
    """Open an empty store in memory, whose time is the loop's."""
    store = SQLiteStore(None, clock=LoopClock())
    await store.open()
    try:
        yield Stage(store)
    finally:
        await store.close()


# ---- ports with a hand on them ------------------------------------------------------------------


async def nothing(_call: str) -> None:
    """Let every call pass."""


def untouched(news: Sequence[StoredEvent]) -> Sequence[StoredEvent]:
    """Let what a wake-up brings along pass."""
    return news


class Logs:
    """A log store whose calls are counted and pass `before` and `after`, which may wait or raise; deaf when told.

    What its wake-ups bring along passes `news`.
    """

    def __init__(self, inner: LogStore) -> None:
        self.inner = inner
        self.calls: Counter[str] = Counter()
        self.before: Callable[[str], Awaitable[None]] = nothing
        self.after: Callable[[str], Awaitable[None]] = nothing
        self.news: Callable[[Sequence[StoredEvent]], Sequence[StoredEvent]] = untouched
        self.deaf = False
        self.subscriptions = 0

    async def fence(self, log: str, token: Token) -> None:
        await self.inner.fence(log, token)

    async def append(self, log: str, token: Token, previous: Cursor, events: Sequence[Event]) -> Cursor:
        return await self.inner.append(log, token, previous, events)

    async def head(self, log: str) -> Head:
        return await self._pass("head", self.inner.head(log))

    async def read(self, log: str, *, after: int, limit: int, max_bytes: int) -> Sequence[StoredEvent]:
        return await self._pass("read", self.inner.read(log, after=after, limit=limit, max_bytes=max_bytes))

    async def chain_at(self, log: str, seq: int) -> bytes | None:
        return await self._pass("chain_at", self.inner.chain_at(log, seq))

    async def heads(self, logs: Collection[str]) -> Mapping[str, Cursor]:
        return await self._pass("heads", self.inner.heads(logs))

    def subscribe(self, log: str) -> LogSubscription:
        self.subscriptions += 1
        return Counted(self, DeafSubscription() if self.deaf else self.inner.subscribe(log))

    async def _pass(self, call: str, answer: Any) -> Any:
        self.calls[call] += 1
        try:
            await self.before(call)
        except BaseException:
            answer.close()
            raise
        found = await answer
        await self.after(call)
        return found


class Counted:
    """A subscription that tells when it is closed."""

    def __init__(self, logs: Logs, inner: LogSubscription) -> None:
        self._logs = logs
        self._inner = inner
        self._open = True

    async def wait(self, timeout: float) -> bool:
        return await self._inner.wait(timeout)

    def take_news(self, after: int) -> Sequence[StoredEvent]:
        news = self._logs.news(self._inner.take_news(after))
        return news if news and news[0].seq == after + 1 else []

    def ring(self) -> None:
        self._inner.ring()

    def close(self) -> None:
        self._inner.close()
        self._logs.subscriptions -= self._open
        self._open = False


class Runs:
    """A run store whose loads, of one row or of many at once, are counted, and pass `before` as other looks do."""

    def __init__(self, inner: RunStore) -> None:
        self._inner = inner
        self.loads = 0
        self.looks = 0
        self.before: Callable[[str], Awaitable[None]] = nothing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def load(self, owner: str, id: str) -> Any:
        self.loads += 1
        await self.before("load")
        return await self._inner.load(owner, id)

    async def load_all(self, keys: Collection[tuple[str, str]]) -> Sequence[Loaded]:
        self.loads += 1
        await self.before("load_all")
        return await self._inner.load_all(keys)

    async def recovering(self, keys: Collection[tuple[str, str]]) -> Collection[str]:
        self.looks += 1
        await self.before("recovering")
        return await self._inner.recovering(keys)


@dataclass
class Handled:
    """A store whose two ports have a hand on them."""

    inner: Store
    runs: Any = field(init=False)
    logs: Any = field(init=False)

    def __post_init__(self) -> None:
        self.runs = Runs(self.inner.runs)
        self.logs = Logs(self.inner.logs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


# ---- scenes -------------------------------------------------------------------------------------

GIVEN_UP = 5000.0
"""Virtual seconds after which whoever waits for what never comes fails its test: the heartbeats go on for ever."""


@asynccontextmanager
async def scene() -> AsyncIterator["tuple[Stage, Handled, Site]"]:
    """Serve an empty store through ports with a hand on them."""
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here, asyncio.timeout(GIVEN_UP):
            yield stage, handled, here


async def until(moment: float) -> None:
    """Let virtual time pass."""
    reached = asyncio.Event()
    asyncio.get_running_loop().call_at(moment, reached.set)
    await reached.wait()


async def turns(number: int = 50) -> None:
    """Let the loop turn so many times."""
    for _ in range(number):
        await asyncio.sleep(0)


# ---- readers ------------------------------------------------------------------------------------


class Stream:
    """One response that streams, taken frame by frame."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self.raw = b""
        self.seen: list[Message] = []
        self.parser = Parser()
        self._chunks = response.aiter_raw()
        self._pending: list[Message] = []

    async def next(self) -> Message | None:
        """Return the next frame, None at the clean end."""
        while not self._pending:
            chunk = await anext(self._chunks, None)
            if chunk is None:
                return None
            self.raw += chunk
            self._pending += self.parser.feed(chunk)
        message = self._pending.pop(0)
        self.seen.append(message)
        return message

    async def until(self, name: str) -> list[Message]:
        """Return the frames up to the first one of this name, that one included."""
        found: list[Message] = []
        while not found or found[-1].event != name:
            message = await self.next()
            assert message is not None, f"the stream ended before {name}: {[each.event for each in found]}"
            found.append(message)
        return found

    async def rest(self) -> list[Message]:
        """Return all frames up to the clean end."""
        found: list[Message] = []
        while (message := await self.next()) is not None:
            found.append(message)
        return found


def names(messages: Sequence[Message]) -> list[str]:
    """Return the kinds of frames, without heartbeats: they come when they come."""
    return [message.event for message in messages if message.event != "outlast.heartbeat"]


def events(messages: Sequence[Message]) -> list[tuple[Cursor, Event]]:
    """Return the stored events among frames."""
    found = [native.stored_from_frame(message) for message in messages]
    return [(stored.cursor, stored.event) for stored in found if stored is not None]


@dataclass
class Site:
    """An application, with a client of it on this machine."""

    stage: Stage
    hub: Hub
    app: ASGIApp
    client: httpx2.AsyncClient

    @property
    def store(self) -> Store:
        return self.stage.store

    @asynccontextmanager
    async def stream(self, path: str, **options: Any) -> AsyncIterator[Stream]:
        """Open a stream with GET and leave it at the end of the block."""
        headers = {"accept": "text/event-stream", **options.pop("headers", {})}
        async with self.client.stream("GET", path, headers=headers, **options) as response:
            yield Stream(response)

    def as_client(self, app: ASGIApp | None = None, **options: Any) -> httpx2.AsyncClient:
        """Return another client, perhaps of the application inside of another."""
        return httpx2.AsyncClient(transport=StreamingTransport(app or self.app, **options), base_url=BASE)


@asynccontextmanager
async def site(
    stage: Stage,
    *,
    access: Access | None = None,
    handled: Handled | None = None,
    heartbeat: float = 10.0,
    seats: Seats | None = None,
    sessions: Sessions | None = None,
) -> AsyncIterator[Site]:
    """Serve what is on the stage, reading through the ports of `handled`, until the end of the block."""
    store: Any = handled or stage.store
    policy = RecoveryPolicy()
    hub = Hub(
        store,
        policy=policy,
        boot_id="b00t",
        lag=lambda: 0.25,
        report=stage.facts.append,
        heartbeat=heartbeat,
        jitter=lambda: 0.5,
    )
    conditions = Conditions(report=stage.facts.append, mint=stage.mint, jitter=lambda: 0.5)
    intake = Intake(store.runs, {"chat"}, conditions)
    intake.door = Door.OPEN
    app = build(
        intake=intake,
        store=store,
        access=access or Access(report=stage.facts.append),
        policy=policy,
        describe_node=lambda: {"boot_id": "b00t", "workers": ["chat"], "loop_lag": 0.25},
        seats=seats or Seats(),
        events=Events(intake, store.logs, hub),
        check_ready=lambda: intake.check_open(letting_in=True),
        greet=hub.greeting,
        expose=lambda: b"# nothing\n",
        sessions=sessions,
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hub.run())
        await asyncio.sleep(0)
        async with httpx2.AsyncClient(transport=StreamingTransport(app), base_url=BASE) as client:
            yield Site(stage=stage, hub=hub, app=app, client=client)
        hub.close()


def entrance(**access: Any) -> Entrance:
    """Return the way in to doors that stand alone: nobody has a run here."""

    async def load(_owner: str, _id: str) -> Run:
        raise RunNotFound("There is no such run.")

    return Entrance(Access(report=lambda _fact: None, **access), load, Seats())


class Wire:
    """The two ends of one ASGI request whose client is this test: no transport in between."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.left = asyncio.Event()
        self.parser = Parser()
        self.messages: list[Message] = []
        self.room: asyncio.Event | None = None  # when set to an event, a send waits for it

    async def receive(self) -> Any:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        self.messages += self.parser.feed(message.get("body", b""))
        if self.room is not None:
            await self.room.wait()

    @property
    def complete(self) -> bool:
        """Whether the body came to its clean end."""
        return bool(self.sent) and self.sent[-1].get("more_body") is False

    @classmethod
    def stalled(cls) -> Self:
        """Return a wire whose client takes nothing."""
        wire = cls()
        wire.room = asyncio.Event()
        return wire
