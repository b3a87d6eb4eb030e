"""Which figures a policy may be made of: real, finite, and whole where things are counted."""

import math
from dataclasses import fields
from typing import Any

from outlast.errors import SettingsError


def check(policy: Any, *, endless: bool = False) -> None:  # noqa: ANN401 - any dataclass of figures
    """Refuse a dataclass with a field that is no figure: NaN, an infinity, a boolean, text, half of a count (B23).

    Where it may be `endless`, infinitely many seconds are a figure as well. Raises `SettingsError`.
    """
    for each in fields(policy):
        value = getattr(policy, each.name)
        name = f"{type(policy).__name__}.{each.name}"
        if each.type in {int, "int"} and not is_whole(value):
            raise SettingsError(f"{name} must be a whole number.")
        if each.type in {float, "float"} and not is_finite(value) and not (endless and value == math.inf):
            allowed = "a number of seconds, or infinite" if endless else "a finite number of seconds"
            raise SettingsError(f"{name} must be {allowed}.")


def is_whole(value: object) -> bool:
    """Say whether `value` is a whole number; a boolean is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_finite(value: object) -> bool:
    """Say whether `value` is a number that comparisons can be trusted with."""
    return is_whole(value) or (isinstance(value, float) and math.isfinite(value))
