"""Steps that bring a store to where a check begins, and the sight of everything it holds."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Final

from outlast.lineage import Lineage
from outlast.log.cursor import Cursor
from outlast.log.event import Event, StoredEvent
from outlast.run import RecoveryBudget, Run, Status
from outlast.stores.base import Head, NewClaim, NewRun, Node, Store

ANN: Final = "ann"
BOB: Final = "bob"
"""Two owners."""
CHAT: Final = "chat"
"""The worker of every run for which no other is named."""
A: Final = "node-a"
B: Final = "node-b"
"""Two nodes."""
TTL: Final = 15.0
"""Seconds of every lease."""
MANY: Final = 1000
"""More runs, events or rows than any check makes."""
MANY_BYTES: Final = 2**40
"""More bytes than any check writes."""
PATIENCE: Final = 20.0
"""Real seconds until a wake-up counts as lost; where the store delivers it, nobody waits."""

_numbers = count(1)


def mint(kind: str) -> str:
    """Return an id that nothing else has."""
    return f"{kind}-{next(_numbers)}"


# ---- runs ---------------------------------------------------------------------------------------


def new_run(
    id: str = "r1",
    *,
    owner: str = ANN,
    thread: str | None = None,
    worker: str = CHAT,
    input: bytes = b"{}",
    metadata: bytes = b"{}",
    traceparent: str | None = None,
) -> NewRun:
    """Return a run to be accepted, with a log identity of its own; its digest stands for worker, thread and input."""
    digest = sha256(repr((worker, thread, input)).encode()).digest()
    return NewRun(
        owner=owner,
        id=id,
        log=mint("log"),
        worker=worker,
        input=input,
        digest=digest,
        thread=thread,
        metadata=metadata,
        traceparent=traceparent,
    )


def new_claim(run: Run, node: str, *, not_before: float = 0.0, budget: RecoveryBudget | None = None) -> NewClaim:
    """Return a claim of `run` by `node`; its budget is the run's own when none is given."""
    return NewClaim(claim=mint("claim"), node=node, budget=budget or run.budget, not_before=not_before)


async def start(
    store: Store, id: str = "r1", *, owner: str = ANN, thread: str | None = None, worker: str = CHAT
) -> Run:
    """Accept a run and return it."""
    return (await store.runs.start(new_run(id, owner=owner, thread=thread, worker=worker))).run


async def load(store: Store, run: Run) -> Run:
    """Return the row of `run` as it is stored now."""
    return (await store.runs.load(run.owner, run.id)).run


async def listed(
    store: Store,
    owner: str,
    *,
    status: Status | None = None,
    before: str | None = None,
    limit: int = MANY,
    thread: str | None = None,
) -> list[Run]:
    """Return a page of the owner's runs."""
    page = await store.runs.list(owner, status=status, before=before, limit=limit, thread=thread)
    return [each.run for each in page]


async def join(store: Store, *nodes: str) -> None:
    """Give each node its first lease."""
    for node in nodes:
        await store.runs.join(node, ttl=TTL, workers=[CHAT])


async def take(store: Store, run: Run, node: str, *, not_before: float = 0.0) -> Run:
    """Claim `run` as it is stored now for a node that has joined, and fence its log."""
    run = await load(store, run)
    run = await store.runs.claim(run, new_claim(run, node, not_before=not_before))
    await store.logs.fence(run.log, run.token)
    return run


async def drive(
    store: Store, id: str = "r1", node: str = A, *, owner: str = ANN, thread: str | None = None, worker: str = CHAT
) -> Run:
    """Accept a run and let a node that has joined hold it."""
    return await take(store, await start(store, id, owner=owner, thread=thread, worker=worker), node)


# ---- logs ---------------------------------------------------------------------------------------


def texts(*said: str) -> list[Event]:
    """Return one text event for each string."""
    return [Event("text", each) for each in said]


async def say(store: Store, run: Run, *said: str) -> Cursor:
    """Append texts to the log of a run, as its holder, and return the new head."""
    head = await store.logs.head(run.log)
    return await store.logs.append(run.log, run.token, head.cursor, texts(*said))


async def events(store: Store, run: Run) -> Sequence[StoredEvent]:
    """Return the whole log of a run."""
    return await store.logs.read(run.log, after=0, limit=MANY, max_bytes=MANY_BYTES)


async def said(store: Store, run: Run) -> list[str]:
    """Return what the log of a run says, texts by their word and other events by their type."""
    log = await events(store, run)
    return [str(each.event.data) if each.event.type == "text" else each.event.type for each in log]


# ---- everything ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Everything a store shows of the owners, workers and nodes of a check."""

    runs: Sequence[Run]
    heads: Sequence[Head]
    logs: Sequence[Sequence[StoredEvent]]
    lineages: Sequence[Lineage]
    due: Sequence[Run]
    next_at: float | None
    stopping: Sequence[Run]
    nodes: Sequence[Node]


async def sight(store: Store) -> Sight:
    """Look at everything; looking changes nothing."""
    runs = [run for owner in (ANN, BOB) for run in await listed(store, owner)]
    due = await store.runs.due([CHAT], limit=MANY)
    return Sight(
        runs=[await load(store, run) for run in runs],
        heads=[await store.logs.head(run.log) for run in runs],
        logs=[await events(store, run) for run in runs],
        lineages=[await store.runs.lineage(run.owner, run.id) for run in runs],
        due=due.runs,
        next_at=due.next_at,
        stopping=[run for node in (A, B) for run in await store.runs.stops(node)],
        nodes=sorted(await store.runs.nodes(), key=lambda node: node.id),
    )


@asynccontextmanager
async def unchanged(store: Store) -> AsyncGenerator[None]:
    """Check that what happens inside leaves everything as it was, to the byte."""
    before = await sight(store)
    yield
    assert await sight(store) == before
