"""The two ports of storage, and the contract every engine passes (`outlast.testing.contract`).

`RunStore` is the authority: runs, claims, leases, budgets, stop intents, the outbox. `LogStore` keeps the events.
An engine may be both in one file. Neither knows any policy: they compare what they are given with what is stored,
and write, or refuse and write nothing.

Promises of both:

1.  **One clock.** Every time read or compared is the store's. It never steps back, and two machines' wall clocks
    are never compared. `now()` tells it.
2.  **All or nothing.** A method is one transaction. When it raises a `Refusal` or an `OwnershipError`,
    nothing of it was written.
3.  **Durable before answered.** When a method returns, what it wrote survives the death of every process.
4.  **Unknown is not refused.** `StoreUnavailable` says that what was asked may or may not have happened. Every
    method may then be called again with the same arguments: it recognises its own work and charges nothing twice.
5.  **Fenced.** A write that carries a `Token` is refused with `Fenced` when the stored epoch is higher, or equal
    with another claim id.
6.  **Terminal is absorbing.** Nothing changes a settled run, and nothing follows its terminal event, whoever asks.
7.  **Scoped.** A run's key is owner and id together. Another owner's run is not found, like one that never was.
8.  **Gone stays gone.** Of a run that was erased or has expired a tombstone is left. As long as it stands, `start`,
    `load`, `stop` and `erase` of that owner and id, and `head` and `read` of that log, raise `RunGone`, and the id
    names no other run. Whoever still drives, settles or writes it is refused like one who was fenced (L8).
9.  **Corrupt is told.** What cannot be read is `StoreCorrupt` to who asks for it by name. Who asks for many (`list`,
    `load_all`, `due`, `stops`, `take_aborts`) gets the others, and `corrupt` names the logs of those left out (L13).

Wake-ups are hints: they may be lost, doubled or early. Who waits for one looks again after a while all the same.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from outlast.lineage import Lineage
from outlast.log.cursor import Cursor
from outlast.log.event import Event, StoredEvent
from outlast.log.limits import Usage
from outlast.run import Cause, Checkpoint, Outcome, RecoveryBudget, Run, Status, Token


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to be accepted. `log` is a freshly minted identity; `digest` is SHA-256 of what the id stands for.

    `traceparent` names the trace of whoever starts it, in W3C's form; it is no part of what the id stands for.
    """

    owner: str
    id: str
    log: str
    worker: str
    input: bytes
    digest: bytes
    thread: str | None = None
    metadata: bytes = b"{}"
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The answer to a start: the run, and whether this very call made it."""

    run: Run
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A run and the store's clock at the moment it was read.

    `refused_until` is until when the refusal of a prerequisite holds it back; None where none does.
    """

    run: Run
    now: float
    refused_until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Runs that a node should look at, the longest due first, and when to ask again at the latest.

    `next_at` is the earliest time, by the store's clock, at which another run becomes due without anyone writing;
    None when no such time is known.
    """

    runs: Sequence[Run]
    now: float
    next_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewClaim:
    """What a claim writes: the next epoch's claim id and holder, the charged budget, the next `not_before`."""

    claim: str
    node: str
    budget: RecoveryBudget
    not_before: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """What one step of clean-up did, and whether another would find work at once."""

    runs: int = 0
    tombstones: int = 0
    more: bool = False


class Charge(StrEnum):
    """The answer to a charge before a worker call."""

    GRANTED = "granted"
    STOPPED = "stopped"
    """A stop is set; nothing was charged."""
    SPENT = "spent"
    """The call limit is reached; nothing was charged."""


