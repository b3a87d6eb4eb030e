"""Group commit: whatever is asked for in one turn of the event loop is written in one transaction, on the loop.

Inline, because a thread is 5 to 100 times slower whenever the loop is busy with Python: every statement would wait
for the interpreter's lock twice. One transaction per turn, because the commit is what costs.

Rules:
1. A writing operation is queued and its caller awaits the answer; so the queue holds at most one operation per
   waiting caller, and that is its bound. Reading operations run at once, between transactions.
2. A group is what fits into `ROWS` rows and `SLICE` seconds; the rest goes to the next turn, and others run between.
3. An operation that raises before it wrote anything refuses, and the others of its group stand. One that raises
   later, or an error of SQLite's, spoils the group: it is rolled back and each operation runs alone.
4. A file that others have locked is tried again a little later, without blocking the loop, for `BUSY_LIMIT`.
5. An operation whose caller was cancelled is left out while it is queued. Begun, it may have happened.
6. With `power`, an answer waits until the disk has what it tells.
"""

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from outlast.errors import StoreUnavailable
from outlast.stores.sqlite.bell import Bells
from outlast.stores.sqlite.checkpoint import Checkpointer
from outlast.stores.sqlite.clock import StoreClock
from outlast.stores.sqlite.connection import chained, is_busy, translate
from outlast.stores.sqlite.identity import CHECK_EVERY, Identity
from outlast.stores.sqlite.patience import BUSY_LIMIT, patiently, pause
from outlast.stores.sqlite.power import PowerSync
from outlast.stores.sqlite.transaction import Query, Transaction, Written

T = TypeVar("T")

ROWS: Final = 512
"""Rows in one group: a few milliseconds of SQLite's time, which is what the loop may stand still."""
SLICE: Final = 0.002
"""Seconds after which a group takes no more, however few rows it has."""
Operation: TypeAlias = tuple[Callable[[Transaction], object], int, "asyncio.Future[Any]"]
"""One caller's wish: the work, about how many rows it writes, and where the answer goes."""
Reply: TypeAlias = tuple["asyncio.Future[Any]", object, Exception | None]
"""What came of an operation: where the answer goes, and its result or what it raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What an engine stands on, once its file is open. In memory there is no checkpointer, sync or identity."""

    loop: asyncio.AbstractEventLoop
    connection: sqlite3.Connection
    transaction: Transaction
    clock: StoreClock
    checkpointer: Checkpointer | None
    power: PowerSync | None
    identity: Identity | None = None


