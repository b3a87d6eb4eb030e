"""How long to wait before the next try: one curve, the jitter given from outside."""

from typing import Final

JITTER: Final = 0.2
"""Share of the delay by which jitter moves it either way: enough to part a herd, little enough to keep the order."""


def delay(attempt: int, *, base: float, cap: float, jitter: float) -> float:
    """Return the seconds to wait before try `attempt` + 1.

    `min(base · 2^(attempt - 1), cap)`, moved by ±20 %: `jitter` in [0, 1) picks the place in that band,
    0.5 is its middle. `attempt` counts from 1. Source: B4.
    """
    if attempt < 1:
        raise ValueError("attempt counts from 1")
    exponent = min(attempt - 1, 63)  # 2^63 base units lie far beyond any cap; a larger power overflows a float
    return min(base * 2.0**exponent, cap) * (1.0 - JITTER + 2.0 * JITTER * jitter)
