"""A store that fails on demand: what one node sees of a store which is slow, lost, full, or answers nothing.

Every node under test gets a `FaultyStore` of its own over one shared store. Nothing is changed in that store but by
the operations themselves.

Rules:
1. An operation that was sent is out of the sender's hands: whether its caller is cancelled or its process dies, it
   happens.
2. `sever` is the death of the node's process: not one of its calls is answered any more, whether or not it took
   effect.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, cast

from outlast.errors import StoreUnavailable
from outlast.log.event import StoredEvent
from outlast.stores.base import LogStore, Renewal, Renewer, RunStore, Store, Subscription
from outlast.testing.faults import (
    Death,
    ErrorAfter,
    ErrorBefore,
    Fault,
    Faults,
    Gate,
    LateAnswer,
    Moment,
    NoFaults,
    Slow,
    Standstill,
)
from outlast.testing.process import Process, outside

Do: TypeAlias = Callable[[], Coroutine[Any, Any, Any]]


class FaultyStore:
    """One node's view of `inner`; `faults` may be replaced at any time, `process` is what deaths and stops befall.

    With `deaf` every subscription made from then on loses all its wake-ups.
    """

    def __init__(self, inner: Store, faults: Faults | None = None, *, process: Process | None = None) -> None:
        self.inner = inner
        self.faults: Faults = faults or NoFaults()
        self.process = process
        self.severed = asyncio.Event()
        self.deaf = False
        self.on_operation: Callable[[str, tuple[Any, ...]], None] = lambda _operation, _arguments: None
        self.on_fault: Callable[[str, Fault], None] = lambda _operation, _fault: None
        self._runs = cast("RunStore", _Port(inner.runs, self))
        self._logs = cast("LogStore", _Port(inner.logs, self))

    @property
    def runs(self) -> RunStore:
        """The authority, as this node sees it."""
        return self._runs

    @property
    def logs(self) -> LogStore:
        """The logs, as this node sees them."""
        return self._logs

    @property
    def id(self) -> str | None:
        """Which store this is."""
        return self.inner.id

    def sever(self) -> None:
        """Answer nothing any more: this node's process is dead."""
        self.severed.set()

    async def open(self) -> None:
        """Do nothing: `inner` is open."""

    async def close(self) -> None:
        """Do nothing: `inner` belongs to whoever made it."""

    def renewer(self, node: str, *, ttl: float, workers: Collection[str]) -> Renewer:
        """Return a renewer that fails by the same faults, as operation `renew`."""
        return _FaultyRenewer(self.inner.renewer(node, ttl=ttl, workers=workers), self)

    # ---- what happens to an operation -------------------------------------------------------

    async def operate(self, operation: str, arguments: tuple[Any, ...], do: Do) -> Any:  # noqa: ANN401 - whatever the operation answers
        """Do one operation under whatever fault is drawn for it."""
        await self._unless_severed()
        self.on_operation(operation, arguments)
        answer = await self._under(self.draw(operation), do)
        await self._unless_severed()
        return answer

    def draw(self, operation: str) -> Fault | None:
        """Return the fault of one operation, and tell `on_fault` of it."""
        fault = self.faults.draw(operation)
        if fault is not None:
            self.on_fault(operation, fault)
        return fault

    async def _under(self, fault: Fault | None, do: Do) -> Any:  # noqa: ANN401 - as above
        match fault:
            case ErrorBefore(error):
                await asyncio.sleep(0)
                raise error
            case ErrorAfter(error):
                await _sent(do)
                raise error
            case Slow(seconds):
                await asyncio.sleep(seconds)
                await self._unless_severed()
                return await _sent(do)
            case LateAnswer(seconds):
                answer = await _sent(do)
                await asyncio.sleep(seconds)
                return answer
            case Gate():
                return await self._through(fault, do)
            case Death(moment):
                return await self._around(moment, self.die, do)
            case Standstill(moment, seconds):
                return await self._around(moment, lambda: self.stand_still(seconds), do)
            case _:
                return await _sent(do)

    async def _through(self, gate: Gate, do: Do) -> Any:  # noqa: ANN401 - as above
        if not gate.after:
            await gate.wait()
            await self._unless_severed()
        answer = await _sent(do)
        if gate.after:
            await gate.wait()
        return answer

    async def _around(self, moment: Moment, happen: Callable[[], None], do: Do) -> Any:  # noqa: ANN401 - as above
        if moment is Moment.BEFORE:
            happen()
            await asyncio.sleep(0)  # from here on a paused process stands still
            await self._unless_severed()
        answer = await _sent(do)
        if moment is Moment.UNANSWERED:
            happen()
            await asyncio.sleep(0)
        if moment is Moment.ANSWERED:
            asyncio.get_running_loop().call_soon(happen)
        return answer

    def die(self) -> None:
        """Kill the process, and answer nothing any more."""
        self.sever()
        if self.process is not None:
            self.process.kill()

    def stand_still(self, seconds: float) -> None:
        """Stop the process, and let it go on `seconds` later."""
        if self.process is not None and not self.process.paused:
            self.process.pause()
            asyncio.get_running_loop().call_later(seconds, self.process.resume)

    async def _unless_severed(self) -> None:
        if self.severed.is_set():
            await asyncio.get_running_loop().create_future()  # a dead process waits for nothing, for ever


