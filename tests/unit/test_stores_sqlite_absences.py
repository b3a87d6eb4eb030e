"""Absences as rows: noted only when there is something to note, and gone with what they are about."""

import pytest

from outlast.stores.sqlite import SQLiteStore
from outlast.testing.contract.scene import ANN, CHAT, start
from tests.contract.bench import StandingClock

pytestmark = pytest.mark.anyio


def rows(store: SQLiteStore) -> list[tuple[str, float]]:
    assert store._ground is not None
    found = store._ground.connection.execute("SELECT worker, absent_for FROM absences ORDER BY worker")
    return [tuple(row) for row in found]


def changes(store: SQLiteStore) -> int:
    assert store._ground is not None
    return store._ground.connection.total_changes


async def test_a_house_in_order_is_not_written_to() -> None:
    store = SQLiteStore(None, clock=StandingClock())
    await store.open()
    await start(store)
    before = changes(store)
    await store.runs.attend([CHAT], every=60)
    assert (changes(store), rows(store)) == (before, [])
    await store.close()


async def test_an_absence_is_forgotten_when_its_last_run_has_its_outcome() -> None:
    clock = StandingClock()
    store = SQLiteStore(None, clock=clock)
    await store.open()
    await start(store)
    await store.runs.attend(["other"], every=60)
    clock.aged += 50
    await store.runs.attend(["other"], every=60)
    assert rows(store) == [(CHAT, pytest.approx(50))]
    await store.runs.stop(ANN, "r1", reason=None)
    await store.runs.attend(["other"], every=60)
    assert rows(store) == []
    await store.close()
