"""Reads the SQL statements, one file each, named for what they do."""

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "statements"
"""A plain path: `importlib.resources` brings all of zip files along, a good part of what `import outlast` takes."""


def load(name: str) -> str:
    """Return the text of statement `name`, a verb and a noun."""
    return (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
