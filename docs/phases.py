"""Draws what the client's machine does: its phases, its rules and its numbers, from the tables that it runs on.

The picture asks no script for its drawing and no other host for anything; its colours bear light pages and dark ones.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import StrEnum
from math import hypot

from outlast.supervision import time
from outlast.supervision.phase import SENDING, WAKES, Grade, Phase, Trouble, Wakeup
from outlast.supervision.profile import PROFILES
from outlast.supervision.table import RULES, TRANSITIONS

PLACES: Mapping[Phase, tuple[int, int]] = {
    Phase.OFFLINE: (130, 60),
    Phase.CONNECTING: (130, 150),
    Phase.BACKOFF: (130, 240),
    Phase.BLOCKED: (130, 330),
    Phase.LIVE: (460, 110),
    Phase.SLOW: (680, 110),
    Phase.SWITCHING: (460, 280),
    Phase.BUSY: (680, 280),
    Phase.IDLE: (130, 420),
    Phase.CLOSED: (300, 420),
}
"""Where each phase stands: those without a link on the left, those with one in their frame on the right."""
WIDTH, HEIGHT = 116, 44
FRAME = (370, 50, 400, 300)
"""Left, top, width and height of the frame around the phases that have a link."""
COLOUR = {"line": "#7a8699", "link": "#2f6fde", "none": "#5b6677"}
ASIDE = 8
"""How far the two arrows between two boxes are apart, halved."""


# ---- tables ---------------------------------------------------------------------------------------


def phases() -> str:
    """Return every phase, what it says, whether sending is possible, and what may follow."""
    rows = ["| phase | what it says | sending | what may follow |", "|---|---|---|---|"]
    for phase, why in _members(Phase):
        after = ", ".join(each for each in Phase if each in TRANSITIONS[Phase(phase)])
        sending = "yes" if phase in SENDING else "no"
        rows.append(f"| **{phase}** | {why} | {sending} | {after or 'nothing'} |")
    return "\n".join(rows)


def rules() -> str:
    """Return which rule each input calls in each phase; nothing happens to a closed link."""
    shown = [phase for phase in Phase if phase is not Phase.CLOSED]
    rows = [f"| what happens | {' | '.join(shown)} |", f"|---|{'---|' * len(shown)}"]
    for key, row in RULES.items():
        cells = " | ".join(row[phase].__name__ if phase in row else "" for phase in shown)
        rows.append(f"| {f'`{key}`' if isinstance(key, Wakeup) else _spoken(key)} | {cells} |")
    return "\n".join(rows)


def legend() -> str:
    """Return what each rule does."""
    said = {rule.__name__: _first(rule) for row in RULES.values() for rule in row.values()}
    return "\n".join(["| rule | what it does |", "|---|---|", *(f"| {name} | {said[name]} |" for name in sorted(said))])


def dues() -> str:
    """Return what time does to a link, each when it has come due."""
    rows = ["| what has come due | what is done |", "|---|---|"]
    return "\n".join([*rows, *(f"| {due} | {_first(rule)} |" for due, rule in time.RULES.items())])


def profiles() -> str:
    """Return the numbers of every profile, in seconds."""
    names = list(PROFILES)
    rows = [f"| | {' | '.join(f'`{name}`' for name in names)} |", f"|---|{'---|' * len(names)}"]
    for field in fields(PROFILES[names[0]]):
        if field.name != "name":
            told = (_told(getattr(PROFILES[name], field.name)) for name in names)
            rows.append(f"| {field.name.replace('_', ' ')} | {' | '.join(told)} |")
    return "\n".join(rows)


def blocks() -> str:
    """Return the troubles that block, and what ends each."""
    why = dict(_members(Trouble))
    rows = ["| blocked by | what it is | what ends it, besides a person |", "|---|---|---|"]
    for trouble, wakes in WAKES.items():
        rows.append(
            f"| `{trouble}` | {why[trouble]} | {', '.join(f'`{each}`' for each in sorted(wakes)) or 'nothing'} |"
        )
    return "\n".join(rows)


def grades() -> str:
    """Return what speaks for a server that does not answer, the strongest first."""
    rows = ["| evidence | what it is |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{grade}` | {why} |" for grade, why in _members(Grade))])


def _members(kind: type[StrEnum]) -> list[tuple[str, str]]:
    found = re.findall(r'^    [A-Z_]+ = "([\w-]+)"\n    """(.+?)"""', inspect.getsource(kind), re.MULTILINE | re.DOTALL)
    return [(word, " ".join(why.split())) for word, why in found]


def _spoken(kind: type) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower()


def _first(rule: object) -> str:
    return (inspect.getdoc(rule) or "").splitlines()[0]


def _told(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return "yes" if value else "no" if value is False else "–"
    return ", ".join(f"{each:g}" for each in value) if isinstance(value, tuple) else f"{value:g}"


# ---- the picture ----------------------------------------------------------------------------------


def picture() -> str:
    """Return the transitions as an SVG; what all phases with a link have in common leaves their frame."""
    left, top, width, height = FRAME
    line, common = COLOUR["line"], f"{', '.join(_common())} may follow every one"
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 460" role="img"',
        ' font-family="system-ui, sans-serif" font-size="14">',
        "<title>What may follow each phase of a link</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">',
        f'<path d="M0 0L8 4L0 8z" fill="{line}"/></marker></defs>',
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="12" fill="none" stroke="{line}"/>',
        f'<text x="{left + width // 2}" y="{top - 12}" text-anchor="middle" fill="{line}">sending is possible</text>',
        *_arrows(),
        *(_box(phase) for phase in Phase),
        f'<text x="{left + width}" y="{top + height + 28}" text-anchor="end" fill="{line}">{common}</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _common() -> list[Phase]:
    """Return the phases that may follow every other one which is not the last."""
    going_on = [phase for phase, after in TRANSITIONS.items() if after]
    return [each for each in Phase if all(each in TRANSITIONS[phase] for phase in going_on if phase is not each)]


def _arrows() -> Iterator[str]:
    inside = [phase for phase in Phase if phase in SENDING]
    shared = frozenset.intersection(*(TRANSITIONS[phase] for phase in inside)) - set(inside) - set(_common())
    for phase in Phase:
        if phase in shared:
            x, y = PLACES[phase]
            yield _line((FRAME[0], y + ASIDE), (x + WIDTH // 2 + 2, y + ASIDE))
    for before, row in TRANSITIONS.items():
        for after in Phase:
            left_out = after not in row or after in _common() or (before in inside and after in shared)
            if not left_out:
                yield _arrow(before, after)


def _arrow(before: Phase, after: Phase) -> str:
    (x, y), (to_x, to_y) = PLACES[before], PLACES[after]
    if x == to_x and abs(to_y - y) > 2 * HEIGHT + ASIDE and not {before, after} & SENDING:
        return _bow(before, after)
    far = hypot(to_x - x, to_y - y)
    aside_x, aside_y = ASIDE * (y - to_y) / far, ASIDE * (to_x - x) / far
    reach = min(
        WIDTH / 2 / abs(to_x - x) if to_x != x else 1.0,
        HEIGHT / 2 / abs(to_y - y) if to_y != y else 1.0,
    )
    off_x, off_y = (to_x - x) * reach, (to_y - y) * reach
    begin = x + off_x + aside_x, y + off_y + aside_y
    return _line(begin, (to_x - off_x + aside_x, to_y - off_y + aside_y))


def _bow(before: Phase, after: Phase) -> str:
    """Return an arrow around the boxes that stand between two of the left ones."""
    (x, y), (_, to_y) = PLACES[before], PLACES[after]
    edge, out = x - WIDTH // 2, 20 + abs(to_y - y) // 6
    side = ASIDE if to_y > y else -ASIDE
    path = f"M{edge} {y + side}C{edge - out} {y + side} {edge - out} {to_y - side} {edge - 2} {to_y - side}"
    return f'<path d="{path}" fill="none" stroke="{COLOUR["line"]}" stroke-width="1.5" marker-end="url(#tip)"/>'


def _line(begin: tuple[float, float], end: tuple[float, float]) -> str:
    path = f"M{begin[0]:.0f} {begin[1]:.0f}L{end[0]:.0f} {end[1]:.0f}"
    return f'<path d="{path}" fill="none" stroke="{COLOUR["line"]}" stroke-width="1.5" marker-end="url(#tip)"/>'


def _box(phase: Phase) -> str:
    x, y = PLACES[phase]
    colour = COLOUR["link" if phase in SENDING else "none"]
    return (
        f'<rect x="{x - WIDTH // 2}" y="{y - HEIGHT // 2}" width="{WIDTH}" height="{HEIGHT}" rx="8" '
        f'fill="{colour}"/><text x="{x}" y="{y + 5}" text-anchor="middle" fill="#fff">{phase}</text>'
    )
