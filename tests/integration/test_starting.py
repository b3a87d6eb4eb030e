"""A server process that is told to stop before it has started: while it waits for its store, or migrates it."""

import signal
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from outlast.stores.sqlite.migration import NEWEST, version
from tests.disk import behind
from tests.integration.programs import Program, outlast, program

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

APP = """
import os, signal, sys
from fastapi import FastAPI
from outlast import Outlast
from outlast.stores.sqlite import SQLiteStore, store

class Telling(SQLiteStore):
    async def open(self):
        print("opening", flush=True)
        await super().open()

def migrate(connection, migrate=store.migrate):
    if os.environ.get("WHEN") == "migrating":
        os.kill(os.getpid(), signal.SIGTERM)
    migrate(connection)

store.migrate = migrate
outlast = Outlast(Telling("runs.db"))
app = FastAPI(lifespan=outlast.lifespan)
app.mount("/agents", outlast.app)
"""
KINDS = ["serve", "uvicorn"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "application.py").write_text(APP)
    return tmp_path


def starting(folder: Path, kind: str, **environ: str) -> AbstractAsyncContextManager[Program]:
    """Start a server that says when it opens its store."""
    if kind == "serve":
        return outlast(folder, "serve", "application:outlast", "--port", "0", environ=environ)
    return program(folder, "-m", "uvicorn", "application:app", "--port", "0", environ=environ)


@pytest.mark.behaviour("D1")
async def test_a_signal_while_another_process_keeps_the_store_locked_ends_a_server_that_waits_for_it(
    folder: Path,
) -> None:
    with behind(folder / "runs.db") as locking:
        locking.execute("BEGIN EXCLUSIVE")
        async with starting(folder, "serve") as server:
            await server.until("opening")
            server.signal(signal.SIGTERM)
            assert await server.end() == 0
            assert server.errors == ""  # not a word of the lock, which is there still
        locking.execute("ROLLBACK")
        assert version(locking) == 0


@pytest.mark.behaviour("D1")
async def test_a_signal_before_uvicorn_has_started_ends_it_as_soon_as_it_has(folder: Path) -> None:
    with behind(folder / "runs.db") as locking:
        locking.execute("BEGIN EXCLUSIVE")
        async with starting(folder, "uvicorn") as server:
            await server.until("opening")
            server.signal(signal.SIGTERM)
            locking.execute("ROLLBACK")
            assert await server.end() in {0, -signal.SIGTERM}
            assert "Traceback" not in server.errors
            assert "ERROR" not in server.errors


@pytest.mark.behaviour("D1")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_signal_in_the_midst_of_a_migration_ends_a_server_and_leaves_its_file_whole(
    folder: Path, kind: str
) -> None:
    async with starting(folder, kind, WHEN="migrating") as server:
        assert await server.end() in {0, -signal.SIGTERM}
        assert "Traceback" not in server.errors
        assert "Outlast serves" not in server.said
    with behind(folder / "runs.db") as connection:
        assert version(connection) == NEWEST
        assert connection.execute("SELECT count(*) FROM nodes").fetchone()[0] == 0
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
