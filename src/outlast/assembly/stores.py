"""From a URL to a store."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from outlast.errors import SettingsError, StoreUnavailable
from outlast.stores.base import Node, Store
from outlast.stores.sqlite import SQLiteStore
from outlast.stores.sqlite.inspection import Engine, Place, bring_up, engine, place, schema_of
from outlast.stores.sqlite.migration import NEWEST, script


def open_store(url: str, *, durability: str) -> Store:
    """Return the store that `url` names, not opened yet.

    `sqlite:///runs.db` is a file relative to the working folder, `sqlite:////var/lib/runs.db` an absolute path,
    `sqlite://` memory. Raises `SettingsError`.
    """
    return SQLiteStore(path_of(url), durability=cast("Literal['process', 'power']", durability))


def path_of(url: str) -> Path | None:
    """Return the file that a store's URL names, None for memory. Raises `SettingsError`."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme != "sqlite" or (rest and not rest.startswith("/")):
        raise SettingsError(
            "The store's URL is 'sqlite:///runs.db' for a file here, 'sqlite:////path/runs.db' for an absolute "
            "path, or 'sqlite://' for memory."
        )
    if "?" in rest:
        raise SettingsError(
            "The store's URL takes no options after a '?': durability and the like are settings of their own."
        )
    path = rest.removeprefix("/")
    if rest and not path:
        raise SettingsError("The store's URL ends where the file's name should be: 'sqlite:///runs.db'.")
    return Path(path) if path else None


def file_of(url: str) -> Path:
    """Return the file that a store's URL names. Raises `SettingsError`, also for memory."""
    path = path_of(url)
    if path is None:
        raise SettingsError("A store in memory lives in the process that serves it: name a file.")
    return path


@asynccontextmanager
async def open_existing(url: str) -> AsyncGenerator[Store]:
    """Open a store that is there, as it is: none is made, none is migrated. Raises `SettingsError`, `StoreError`."""
    path = file_of(url)
    if not path.is_file():
        raise StoreUnavailable(f"There is no store at {path.absolute()}.")
    found = schema_of(path)
    if found < NEWEST:
        raise StoreUnavailable(
            f"The store has schema version {found}, and this version of Outlast reads {NEWEST}: "
            f"run `outlast migrate --store {url}` first."
        )
    store = SQLiteStore(path)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def migrate_store(url: str) -> tuple[int, int]:
    """Bring the store that `url` names to the newest schema; return its version before and after."""
    return bring_up(file_of(url))


def migration_script() -> str:
    """Return all migrations as one SQL script, for people who keep their schema themselves."""
    return script()


@dataclass(frozen=True, slots=True, kw_only=True)
class Peek:
    """What can be seen without opening a store; `schema` is its version and the newest, None where no file is."""

    engine: Engine
    place: Place | None
    schema: tuple[int, int] | None


def peek(path: Path | None) -> Peek:
    """Look at the file at `path` and the folder it lies in, changing nothing; at this machine alone when it is None.

    Raises `SchemaNewer`, `StoreCorrupt`, `StoreUnavailable`.
    """
    if path is None:
        return Peek(engine=engine(), place=None, schema=None)
    schema = (schema_of(path), NEWEST) if path.exists() else None
    return Peek(engine=engine(), place=place(path.parent), schema=schema)


def nodes_of(url: str) -> tuple[float, Sequence[Node]]:
    """Return the store's clock and its nodes, from a program that is none. Raises `StoreError`."""

    async def look() -> tuple[float, Sequence[Node]]:
        async with open_existing(url) as store:
            return await store.runs.now(), await store.runs.nodes()

    return asyncio.run(look())
