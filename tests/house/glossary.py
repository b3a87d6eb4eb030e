"""The words that docs/glossary.md explains."""

import re

from tests.house import tree

PAGE = tree.ROOT / "docs" / "glossary.md"


def entries(text: str | None = None) -> set[str]:
    """Read the words a glossary explains: the bold ones that begin a table's row."""
    cells = re.findall(r"^\| (.*?) \|", tree.text(PAGE) if text is None else text, re.MULTILINE)
    return {word.strip() for cell in cells for bold in re.findall(r"\*\*(.+?)\*\*", cell) for word in bold.split(",")}
