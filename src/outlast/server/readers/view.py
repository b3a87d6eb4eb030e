"""What one reader wants to see of a log: which types of events, and in which dress.

A view filters what is delivered and never what is numbered: cursors, replay and gaps are those of the whole log.
"""

from dataclasses import dataclass
from typing import Final

from outlast.run import TERMINALS


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Only events of these `types`, all when None; with `envelope` as unnamed server-sent events, whole, in JSON."""

    types: frozenset[str] | None = None
    envelope: bool = False

    def shows(self, type: str) -> bool:
        """Say whether events of this type are delivered; the terminal event always is."""
        return self.types is None or type in self.types or type in TERMINALS


WHOLE: Final = View()
"""Every event, as itself."""
