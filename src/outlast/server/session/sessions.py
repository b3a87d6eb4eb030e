"""The sessions of one node: how many there may be, and how all of them end when it closes.

A session takes a seat of its own, among sessions: one in which nothing is asked is not free, and one with a stream does
not cost two of the streams that its owner may have.
"""

from starlette.types import ASGIApp, Scope

from outlast.errors import Draining, InputInvalid
from outlast.server.seats import PER_NODE, PER_OWNER, Left, Seats
from outlast.server.session.handshake import Handshake
from outlast.server.session.multiplexer import Multiplexer
from outlast.wire.session import SUBPROTOCOL, Closing


class Sessions:
    """The sessions that are open; as many as there may be readers."""

    def __init__(self, *, per_owner: int = PER_OWNER, per_node: int = PER_NODE) -> None:
        self._seats = Seats(per_owner=per_owner, per_node=per_node, of="sessions")
        self._open: set[Multiplexer] = set()
        self._is_draining = False

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    def begin(self, app: ASGIApp, crowded: ASGIApp, handshake: Scope, *, owner: str, left: Left | None) -> ASGIApp:
        """Return the session of somebody who was let in, to be served at once.

        `app` answers its exchanges, `crowded` those that are too many in it.
        Raises `InputInvalid` for another wire, `Draining`, `TooMany`, `Capacity`.
        """
        if SUBPROTOCOL not in handshake.get("subprotocols", ()):
            raise InputInvalid(f"A session is opened with the subprotocol {SUBPROTOCOL}.")
        if self._is_draining:
            raise Draining("This node is closing: connect to another, or come again in a moment.")
        seat = self._seats.take(owner)
        session = Multiplexer(app, crowded, Handshake(handshake), seat, left=left, on_end=self._open.discard)
        self._open.add(session)
        return session

    def drain(self) -> None:
        """Take no new ones, and end each as soon as nothing is open in it. Harmless twice."""
        self._is_draining = True
        for session in tuple(self._open):
            session.drain()

    def close(self) -> None:
        """End all of them now. Harmless twice."""
        self.drain()
        for session in tuple(self._open):
            session.end(Closing.DRAINED)
