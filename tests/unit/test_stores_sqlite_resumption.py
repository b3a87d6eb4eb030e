"""What of a checkpoint the file holds, and for how long."""

from pathlib import Path

import pytest

from outlast.run import Checkpoint, Completed
from outlast.stores.sqlite import SQLiteStore
from outlast.testing.contract.scene import A, drive, join
from tests.disk import behind

pytestmark = pytest.mark.anyio


async def test_a_run_has_one_row_until_it_is_settled(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "x.db")
    await store.open()
    await join(store, A)
    run = await drive(store)
    for seq in (1, 2):
        await store.runs.checkpoint(run, run.token, Checkpoint(seq=seq, state=b"x" * seq))
    with behind(tmp_path / "x.db") as connection:
        assert [tuple(row) for row in connection.execute("SELECT seq, state FROM checkpoints")] == [(2, b"xx")]
        await store.runs.settle(run, run.token, Completed())
        assert not connection.execute("SELECT * FROM checkpoints").fetchall()
    await store.close()


async def test_a_page_of_a_thread_is_found_by_its_index(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "x.db")
    await store.open()
    with behind(tmp_path / "x.db") as connection:
        plan = connection.execute(
            "EXPLAIN QUERY PLAN SELECT number FROM runs WHERE owner = 'a' AND thread = 't' "
            "AND (created_at, number) < (1, 1) ORDER BY created_at DESC, number DESC LIMIT 9"
        ).fetchall()
    assert any("runs_by_thread" in str(tuple(row)) for row in plan)
    await store.close()
