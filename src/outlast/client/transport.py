"""What a supervisor needs of a way to connect, and what goes wrong on every such way.

Below the supervisor nothing connects anew: an attempt is one attempt, a stream one stream, and what ends them is told
in one of two ways: `Lost`, which another try may cure, or an error of `outlast.errors`, which none will.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from outlast.errors import OutlastError
from outlast.log.cursor import Cursor
from outlast.log.event import JSON
from outlast.supervision.phase import Grade, Trouble
from outlast.wire.sse import Message


class Lost(Exception):
    """Something is lost for a reason that another try may cure; not before `pause` seconds.

    A `trouble` that blocks needs something to change first; `error` then says what for people.
    """

    def __init__(self, trouble: Trouble, *, pause: float = 0.0, error: OutlastError | None = None) -> None:
        super().__init__(trouble)
        self.trouble = trouble
        self.pause = pause
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """Who answers: `boot_id` names one life of one process; `heartbeat` is in seconds, `beacon` a port of its host.

    `peer` is the address from which it was asked, as it sees that: our own, where nothing stands between. `store` names
    the store it speaks for, whose runs are the same from every node on it; older servers tell none.
    """

    boot_id: str
    heartbeat: float | None = None
    beacon: int | None = None
    peer: str | None = None
    store: str | None = None


class Stream(Protocol):
    """One stream of one run's log."""

    @property
    def pause(self) -> float:
        """Seconds that the stream asked its readers to wait before they come again; 0 when it did not."""
        ...

    async def open(self, cursor: Cursor) -> bool:
        """Ask for everything after `cursor`; False when nothing more will ever come. Raises `Lost`, a `Refusal`."""
        ...

    async def receive(self) -> Sequence[Message]:
        """Return the frames that the next bytes complete, maybe none. Raises `Lost` and `FrameTooLarge`.

        Without a deadline: whoever supervises the stream interrupts it.
        """
        ...

    async def snapshot(self) -> bytes:
        """Fetch the snapshot of the log, beside the stream. Raises `Lost`."""
        ...

    def interrupt(self, trouble: Trouble) -> None:
        """Let `receive` raise `Lost` with this trouble, now or when it is called next."""
        ...

    async def close(self) -> None:
        """Let go of the stream. Harmless twice."""
        ...


class Connection(Protocol):
    """An established link to one node."""

    @property
    def greeting(self) -> Greeting:
        """Who answers."""
        ...

    async def greet(self) -> None:
        """Ask who is there, and whether we may come in. Raises `Lost`."""
        ...

    async def probe(self) -> str | None:
        """Return once the node has answered whether it is there; raises `Lost` when there is nobody to answer.

        Returns the store that the answer names, None where it names none.
        """
        ...

    async def look(self, tell: Callable[[Grade], None], deny: Callable[[], None]) -> None:
        """Tell each thing that speaks for the node while it does not answer, and deny it where one speaks against it.

        Takes less than a triage, and never raises.
        """
        ...

    async def ask(self, method: str, path: str, said: JSON = None) -> JSON:
        """Return the answer to a request. Raises `Lost` when there was none, and the `Refusal` that it was."""
        ...

    def stream(self, run: str, *, owner: str | None, types: str | None) -> Stream:
        """Return a stream of a run's log, not yet open."""
        ...

    async def close(self) -> None:
        """Let go of everything. Harmless twice."""
        ...


class Transport(Protocol):
    """One way to connect to a server."""

    async def connect(self, attempt: int) -> Connection:
        """Return a connection over which the server has spoken. Raises `Lost`. The caller bounds it in time."""
        ...
