"""Lays rows out in columns that fit a terminal."""

from collections.abc import Sequence
from typing import Final

from outlast.cli.terminal import cells, inline

GAP: Final = "  "


def columns(rows: Sequence[Sequence[str]], *, width: int | None = None, stretch: int | None = None) -> list[str]:
    """Return rows as lines; where they are wider than `width`, column `stretch` gives way first, then the line ends."""
    widths = [max(map(_wide, column)) for column in zip(*rows, strict=True)]
    if width is not None and stretch is not None:
        over = sum(widths) + len(GAP) * (len(widths) - 1) - width
        widths[stretch] = max(min(widths[stretch], 8), widths[stretch] - max(0, over))
    lines = [GAP.join(_padded(cell, wide) for cell, wide in zip(row, widths, strict=True)).rstrip() for row in rows]
    return lines if width is None else [inline(line, width) for line in lines]


def _wide(text: str) -> int:
    return sum(map(cells, text))


def _padded(text: str, wide: int) -> str:
    text = inline(text, wide) if _wide(text) > wide else text
    return text + " " * (wide - _wide(text))
