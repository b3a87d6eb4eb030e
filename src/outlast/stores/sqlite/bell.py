"""Wake-ups: who waits for a log or for the runs, and how they hear of commits, our own and other processes'.

Rules:
1. Our own commits ring at once. Other processes' are noticed by a look at SQLite's `data_version`, at most
   `LOOK_EVERY` later; the look goes on only while somebody listens.
2. A look rings the logs whose head moved, and the runs when something happened that nodes wait for: neither is
   woken by the other, nor by another process's other logs.
3. Whoever does not wait costs nothing: no task, no timer.
4. A process that dies writes nothing, but its lock becomes free: that too rings for the runs.
5. A wake-up for our own append brings the events along, so that its listener need not read what was just written.
   They are kept until the first listener takes them, or the next wake-up comes.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from outlast.errors import StoreError
from outlast.log.event import StoredEvent
from outlast.stores.sqlite.events import heads
from outlast.stores.sqlite.transaction import Query, Written, stored

S = TypeVar("S", bound="Subscription")

LOOK_EVERY: Final = 0.1
"""Seconds: what another process's event may be late; ten looks a second cost under a thousandth of a core."""
NOTICE_EVERY: Final = 5
"""Looks at the file for one at the locks of other nodes: a dead process is noticed within half a second."""


class Subscription:
    """Wake-ups of one bell, for one waiter."""

    __slots__ = ("_bell", "_rung", "_waiting")

    def __init__(self, bell: "Bell") -> None:
        self._bell = bell
        self._rung = False
        self._waiting: asyncio.Future[None] | None = None

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109 - its end is an answer here, not an error
        if not self._rung:
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            timer = loop.call_later(timeout, _end, self._waiting)
            try:
                await self._waiting
            finally:
                timer.cancel()
                self._waiting = None
        rung, self._rung = self._rung, False
        return rung

    def close(self) -> None:
        self._bell.leave(self)

    def ring(self) -> None:
        """Wake the waiter, now or when it next waits."""
        self._rung = True
        if self._waiting is not None:
            _end(self._waiting)


def _end(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


class LogSubscription(Subscription):
    """Wake-ups of one log's bell."""

    __slots__ = ("_log",)

    def __init__(self, bell: "LogBell") -> None:
        super().__init__(bell)
        self._log = bell

    def take_news(self, after: int) -> Sequence[StoredEvent]:
        news, self._log.news = self._log.news, []
        return news if news and news[0].seq == after + 1 else []


class Bell:
    """Everyone who waits for one thing."""

    def __init__(self, *, on_empty: Callable[[], object] = lambda: None) -> None:
        self._listeners: dict[Subscription, None] = {}  # in order, so that they wake in the same order every time
        self._on_empty = on_empty

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def subscribe(self) -> Subscription:
        """Return wake-ups for one more."""
        return self._admit(Subscription(self))

    def leave(self, subscription: Subscription) -> None:
        """Wake `subscription` no more."""
        if subscription in self._listeners:
            del self._listeners[subscription]
            if not self._listeners:
                self._on_empty()

    def ring(self) -> None:
        """Wake everyone."""
        for listener in self._listeners:
            listener.ring()

    def _admit(self, subscription: S) -> S:
        self._listeners[subscription] = None
        return subscription


class LogBell(Bell):
    """Everyone who waits for one log; `seq` is the newest head they were rung for, `news` what it brought along."""

    def __init__(self, *, seq: int | None, on_empty: Callable[[], object]) -> None:
        super().__init__(on_empty=on_empty)
        self.seq = seq
        self.news: Sequence[StoredEvent] = []

    def subscribe(self) -> LogSubscription:
        """Return wake-ups for one more."""
        return self._admit(LogSubscription(self))

    def tell(self, seq: int, written: Written | None) -> None:
        """Wake everyone for a head that is new to them."""
        if self.seq != seq:
            self.seq = seq
            self.news = [] if written is None else stored(written)
            self.ring()


class Bells:
    """The bells of one store: one for the runs, one for each log that somebody listens to."""

    def __init__(self, on_listener: Callable[[], object] = lambda: None) -> None:
        self._on_listener = on_listener
        self._runs = Bell()
        self._logs: dict[str, LogBell] = {}

    def __bool__(self) -> bool:
        return bool(self._runs or self._logs)

    @property
    def logs(self) -> Collection[str]:
        """The logs that somebody listens to."""
        return self._logs.keys()

    def subscribe_runs(self) -> Subscription:
        """Return wake-ups about the runs."""
        self._on_listener()
        return self._runs.subscribe()

    def subscribe_log(self, log: str, *, seq: int | None) -> LogSubscription:
        """Return wake-ups about one log, whose head is at `seq` now as far as anyone knows."""
        self._on_listener()
        bell = self._logs.get(log)
        if bell is None:
            bell = self._logs[log] = LogBell(seq=seq, on_empty=lambda: self._logs.pop(log, None))
        return bell.subscribe()

    def ring(self, grown: Mapping[str, int], written: Mapping[str, Written], *, stirred: bool) -> None:
        """Wake who waits for one of the logs whose head is new to them, and with `stirred` who waits for the runs.

        `written` is what this process appended, as far as it is durable.
        """
        for log, seq in grown.items():
            bell = self._logs.get(log)
            if bell is not None:
                bell.tell(seq, written.get(log))
        if stirred:
            self._runs.ring()


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look at the file saw: a number that changes with others' commits, the stirs, the heads asked for."""

    version: int
    stirred: int
    heads: Mapping[str, int]


def look(query: Query, logs: Collection[str], *, before: Look | None) -> Look:
    """Look for others' commits since `before`, in one cheap statement while there are none."""
    version = query.execute("PRAGMA data_version").fetchone()[0]
    if before is not None and before.version == version:
        return before
    return Look(
        version=version,
        heads={log: head.seq for log, head in heads(query, logs).items()},
        stirred=query.execute("SELECT stirred FROM store").fetchone()["stirred"],
    )


class Watch:
    """Looks for other processes' commits, and for their deaths, while somebody listens, and rings for them.

    `peek` runs a reading operation at once, or raises `StoreError`; `notice` says whether a node may have died.
    """

    def __init__(
        self, bells: Bells, peek: Callable[[Callable[[Query], Look]], Look], *, notice: Callable[[], bool]
    ) -> None:
        self._bells = bells
        self._peek = peek
        self._notice = notice
        self._looks = 0
        self._before: Look | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Look from now on, for what comes after this moment; harmless while looking."""
        if self._timer is None:
            with suppress(StoreError):  # without it the first look rings once for nothing
                self._before = self._see()
            self._set_timer()

    def end(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY, self._look)

    def _see(self) -> Look:
        return self._peek(lambda query: look(query, self._bells.logs, before=self._before))

    def _look(self) -> None:
        self._timer = None
        if not self._bells:
            return
        self._set_timer()
        self._looks += 1
        if self._looks % NOTICE_EVERY == 0 and self._notice():
            self._bells.ring({}, {}, stirred=True)
        try:
            seen = self._see()
        except StoreError:
            return  # a hint that is late; whoever needs the file meets the error itself
        if seen is not self._before:
            before, self._before = self._before, seen
            self._bells.ring(seen.heads, {}, stirred=before is None or before.stirred != seen.stirred)
