"""A run's log over HTTP: as a stream that stays, as one page now or soon, or as its snapshot."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Send

from outlast.errors import RunGone, StoreError, StoreUnavailable
from outlast.facts import Report, StoreTroubled
from outlast.log.cursor import Cursor
from outlast.log.event import JSON_TYPE, StoredEvent
from outlast.run import Run
from outlast.server.identity import Action
from outlast.server.intake import Intake
from outlast.server.readers import poll
from outlast.server.readers.hub import Hub
from outlast.server.readers.place import Place, locate
from outlast.server.readers.poll import Page, Waiting
from outlast.server.readers.reader import HEADERS, RETRY_AFTER_TROUBLE
from outlast.server.readers.snapshot import Snapshots
from outlast.server.readers.view import View
from outlast.server.routes.answer import SAFE, answer, knows
from outlast.server.routes.asked import Kind, address_of, cursor_of, kind_of, view_of, wants_stream
from outlast.server.routes.body import number
from outlast.server.routes.door import Door, RunDoor
from outlast.stores.base import LogStore
from outlast.wire import native, sse

PAGE: Final = 500
"""Events of a page, unless the request says otherwise."""
LARGEST_PAGE: Final = 1000
"""Events: as many as are read at once, so a page is one read of the store."""
LONGEST_WAIT: Final = 60
"""Seconds a page may wait for its first event: proxies cut what is silent for longer."""

_KEPT: Final = frozenset({"owner", "types"})
"""What of a query makes another snapshot."""


class Events:
    """Answers `GET /runs/{id}/events` and `/runs/{id}/snapshot`, and streams what was just started.

    `snapshots` are the node's: whoever else bridges a gap takes them from here, so that a head is folded once.
    """

    def __init__(self, intake: Intake, logs: LogStore, hub: Hub) -> None:
        self._intake = intake
        self._logs = logs
        self._hub = hub
        self.snapshots = Snapshots(logs)

    def doors(self) -> list[Door]:
        """Return the doors of this part."""
        return [
            RunDoor(
                method="GET",
                path="/runs/{id}/events",
                action=Action.READ,
                answer=self.read,
                when_busy=lambda request: busy() if wants_stream(request) else None,
            ),
            RunDoor(method="GET", path="/runs/{id}/snapshot", action=Action.READ, answer=self.snapshot),
        ]

    async def read(self, request: Request, owner: str) -> ASGIApp | Waiting:
        """Answer the stream, or one page of events, behind the request's cursor."""
        id = request.path_params["id"]
        return await self.tell(request, owner=owner, id=id, snapshot=_snapshot_url(request, id))

    async def tell(self, request: Request, *, owner: str, id: str, snapshot: str) -> ASGIApp | Waiting:
        """Answer from the log of this run; `snapshot` is the address of its snapshot."""
        if kind_of(request) is not Kind.STREAM:
            return await self._page(request, owner=owner, id=id, snapshot=snapshot)
        requested, view = cursor_of(request), view_of(request)
        loaded = await self._intake.load(owner=owner, id=id)
        return await self.stream(loaded.run, requested, view, snapshot=snapshot)

    async def start(
        self,
        request: Request,
        run: Run,
        *,
        status: int,
        headers: tuple[tuple[bytes, bytes], ...],
    ) -> ASGIApp:
        """Return the stream of a run that `request` has just started, which no trouble of the store takes back."""
        requested, view, snapshot = cursor_of(request), view_of(request), _snapshot_url(request, run.id)
        try:
            return await self.stream(run, requested, view, snapshot=snapshot, status=status, headers=headers)
        except StoreUnavailable:
            return busy(status=status, headers=headers)

    async def stream(
        self,
        run: Run,
        requested: Cursor,
        view: View,
        *,
        snapshot: str,
        status: int = 200,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> ASGIApp:
        """Return the stream of `run` behind `requested`; 204, which stops an EventSource, where nothing can follow."""
        place = await self._locate(run, requested, view, snapshot=snapshot)
        if place.is_end:
            return Response(status_code=HTTPStatus.NO_CONTENT, headers={"cache-control": "no-store"})
        return self._hub.reader(run, place, view=view, status=status, headers=headers)

    async def snapshot(self, request: Request, owner: str) -> ASGIApp:
        """Answer the fold of the log and its cursor, or 304 when the log stands where it stood."""
        return await self.tell_snapshot(request, owner=owner, id=request.path_params["id"])

    async def tell_snapshot(self, request: Request, *, owner: str, id: str) -> ASGIApp:
        """Answer the snapshot of this run's log."""
        view = view_of(request)
        loaded = await self._intake.load(owner=owner, id=id)
        log = loaded.run.log
        head = await self._logs.head(log)
        tag = f'"{native.snapshot_tag(head.cursor, view.types)}"'
        headers = {**SAFE, "etag": tag, "cache-control": "no-cache"}
        if knows(request, tag):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        if request.method == "HEAD":
            return Response(headers=headers, media_type=JSON_TYPE)
        parts = self.snapshots.folded(log, head)
        await anext(parts)  # a store in trouble says so before the answer has begun
        return Whole(_fold(parts, head.cursor, view), headers=headers, report=self._hub.report)

    async def _locate(self, run: Run, requested: Cursor, view: View, *, snapshot: str) -> Place:
        place = await locate(self._logs, run.log, requested)
        return await self.snapshots.bridge(run.log, place, view, url=snapshot)

    async def _page(self, request: Request, *, owner: str, id: str, snapshot: str) -> ASGIApp | Waiting:
        requested, view = cursor_of(request), view_of(request)
        limit = number(request, "limit", default=PAGE, most=LARGEST_PAGE)
        wait = number(request, "wait", default=0, most=LONGEST_WAIT)
        run = (await self._intake.load(owner=owner, id=id)).run
        place = await self._locate(run, requested, view, snapshot=snapshot)
        page = await poll.read(self._logs, run.log, place, view, limit=limit)
        if not wait or page.is_news or place.gap is not None or request.method == "HEAD":
            return _document(request, place, page)

        async def later(seconds: float) -> ASGIApp:
            found = await self._wait(request, run, place, view, page, limit=limit, seconds=seconds)
            return _document(request, place, found)

        return Waiting(seconds=wait, answer=later)

    async def _wait(
        self, request: Request, run: Run, place: Place, view: View, page: Page, *, limit: int, seconds: float
    ) -> Page:
        waiting = self._hub.poll(run, place.behind(page.next), view=view)
        await waiting.wait(request.receive, seconds)
        found = waiting.page(page, limit=limit)
        if found is not None:
            return found
        # The ring has gone on without us: it was a great deal at once, and the log has it.
        return await poll.read(self._logs, run.log, await locate(self._logs, run.log, page.next), view, limit=limit)


class Whole(StreamingResponse):
    """JSON that is sent while it is read; what cannot be read to its end is cut, so that nobody takes it for whole.

    A cut body lacks its last chunk, and is no JSON: a client notices, and comes again. It is no accident of ours: the
    store's trouble is a fact, and a run that is erased meanwhile is none.
    """

    def __init__(self, body: AsyncGenerator[bytes, None], *, headers: Mapping[str, str], report: Report) -> None:
        super().__init__(body, headers=headers, media_type=JSON_TYPE)
        self._report = report

    async def stream_response(self, send: Send) -> None:
        """Send the body, as far as it can be read."""
        try:
            await super().stream_response(send)
        except RunGone:
            pass
        except StoreError as error:
            self._report(StoreTroubled(during="snapshot", error=error.code))


def busy(*, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Response:
    """Return an event stream that says nothing but to come again: an EventSource that meets a 503 never does."""
    response = Response(sse.HELLO_COMMENT + native.retry_hint(RETRY_AFTER_TROUBLE), status)
    response.raw_headers += [*HEADERS, *headers]
    return response


def _document(request: Request, place: Place, page: Page) -> Response:
    """Return one page in the kind that was asked for."""
    gap = None if place.gap is None else native.gap_document(place.gap, place.bridge)
    lines = kind_of(request) is Kind.LINES
    body = (native.lines if lines else native.page)(
        page.lines, next=page.next, up_to_date=page.up_to_date, ended=page.ended, gap=gap
    )
    return answer(body, headers={"vary": "accept"}, media_type=Kind.LINES if lines else Kind.PAGE)


def _snapshot_url(request: Request, id: str) -> str:
    """Return where a client that asked this finds the snapshot it would be shown."""
    query = urlencode({name: value for name, value in request.query_params.items() if name in _KEPT})
    return address_of(request, f"/runs/{id}/snapshot{'?' if query else ''}{query}")


async def _fold(
    parts: AsyncGenerator[Sequence[StoredEvent], None], cursor: Cursor, view: View
) -> AsyncGenerator[bytes, None]:
    yield native.snapshot_head(cursor)
    comma = b""
    async for events in parts:
        lines = [native.event_json(stored) for stored in events if view.shows(stored.event.type)]
        if lines:
            yield comma + b",".join(lines)
            comma = b","
    yield native.SNAPSHOT_TAIL
