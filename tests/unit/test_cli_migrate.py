"""`outlast migrate`: what it says it did, and the script that does the same."""

from pathlib import Path

import pytest

from outlast.cli.program import run
from outlast.stores.sqlite.migration import APPLICATION_ID, MIGRATIONS, NEWEST, script, version
from tests.disk import behind


def test_it_says_from_which_version_to_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new, old = tmp_path / "new.db", tmp_path / "old.db"
    with behind(old) as connection:
        connection.executescript(MIGRATIONS[0].sql)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 1")
    for path in (new, old, old):
        assert run(["migrate", "--store", f"sqlite:///{path}"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{new} is a new store now, with schema version {NEWEST}.",
        f"{old} went from schema version 1 to {NEWEST}.",
        f"{old} has schema version {NEWEST} already: nothing was done.",
    ]
    with behind(old) as connection:
        assert version(connection) == NEWEST


def test_the_script_is_printed_and_nothing_is_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["migrate", "--print"]) == 0
    assert capsys.readouterr().out == script()
    assert not list(tmp_path.iterdir())


def test_a_newer_store_and_a_store_in_memory_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with behind(tmp_path / "newer.db") as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    assert run(["migrate", "--store", f"sqlite:///{tmp_path}/newer.db"]) == 2
    assert run(["migrate", "--store", "sqlite://"]) == 2
    assert run(["migrate", "--store", f"sqlite:///{tmp_path}/missing/x.db"]) == 2
    assert capsys.readouterr().err.count("\n") == 3


def test_a_file_that_another_process_is_writing_is_refused_and_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.db"
    with behind(path) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("CREATE TABLE t (x)")
        assert run(["migrate", "--store", f"sqlite:///{path}"]) == 2
        connection.rollback()
    assert "locked" in capsys.readouterr().err
    with behind(path) as found:
        assert found.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
