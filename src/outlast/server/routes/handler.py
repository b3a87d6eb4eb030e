"""Answers a request that came to a handler of the host's own application with the log of one run.

Rules:
1. Who may see the run is the handler's to decide: nothing here asks `authenticate` or `authorize`.
2. It is the answer of `GET /runs/{id}/events` in all its kinds, and refusals are told as problems in the same way.
3. The snapshot behind a large gap is at the handler's own address, under `?snapshot=1`: the handler has no other.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast.errors import OutlastError
from outlast.server.routes.asked import wants_stream
from outlast.server.routes.events import Events, busy
from outlast.server.routes.problem import is_passing, problem
from outlast.server.seats import Seats

SNAPSHOT: Final = "snapshot"
"""The parameter that asks for the snapshot instead of events."""

_PLACES: Final = frozenset({"after", "wait", "limit", "envelope"})
"""What of a query is about events alone."""


class Handler:
    """Answers in the host's handlers; their readers take seats like all others."""

    def __init__(self, events: Events, seats: Seats) -> None:
        self._events = events
        self._seats = seats

    async def answer(self, request: Request, *, id: str, owner: str) -> Response:
        """Return the response for an owner's run."""
        try:
            found = await self._answer(request, id=id, owner=owner)
        except OutlastError as error:
            return busy() if wants_stream(request) and is_passing(error) else problem(error)
        return found if isinstance(found, Response) else Streamed(found)

    async def _answer(self, request: Request, *, id: str, owner: str) -> ASGIApp:
        if request.query_params.get(SNAPSHOT) == "1":
            return await self._events.tell_snapshot(request, id=id, owner=owner)
        found = await self._events.tell(request, id=id, owner=owner, snapshot=_address(request))
        return await self._seats.seat(found, owner=owner)


class Streamed(Response):
    """An answer that streams, as the kind of response that frameworks let through; further headers go along."""

    def __init__(self, stream: ASGIApp) -> None:
        self.status_code = 200
        self.background: BackgroundTask | None = None
        self.body = b""
        self.raw_headers: list[tuple[bytes, bytes]] = []
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream; then do what the framework keeps for afterwards."""

        async def send_along(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *self.raw_headers]}
            await send(message)

        await self._stream(scope, receive, send_along)
        if self.background is not None:
            await self.background()


def _address(request: Request) -> str:
    """Return where a client that asked this finds the snapshot it would be shown."""
    kept: Mapping[str, str] = {name: value for name, value in request.query_params.items() if name not in _PLACES}
    return f"{quote(request.scope['path'])}?{urlencode({**kept, SNAPSHOT: '1'})}"
