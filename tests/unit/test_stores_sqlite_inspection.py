"""Looking at a store's file from outside changes nothing and finds what is there."""

import os
from pathlib import Path

import pytest

from outlast.errors import StoreCorrupt
from outlast.stores.sqlite.inspection import bring_up, engine, place, schema_of
from outlast.stores.sqlite.migration import NEWEST


def test_a_schema_is_read_without_making_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    assert schema_of(path) == 0
    assert not path.exists()
    assert bring_up(path) == (0, NEWEST)
    assert schema_of(path) == NEWEST
    (tmp_path / "garbage.db").write_bytes(b"This is no database." * 100)
    with pytest.raises(StoreCorrupt):
        schema_of(tmp_path / "garbage.db")


def test_a_local_folder_can_do_everything_and_is_left_as_it_was(tmp_path: Path) -> None:
    found = place(tmp_path)
    assert (found.writable, found.wal, found.locks, found.syncs) == (True, True, True, True)
    assert found.free > 0
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert place(tmp_path).writable is False
    finally:
        tmp_path.chmod(0o700)


def test_the_engine_is_new_enough_to_run_these_tests() -> None:
    assert engine().is_new_enough
    assert engine().boot_id