class StopAnswer(StrEnum):
    """What is true after a stop was asked for."""

    ACCEPTED = "accepted"
    """The intent is durable; the run's controller, or its start, carries it out."""
    SETTLED = "settled"
    """Nobody held the run: it is cancelled now."""
    ALREADY = "already"
    """The run had its outcome before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The answer to a stop; `run` is None when the id is not known yet."""

    answer: StopAnswer
    run: Run | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """One outbox row: the worker is to be told that `run` is over; `epoch` is the settling epoch.

    `tries` counts earlier deliveries that were not acknowledged.
    """

    id: int
    run: Run
    tries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """The answer to a renewal: the lease's new end and every run this node holds by the rows, as log → epoch."""

    until: float
    held: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as the store knows it; its lease is live while `until` lies ahead.

    `lag` is how late its event loop was, in seconds, when the lease was last renewed. `workers` are the names it has
    registered, None where they are not known. A `draining` node claims nothing more.
    """

    id: str
    until: float
    stalled: bool
    lag: float = 0.0
    workers: frozenset[str] | None = None
    draining: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Where a log stands: its last cursor, its first readable seq, what it holds, whether its terminal is written."""

    cursor: Cursor
    first: int
    usage: Usage
    sealed: bool


class Subscription(Protocol):
    """Wake-ups about one thing, for one waiter."""

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109 - its end is an answer here, not an error
        """Return True when something may have changed since the last return, False after `timeout` seconds."""
        ...

    def ring(self) -> None:
        """Wake the waiter, now or when it next waits: for whoever knows of something new by another way."""
        ...

    def close(self) -> None:
        """Stop being woken. Harmless twice."""
        ...


class LogSubscription(Subscription, Protocol):
    """Wake-ups about one log, which may bring what was written along."""

    def take_news(self, after: int) -> Sequence[StoredEvent]:
        """Return the durable events right behind seq `after`, as far as a wake-up brought them along; once each.

        It spares a `read` and is no more than that: it may be empty whatever the log holds.
        """
        ...


