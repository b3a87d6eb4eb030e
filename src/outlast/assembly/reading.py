"""Reading runs in the host's own application: from its code, event by event, and for its own requests."""

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from outlast.client.received import Received, ReceivedEvent, ReceivedGap
from outlast.errors import InputInvalid
from outlast.log.cursor import Cursor
from outlast.log.event import StoredEvent, is_type
from outlast.server.intake import Intake
from outlast.server.readers.hub import Hub
from outlast.server.readers.place import locate
from outlast.server.readers.tap import Bridged
from outlast.server.readers.view import View
from outlast.server.routes.events import Events
from outlast.server.routes.handler import Handler
from outlast.server.seats import Seats
from outlast.stores.base import LogStore


class Reading:
    """Reads for a host while its node runs."""

    def __init__(self, intake: Intake, logs: LogStore, hub: Hub, seats: Seats) -> None:
        self.routes = Events(intake, logs, hub)
        self._intake = intake
        self._logs = logs
        self._hub = hub
        self._snapshots = self.routes.snapshots
        self._handler = Handler(self.routes, seats)

    async def response(self, request: Request, *, owner: str, id: str) -> Response:
        """Return the answer of `GET /runs/{id}/events` to a request of the host's."""
        return await self._handler.answer(request, owner=owner, id=id)

    async def events(
        self, *, owner: str, id: str, after: Cursor, types: Collection[str] | None
    ) -> AsyncGenerator[Received, None]:
        """Yield what is behind `after`, to the end of the log."""
        if types is not None and not all(map(is_type, types)):
            raise InputInvalid("`types` are types of events, such as {'text', 'run.restarted'}.")
        run = (await self._intake.load(owner=owner, id=id)).run
        place = await locate(self._logs, run.log, after)
        tap = self._hub.tap(run, place, view=View(types=None if types is None else frozenset(types)))
        async with aclosing(tap.flow(self._snapshots)) as flow:
            async for each in flow:
                yield _received(each)


def _received(each: Bridged | StoredEvent) -> Received:
    if isinstance(each, StoredEvent):
        return ReceivedEvent(cursor=each.cursor, event=each.event)
    return ReceivedGap(
        reason=each.gap.reason,
        requested=each.gap.requested,
        first=each.gap.first,
        cursor=each.cursor,
        snapshot=tuple(ReceivedEvent(cursor=stored.cursor, event=stored.event) for stored in each.events),
    )
