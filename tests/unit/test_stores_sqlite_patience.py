"""A locked file is waited for: soon, a little later each time, and not for ever. On virtual time."""

import asyncio
from pathlib import Path

import pytest

from outlast.errors import StoreBusy, StoreCorrupt, StoreReadOnly
from outlast.stores.sqlite.patience import BASE, BUSY_LIMIT, CAP, patiently, pause
from tests.disk import behind

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


def test_pauses_grow_and_are_capped() -> None:
    pauses = [pause(attempt) for attempt in range(1, 40)]
    assert BASE * 0.8 <= pauses[0] <= BASE * 1.2
    assert all(each <= CAP * 1.2 for each in pauses)
    assert pauses[-1] >= CAP * 0.8


async def test_work_is_done_as_soon_as_the_other_lets_go(tmp_path: Path) -> None:
    with behind(tmp_path / "x.db") as other, behind(tmp_path / "x.db") as connection:
        other.execute("BEGIN EXCLUSIVE")
        loop = asyncio.get_running_loop()
        loop.call_later(1.0, other.rollback)
        tries: list[float] = []

        def work() -> int:
            tries.append(loop.time())
            return int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])

        assert await patiently(work) == 0
        assert tries[0] == 0.0
        assert tries[-2] < 1.0 <= tries[-1] <= 1.0 + CAP * 1.2


async def test_after_the_limit_the_store_is_busy(tmp_path: Path) -> None:
    with behind(tmp_path / "x.db") as other, behind(tmp_path / "x.db") as connection:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreBusy):
            await patiently(lambda: connection.execute("SELECT * FROM sqlite_master"))
        assert BUSY_LIMIT <= asyncio.get_running_loop().time() <= BUSY_LIMIT + CAP * 1.2


async def test_a_blocked_loop_still_tries_a_second_time(tmp_path: Path) -> None:
    tries = 0

    def work() -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            connection.execute("BEGIN IMMEDIATE")

    with behind(tmp_path / "x.db") as other, behind(tmp_path / "x.db") as connection:
        other.execute("BEGIN EXCLUSIVE")
        await patiently(work)
    assert tries == 2


@pytest.mark.parametrize(
    ("error", "kind"), [(StoreReadOnly("ours"), StoreReadOnly), (StoreCorrupt("ours"), StoreCorrupt)]
)
async def test_any_other_failure_is_told_at_once(error: Exception, kind: type[Exception]) -> None:
    def work() -> None:
        raise error

    with pytest.raises(kind):
        await patiently(work)
    assert asyncio.get_running_loop().time() == 0.0
