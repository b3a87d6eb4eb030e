"""A run's log over HTTP: as a stream that stays, or as one page, as the request's `Accept` says."""

import re
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from outlast.errors import StoreUnavailable
from outlast.log.cursor import Cursor
from outlast.run import Run
from outlast.server.hub import Hub
from outlast.server.identity import Action
from outlast.server.intake import Intake
from outlast.server.place import locate
from outlast.server.reader import HEADERS, RETRY_AFTER_TROUBLE
from outlast.server.routes.answer import answer
from outlast.server.routes.body import number
from outlast.server.routes.door import Door, RunDoor
from outlast.stores.base import LogStore
from outlast.wire import native, sse

STREAM: Final = "text/event-stream"
PAGE: Final = 500
"""Events of a page, unless the request says otherwise."""
LARGEST_PAGE: Final = 1000
PAGE_BYTES: Final = 1024 * 1024
"""Bytes of payload after which a page ends: what a client can hold twice without thinking."""

_REFUSED: Final = re.compile(r"\s*q=0(\.0*)?\s*", re.IGNORECASE)


class Events:
    """Answers `GET /runs/{id}/events`, and streams what was just started."""

    def __init__(self, intake: Intake, logs: LogStore, hub: Hub) -> None:
        self._intake = intake
        self._logs = logs
        self._hub = hub

    def doors(self) -> list[Door]:
        """Return the doors of this part."""
        return [
            RunDoor(
                method="GET",
                path="/runs/{id}/events",
                action=Action.READ,
                answer=self.read,
                when_busy=lambda request: busy() if wants_stream(request) else None,
            )
        ]

    async def read(self, request: Request, owner: str) -> ASGIApp:
        """Answer the stream or one page of events behind the request's cursor."""
        if not wants_stream(request):
            return await self._page(request, owner)
        requested = cursor_of(request)
        try:
            loaded = await self._intake.load(owner=owner, id=request.path_params["id"])
        except StoreUnavailable:
            return busy()
        return await self.stream(loaded.run, requested)

    async def stream(
        self, run: Run, requested: Cursor, *, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> ASGIApp:
        """Return the stream of `run` behind `requested`; 204, which stops an EventSource, where nothing can follow."""
        try:
            place = await locate(self._logs, run.log, requested)
        except StoreUnavailable:
            return busy(status=status, headers=headers)
        if place.is_end:
            return Response(status_code=HTTPStatus.NO_CONTENT, headers={"cache-control": "no-store"})
        return self._hub.reader(run, place, status=status, headers=headers)

    async def _page(self, request: Request, owner: str) -> ASGIApp:
        requested = cursor_of(request)
        limit = number(request, "limit", default=PAGE, most=LARGEST_PAGE)
        loaded = await self._intake.load(owner=owner, id=request.path_params["id"])
        log = loaded.run.log
        place = await locate(self._logs, log, requested)
        head = place.head.cursor
        events = await self._logs.read(log, after=place.after, limit=limit, max_bytes=PAGE_BYTES)
        next = events[-1].cursor if events else head
        up_to_date = next.seq >= head.seq
        ended = up_to_date and place.head.sealed
        body = native.page(events, next=next, up_to_date=up_to_date, ended=ended, gap=place.gap)
        return answer(body, headers={"vary": "accept"})


def wants_stream(request: Request) -> bool:
    """Say whether the request accepts an event stream by name; `*/*` gets JSON, and HEAD never a stream."""
    ranges = [part.partition(";") for accept in request.headers.getlist("accept") for part in accept.split(",")]
    named = any(kind.strip().lower() == STREAM and not _REFUSED.fullmatch(weight) for kind, _, weight in ranges)
    return named and request.method != "HEAD"


def cursor_of(request: Request) -> Cursor:
    """Return the cursor of a request; `Last-Event-ID` beats `?after=`, since an EventSource repeats its URL.

    Raises `CursorInvalid`.
    """
    return Cursor.parse(request.headers.get("last-event-id") or request.query_params.get("after", ""))


def busy(*, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Response:
    """Return an event stream that says nothing but to come again: an EventSource that meets a 503 never does."""
    response = Response(sse.HELLO_COMMENT + native.retry_hint(RETRY_AFTER_TROUBLE), status)
    response.raw_headers += [*HEADERS, *headers]
    return response
