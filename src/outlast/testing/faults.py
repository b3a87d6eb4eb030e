"""What can go wrong with one operation of a store, and who decides when.

    script = Script()
    script.add("append", ErrorAfter(StoreUnavailable("the answer is lost")))
    gate = script.add("settle", Gate())
    store = FaultyStore(inner, script)

    await gate.entered.wait()        # the controller is in the middle of settling
    gate.open()

Operations are called by their names in the ports of `outlast.stores.base`; a renewal is `renew`.
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol, TypeAlias, TypeVar


class Moment(Enum):
    """When something happens to the process that asked for an operation."""

    BEFORE = auto()
    """The operation never reaches the store."""
    UNANSWERED = auto()
    """It takes effect, its answer never arrives."""
    ANSWERED = auto()
    """It takes effect and is answered; the process comes no further than to where it waited for it."""


@dataclass(frozen=True, slots=True)
class ErrorBefore:
    """The operation does not happen, and says `error`."""

    error: Exception


@dataclass(frozen=True, slots=True)
class ErrorAfter:
    """The operation happens; instead of its answer comes `error`: COMMIT sent, answer lost."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Slow:
    """The operation happens `seconds` after it was asked for, by the loop's time."""

    seconds: float


@dataclass(frozen=True, slots=True)
class LateAnswer:
    """The operation happens at once; its answer comes `seconds` later."""

    seconds: float


class Gate:
    """The operation waits in front of a gate, or behind it with `after`, until someone opens it.

    `entered` is set when an operation has come to the gate: both sides of a race are then known to be mid-flight.
    """

    def __init__(self, *, after: bool = False) -> None:
        self.after = after
        self.entered = asyncio.Event()
        self._opened = asyncio.Event()

    def open(self) -> None:
        """Let whoever waits go on, and all that come."""
        self._opened.set()

    async def wait(self) -> None:
        """Wait at the gate, for as long as the test likes."""
        self.entered.set()
        await self._opened.wait()


@dataclass(frozen=True, slots=True)
class Death:
    """The process is killed around the operation."""

    moment: Moment


@dataclass(frozen=True, slots=True)
class Standstill:
    """The process is stopped around the operation, and goes on `seconds` later."""

    moment: Moment
    seconds: float


Fault: TypeAlias = ErrorBefore | ErrorAfter | Slow | LateAnswer | Gate | Death | Standstill
F = TypeVar("F", bound=Fault)


class Faults(Protocol):
    """What decides which operation fails, and how."""

    def draw(self, operation: str) -> Fault | None:
        """Return the fault of the operation that is about to be done, None when it is to go well."""
        ...


class NoFaults:
    """Nothing fails."""

    def draw(self, operation: str) -> Fault | None:
        """Return None."""
        del operation
        return None


@dataclass(frozen=True, slots=True)
class Outage:
    """Nothing gets through: every operation says `error`."""

    error: Exception

    def draw(self, operation: str) -> Fault | None:
        """Return the error, whatever was asked for."""
        del operation
        return ErrorBefore(self.error)


@dataclass(slots=True)
class _Entry:
    fault: Fault
    skip: int
    times: int | None


@dataclass(slots=True)
class Script:
    """Faults as written: each for one operation, after `skip` that go well, for `times` of them (None: for ever)."""

    _entries: defaultdict[str, list[_Entry]] = field(default_factory=lambda: defaultdict(list[_Entry]))

    def add(self, operation: str, fault: F, *, skip: int = 0, times: int | None = 1) -> F:
        """Write one down and return the fault. Entries of one operation are used up in the order they were added."""
        self._entries[operation].append(_Entry(fault, skip, times))
        return fault

    def clear(self) -> None:
        """Let everything go well from now on."""
        self._entries.clear()

    def draw(self, operation: str) -> Fault | None:
        """Return what the script has for the operation."""
        entries = self._entries[operation]
        if not entries:
            return None
        entry = entries[0]
        if entry.skip > 0:
            entry.skip -= 1
            return None
        if entry.times is not None:
            entry.times -= 1
            if entry.times <= 0:
                entries.pop(0)
        return entry.fault


Maker: TypeAlias = Callable[[random.Random], Fault]


class Dice:
    """Faults by chance: `kinds` maps what makes a fault to its chance in [0, 1] per operation.

    `rolled` counts the faults drawn, by their kind's name.
    """

    def __init__(self, dice: random.Random, kinds: Mapping[Maker, float]) -> None:
        self.rolled: Counter[str] = Counter()
        self._dice = dice
        self._kinds = kinds

    def draw(self, operation: str) -> Fault | None:
        """Roll once per kind, in the order given."""
        del operation
        for make, chance in self._kinds.items():
            if self._dice.random() < chance:
                fault = make(self._dice)
                self.rolled[type(fault).__name__] += 1
                return fault
        return None
