"""Keeps how far an application has taken its runs, so that it goes on there when it is started again.

Rules:
1. A place moves when the reader comes back for the next item. Who is killed gets again what it had not come back for,
   and what came in the last moment before; never is an event passed over that was not taken (R3).
2. Of a run that several read in the same way the place is the lowest of theirs; one who left before the end counts
   until another has begun there. Who says where to begin looks after that place itself: nothing is kept of it.
3. It is written as soon as it moves, but not more often than every `KEEP_EVERY`; and when its reader leaves.
4. A place that cannot be written costs events that come twice, no event and no reader: it is told in the log, and
   tried again.
5. Of a run that is gone nothing is kept.
"""

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from typing import Final, TypeAlias

from outlast.client.keeper import Keeper
from outlast.client.received import Received, ReceivedEvent
from outlast.errors import StoreError
from outlast.log.cursor import Cursor
from outlast.place import Place

KEEP_EVERY: Final = 0.25
"""Seconds between two writes: short commits, four a second at most, and a death repeats what came in one."""
RETRY_EVERY: Final = 2.0
"""Seconds before places are written again that could not be: a full disk is not emptied sooner."""

START: Final = Cursor(0, None)

Key: TypeAlias = tuple[str, str | None, str | None]

log = logging.getLogger("outlast.client")


class Mark:
    """How far one reader is, from `cursor` on; without a view nobody else wants to know."""

    def __init__(self, places: "Places", view: "_View | None", cursor: Cursor, *, over: bool = False) -> None:
        self._places = places
        self._view = view
        self.cursor = cursor
        self.over = over

    def take(self, received: Received) -> None:
        """Move behind what the reader has taken."""
        self.cursor = received.cursor
        self.over = received.is_terminal if isinstance(received, ReceivedEvent) else received.is_end
        if self._view is not None:
            self._places.note(self._view)

    async def forget(self) -> None:
        """Keep nothing of this run: it is gone."""
        view, self._view = self._view, None
        if view is not None:
            await self._places.forget(view)

    async def end(self) -> None:
        """Leave, and have written how far this was. Harmless twice."""
        view, self._view = self._view, None
        if view is not None:
            await self._places.leave(view, self)


class _View:
    """One way to read one run: who is reading it, and where one left whom nobody has followed yet."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.marks: set[Mark] = set()
        self.left: Mark | None = None

    @property
    def lowest(self) -> Mark:
        """The mark that is furthest behind."""
        return min([*self.marks, *filter(None, [self.left])], key=lambda mark: mark.cursor.seq)

    @property
    def place(self) -> Place:
        """Its place now."""
        lowest = self.lowest
        return self.at(lowest.cursor, over=lowest.over)

    def at(self, cursor: Cursor, *, over: bool = False) -> Place:
        """Return its place at a cursor."""
        run, owner, types = self.key
        return Place(run=run, owner=owner, types=types, cursor=cursor, over=over)


class Places:
    """The places of one client; without a keeper it keeps none."""

    def __init__(self, keeper: Keeper | None, server: str) -> None:
        self._keeper = keeper
        self._server = server
        self._views: dict[Key, _View] = {}
        self._moved: set[_View] = set()
        self._rung = asyncio.Event()
        self._writing = asyncio.Lock()
        self._failing = False

    # ---- for readers ------------------------------------------------------------------------

    async def begin(
        self, run: str, *, owner: str | None, types: Collection[str] | None, after: Cursor | str | None
    ) -> Mark:
        """Return the mark of a reader that begins: after `after`, or at the place that is kept.

        Raises `CursorInvalid`, and the keeper's errors.
        """
        if self._keeper is None or after is not None:
            return Mark(self, None, after if isinstance(after, Cursor) else Cursor.parse(after or ""))
        key = run, owner, None if types is None else ",".join(sorted(set(types)))
        if key not in self._views:
            new = _View(key)
            kept = await self._keeper.place(self._server, new.at(START))
            kept = kept or new.at(START)
            new.left = Mark(self, None, kept.cursor, over=kept.over)
            self._views.setdefault(key, new)  # another may have begun meanwhile
        view = self._views[key]
        mark = Mark(self, view, view.lowest.cursor, over=view.lowest.over)
        view.marks.add(mark)
        view.left = None
        return mark

    def note(self, view: _View) -> None:
        """Hear that a mark has moved; many times a second."""
        self._moved.add(view)
        self._rung.set()

    async def leave(self, view: _View, mark: Mark) -> None:
        """Let a mark go, and write what is kept of its view."""
        view.marks.discard(mark)
        if view.left is None or mark.cursor.seq < view.left.cursor.seq:
            view.left = mark
        self._moved.add(view)
        await self._write_or_tell()

    async def forget(self, view: _View) -> None:
        """Keep nothing of a run that is gone, however it was read."""
        self._moved.discard(view)
        self._views.pop(view.key, None)
        if self._keeper is not None:
            with suppress(StoreError):  # it goes by itself after a while
                await self._keeper.forget_place(self._server, view.at(START))

    # ---- for the client ---------------------------------------------------------------------

    async def run(self) -> None:
        """Write places as they move, until cancelled."""
        while True:
            await self._rung.wait()  # without a deadline: with nothing moved there is nothing to write
            self._rung.clear()
            written = await self._write_or_tell()
            await asyncio.sleep(KEEP_EVERY if written else RETRY_EVERY)

    async def end(self) -> None:
        """Write what is still to be written; from then on nothing is kept."""
        await self._write_or_tell()
        self._keeper = None

    # ---- inside -----------------------------------------------------------------------------

    async def _write_or_tell(self) -> bool:
        try:
            await self._write()
        except StoreError as error:
            if not self._failing:
                log.warning("how far runs were taken cannot be kept (%s)", error.code)
            self._failing = True
            self._rung.set()
            return False
        self._failing = False
        return True

    async def _write(self) -> None:
        """Write every place that has moved; a view that nobody reads any more is let go then."""
        async with self._writing:  # without a deadline: the keeper has one
            written = {view: view.place for view in self._moved}
            if not written or self._keeper is None:
                return
            await self._keeper.move(self._server, written.values())
            for view in [view for view, place in written.items() if view.place == place]:
                self._moved.discard(view)
                if not view.marks and self._views.get(view.key) is view:
                    del self._views[view.key]
