"""A file that is deleted, renamed or replaced under an open store is noticed before two processes go apart."""

import asyncio
from pathlib import Path

import pytest

from outlast.errors import StoreUnavailable
from outlast.stores.sqlite.identity import CHECK_EVERY, Identity
from outlast.testing.contract.scene import A, drive, join, said, say, start
from tests.disk import opened

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


@pytest.mark.parametrize("happens", ["deleted", "renamed", "replaced"])
def test_a_path_that_names_another_file_or_none_is_told(tmp_path: Path, happens: str) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"x")
    identity = Identity(path)
    identity.check()
    if happens == "deleted":
        path.unlink()
    else:
        path.rename(tmp_path / "y.db")
    if happens == "replaced":
        path.write_bytes(b"x")
    with pytest.raises(StoreUnavailable, match="put the file back"):
        identity.check()


@pytest.mark.fault("X7")
async def test_nothing_is_written_to_a_file_that_is_gone_and_it_goes_on_when_it_is_back(tmp_path: Path) -> None:
    path, away = tmp_path / "x.db", tmp_path / "y.db"
    async with opened(path) as store:
        await join(store, A)
        run = await drive(store)
        await say(store, run, "a")
        renewer = store.renewer(A, ttl=15, workers=[])
        path.rename(away)
        with pytest.raises(StoreUnavailable):
            renewer.renew(stalled=False)
        await asyncio.sleep(CHECK_EVERY)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="renamed"):
                await store.runs.load(run.owner, run.id)
            with pytest.raises(StoreUnavailable, match="renamed"):
                await start(store, "r2")
        assert not path.exists()  # and no new one was made under its name
        away.rename(path)
        assert renewer.renew(stalled=False).held
        renewer.close()
        await say(store, run, "b")
        assert await said(store, run) == ["a", "b"]
