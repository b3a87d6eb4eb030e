"""Places: a row for each run, or view of one, that an application takes events of."""

import sqlite3
from collections.abc import Collection
from typing import Final

from outlast.errors import CursorInvalid, StoreCorrupt
from outlast.log.cursor import Cursor
from outlast.place import Place
from outlast.stores.sqlite.statement import load

MOVE_PLACE: Final = load("move_place")

KEPT: Final = 30 * 86400.0
"""Seconds since a place was moved last: no run is live for longer, and whoever comes later reads it from its start."""
KEPT_OVER: Final = 8 * 86400.0
"""The same of a run that was taken to its end: a day longer than servers keep one."""


def find(connection: sqlite3.Connection, server: str, place: Place) -> Place | None:
    """Return the place that is kept of the same run and view."""
    row = connection.execute(
        "SELECT * FROM places WHERE server = :server AND owner = :owner AND run = :run AND types = :types",
        _key(server, place),
    ).fetchone()
    if row is None:
        return None
    try:
        cursor = Cursor.parse(row["cursor"])
    except (CursorInvalid, TypeError) as error:
        raise StoreCorrupt("A place in the client's file is no cursor: follow the run from one of your own.") from error
    return Place(run=place.run, owner=place.owner, types=place.types, cursor=cursor, over=bool(row["over"]))


def move(connection: sqlite3.Connection, server: str, places: Collection[Place], *, now: float) -> None:
    """Write how far these are by now, and forget those of long ago."""
    for place in places:
        asked = {**_key(server, place), "cursor": str(place.cursor), "over": place.over, "now": now}
        connection.execute(MOVE_PLACE, asked)
    for over, kept in ((0, KEPT), (1, KEPT_OVER)):
        connection.execute("DELETE FROM places WHERE over = ? AND moved_at < ?", (over, now - kept))


def forget(connection: sqlite3.Connection, server: str, place: Place) -> None:
    """Forget every view of a run."""
    connection.execute(
        "DELETE FROM places WHERE server = :server AND owner = :owner AND run = :run", _key(server, place)
    )


def _key(server: str, place: Place) -> dict[str, object]:
    return {"server": server, "owner": place.owner or "", "run": place.run, "types": place.types or ""}
