"""Bears it for a while that something else answers in a server's place, as a proxy does with a page during a deploy."""

from dataclasses import dataclass
from typing import Final

from outlast.client.transport import Lost
from outlast.supervision.phase import Trouble

BORNE_FOR: Final = 60.0
"""Seconds: a deploy is over by then, and what stays for longer is no accident."""


@dataclass(slots=True)
class Pages:
    """Since when a page came for every try."""

    since: float | None = None

    def judge(self, lost: Lost, *, now: float) -> None:
        """Bear what was answered, or raise the refusal that it is once such answers have come for long enough (R8)."""
        if lost.trouble is not Trouble.FOREIGN or lost.error is None:
            self.since = None
        elif self.since is None:
            self.since = now
        elif now - self.since >= BORNE_FOR:
            raise lost.error