class RunStore(Protocol):
    """The authority over runs. Every sentence here is a test of the contract."""

    async def now(self) -> float:
        """Return the store's clock in seconds."""
        ...

    # ---- accepting and reading --------------------------------------------------------------

    async def start(self, new: NewRun) -> Started:
        """Accept a run: queued, epoch 0, due at once, with an empty log whose identity is `new.log`.

        The same owner, id and digest again is the run that exists, unchanged (A1, A3). Another digest raises
        `IdConflict`. A thread that has a run which is not settled raises `ThreadBusy` naming it. When a stop for
        this owner and id came earlier (within `EARLY_STOP_TTL`), the run is born cancelled, its terminal event
        written, and the early stop is forgotten (S1). What the run was given, its `traceparent` included, stays with
        it through every claim, release and outcome; the same start again changes none of it.
        """
        ...

    async def load(self, owner: str, id: str) -> Loaded:
        """Return the row and the store's clock. Raises `RunNotFound`, `RunGone`, `StoreCorrupt`."""
        ...

    async def load_all(self, keys: Collection[tuple[str, str]]) -> Sequence[Loaded]:
        """Return what `load` would for each (owner, id), in one operation; those that are not found are left out."""
        ...

    async def recovering(self, keys: Collection[tuple[str, str]]) -> Collection[str]:
        """Return the logs of those of these (owner, id) that recover: active, and held by no node with a live lease."""
        ...

    async def list(
        self, owner: str, *, status: Status | None, before: str | None, limit: int, thread: str | None = None
    ) -> Sequence[Loaded]:
        """Return what `load` would for the owner's runs, newest first, at most `limit`, in one operation.

        Only those older than run `before`, in `status`, and of `thread`, where these are given.
        A page that ends with a run which is gone meanwhile is continued all the same.
        """
        ...

    async def due(
        self, workers: Collection[str], *, limit: int, held_back: Collection[str] = (), within: float = 0.0
    ) -> Due:
        """Return at most `limit` runs of these workers that nobody holds and that are due.

        Due is: not settled; without a holder, or the holder's lease is not live; and either a stop is set, or
        `not_before` is past (queued, active) or `wake_at` is past (parked). A run in its cool-down after a refusal
        is not due, unless a stop is set. Order: `not_before`, the oldest first. Writes nothing (B15).

        Of workers that are `held_back`, active runs that were let go, or whose holder's lease ended, less than `within`
        seconds after their last takeover are left out, however long ago that is, unless a stop is set or they were
        handed off (B24).
        """
        ...

    async def lineage(self, owner: str, id: str) -> Lineage:
        """Return the entries that every claim and settling without a controller left. Raises `RunNotFound`."""
        ...

    # ---- claiming, settling -----------------------------------------------------------------

    async def claim(self, run: Run, claim: NewClaim) -> Run:
        """Claim `run` as it was read, and return the row after it: active, epoch one higher, held by `claim.node`.

        Raises `ClaimLost`, writing nothing, unless all of this is true: the epoch is the one read; the run is not
        settled; no stop is set; nobody holds it with a live lease; `not_before` is past (for a parked run,
        `wake_at`); the claiming node's own lease is live. Budget, epoch and holder change together or not at all
        (B13); calls and waits are never written lower than stored. `cause` and any refusals are cleared. Called again
        after a lost answer it returns the same row (H21).
        """
        ...

    async def settle(self, run: Run, token: Token, outcome: Outcome) -> Run:
        """Settle a run that `token` holds, and return the settled row.

        One transaction: status and outcome, the terminal event behind the head, the log sealed and fenced, the
        holder dropped, an abort queued unless the outcome is `Completed`. A failing outcome that finds a stop
        settles `Cancelled` instead (S5); a completed one stays completed (H14). Raises `Fenced`. Called again with
        the same token it returns what is settled (H21).
        """
        ...

    async def settle_unheld(self, run: Run, outcome: Outcome, *, claim: str) -> Run:
        """Settle a run that nobody holds, as it was read; the epoch rises by one and `claim` becomes its claim id.

        Otherwise like `settle`. Raises `ClaimLost` when the epoch moved, the run is settled by another, or a live
        lease holds it.
        """
        ...

    async def release(self, run: Run, token: Token, cause: Cause) -> None:
        """Give the run up: no holder, and `cause` kept for the next claim. Epoch and budget stay. Raises `Fenced`."""
        ...

    async def charge(self, run: Run, token: Token, *, number: int, limit: int) -> Charge:
        """Count worker call `number` (from 1, the run's life long) before it is made.

        Granted when `number` is one above the calls used, and again, charging nothing, when it equals them.
        `STOPPED` when a stop is set, `SPENT` when `number` is above `limit`; both change nothing. Raises `Fenced`.
        """
        ...

    # ---- checkpoints ------------------------------------------------------------------------

    async def checkpoint(self, run: Run, token: Token, checkpoint: Checkpoint) -> None:
        """Keep what the run goes on from after a takeover, in the place of what was kept before.

        One that is not behind the kept one changes nothing, so that it may be asked for again. Raises `Fenced`, also
        once the run is settled; settling forgets what was kept.
        """
        ...

    async def last_checkpoint(self, run: Run) -> Checkpoint | None:
        """Return what the run goes on from, to the byte; None when nothing is kept. Raises `RunNotFound`."""
        ...

    # ---- stopping ---------------------------------------------------------------------------

    async def stop(self, owner: str, id: str, *, reason: str | None) -> Stopped:
        """Make the stop a durable fact, from whatever node (S1).

        An unknown id is remembered for `EARLY_STOP_TTL` seconds, at most `EARLY_STOPS` per owner (the oldest are
        forgotten first), and `ACCEPTED`. A settled run is `ALREADY`. A run nobody holds is settled `Cancelled` at
        once, like `settle_unheld` (S6): `SETTLED`. Any other run keeps the first stop's reason: `ACCEPTED`.
        """
        ...

    async def stops(self, node: str) -> Sequence[Run]:
        """Return the runs that `node` holds and for which a stop is set."""
        ...

    # ---- the end of a run's life ------------------------------------------------------------

    async def erase(self, owner: str, id: str) -> None:
        """Delete a settled run, its log with it; a tombstone stays.

        Raises `RunLive` while it is not settled, and for at most `ABORT_WAIT` seconds after that while its abort is
        in the outbox. Asked again, as after a lost answer, it raises `RunGone`.
        """
        ...

    async def expire(self, *, finished: float, gone: float) -> Expired:
        """Do one bounded step of clean-up, and say whether more is to be done.

        A run settled for `finished` seconds is erased, unless its abort is in the outbox; that is waited for
        `ABORT_WAIT` seconds longer. A tombstone is deleted after `gone` seconds. Room that became free is given back.
        Nothing is written when there is nothing to do. Any number of nodes may do this at the same time.
        """
        ...

    # ---- runs that cannot be read -----------------------------------------------------------

    async def corrupt(self) -> Sequence[str]:
        """Return the logs of runs whose rows this handle came upon and could not read, those it remembers."""
        ...

    async def settle_corrupt(self, log: str, outcome: Outcome, *, claim: str) -> None:
        """Settle the run of `log`, whose row cannot be read and which no live lease holds.

        What can be read of the row is kept, the rest is emptied, so that the run can be read from then on; its epoch
        rises by one and `claim` becomes its claim id. The terminal event is written if the log allows it, and no
        abort is queued. Raises `ClaimLost` for a run that can be read, is held or is settled, `RunNotFound`.
        """
        ...

    # ---- refusals of prerequisites ----------------------------------------------------------

    async def refuse(self, run: Run, *, retry_in: float) -> float:
        """Note that a prerequisite refused `run`: it is not due for `retry_in` seconds. Its row is untouched (B17).

        Returns for how many seconds it has been refused: the stretches between its refusals, of which each counts for
        twice `retry_in` at most, so that time in which nobody could ask does not (B19). 0 for the first refusal, and
        for a run that was claimed or settled since it was read.
        """
        ...

    # ---- what nobody can revive -------------------------------------------------------------

    async def attend(self, workers: Collection[str], *, every: float) -> None:
        """Note that a node has these workers, and for how long the others of unsettled runs have been on none.

        Called about every `every` seconds by each node. A stretch between two calls counts for twice `every` at most,
        so that time without any node does not. Writes nothing when every unsettled run has one of these workers.
        """
        ...

    async def forsaken(self, *, after: float, limit: int) -> Sequence[Run]:
        """Return at most `limit` runs that nobody can revive: their worker has been on no node for `after` seconds.

        Only such as have been due and untouched for as long and that nobody holds: never one that is parked, backing
        off, or in a cool-down that ended less than `after` seconds ago. Writes nothing.
        """
        ...

    # ---- outbox -----------------------------------------------------------------------------

    async def take_aborts(self, workers: Collection[str], *, hold: float, limit: int) -> Sequence[Abort]:
        """Return due outbox rows of these workers; each is hidden from all for `hold` seconds and its tries rise."""
        ...

    async def delay_abort(self, abort: Abort, *, retry_in: float) -> None:
        """Let the row be due again in `retry_in` seconds."""
        ...

    async def finish_abort(self, abort: Abort) -> None:
        """Delete the row: the worker acknowledged. Harmless twice."""
        ...

    # ---- nodes ------------------------------------------------------------------------------

    async def join(self, node: str, *, ttl: float, workers: Collection[str]) -> None:
        """Write the node's first lease, and the names of its workers.

        On one machine its OS lock is held from before this until `leave` or death.
        """
        ...

    async def drain(self, node: str) -> None:
        """Note that the node is leaving. Its lease and its runs stay its own. Harmless twice, and without a lease."""
        ...

    async def leave(self, node: str) -> None:
        """Delete the node's lease: runs it still holds are free at once. Harmless twice."""
        ...

    async def bury(self, node: str) -> Sequence[str]:
        """End the leases of nodes that are provably dead, and return their ids; `node` is who asks.

        Proof is the OS lock of a process on this machine. A store without such locks returns nothing. Leases that
        ran out long ago are cleared away as well, unproved and unreported.
        """
        ...

    async def nodes(self) -> Sequence[Node]:
        """Return every node that has a lease, live or not."""
        ...

    def subscribe(self) -> Subscription:
        """Return wake-ups for: a run started, stopped, released or settled; an abort queued; a node gone, or dead.

        A dead node is told of once there is proof, so that it can be buried.
        """
        ...


