"""Places in a file: how long one stays that nobody moves, and one that cannot be read."""

import sqlite3
from collections.abc import Iterator

import pytest

from outlast.errors import StoreCorrupt
from outlast.log.cursor import Cursor
from outlast.place import Place
from outlast.retention import Retention
from outlast.stores.sqlite.keep import places
from outlast.stores.sqlite.keep.file import SCHEMA
from outlast.stores.sqlite.keep.places import KEPT, KEPT_OVER
from outlast.stores.sqlite.migration import migrate
from tests.disk import behind

HERE = "http://here"


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with behind(":memory:") as connection:
        migrate(connection, SCHEMA)
        yield connection


def place(run: str, seq: int = 3, *, over: bool = False) -> Place:
    return Place(run=run, owner=None, types=None, cursor=Cursor(seq, b"12345678"), over=over)


@pytest.mark.parametrize(("over", "kept"), [(False, KEPT), (True, KEPT_OVER)])
def test_a_place_that_nobody_moves_goes_after_a_while_and_not_before(
    connection: sqlite3.Connection, *, over: bool, kept: float
) -> None:
    places.move(connection, HERE, [place("old", over=over)], now=1000.0)
    places.move(connection, HERE, [place("new")], now=1000.0 + kept)
    assert places.find(connection, HERE, place("old")) == place("old", over=over)
    places.move(connection, HERE, [place("new")], now=1000.1 + kept)
    assert places.find(connection, HERE, place("old")) is None
    assert places.find(connection, HERE, place("new")) == place("new")


def test_a_place_that_is_moved_stays(connection: sqlite3.Connection) -> None:
    for day in range(100):
        places.move(connection, HERE, [place("r1", day)], now=day * 86400.0)
    assert places.find(connection, HERE, place("r1")) == place("r1", 99)


def test_a_place_outlives_the_run_that_it_is_in() -> None:
    assert Retention().finished < KEPT_OVER < KEPT


@pytest.mark.parametrize("written", ["'yesterday'", "x'00'"])
def test_a_place_that_cannot_be_read_is_told(connection: sqlite3.Connection, written: str) -> None:
    places.move(connection, HERE, [place("r1")], now=0.0)
    connection.execute(f"UPDATE places SET cursor = {written}")
    with pytest.raises(StoreCorrupt, match="follow the run from one of your own"):
        places.find(connection, HERE, place("r1"))
