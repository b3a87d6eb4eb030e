"""How a file becomes a store, which files do not, and what nobody may do to one, not even with a SQL prompt."""

import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from outlast.errors import SchemaNewer, StoreCorrupt
from outlast.run import TRANSITIONS, Status
from outlast.stores.sqlite.keep.file import SCHEMA
from outlast.stores.sqlite.migration import (
    APPLICATION_ID,
    MIGRATIONS,
    NEWEST,
    STORE,
    Migration,
    Schema,
    migrate,
    script,
    version,
)
from tests.disk import behind, heard, migrated, program, tell


def schema(connection: sqlite3.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}


# ---- migrating ----


def test_an_empty_file_becomes_a_store_in_wal_mode(tmp_path: Path) -> None:
    with behind(tmp_path / "x.db") as connection:
        assert version(connection) == 0
        migrate(connection)
        assert version(connection) == NEWEST
        assert connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA auto_vacuum").fetchone()[0] == 2  # INCREMENTAL: rooms can be given back
    assert (tmp_path / "x.db").read_bytes()[68:72] == b"Outl"


def test_migrating_again_changes_nothing(tmp_path: Path) -> None:
    with behind(tmp_path / "x.db") as connection:
        migrate(connection)
        before, changes = schema(connection), connection.execute("PRAGMA data_version").fetchone()[0]
        migrate(connection)
        with behind(tmp_path / "x.db") as other:
            migrate(other)
        assert schema(connection) == before
        assert connection.execute("PRAGMA data_version").fetchone()[0] == changes


def test_numbers_have_no_hole_and_begin_at_one() -> None:
    assert [migration.number for migration in MIGRATIONS] == list(range(1, NEWEST + 1))
    assert all(migration.name and "_" not in migration.name for migration in MIGRATIONS)


def test_the_printed_script_makes_the_same_schema() -> None:
    with migrated() as ours, behind(":memory:") as theirs:
        theirs.executescript(script())
        assert schema(theirs) == schema(ours)
        assert version(theirs) == NEWEST
        migrate(theirs)  # and there is nothing left to do


def test_a_migration_that_fails_halfway_leaves_nothing(tmp_path: Path) -> None:
    broken = Migration(number=1, name="broken", sql="CREATE TABLE a (x);\nCREATE TABLE a (x);\n")
    with behind(tmp_path / "x.db") as connection:
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, replace(STORE, migrations=(broken,)))
        assert not connection.in_transaction
        assert (schema(connection), version(connection)) == (set(), 0)


def test_a_file_of_every_earlier_version_opens_with_its_runs(tmp_path: Path) -> None:
    for number in range(1, NEWEST):
        with behind(tmp_path / f"{number}.db") as connection:
            for migration in MIGRATIONS[:number]:
                connection.executescript(migration.sql)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {number}")
            insert_run(connection, Status.QUEUED)
            connection.execute("INSERT INTO nodes (id, boot_id, until, renewed_at) VALUES ('n', 'b', 9, 4)")
            connection.execute("INSERT INTO inputs (run, input, metadata) SELECT number, '1', '{}' FROM runs")
            migrate(connection)
            assert version(connection) == NEWEST
            row = connection.execute("SELECT id, input, traceparent FROM run_rows").fetchone()
            assert tuple(row) == ("r1", "1", None)
            node = connection.execute("SELECT until, lag, workers, draining FROM nodes").fetchone()
            assert tuple(node) == (9, 0, None, 0)
            with migrated() as fresh:
                assert schema(connection) == schema(fresh)


@pytest.mark.behaviour("M2")
def test_each_store_has_an_identity_of_its_own_that_a_copy_keeps(tmp_path: Path) -> None:
    def identity(connection: sqlite3.Connection) -> str:
        (named,) = connection.execute("SELECT id FROM identity").fetchone()
        return str(named)

    with migrated() as one, migrated() as other, behind(tmp_path / "copy.db") as copy:
        assert len(identity(one)) == 24
        assert identity(one) != identity(other)
        one.backup(copy)
        migrate(copy)
        assert identity(copy) == identity(one)
        for change in ("UPDATE identity SET id = 'x'", "DELETE FROM identity"):
            with pytest.raises(sqlite3.IntegrityError, match="the one it is"):
                one.execute(change)


