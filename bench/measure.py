"""Measures a row: ours and its references in turn, round by round, and compares what each round told.

Machines are shared and noisy, so a row quotes ratios of the same round and their spread, never one absolute figure.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, assert_never

OURS = "ours"

Sample: TypeAlias = Mapping[str, float]
"""What one side told of one round: a value per quantity."""
Side: TypeAlias = Callable[[], Sample]
"""Does the work once, checks that it was done, and tells what it took."""


class WrongWork(Exception):
    """A side did not do what was measured, so its figures mean nothing."""


def check(expected: object, found: object, what: str) -> None:
    """Raise `WrongWork` unless what a side did is what was asked of it."""
    if expected != found:
        raise WrongWork(f"{what}: {found!r} instead of {expected!r}")


class Kind(StrEnum):
    """How a quantity is compared with a reference's."""

    RATE = "rate"
    """More is better: how many times as much."""
    COST = "cost"
    """Less is better: how many times as cheap, or by itself how much at most."""
    DELAY = "delay"
    """Less is better, and people feel it: how many times as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """Something that every side tells of itself, in `unit`."""

    unit: str
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """How a quantity of ours should stand to a `reference` of the same round, or by itself where there is none.

    `bound` is the least of a rate's or cost's ratio, and the most of a delay's, or of a cost by itself; None is only
    reported.
    """

    quantity: str
    reference: str | None = None
    bound: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A question, the two or more sides that are asked it, and the goals. `lacks` says why it cannot be asked here."""

    question: str
    quantities: Mapping[str, Quantity]
    ours: Side
    references: Mapping[str, Side] = field(default_factory=dict[str, Side])
    goals: Sequence[Goal]
    lacks: str | None = None

    def sides(self) -> dict[str, Side]:
        """Return every side by its name, ours first."""
        return {OURS: self.ours, **self.references}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The median of all rounds, and the rounds that were furthest from it."""

    median: float
    least: float
    most: float


def measure(row: Row, *, rounds: int, tell: Callable[[str], None]) -> dict[str, list[Sample]]:
    """Ask every side in turn, once to warm up and then `rounds` times; return what each told, round by round."""
    samples: dict[str, list[Sample]] = {name: [] for name in row.sides()}
    for number in range(rounds + 1):
        for name, side in row.sides().items():
            tell(f"{'warm-up' if number == 0 else f'round {number} of {rounds}'}: {name}")
            sample = side()
            if number:
                samples[name].append(sample)
    return samples


def compare(row: Row, goal: Goal, samples: Mapping[str, Sequence[Sample]]) -> Spread:
    """Return how ours stands to the goal's reference, round by round; without a reference ours itself."""
    ours = [sample[goal.quantity] for sample in samples[OURS]]
    if goal.reference is None:
        return spread(ours)
    pairs = zip(ours, [sample[goal.quantity] for sample in samples[goal.reference]], strict=True)
    match row.quantities[goal.quantity].kind:
        case Kind.RATE | Kind.DELAY:
            return spread([one / other for one, other in pairs])
        case Kind.COST:
            return spread([other / one for one, other in pairs])
        case never:
            assert_never(never)


def is_reached(row: Row, goal: Goal, found: Spread) -> bool | None:
    """Say whether the median reaches the goal; None where there is none."""
    if goal.bound is None:
        return None
    return found.median <= goal.bound if bounds_above(row, goal) else found.median >= goal.bound


def bounds_above(row: Row, goal: Goal) -> bool:
    """Say whether a goal's bound is the most that may be found, not the least."""
    kind = row.quantities[goal.quantity].kind
    return kind is Kind.DELAY or (kind is Kind.COST and goal.reference is None)


def spread(values: Sequence[float]) -> Spread:
    """Return the median of some values and their ends."""
    return Spread(median=statistics.median(values), least=min(values), most=max(values))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
