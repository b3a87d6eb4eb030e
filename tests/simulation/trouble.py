"""What goes wrong with one node's operations, by chance; everything that was drawn can be told apart by its kind."""

import random
from collections.abc import Callable

from outlast.errors import StoreBusy, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from outlast.testing.faults import (
    Death,
    ErrorAfter,
    ErrorBefore,
    Fault,
    Gate,
    LateAnswer,
    Moment,
    Slow,
    Standstill,
)

ERRORS = [StoreUnavailable, StoreBusy, StoreFull, StoreReadOnly, StoreError]
"""The last is one that nobody classified."""

READINGS = {"due", "load", "head", "read", "stops", "bury", "now", "chain_at", "nodes", "list"}
"""Operations that nodes repeat all day: what goes wrong goes wrong with the others ten times as often."""

KINDS: dict[str, float] = {
    "error before": 0.030,
    "error after": 0.030,
    "slow": 0.030,
    "late": 0.030,
    "gate": 0.008,
    "death": 0.012,
    "standstill": 0.010,
}
"""Chances per operation that is no reading."""


class Trouble:
    """The faults of one node."""

    def __init__(self, dice: random.Random, *, ttl: float) -> None:
        self._dice = dice
        self._ttl = ttl
        self._gates: list[Gate] = []
        self._makers: dict[str, Callable[[], Fault]] = {
            "error before": lambda: ErrorBefore(self._error()),
            "error after": lambda: ErrorAfter(self._error()),
            "slow": lambda: Slow(self._seconds()),
            "late": lambda: LateAnswer(self._seconds()),
            "gate": self._gate,
            "death": lambda: Death(dice.choice(list(Moment))),
            "standstill": lambda: Standstill(dice.choice(list(Moment)), ttl * dice.uniform(2, 5)),
        }

    def draw(self, operation: str) -> Fault | None:
        """Roll once: most operations go well."""
        roll = self._dice.random() * (10 if operation in READINGS else 1)
        for kind, chance in KINDS.items():
            if roll < chance:
                return self._makers[kind]()
            roll -= chance
        return None

    def open_gates(self) -> None:
        """Let go of every operation that hangs."""
        for gate in self._gates:
            gate.open()
        self._gates.clear()

    def _error(self) -> Exception:
        return self._dice.choice(ERRORS)("as the dice fell")

    def _seconds(self) -> float:
        return self._dice.choice([0.01, self._dice.uniform(0.1, 2), self._dice.uniform(1, 2 * self._ttl)])

    def _gate(self) -> Gate:
        gate = Gate(after=self._dice.random() < 0.5)
        self._gates.append(gate)
        return gate