def test_a_trigger_with_semicolons_is_one_statement() -> None:
    trigger = "CREATE TRIGGER t BEFORE INSERT ON a\nBEGIN\n  SELECT 1;\n  SELECT 2;\nEND;"
    migration = Migration(number=1, name="", sql=f"-- of words\nCREATE TABLE a (x);\n\n{trigger}\n-- the end\n")
    assert list(migration.statements) == ["-- of words\nCREATE TABLE a (x);", trigger]


START = """
from outlast.stores.sqlite import SQLiteStore
async def main():
    say("ready")
    sys.stdin.readline()
    store = SQLiteStore(sys.argv[1])
    await store.open()
    say(str(await store.runs.list("ann", status=None, before=None, limit=1)))
    await store.close()
asyncio.run(main())
"""


def test_of_eight_processes_that_start_at_once_each_finds_the_store(tmp_path: Path) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(program(START, tmp_path / "x.db")) for _ in range(8)]
        assert [heard(process) for process in processes] == ["ready"] * 8
        for process in processes:
            tell(process, "go")
        assert [heard(process) for process in processes] == ["[]"] * 8
        assert [process.wait() for process in processes] == [0] * 8
    with behind(tmp_path / "x.db") as connection, migrated() as expected:
        assert schema(connection) == schema(expected)


def test_a_file_of_the_first_version_migrates_and_its_live_logs_know_what_counts(tmp_path: Path) -> None:
    with behind(tmp_path / "x.db") as connection:
        connection.executescript(MIGRATIONS[0].sql)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 1")
        for number, sealed in ((1, 0), (2, 1)):
            connection.execute(
                "INSERT INTO logs (number, id, seq, chain, bytes, opened_at, head_at) VALUES (?, ?, 3, x'00', 9, 0, 0)",
                (number, f"l{number}"),
            )
            for seq, type in enumerate(("run.started", "text", "run.restarted"), 1):
                connection.execute(
                    "INSERT INTO events VALUES (?, x'00', ?, 'application/json', 1, 0, ?)",
                    ((number << 32) + seq, type, b"x" * (seq + 1)),
                )
            connection.execute("UPDATE logs SET sealed = ? WHERE number = ?", (sealed, number))
        migrate(connection)
        with migrated() as expected:
            assert schema(connection) == schema(expected)
        counts = connection.execute("SELECT own_events, own_bytes FROM logs ORDER BY number").fetchall()
        assert [tuple(row) for row in counts] == [(2, 6), (0, 0)]


# ---- files that are not ours ----


def test_a_store_of_a_newer_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    with behind(tmp_path / "x.db") as connection:
        migrate(connection)
        connection.execute(f"PRAGMA user_version = {NEWEST + 2}")
        with pytest.raises(SchemaNewer, match=rf"version {NEWEST + 2}.* above {NEWEST}: upgrade Outlast"):
            migrate(connection)


@pytest.mark.parametrize("mark", ["CREATE TABLE aunts (name)", "PRAGMA user_version = 3", "PRAGMA application_id = 7"])
def test_a_database_of_another_application_is_refused_and_left_alone(tmp_path: Path, mark: str) -> None:
    with behind(tmp_path / "x.db") as connection:
        connection.execute(mark)
        before = (tmp_path / "x.db").read_bytes()
        with pytest.raises(StoreCorrupt, match="not one of Outlast"):
            migrate(connection)
    assert (tmp_path / "x.db").read_bytes() == before


@pytest.mark.parametrize(
    ("there", "wanted", "sentence"),
    [
        (STORE, SCHEMA, "The client's file is the store of an Outlast server: name another file"),
        (SCHEMA, STORE, "The store's file is what a client of Outlast keeps: name another file"),
    ],
    ids=["a server's", "a client's"],
)
def test_a_file_of_the_other_kind_is_refused_as_that_and_left_alone(
    tmp_path: Path, there: Schema, wanted: Schema, sentence: str
) -> None:
    with behind(tmp_path / "x.db") as connection:
        migrate(connection, there)
    before = (tmp_path / "x.db").read_bytes()
    with behind(tmp_path / "x.db") as connection:
        with pytest.raises(StoreCorrupt, match=sentence):
            migrate(connection, wanted)
        migrate(connection, there)
    assert (tmp_path / "x.db").read_bytes() == before