class LogStore(Protocol):
    """Append-only logs, each known by its minted identity. Every sentence here is a test of the contract."""

    async def fence(self, log: str, token: Token) -> None:
        """Refuse from now on every write with a lower epoch, or the same epoch and another claim id.

        Raises `Fenced` when a higher fence, or the same epoch with another claim id, is installed already.
        """
        ...

    async def head(self, log: str) -> Head:
        """Return where the log stands. Raises `RunNotFound` for an unknown log, `RunGone` for a deleted one."""
        ...

    async def append(self, log: str, token: Token, previous: Cursor, events: Sequence[Event]) -> Cursor:
        """Write `events` behind `previous`, all or none, and return the new head.

        `previous` is the head → written. The same events already stand behind `previous` → it was this append,
        answered again, and nothing is written (L2). Anything else raises `HeadConflict`. A fenced token, and any
        append to a sealed log, raises `Fenced` (H11). Appends that are under way together may share one commit.
        """
        ...

    async def read(self, log: str, *, after: int, limit: int, max_bytes: int) -> Sequence[StoredEvent]:
        """Return events after seq `after` in order: at most `limit`, and about `max_bytes` of payload, at least one.

        Only durable events are returned (F2). Raises `StoreCorrupt` when a seq is missing or an event's chain does
        not continue its predecessor's: never a silent hole.
        """
        ...

    async def chain_at(self, log: str, seq: int) -> bytes | None:
        """Return the chain the log holds at `seq`, None when that event is not stored. One indexed read."""
        ...

    async def heads(self, logs: Collection[str]) -> Mapping[str, Cursor]:
        """Return the cursor of each log's head, in one operation whatever their number. Unknown logs are left out."""
        ...

    def subscribe(self, log: str) -> LogSubscription:
        """Return wake-ups for: the log grew, or was sealed."""
        ...


