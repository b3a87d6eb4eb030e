"""Lets one request in: who asks, whose runs are meant, whether that is allowed, and whether there is room to stay.

Rules:
1. `?owner=` names another's runs; without it one's own are meant. Only `authorize` can open that way.
2. What may not be seen is answered like what is not there: the same error, whatever the reason (A5, Z4).
3. The hook sees the run before the door does, and is asked again by every request: also by each resume of a stream.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.types import ASGIApp

from outlast.errors import NO_SUCH_RUN, Forbidden, Refusal, RunNotFound
from outlast.run import Run
from outlast.server.access import Access
from outlast.server.identity import Action, Identity
from outlast.server.readers.poll import Waiting
from outlast.server.seats import Left, Seats
from outlast.server.trouble import Trouble

RUN: Final = "/runs/{id}"
"""What the paths about one run begin with."""

Load: TypeAlias = Callable[[str, str], Awaitable[Run]]
"""Returns an owner's run by its id. Raises `RunNotFound`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Who was let in, and whose runs they asked for."""

    identity: Identity
    owner: str


class Entrance:
    """The one way in to the doors of a node; `trouble` is what those who came in met with the store."""

    def __init__(self, access: Access, load: Load, seats: Seats) -> None:
        self.origins = access.origins
        self.check_peer = access.check_peer
        self.identify = access.identify
        self.trouble = Trouble("request", access.report)
        self._access = access
        self._load = load
        self._seats = seats

    async def admit(self, request: Request, action: Action, *, path: str) -> Visitor:
        """Return who asks and for whose runs. Raises what `Access.identify` does, `RunNotFound`, `Forbidden`."""
        identity = await self._access.identify(request)
        owner = request.query_params.get("owner", identity.owner)
        if not path.startswith(RUN):
            if not await self._access.allows(identity, action, owner=owner, run=None):
                raise Forbidden("This application does not let you do this here.")
        elif not await self._may(identity, action, owner, request.path_params["id"]):
            raise RunNotFound(NO_SUCH_RUN)
        return Visitor(identity=identity, owner=owner)

    async def seat(self, answer: ASGIApp | Waiting, visitor: Visitor) -> ASGIApp:
        """Return `answer`; whoever stays takes a seat, for as long as the visitor may. Raises as `Seats.seat` does."""
        identity = visitor.identity
        return await self._seats.seat(answer, owner=identity.owner, left=self.left(identity))

    async def welcome(self, request: Request) -> Identity:
        """Return who opens a session. Raises what `Access.identify` does, also for a page of another origin."""
        self._access.check_page(request)
        return await self._access.identify(request)

    def left(self, identity: Identity) -> Left | None:
        """Return what tells for how long somebody may stay; None for as long as they like."""
        return None if identity.expires_at is None else partial(self._access.left, identity.expires_at)

    async def _may(self, identity: Identity, action: Action, owner: str, id: str) -> bool:
        if not self._access.asks:
            return identity.owner == owner  # the door looks by itself whether the run is there
        try:
            run = await self._load(owner, id)
        except RunNotFound:
            if action is not Action.STOP:  # the only one that is about runs which are not there yet
                raise
            run = None
        except Refusal:  # it was there once: the door says so to those who may know
            run = None
        return await self._access.allows(identity, action, owner=owner, run=run)