# ---- what nobody may do ----


def test_a_checkpoint_never_goes_back(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO checkpoints VALUES (1, 5, x'00')")
    with pytest.raises(sqlite3.IntegrityError, match="never goes back"):
        connection.execute("UPDATE checkpoints SET seq = 4")


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with migrated() as connection:
        yield connection


def insert_run(connection: sqlite3.Connection, status: Status, *, id: str = "r1", thread: str | None = None) -> None:
    """Put a run in, on whatever way leads to its status."""
    connection.execute(
        """INSERT INTO runs
        (owner, id, log, worker, thread, digest, status, epoch, claim, not_before, created_at, updated_at)
        VALUES ('ann', ?, 'log', 'chat', ?, x'00', 'queued', 3, 'c', 0, 0, 0)""",
        (id, thread),
    )
    ways = {
        Status.QUEUED: [],
        Status.PARKED: [Status.ACTIVE, Status.PARKED],
        Status.COMPLETED: [Status.ACTIVE, Status.COMPLETED],
    }
    for step in ways.get(status, [status]):
        move(connection, step)


def move(connection: sqlite3.Connection, status: Status) -> None:
    settled = 1.0 if status.is_terminal else None
    outcome = "{}" if status.is_terminal else None
    connection.execute("UPDATE runs SET status = ?, settled_at = ?, outcome = ?", (status, settled, outcome))


@pytest.mark.invariant("legal-transitions")
@pytest.mark.parametrize(("before", "after"), list(itertools.product(Status, Status)))
def test_a_run_moves_as_the_table_of_transitions_says(
    connection: sqlite3.Connection, before: Status, after: Status
) -> None:
    insert_run(connection, before)
    stays = before is after and not before.is_terminal
    if stays or after in TRANSITIONS[before].values():
        move(connection, after)
        assert connection.execute("SELECT status FROM runs").fetchone()[0] == after
    else:
        with pytest.raises(sqlite3.IntegrityError):
            move(connection, after)
        assert connection.execute("SELECT status FROM runs").fetchone()[0] == before


@pytest.mark.parametrize("terminal", [status for status in Status if status.is_terminal])
@pytest.mark.parametrize("change", ["epoch = 9, claim = 'd'", "updated_at = 5", "result = x'01'", "life = 9"])
def test_nothing_of_a_settled_run_changes(connection: sqlite3.Connection, terminal: Status, change: str) -> None:
    insert_run(connection, terminal)
    with pytest.raises(sqlite3.IntegrityError, match="settled"):
        connection.execute(f"UPDATE runs SET {change}")


@pytest.mark.parametrize(
    "change",
    [
        "epoch = 2",
        "claim = 'another'",
        "claim = NULL",
        "life = 0",
        "handoffs = 0",
        "calls = 0",
        "waits = 0",
    ],
)
def test_an_epoch_or_a_counter_for_life_never_falls(connection: sqlite3.Connection, change: str) -> None:
    insert_run(connection, Status.ACTIVE)
    connection.execute("UPDATE runs SET life = 1, handoffs = 1, calls = 1, waits = 1")
    with pytest.raises(sqlite3.IntegrityError, match="never falls"):
        connection.execute(f"UPDATE runs SET {change}")


@pytest.mark.behaviour("B12")
@pytest.mark.parametrize("counter", ["epoch", "life", "handoffs", "calls", "waits"])
@pytest.mark.parametrize("value", ["-1", "'many'", "4.5", "NULL"])
def test_a_counter_for_life_is_a_count(connection: sqlite3.Connection, counter: str, value: str) -> None:
    insert_run(connection, Status.ACTIVE)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(f"UPDATE runs SET {counter} = {value}")


@pytest.mark.parametrize(
    "change",
    [
        "status = 'completed'",
        "settled_at = 1",
        "outcome = '{}'",
        "status = 'completed', outcome = '{}'",
        "status = 'completed', settled_at = 1, outcome = '{}', holder = 'n'",
    ],
)
def test_an_outcome_comes_whole_or_not_at_all(connection: sqlite3.Connection, change: str) -> None:
    insert_run(connection, Status.ACTIVE)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(f"UPDATE runs SET {change}")


def test_a_run_is_not_born_in_the_middle_of_its_life(connection: sqlite3.Connection) -> None:
    insert_run(connection, Status.QUEUED)
    for status in set(Status) - {Status.QUEUED, Status.CANCELLED}:
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(
                """INSERT INTO runs (owner, id, log, worker, digest, status, not_before, created_at, updated_at,
                settled_at, outcome) SELECT owner, 'r2', 'log2', worker, digest, ?, 0, 0, 0, ?, ? FROM runs""",
                (status, 1.0 if status.is_terminal else None, "{}" if status.is_terminal else None),
            )


def test_replace_is_no_way_around(connection: sqlite3.Connection) -> None:
    insert_run(connection, Status.CANCELLED)
    columns = "owner, id, log, worker, digest, not_before, created_at, updated_at"
    for number in (None, 1):
        with pytest.raises(sqlite3.IntegrityError, match="begins once"):
            connection.execute(
                f"REPLACE INTO runs (number, status, {columns}) SELECT ?, 'queued', {columns} FROM runs", (number,)
            )


def test_a_thread_has_one_live_run(connection: sqlite3.Connection) -> None:
    insert_run(connection, Status.QUEUED, thread="t")
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        insert_run(connection, Status.QUEUED, id="r2", thread="t")
    move(connection, Status.CANCELLED)
    insert_run(connection, Status.QUEUED, id="r2", thread="t")


# ---- what nobody may do to a log ----


@pytest.fixture
def log(connection: sqlite3.Connection) -> sqlite3.Connection:
    """A log at seq 2 with a fence."""
    connection.execute("INSERT INTO logs (number, id, chain, opened_at, head_at) VALUES (7, 'log', x'00', 0, 0)")
    connection.execute("UPDATE logs SET seq = 2, fence_epoch = 3, fence_claim = 'c'")
    connection.executemany("INSERT INTO events VALUES (7 << 32 | ?, x'00', 'text', 'a/b', 3, 0, x'')", [(1,), (2,)])
    return connection


ATTACKS = [
    ("seq = 1", "never falls"),
    ("fence_epoch = 2", "never falls"),
    ("fence_claim = 'd'", "one claim"),
    ("fence_claim = NULL", "one claim"),
    ("seq = 4294967296", "CHECK"),
    ("seq = -1", "falls|CHECK"),
]


@pytest.mark.parametrize(("change", "words"), ATTACKS)
def test_a_head_and_a_fence_never_fall(log: sqlite3.Connection, change: str, words: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match=words):
        log.execute(f"UPDATE logs SET {change}")


@pytest.mark.invariant("one-terminal")
def test_nothing_follows_the_terminal_event(log: sqlite3.Connection) -> None:
    log.execute("UPDATE logs SET sealed = 1")
    for attack in (
        "INSERT INTO events VALUES (7 << 32 | 3, x'00', 'text', 'a/b', 3, 0, x'')",
        "REPLACE INTO events VALUES (7 << 32 | 2, x'00', 'text', 'a/b', 3, 0, x'')",
        "UPDATE logs SET seq = 3",
        "UPDATE logs SET sealed = 0",
        "UPDATE logs SET fence_epoch = 9, fence_claim = 'd'",
        "REPLACE INTO logs (number, id, chain, opened_at, head_at) VALUES (7, 'log', x'00', 0, 0)",
        "REPLACE INTO logs (number, id, chain, opened_at, head_at) VALUES (8, 'log', x'00', 0, 0)",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            log.execute(attack)


def test_what_was_said_stays_said(log: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="said"):
        log.execute("UPDATE events SET data = x'01'")
