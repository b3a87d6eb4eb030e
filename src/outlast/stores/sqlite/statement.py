"""Reads the SQL statements, one file each, named for what they do."""

from importlib.resources import files
from typing import Final

FOLDER: Final = files("outlast.stores.sqlite") / "statements"


def load(name: str) -> str:
    """Return the text of statement `name`, a verb and a noun."""
    return (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
