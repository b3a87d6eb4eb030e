"""What keeps for a client over its death: the port, and the contract that whoever implements it passes.

Promises:
1.  **Durable before answered.** When a method returns, what it wrote survives the death of the process.
2.  **All or nothing.** A method that raises has written nothing, but for one that raises `StoreUnavailable`, of which
    that is unknown; each may then be called again with the same arguments.
3.  **Apart.** What is kept of one server is nothing to another, whatever the runs are called.
4.  **A key is one send.** A send is known by its server, owner, run and kind. Added again with the same content it is
    the one that is there, in whatever state; with another it is refused with `IdConflict`.
5.  **In order.** `next_send` is the oldest send without an answer, for as long as it has none.
6.  **Only forwards.** A send goes where `send.TRANSITIONS` leads, whoever asks: what came too late changes nothing.
7.  **Bounded.** What does not fit (`send.fits`) is refused with `OutboxFull`. What was accepted has no content and
    counts for nothing; what was rejected counts until it is forgotten, and is not forgotten by itself.
8.  **A place is what was last written.** Of each view of a run there is one. Those of long ago go by themselves.
9.  **One holds.** Of all processes, and all clients of one, at most one holds a server at a time. Who dies lets go.

Any method raises `StoreError`s.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from outlast.place import Place
from outlast.send import Kind, NewSend, Send


class Keeper(Protocol):
    """Keeps places and sends of any number of servers, each under a name."""

    @property
    def server(self) -> str | None:
        """What the server is to be called whose client this was given to; None for its url."""
        ...

    async def open(self) -> None:
        """Begin for one client more. Raises `SchemaNewer` and `StoreCorrupt` for what is not there to keep in."""
        ...

    async def close(self) -> None:
        """Let go, once for each `open`."""
        ...

    async def place(self, server: str, place: Place) -> Place | None:
        """Return the place that is kept of the run and view which `place` names; None when there is none."""
        ...

    async def move(self, server: str, moved: Collection[Place]) -> None:
        """Keep these places."""
        ...

    async def forget_place(self, server: str, place: Place) -> None:
        """Forget every view of the run which `place` names. Harmless twice."""
        ...

    async def add(self, server: str, new: NewSend) -> Send:
        """Queue a send behind all others. Raises `IdConflict`, `OutboxFull`."""
        ...

    async def sends(self, server: str) -> Sequence[Send]:
        """Return all sends, in order."""
        ...

    async def send(self, number: int) -> Send:
        """Return one as it is now. Raises `InputInvalid` when it is no longer kept."""
        ...

    async def find(self, server: str, kind: Kind, run: str, owner: str | None) -> Send | None:
        """Return the send of this key; None when there is none."""
        ...

    async def next_send(self, server: str) -> Send | None:
        """Return the oldest send without an answer."""
        ...

    async def mark_sent(self, send: Send) -> bool:
        """Note that it leaves now, and count the try; False when it has its answer, or is no longer kept."""
        ...

    async def settle(self, server: str, send: Send, *, code: str | None) -> None:
        """Note the answer to a send that was sent: accepted, or rejected with a code."""
        ...

    async def forget_send(self, send: Send) -> bool:
        """Delete a send that is queued or settled; False for one that may have arrived, and for none."""
        ...

    def hold(self, server: str) -> bool:
        """Become the one that sends to this server, unless another is."""
        ...

    def let_go(self, server: str) -> None:
        """Be that no longer. Harmless twice."""
        ...
