"""From a URL to a store."""

from pathlib import Path

import pytest

from outlast.assembly.stores import file_of, migrate_store, migration_script, open_existing, open_store
from outlast.errors import SettingsError, StoreUnavailable
from outlast.stores.sqlite.migration import NEWEST, script
from tests.disk import behind

pytestmark = pytest.mark.anyio


async def test_a_relative_url_is_a_file_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///runs.db", durability="process")
    await store.open()
    await store.close()
    assert (tmp_path / "runs.db").exists()


async def test_an_absolute_url_is_that_file(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/runs.db", durability="power")
    await store.open()
    await store.close()
    assert (tmp_path / "runs.db").exists()


async def test_an_empty_url_is_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite://", durability="process")
    await store.open()
    assert await store.runs.now() > 0
    await store.close()
    assert not (tmp_path / "runs.db").exists()


@pytest.mark.parametrize("url", ["", "runs.db", "sqlite:runs.db", "sqlite://host/x", "postgresql://h/d"])
def test_any_other_url_is_refused_with_the_forms_there_are(url: str) -> None:
    with pytest.raises(SettingsError, match="for a file here"):
        open_store(url, durability="process")


@pytest.mark.parametrize("url", ["sqlite:///x.db?mode=ro", "sqlite:///x.db?", "sqlite:///?cache=shared"])
def test_options_in_a_url_are_refused_and_are_no_part_of_a_name(url: str) -> None:
    with pytest.raises(SettingsError, match=r"no options after a '\?'"):
        open_store(url, durability="process")


def test_a_url_without_a_file_is_told_where_the_name_should_be() -> None:
    with pytest.raises(SettingsError, match="where the file's name should be"):
        open_store("sqlite:///", durability="process")


# ---- a store that is there ----


async def test_only_a_store_that_is_there_and_up_to_date_is_opened_as_it_is(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with pytest.raises(StoreUnavailable, match="no store at"):
        async with open_existing(url):
            pass
    assert not (tmp_path / "runs.db").exists()
    with behind(tmp_path / "runs.db") as connection:
        connection.execute("PRAGMA user_version = 0")
    with pytest.raises(StoreUnavailable, match="outlast migrate --store"):
        async with open_existing(url):
            pass
    assert migrate_store(url) == (0, NEWEST)
    async with open_existing(url) as store:
        assert list(await store.runs.nodes()) == []
    assert migrate_store(url) == (NEWEST, NEWEST)
    assert migration_script() == script()


def test_a_store_in_memory_is_no_file() -> None:
    with pytest.raises(SettingsError, match="name a file"):
        file_of("sqlite://")
