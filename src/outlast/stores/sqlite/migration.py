"""Numbered migrations: which schema a file has, which this version knows, and how it gets from one to the other.

Rules:
1. A file is ours by its `application_id`, which says of which kind it is; its `user_version` is the number of the last
   migration applied. An empty file becomes ours; anything else, also of another kind, is left as it was found.
2. Each migration is one transaction that holds the file's lock from before the version is read, so of many processes
   that start at once one migrates and the others find it done.
3. A file that a newer version has migrated is refused: what is in it would be misread.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from outlast.errors import SchemaNewer, StoreCorrupt, StoreUnavailable

APPLICATION_ID: Final = int.from_bytes(b"Outl")
"""What `file` and SQLite's own list of formats can know our files by."""
OF_A_CLIENT: Final = int.from_bytes(b"Outk")
"""The same of the files in which clients keep what is theirs."""
KINDS: Final[Mapping[int, str]] = {
    APPLICATION_ID: "the store of an Outlast server",
    OF_A_CLIENT: "what a client of Outlast keeps",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of the schema: its number, what it is about, its SQL."""

    number: int
    name: str
    sql: str

    @property
    def statements(self) -> Iterator[str]:
        """The statements one by one; a trigger, which holds semicolons itself, is one."""
        statement = ""
        for line in self.sql.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                yield statement.strip()
                statement = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A kind of file: what a sentence calls it, its `application_id`, and its migrations in order."""

    name: str
    application_id: int
    migrations: Sequence[Migration]

    @property
    def newest(self) -> int:
        """The number of its last migration."""
        return self.migrations[-1].number


def read(folder: Path) -> tuple[Migration, ...]:
    """Return the migrations in a folder, a file each: `0001_its_name.sql`."""
    return tuple(_migration(file) for file in sorted(folder.iterdir(), key=lambda file: file.name))


def _migration(file: Path) -> Migration:
    number, _, name = file.name.removesuffix(".sql").partition("_")
    return Migration(number=int(number), name=name.replace("_", " "), sql=file.read_text(encoding="utf-8"))


MIGRATIONS: Final = read(Path(__file__).parent / "migrations")
NEWEST: Final = MIGRATIONS[-1].number
STORE: Final = Schema(name="The store's file", application_id=APPLICATION_ID, migrations=MIGRATIONS)


def script() -> str:
    """Return all migrations as one SQL script, for people who keep their schema themselves."""
    steps = [f"PRAGMA application_id = {APPLICATION_ID};\n"]
    steps += [
        f"-- {each.number}: {each.name}\n\n{each.sql.strip()}\n\nPRAGMA user_version = {each.number};\n"
        for each in MIGRATIONS
    ]
    return "\n".join(steps)


def migrate(connection: sqlite3.Connection, schema: Schema = STORE) -> None:
    """Bring the file to the newest schema this version knows, in WAL mode.

    Raises `SchemaNewer`, `StoreCorrupt` for a file that is not ours, and SQLite's errors; a file locked by another
    process that is migrating it is one of them, and then nothing was changed.
    """
    if version(connection, schema) == 0:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # only an empty file can still choose it
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode not in {"wal", "memory"}:
        raise StoreUnavailable(
            f"{schema.name} is on a file system without SQLite's WAL mode: put the file on a local disk."
        )
    for migration in schema.migrations[version(connection, schema) :]:
        _apply(connection, migration, schema)


def version(connection: sqlite3.Connection, schema: Schema = STORE) -> int:
    """Return the number of the last migration applied, 0 for an empty file. Raises `SchemaNewer`, `StoreCorrupt`."""
    # In this order another process that migrates in between is never mistaken for another application.
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    application_id = connection.execute("PRAGMA application_id").fetchone()[0]
    if application_id != schema.application_id:
        if application_id or found or tables:
            other = KINDS.get(application_id)
            what = f"is {other}" if other else "is an SQLite database, but not one of Outlast"
            raise StoreCorrupt(f"{schema.name} {what}: name another file.")
        return 0
    if found > schema.newest:
        raise SchemaNewer(
            f"{schema.name} has schema version {found}, and this version of Outlast knows none above {schema.newest}: "
            f"upgrade Outlast, or name another file."
        )
    return found


def _apply(connection: sqlite3.Connection, migration: Migration, schema: Schema) -> None:
    connection.execute("BEGIN EXCLUSIVE")
    try:
        if version(connection, schema) < migration.number:  # no other process was faster
            for statement in migration.statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {schema.application_id}")
            connection.execute(f"PRAGMA user_version = {migration.number}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
