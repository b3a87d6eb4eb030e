"""A thousand clients of a server that restarts: when each of them comes back, second by second, for docs/busy.md.

`python -m tests.simulation.herd` writes the histogram anew; test_herd.py compares it with what it measures.
"""

import heapq
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from outlast.supervision.commands import Command, Open
from outlast.supervision.inputs import Drained, Failed, Input, Lost, Ready, Tick, Want
from outlast.supervision.link import Link
from outlast.supervision.phase import Trouble
from outlast.supervision.profile import STANDARD, Profile
from outlast.supervision.step import step

PAGE = Path(__file__).parents[2] / "docs" / "busy.md"
BLOCK = re.compile(r"(<!-- measured: herd -->\n).*?(<!-- end -->)", re.DOTALL)
CLIENTS = 1000
SPREAD = 10.0
"""Seconds over which the server asks its clients to come back."""
TOLD = 60.0
"""When it asks: every link has lived for a minute."""
ENDS = 2.0
"""Seconds after it said so when every connection ends."""
SEED = 7
SHOWN = 30
"""Seconds of the histogram."""
WIDTH = 60
"""Columns of the longest bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Herd:
    """When clients tried, in seconds since the server said that it goes, by how often they had tried before."""

    attempts: tuple[tuple[float, int], ...]

    def buckets(self, tried: int | None = None) -> Counter[int]:
        """Return how many attempts fell into each second: all of them, or those after so many failures."""
        return Counter(int(at) for at, before in self.attempts if tried in {None, before})


class Crowd:
    """Clients on one virtual clock, each with a machine of its own, against a server that is away for a while."""

    def __init__(self, *, away: float, seed: int, profile: Profile) -> None:
        self._back = TOLD + ENDS + away
        self._dice = random.Random(seed)
        self._links = [Link(profile=profile) for _ in range(CLIENTS)]
        self._tries: Counter[int] = Counter()
        self._due: list[tuple[float, int]] = []
        self._attempts: list[tuple[float, int]] = []

    def run(self) -> Herd:
        """Let the server say that it goes, end every connection, and be back; until every client is."""
        for client, _ in enumerate(self._links):
            self._tell(client, Want(), now=0.0)
            self._tell(client, Ready(attempt=1), now=0.0)
            self._tell(client, Drained(link=1, spread=SPREAD), now=TOLD)
        waiting = {client: Lost(link=1, trouble=Trouble.ENDED) for client, _ in enumerate(self._links)}
        while self._due and any(link.generation == 1 for link in self._links):
            at, client = heapq.heappop(self._due)
            if at >= TOLD + ENDS and waiting:
                for left, lost in waiting.items():
                    self._tell(left, lost, now=TOLD + ENDS)
                waiting = {}
            if self._links[client].generation == 1 and self._links[client].deadline == at:
                self._answer(client, self._tell(client, Tick(), now=at), now=at)
        return Herd(attempts=tuple(self._attempts))

    def _answer(self, client: int, commands: tuple[Command, ...], *, now: float) -> None:
        for command in commands:
            if not isinstance(command, Open):
                continue
            self._attempts.append((now - TOLD, self._tries[client]))
            self._tries[client] += 1
            number = command.attempt
            back = Ready(attempt=number) if now >= self._back else Failed(attempt=number, trouble=Trouble.UNREACHABLE)
            self._tell(client, back, now=now)

    def _tell(self, client: int, input: Input, *, now: float) -> tuple[Command, ...]:
        self._links[client], commands = step(self._links[client], input, now=now, jitter=self._dice.random())
        deadline = self._links[client].deadline
        if deadline is not None:
            heapq.heappush(self._due, (deadline, client))
        return commands


def measure(*, away: float = 10.0, seed: int = SEED, profile: Profile = STANDARD) -> Herd:
    """Return when clients came back to a server that was away for so long."""
    return Crowd(away=away, seed=seed, profile=profile).run()


def histogram(herd: Herd) -> str:
    """Return the histogram as it stands in the docs: first attempts, and those after one failure or more."""
    return "\n".join(["```", *_bars(herd), "```"])


def _bars(herd: Herd) -> Iterator[str]:
    every, first = herd.buckets(), herd.buckets(0)
    scale = WIDTH / max(every.values())
    yield f"second  of {CLIENTS} clients (█ first attempt, ░ after a failure)"
    for second in range(SHOWN):
        early, late = first[second], every[second] - first[second]
        yield f"{second:6}  {every[second]:4} {'█' * round(early * scale)}{'░' * round(late * scale)}".rstrip()
    later = {second: count for second, count in every.items() if second >= SHOWN}
    yield f"{SHOWN}–{max(later)}  {sum(later.values()):4} together, at most {max(later.values())} in a second"


def printed(text: str, herd: Herd) -> str:
    """Return the page with the histogram as measured."""
    return BLOCK.sub(lambda block: f"{block[1]}{histogram(herd)}\n{block[2]}", text)


def main() -> str:
    """Write the histogram anew."""
    herd = measure()
    PAGE.write_text(printed(PAGE.read_text(encoding="utf-8"), herd), encoding="utf-8")
    return histogram(herd)


if __name__ == "__main__":
    sys.stdout.write(f"{main()}\n")