class Engine:
    """Runs operations on one connection. `lock` is held while the connection is used: in memory others share it."""

    def __init__(self, bells: Bells) -> None:
        self.lock = threading.Lock()
        self._bells = bells
        self._ground: Ground | None = None
        self._closing = False
        self._queue: deque[Operation] = deque()
        self._turn: asyncio.Handle | None = None
        self._refusals = 0
        self._busy_since = 0.0
        self._checks_at = 0.0

    # ---- its life ---------------------------------------------------------------------------

    @property
    def ground(self) -> Ground:
        """What it stands on. Raises `StoreUnavailable` before `begin` and after `end`."""
        if self._ground is None:
            raise StoreUnavailable("The store is not open.")
        return self._ground

    def begin(self, ground: Ground) -> None:
        """Take operations from now on."""
        self._ground = ground
        self._closing = False
        self._checks_at = 0.0

    async def end(self) -> None:
        """Take no more, and return when everything taken is answered."""
        self._closing = True
        while answers := {answer for _, _, answer in self._queue if not answer.done()}:
            await asyncio.wait(answers)  # ends within BUSY_LIMIT
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self._queue.clear()
        self._ground = None

    # ---- operations -------------------------------------------------------------------------

    async def write(self, work: Callable[[Transaction], T], *, rows: int = 1) -> T:
        """Run `work` in the next group and return its answer, once it is durable.

        `rows` says about how many it writes. Raises what `work` raises, and SQLite's errors as ours.
        """
        ground = self._ground
        if ground is None or self._closing:
            raise StoreUnavailable("The store is not open.")
        answer: asyncio.Future[T] = ground.loop.create_future()
        self._queue.append((work, rows, answer))
        if self._turn is None:
            self._turn = ground.loop.call_soon(self._flush)
        return await answer  # answered within a turn, or BUSY_LIMIT, or the disk's sync

    async def read(self, work: Callable[[Query], T]) -> T:
        """Run `work` at once and return its answer, once everything it saw is durable."""
        answer = await patiently(lambda: self._query(work))
        power = self.ground.power
        if power is not None:
            await power.cover()
        return answer

    def peek(self, work: Callable[[Query], T]) -> T:
        """Run `work` at once and return its answer, durable or not: only good for hints."""
        try:
            return self._query(work)
        except sqlite3.Error as error:
            raise translate(error) from error

    def _query(self, work: Callable[[Query], T]) -> T:
        ground = self.ground
        self._check_file(ground)
        with self.lock:
            return work(Query(ground.connection, now=ground.clock.now()))

    def _check_file(self, ground: Ground) -> None:
        """Raise `StoreUnavailable` when the file is another's by now; looks again at once until it is not."""
        if ground.identity is not None and (now := ground.loop.time()) >= self._checks_at:
            ground.identity.check()
            self._checks_at = now + CHECK_EVERY

    # ---- a turn -----------------------------------------------------------------------------
    #
    # Between two commits nothing is left in the processor's caches, and a call costs what a statement costs: hence
    # tuples for operations, and few long functions where more and shorter ones would read as well.

    def _flush(self) -> None:
        """Commit one group and answer it; come again while there is more."""
        self._turn = None
        ground, queue = self.ground, self._queue
        group: list[Operation] = []
        try:
            self._check_file(ground)
            with self.lock:
                replies = self._transact(ground, queue, group)
        except Exception as error:  # noqa: BLE001 - whatever an operation raises is its caller's
            self._recover(ground, group, error)
        else:
            self._refusals = 0
            self._confirm(ground, replies)
        if queue:
            loop, busy = ground.loop, self._refusals > 0
            self._turn = loop.call_later(pause(self._refusals), self._flush) if busy else loop.call_soon(self._flush)

    def _transact(self, ground: Ground, queue: deque[Operation], group: list[Operation]) -> list[Reply]:
        """Move what fits from `queue` to `group` and run it in one transaction; return what came of each.

        What spoils the group is raised, and everything is rolled back.
        """
        transaction = ground.transaction
        transaction.begin()
        try:
            transaction.now = ground.clock.now()
            replies = _run(ground, queue, group)
            transaction.execute("COMMIT")
        except BaseException:
            ground.connection.rollback()
            raise
        return replies

    def _confirm(self, ground: Ground, replies: list[Reply]) -> None:
        """Answer a committed group and ring for it; with `power`, once the disk has it."""
        transaction = ground.transaction
        if ground.checkpointer is not None:
            ground.checkpointer.wrote(len(replies), transaction.size)
        if ground.power is None:
            self._answer(replies, transaction.grown, transaction.written, stirred=transaction.stirred)
        else:
            grown, written, stirred = transaction.grown, transaction.written, transaction.stirred
            ground.power.cover().add_done_callback(
                lambda covered: self._answer(replies, grown, written, stirred=stirred, error=covered.exception())
            )

    def _answer(
        self,
        replies: list[Reply],
        grown: Mapping[str, int],
        written: Mapping[str, Written],
        *,
        stirred: bool,
        error: BaseException | None = None,
    ) -> None:
        for answer, result, refusal in replies:
            if answer.done():  # its caller was cancelled
                continue
            if trouble := error or refusal:
                answer.set_exception(trouble)
            else:
                answer.set_result(result)
        # A commit that the disk may not have is no news: whoever is woken reads, and meets the error.
        self._bells.ring(grown, written if error is None else {}, stirred=stirred)

    # ---- a turn that failed -----------------------------------------------------------------

    def _recover(self, ground: Ground, group: list[Operation], error: Exception) -> None:
        """Answer what a failed transaction leaves to be answered, and put back what is to be tried again."""
        if is_busy(error):
            self._put_back(ground, group, error)
        elif len(group) > 1:
            self._run_apart(ground, deque(group))
        elif group:
            _refuse(group, error)
        else:  # no transaction could begin, whatever is asked for
            _refuse(self._queue, error)
            self._queue.clear()

    def _run_apart(self, ground: Ground, operations: deque[Operation]) -> None:
        """Run each operation of a spoiled group in a transaction of its own, until the file is busy."""
        while operations:
            alone = (operations[0],)
            try:
                with self.lock:
                    replies = self._transact(ground, deque(alone), [])
            except Exception as error:  # noqa: BLE001 - whatever an operation raises is its caller's
                if is_busy(error):
                    self._put_back(ground, operations, error)
                    return
                _refuse(alone, error)
            else:
                self._confirm(ground, replies)
            operations.popleft()

    def _put_back(self, ground: Ground, operations: Collection[Operation], error: Exception) -> None:
        """Let the operations be tried again before all others, unless the file has been busy for too long."""
        now = ground.loop.time()
        self._queue.extendleft(reversed((*operations,)))
        self._busy_since = self._busy_since if self._refusals else now
        self._refusals += 1
        if now - self._busy_since >= BUSY_LIMIT:
            _refuse(self._queue, error)
            self._queue.clear()
            self._refusals = 0


def _run(ground: Ground, queue: deque[Operation], group: list[Operation]) -> list[Reply]:
    """Run operations while they fit into a group: one at least.

    What an operation raises before it wrote anything is its reply. Anything else it raises is raised.
    """
    transaction, connection, time = ground.transaction, ground.connection, ground.loop.time
    replies: list[Reply] = []
    room, closes_at = ROWS, time() + SLICE
    while queue and (not group or (queue[0][1] <= room and time() < closes_at)):
        operation = queue.popleft()
        work, rows, answer = operation
        if answer.done():  # its caller was cancelled
            continue
        group.append(operation)
        room -= rows
        changes = connection.total_changes
        try:
            replies.append((answer, work(transaction), None))
        except Exception as error:
            if isinstance(error, sqlite3.Error) or connection.total_changes != changes:
                raise
            replies.append((answer, None, chained(error)))
    return replies


def _refuse(operations: Iterable[Operation], error: Exception) -> None:
    """Answer each caller that was not cancelled with `error`."""
    for _, _, answer in operations:
        if not answer.done():
            answer.set_exception(chained(error))