async def _sent(do: Do) -> Any:  # noqa: ANN401 - whatever the operation answers
    sending = outside(do())
    sending.add_done_callback(_hear)
    await asyncio.wait({sending})  # the store itself bounds it
    return sending.result()


def _hear(sending: "asyncio.Task[Any]") -> None:
    sending.exception()  # whoever sent it may be gone, and nobody else wants to know


class _Port:
    """One port of a faulty store: its coroutines fail by the faults, its subscriptions fall silent when deaf."""

    def __init__(self, inner: RunStore | LogStore, store: FaultyStore) -> None:
        self._inner = inner
        self._store = store

    def subscribe(self, *arguments: Any) -> Subscription:  # noqa: ANN401 - a log's, or none
        return DeafSubscription() if self._store.deaf else self._inner.subscribe(*arguments)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._inner, name)

        async def operation(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - the port's own arguments
            return await self._store.operate(name, arguments, lambda: method(*arguments, **named))

        return operation


class _FaultyRenewer:
    """A renewal is one call of a thread: it can fail, but not wait on virtual time."""

    def __init__(self, inner: Renewer, store: FaultyStore) -> None:
        self._inner = inner
        self._store = store

    def renew(self, *, stalled: bool, lag: float = 0.0) -> Renewal:
        if self._store.severed.is_set():
            raise StoreUnavailable("This node's process is dead.")
        self._store.on_operation("renew", ())
        match self._store.draw("renew"):
            case ErrorBefore(error):
                raise error
            case ErrorAfter(error):
                self._inner.renew(stalled=stalled, lag=lag)
                raise error
            case Death(moment):
                if moment is not Moment.BEFORE:
                    self._inner.renew(stalled=stalled, lag=lag)
                self._store.die()
                raise StoreUnavailable("This node's process is dead.")
            case Standstill(moment, seconds):
                self._store.stand_still(seconds)
                if moment is Moment.BEFORE:
                    raise StoreUnavailable("This node's process stands still.")
                return self._inner.renew(stalled=stalled, lag=lag)
            case _:  # it cannot wait
                return self._inner.renew(stalled=stalled, lag=lag)

    def close(self) -> None:
        self._inner.close()


class DeafSubscription:
    """A subscription whose store never rings: every notification is lost."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109 - the port's own argument
        """Return after `timeout` seconds, or when the waiter's own side rings."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), timeout)
        rung = self._rung.is_set()
        self._rung.clear()
        return rung

    def take_news(self, after: int) -> Sequence[StoredEvent]:  # noqa: ARG002 - the port's own argument
        """Bring nothing along."""
        return []

    def ring(self) -> None:
        """Wake the waiter: this is no notification of the store's."""
        self._rung.set()

    def close(self) -> None:
        """Do nothing."""