class Renewer(Protocol):
    """Renews one node's lease, from a thread of its own over a connection of its own. Synchronous."""

    def renew(self, *, stalled: bool, lag: float = 0.0) -> Renewal:
        """Move the node's lease to now + TTL in one row, whatever the number of its runs; `lag` is told with it.

        With `stalled` the lease is ended instead and the node marked, so that takeovers are booked under `stall`.
        Raises `StoreUnavailable`; that proves nothing either way. A lease that ran out or was deleted is written anew,
        with the node's workers. A node that drains goes on draining.
        """
        ...

    def close(self) -> None:
        """Give the connection back."""
        ...


class Store(Protocol):
    """One engine, or two that belong together, opened for one process."""

    @property
    def runs(self) -> RunStore:
        """The authority."""
        ...

    @property
    def logs(self) -> LogStore:
        """The logs."""
        ...

    @property
    def id(self) -> str | None:
        """Which store this is, known from its first opening on: random, made once with the store, and never another.

        It is the same through every handle on it, and a copy of a store, such as a restored backup, keeps it (M2).
        """
        ...

    async def open(self) -> None:
        """Connect, migrate, begin. Raises `SchemaNewer`, `StoreCorrupt`, `StoreUnavailable`."""
        ...

    async def close(self) -> None:
        """Finish what is under way and let go of everything. Harmless twice."""
        ...

    def renewer(self, node: str, *, ttl: float, workers: Collection[str]) -> Renewer:
        """Return the renewer of `node`, which has these workers; callable from any thread."""
        ...


EARLY_STOP_TTL: Final = 600.0
"""Seconds a stop waits for its run to be started."""
ABORT_WAIT: Final = 900.0
"""Seconds the deletion of a run waits for its worker to be told: about as long as that is tried."""
EARLY_STOPS: Final = 100
"""Early stops kept per owner."""
