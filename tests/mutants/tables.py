"""What a table of the machine may lose or gain, an entry at a time, and each number of each profile.

Each is said as what is done after the module was loaded.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from outlast.supervision import hints, profile, table, time
from outlast.supervision.phase import WAKES, Phase, Trouble, Wakeup

MILLISECOND = 0.001
"""Seconds by which a number is another: what vectors count in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appendix:
    """What comes after a module's own source; `spot` is where in the machine it changes something, None everywhere."""

    module: str
    source: str
    change: str
    spot: Hashable = None


def entries() -> Iterator[Appendix]:
    """Yield each change of a table."""
    yield from rules()
    for was, row in table.TRANSITIONS.items():
        for after in row:
            yield Appendix(
                module="table",
                source=f"TRANSITIONS = {{**TRANSITIONS, {said(was)}: TRANSITIONS[{said(was)}] - {{{said(after)}}}}}",
                change=f"TRANSITIONS without {was} to {after}",
                spot=(was, after),
            )
    for due in time.RULES:
        left = f"RULES = {{due: rule for due, rule in RULES.items() if due is not {said(due)}}}"
        yield Appendix(module="time", source=left, change=f"RULES without {due}")
    for each in Phase:
        other = f"SENDING = SENDING ^ {{{said(each)}}}"
        yield Appendix(module="phase", source=other, change=f"SENDING otherwise about {each}")
    for trouble in Trouble:
        yield from wakes(trouble)


def rules() -> Iterator[Appendix]:
    """Yield each change of the table of rules: it loses a rule, or has one of the row's where there is none."""
    for key, row in table.RULES.items():
        name = said(key) if isinstance(key, Wakeup) else f"inputs.{key.__name__}"
        for phase in Phase:
            if phase in row:
                left = f"{{phase: rule for phase, rule in RULES[{name}].items() if phase is not {said(phase)}}}"
                source, change = f"RULES = {{**RULES, {name}: {left}}}", f"RULES without {name} in {phase}"
                yield Appendix(module="table", source=source, change=change, spot=(key, phase))
                continue
            if is_about(key):
                continue  # where it is about nothing that is there it is of the past, and no rule is asked
            for rule in dict.fromkeys(row.values()):
                called = f"{rule.__module__.rpartition('.')[2]}.{rule.__name__}"
                source = f"RULES = {{**RULES, {name}: {{**RULES[{name}], {said(phase)}: {called}}}}}"
                change = f"RULES with {name} in {phase}: {called}"
                yield Appendix(module="table", source=source, change=change, spot=(key, phase))


def is_about(key: table.Key) -> bool:
    """Tell whether an input names an attempt or a link."""
    return isinstance(key, type) and bool({"attempt", "link"} & set(getattr(key, "__slots__", ())))


def wakes(trouble: Trouble) -> Iterator[Appendix]:
    """Yield each change of what ends a block: it is none, or is one; one more wakeup ends it, or one less."""
    if trouble not in WAKES:
        source = f"WAKES = {{**WAKES, {said(trouble)}: frozenset()}}"
        yield Appendix(module="phase", source=source, change=f"WAKES with {trouble}")
        return
    left = f"{{trouble: wakes for trouble, wakes in WAKES.items() if trouble is not {said(trouble)}}}"
    yield Appendix(module="phase", source=f"WAKES = {left}", change=f"WAKES without {trouble}")
    for wakeup in Wakeup:
        if table.RULES[wakeup].get(Phase.BLOCKED) is not hints.unblock:
            continue  # it is not asked there whether it ends the block
        source = f"WAKES = {{**WAKES, {said(trouble)}: WAKES[{said(trouble)}] ^ {{{said(wakeup)}}}}}"
        yield Appendix(module="phase", source=source, change=f"WAKES[{trouble}] otherwise about {wakeup}")


def profiles() -> Iterator[Appendix]:
    """Yield each change of a number or a choice of a profile."""
    for name, known in profile.PROFILES.items():
        for member in profile.Profile.__slots__:
            for other in others(getattr(known, member)):
                made = f"replace({name.upper()}, {member}={other!r})"
                source = f"from dataclasses import replace\nPROFILES = {{**PROFILES, {name!r}: {made}}}"
                change = f"{name}'s {member} is {other}"
                yield Appendix(module="profile", source=source, change=change, spot=name)


def others(value: Any) -> list[Any]:
    """Return what a member of a profile might be instead."""
    match value:
        case bool():
            return [not value]
        case float():
            return [round(value + MILLISECOND, 6), round(value - MILLISECOND, 6)]
        case tuple():
            changed = [
                (*value[:index], other, *value[index + 1 :])
                for index, each in enumerate(value)
                for other in others(each)
            ]
            return [*changed, value[:-1]]
        case _:
            return []


def said(word: Any) -> str:
    """Return how a word of the machine stands in its source."""
    return f"{type(word).__name__}.{word.name}"
