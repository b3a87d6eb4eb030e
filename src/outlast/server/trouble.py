"""Trouble that a loop meets turn after turn: told when it begins, and told again only after it was over."""

from outlast.errors import code_of
from outlast.facts import Report, StoreTroubled


class Trouble:
    """What one loop, named `during`, meets; an outage of an hour is one line, not one a second."""

    def __init__(self, during: str, report: Report) -> None:
        self._during = during
        self._report = report
        self._lasts = False

    def met(self, error: Exception) -> None:
        """Note a turn that failed."""
        if not self._lasts:
            self._report(StoreTroubled(during=self._during, error=code_of(error)))
        self._lasts = True

    def over(self) -> None:
        """Note a turn that did not."""
        self._lasts = False
