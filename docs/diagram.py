"""Draws the legal transitions of a run, from the one table of them, as a picture and as words.

The picture asks no script for its drawing and no other host for anything; its colours bear light pages and dark ones.
"""

from collections.abc import Iterator, Mapping

from outlast.run import TRANSITIONS, Move, Status

PLACES: Mapping[Status, tuple[int, int]] = {
    Status.QUEUED: (90, 60),
    Status.ACTIVE: (330, 60),
    Status.PARKED: (570, 60),
    Status.FAILED: (90, 230),
    Status.COMPLETED: (330, 230),
    Status.CANCELLED: (570, 230),
}
"""Where each status stands: those that can still move above, the outcomes below."""
WIDTH, HEIGHT = 120, 44
SEVERAL: Mapping[Move, str] = {Move.CLAIM: "claim", Move.PARK: "park"}
"""What is written on an arrow between the upper ones; the outcomes are named for what leads to them."""
LOOP = "takeover, hand-off"
COLOUR = {"line": "#7a8699", "live": "#2f6fde", "end": "#7a8699"}


def table() -> str:
    """Return a row for each status: what can happen to it, and what it is then."""
    rows = ["| a run that is | can be |", "|---|---|"]
    for status, moves in TRANSITIONS.items():
        said = ", ".join(f"{move} → **{after}**" for move, after in moves.items())
        rows.append(f"| **{status}** | {said or 'nothing: this is its outcome'} |")
    return "\n".join(rows)


def picture() -> str:
    """Return the table as an SVG."""
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 280" role="img"',
        ' font-family="system-ui, sans-serif" font-size="14">',
        "<title>What can happen to a run</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">',
        f'<path d="M0 0L8 4L0 8z" fill="{COLOUR["line"]}"/></marker></defs>',
        *_arrows(),
        *(_box(status) for status in Status),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _box(status: Status) -> str:
    x, y = PLACES[status]
    colour = COLOUR["end" if status.is_terminal else "live"]
    return (
        f'<rect x="{x - WIDTH // 2}" y="{y - HEIGHT // 2}" width="{WIDTH}" height="{HEIGHT}" rx="8" '
        f'fill="{colour}"/><text x="{x}" y="{y + 5}" text-anchor="middle" fill="#fff">{status}</text>'
    )


def _arrows() -> Iterator[str]:
    for before, moves in TRANSITIONS.items():
        for move, after in moves.items():
            if before is after:
                yield _loop(before)
            else:
                yield _arrow(before, after, SEVERAL.get(move, ""), back=_returns(before, after))


def _returns(before: Status, after: Status) -> bool:
    """Tell whether there is an arrow the other way as well."""
    return before in TRANSITIONS[after].values()


def _arrow(before: Status, after: Status, said: str, *, back: bool) -> str:
    (x, y), (to_x, to_y) = PLACES[before], PLACES[after]
    if y == to_y:
        side = 1 if to_x > x else -1
        aside = -9 * side if back else 0
        path = f"M{x + side * WIDTH // 2} {y + aside}H{to_x - side * (WIDTH // 2 + 2)}"
        label = (x + to_x) // 2, y + aside + (-6 if aside <= 0 else 17)
    else:
        lean = (to_x - x) // 12
        path = f"M{x + lean} {y + HEIGHT // 2}L{to_x - lean} {to_y - HEIGHT // 2 - 2}"
        label = (x + to_x) // 2, (y + to_y) // 2
    drawn = f'<path d="{path}" fill="none" stroke="{COLOUR["line"]}" stroke-width="1.5" marker-end="url(#tip)"/>'
    if said:
        drawn += f'<text x="{label[0]}" y="{label[1]}" text-anchor="middle" fill="{COLOUR["line"]}">{said}</text>'
    return drawn


def _loop(status: Status) -> str:
    x, y = PLACES[status]
    top = y - HEIGHT // 2
    return (
        f'<path d="M{x - 24} {top}C{x - 24} {top - 30} {x + 24} {top - 30} {x + 24} {top - 2}" fill="none" '
        f'stroke="{COLOUR["line"]}" stroke-width="1.5" marker-end="url(#tip)"/>'
        f'<text x="{x + 34}" y="{top - 12}" fill="{COLOUR["line"]}">{LOOP}</text>'
    )
