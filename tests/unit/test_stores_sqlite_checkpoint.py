"""Checkpoints come from a thread: when enough was written, and at the end; never from a commit."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.stores.sqlite import checkpoint
from outlast.stores.sqlite.checkpoint import PAGE, WAKE_BYTES, Checkpointer
from outlast.stores.sqlite.connection import connect

WITHIN = 30.0  # real seconds for something that happens at once


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.db"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    connection = connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (x)")
    yield connection
    connection.close()


def rows_in_the_file(path: Path) -> int:
    """Count the rows that are in the file itself, not in its WAL."""
    alone = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
    try:
        return int(alone.execute("SELECT count(*) FROM t").fetchone()[0])
    except sqlite3.OperationalError:  # not even the table
        return 0
    finally:
        alone.close()


def test_a_commit_makes_no_checkpoint_and_the_end_makes_one(path: Path, connection: sqlite3.Connection) -> None:
    checkpointer = Checkpointer(path)
    checkpointer.start()
    connection.execute("INSERT INTO t VALUES (1)")
    checkpointer.wrote(1, 1)
    assert rows_in_the_file(path) == 0
    checkpointer.close()
    assert rows_in_the_file(path) == 1


def test_enough_written_makes_a_checkpoint(
    path: Path, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()
    names: list[str] = []

    def and_tell(connection: sqlite3.Connection) -> None:
        make(connection)
        names.append(threading.current_thread().name)
        done.set()

    make = checkpoint.checkpoint
    monkeypatch.setattr(checkpoint, "checkpoint", and_tell)
    checkpointer = Checkpointer(path)
    checkpointer.start()
    connection.execute("INSERT INTO t VALUES (1)")
    for _ in range(WAKE_BYTES // (2 * PAGE) - 1):
        checkpointer.wrote(1, 0)
    assert not done.is_set()
    checkpointer.wrote(1, 0)
    assert done.wait(WITHIN)
    assert rows_in_the_file(path) == 1
    checkpointer.close()
    assert set(names) == {"outlast-checkpoint"}


def test_one_large_event_counts_by_its_bytes(path: Path, connection: sqlite3.Connection) -> None:
    checkpointer = Checkpointer(path)
    checkpointer.wrote(1, WAKE_BYTES // 2)
    assert checkpointer._wake.is_set()


@pytest.mark.parametrize(("long", "modes"), [(10_000, ["PASSIVE"]), (1, ["PASSIVE", "RESTART"])])
def test_a_wal_that_has_grown_long_begins_again(
    path: Path, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, long: int, modes: list[str]
) -> None:
    monkeypatch.setattr(checkpoint, "LONG_WAL", long)
    other = connect(path)
    asked: list[str] = []
    other.set_trace_callback(asked.append)
    checkpoint.checkpoint(other)
    other.close()
    assert asked == [f"PRAGMA wal_checkpoint({mode})" for mode in modes]


def test_a_writer_in_the_middle_is_no_trouble(
    path: Path, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "LONG_WAL", 1)
    other = connect(path)
    connection.execute("INSERT INTO t VALUES (1)")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO t VALUES (2)")
    checkpoint.checkpoint(other)
    connection.execute("COMMIT")
    assert rows_in_the_file(path) == 1
    checkpoint.checkpoint(other)
    other.close()
    assert rows_in_the_file(path) == 2


def test_a_file_that_cannot_be_opened_ends_the_thread_in_silence(tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path / "nowhere" / "x.db")
    checkpointer.start()
    checkpointer.close()


def test_an_error_is_left_to_whoever_needs_the_file(path: Path, connection: sqlite3.Connection) -> None:
    closed = connect(path)
    closed.close()
    checkpoint.checkpoint(closed)
