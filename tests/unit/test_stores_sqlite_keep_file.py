"""The file of a client: who may read it, who shares it, and what is said when it cannot be used."""

import os
import sqlite3
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from outlast.errors import (
    InputInvalid,
    SchemaNewer,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from outlast.log.cursor import Cursor
from outlast.place import Place
from outlast.send import Kind, NewSend
from outlast.stores.sqlite import SQLiteStore
from outlast.stores.sqlite.connection import _ERRORS
from outlast.stores.sqlite.keep import Keep
from outlast.stores.sqlite.keep.file import SENTENCES
from tests.disk import behind, damage, names

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

HERE = "http://here"
PLACE = Place(run="r1", owner=None, types=None, cursor=Cursor(3, None))
START = NewSend(kind=Kind.START, run="r1", owner=None, content=b"{}")


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Keep]:
    keep = Keep(path)
    await keep.open()
    try:
        yield keep
    finally:
        await keep.close()


def connection(keep: Keep) -> sqlite3.Connection:
    assert keep._connection is not None
    return keep._connection


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# ---- whose it is ----


async def test_what_is_made_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with opened(tmp_path / "client.db") as keep:
            await keep.add(HERE, START)
            assert keep.hold(HERE)
            modes = {name: mode(tmp_path / name) for name in names(tmp_path)}
    finally:
        os.umask(before)
    assert modes == {
        "client.db": 0o600,
        "client.db-wal": 0o600,
        "client.db-shm": 0o600,
        "client.db.senders": 0o700,
    }


async def test_a_file_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    async with opened(tmp_path / "client.db"):
        pass
    (tmp_path / "client.db").chmod(0o640)
    async with opened(tmp_path / "client.db"):
        assert mode(tmp_path / "client.db") == 0o640


async def test_nothing_of_sqlite_lies_beside_it_once_it_is_closed(tmp_path: Path) -> None:
    async with opened(tmp_path / "client.db") as keep:
        await keep.move(HERE, [PLACE])
    assert names(tmp_path) == ["client.db"]


async def test_clients_of_one_process_share_it_until_the_last_is_closed(tmp_path: Path) -> None:
    keep = Keep(tmp_path / "client.db")
    await keep.open()
    await keep.open()
    await keep.close()
    await keep.move(HERE, [PLACE])
    await keep.close()
    with pytest.raises(StoreUnavailable, match="its client is closed"):
        await keep.move(HERE, [PLACE])
    await keep.open()
    assert await keep.place(HERE, PLACE) == PLACE
    await keep.close()


async def test_a_path_may_be_text(tmp_path: Path) -> None:
    keep = Keep(str(tmp_path / "client.db"), server="chat")
    assert keep.server == "chat"
    await keep.open()
    await keep.close()
    assert names(tmp_path) == ["client.db"]


# ---- what cannot be used ----


async def test_the_store_of_a_server_is_told_from_what_a_client_keeps(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "outlast.db")
    await store.open()
    await store.close()
    with pytest.raises(StoreCorrupt, match="is the store of an Outlast server: name another file"):
        await Keep(tmp_path / "outlast.db").open()


async def test_what_is_no_database_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy milk\n" * 100)
    with pytest.raises(StoreCorrupt, match="delete it and begin anew"):
        await Keep(tmp_path / "notes.txt").open()
    assert (tmp_path / "notes.txt").read_text() == "buy milk\n" * 100


async def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path / "client.db"):
        pass
    with behind(tmp_path / "client.db") as other:
        other.execute("PRAGMA user_version = 99")
    with pytest.raises(SchemaNewer, match=r"The client's file has schema version 99.*upgrade Outlast"):
        await Keep(tmp_path / "client.db").open()


async def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="folder of the client's file does not exist"):
        await Keep(tmp_path / "nowhere" / "client.db").open()
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        await Keep(tmp_path).open()


async def test_a_lock_that_cannot_be_made_is_told_as_what_is_wrong_with_it(tmp_path: Path) -> None:
    (tmp_path / "client.db.senders").write_bytes(b"a file where the folder of the locks was to be")
    async with opened(tmp_path / "client.db") as keep:
        with pytest.raises(StoreUnavailable, match="cannot be opened, read or written"):
            keep.hold(HERE)


async def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    async with opened(tmp_path / "client.db") as keep:
        first = await keep.add(HERE, START)
        pages = connection(keep).execute("PRAGMA page_count").fetchone()[0]
        connection(keep).execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreFull, match="Make room"):
            await keep.add(HERE, NewSend(kind=Kind.START, run="r2", owner=None, content=b"[" + b"1," * 9000 + b"1]"))
        assert await keep.sends(HERE) == [first]
        connection(keep).execute("PRAGMA max_page_count = 1000000")
        await keep.add(HERE, NewSend(kind=Kind.START, run="r2", owner=None, content=b"[" + b"1," * 9000 + b"1]"))


async def test_a_file_that_others_keep_locked_is_tried_again_and_then_told(tmp_path: Path) -> None:
    async with opened(tmp_path / "client.db") as keep:
        with behind(tmp_path / "client.db") as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusy, match="look what holds it"):
                await keep.move(HERE, [PLACE])
            other.execute("ROLLBACK")
        await keep.move(HERE, [PLACE])


async def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    async with opened(tmp_path / "client.db") as keep:
        connection(keep).execute("PRAGMA query_only = ON")
        with pytest.raises(StoreReadOnly, match="change its mode"):
            await keep.move(HERE, [PLACE])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
async def test_a_file_of_somebody_else_is_told_before_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "client.db").touch(mode=0o400)
    with pytest.raises(StoreReadOnly, match="change its mode"):
        await Keep(tmp_path / "client.db").open()


async def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    async with opened(tmp_path / "client.db") as keep:
        await keep.move(HERE, [PLACE])
    damage(tmp_path / "client.db")
    async with opened(tmp_path / "client.db") as keep:
        with pytest.raises(StoreCorrupt, match="put a copy of it back"):
            await keep.place(HERE, PLACE)


async def test_a_file_that_was_taken_away_is_told_before_anything_is_promised(tmp_path: Path) -> None:
    async with opened(tmp_path / "client.db") as keep:
        (tmp_path / "client.db").rename(tmp_path / "moved.db")
        with pytest.raises(StoreUnavailable, match="client's file was deleted"):
            await keep.add(HERE, START)


async def test_an_id_that_is_no_text_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path / "client.db") as keep:
        with pytest.raises(InputInvalid, match="surrogate"):
            await keep.place(HERE, Place(run="\ud800", owner=None, types=None, cursor=Cursor(0, None)))


def test_each_error_of_sqlite_s_has_a_sentence_that_says_what_to_do() -> None:
    kinds: set[type[StoreError]] = {kind for kind, _ in _ERRORS.values() if issubclass(kind, StoreError)}
    assert kinds == SENTENCES.keys()
