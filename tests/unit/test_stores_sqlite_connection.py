"""How a connection is opened, and which of our errors each error of SQLite is."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast.errors import (
    InputInvalid,
    OutlastError,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from outlast.stores.sqlite.checkpoint import Checkpointer
from outlast.stores.sqlite.connection import chained, connect, is_busy, translate
from tests.disk import behind, damage


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "some.db"
    with behind(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE t (x INTEGER NOT NULL)")
        connection.executemany("INSERT INTO t VALUES (?)", ((x,) for x in range(5000)))
        connection.execute("COMMIT")
    return path


# ---- real errors, each made the way it comes about ----


def held(path: Path) -> None:
    with behind(path) as other, behind(path) as connection:
        other.execute("BEGIN IMMEDIATE")
        connection.execute("BEGIN IMMEDIATE")


def full(path: Path) -> None:
    with behind(path) as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        connection.execute("INSERT INTO t SELECT x FROM t")


def read_only(path: Path) -> None:
    with behind(path) as connection:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("DELETE FROM t")


def no_database(path: Path) -> None:
    path.write_text("A letter to my aunt. " * 100)
    with behind(path) as connection:
        connection.execute("SELECT * FROM t")


def damaged(path: Path) -> None:
    damage(path)
    with behind(path) as connection:
        connection.execute("SELECT * FROM t").fetchall()


def contradicted(path: Path) -> None:
    with behind(path) as connection:
        connection.execute("INSERT INTO t VALUES (NULL)")


def no_folder(path: Path) -> None:
    with behind(path.parent / "nowhere" / "some.db"):
        pass


def closed(path: Path) -> None:
    connection = connect(path)
    connection.close()
    connection.execute("SELECT 1")


def wrong(path: Path) -> None:
    with behind(path) as connection:
        connection.execute("SELECT nothing FROM t")


def half_a_pair(path: Path) -> None:
    with behind(path) as connection:
        connection.execute("SELECT ?", ("\ud800",))


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (held, StoreBusy),
        (full, StoreFull),
        (read_only, StoreReadOnly),
        (no_database, StoreCorrupt),
        (damaged, StoreCorrupt),
        (contradicted, StoreCorrupt),
        (no_folder, StoreUnavailable),
        (closed, StoreUnavailable),
        (wrong, StoreUnavailable),
        (half_a_pair, InputInvalid),
    ],
)
def test_every_failure_of_sqlite_has_its_error(
    path: Path, cause: Callable[[Path], None], kind: type[OutlastError]
) -> None:
    with pytest.raises(Exception, match=r".") as raised:
        cause(path)
    told = chained(raised.value)
    assert type(told) is kind
    assert told.__cause__ is raised.value
    assert is_busy(raised.value) == (kind is StoreBusy)


def test_an_error_that_is_not_sqlites_stays_what_it_is() -> None:
    for error in (StoreFull("ours"), KeyError("anyone's")):
        assert translate(error) is error
        assert chained(error) is error
        assert error.__cause__ is None
        assert not is_busy(error)


def test_no_sentence_repeats_what_was_asked(path: Path) -> None:
    with behind(path) as connection, pytest.raises(sqlite3.Error) as raised:
        connection.execute("SELECT * FROM marker_from_outside")
    assert "marker" in str(raised.value)
    assert "marker" not in str(translate(raised.value))


# ---- a connection ----


def test_a_commit_makes_no_checkpoint_and_waits_for_no_disk(path: Path) -> None:
    connection = connect(path)
    try:
        assert connection.execute("PRAGMA wal_autocheckpoint").fetchone()[0] == 0
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 1  # NORMAL
        assert connection.isolation_level is None
    finally:
        connection.close()


def test_a_file_that_cannot_be_opened_leaves_no_connection_behind(tmp_path: Path) -> None:
    path = tmp_path / "letter"
    path.write_text("A letter to my aunt. " * 100)
    with pytest.raises(sqlite3.DatabaseError):
        connect(path).execute("SELECT 1 FROM sqlite_master")


def test_a_file_that_is_known_is_never_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "ä ?#%.db"
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        connect(path, known=True)
    assert not path.exists()
    connect(path).close()
    assert path.exists()
    connect(path, known=True).close()


def test_a_checkpointer_that_comes_late_makes_no_file(tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path / "x.db")
    checkpointer.start()
    checkpointer.close()
    assert not list(tmp_path.iterdir())
