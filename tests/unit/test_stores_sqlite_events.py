"""Events on SQLite: dense and chained whatever else is in the file, and every damage is reported."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from outlast.errors import Fenced, HeadConflict, RunNotFound, StoreCorrupt
from outlast.log.cursor import Cursor, advance, origin
from outlast.log.event import Event
from outlast.run import Completed, Run, Token
from outlast.stores.sqlite import SQLiteStore
from outlast.stores.sqlite.events import SEQ_LIMIT
from outlast.testing.contract.scene import MANY, MANY_BYTES, A, drive, events, join, said, say, start, texts, unchanged
from tests.disk import HandClock, behind, ground, opened

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    async with opened(path, clock=HandClock()) as store:
        await join(store, A)
        yield store


def place(run: Run, seq: int, connection: sqlite3.Connection) -> int:
    number = connection.execute("SELECT number FROM logs WHERE id = ?", (run.log,)).fetchone()[0]
    return int(number << 32 | seq)


# ---- dense and chained ----


@pytest.mark.behaviour("L1")
async def test_neighbouring_logs_never_touch(store: SQLiteStore) -> None:
    runs = [await drive(store, f"r{number}") for number in range(3)]
    for word in "abc":
        for run in runs:
            await say(store, run, f"{word} of {run.id}")
    for run in runs:
        stored = await events(store, run)
        assert [event.seq for event in stored] == [1, 2, 3]
        assert await said(store, run) == [f"{word} of {run.id}" for word in "abc"]
        cursor = origin(run.log)
        for event in stored:
            cursor = advance(cursor, event.event)
            assert event.cursor == cursor


@pytest.mark.behaviour("F6")
@pytest.mark.parametrize("after", [-1, -(2**32), 3, 2**32 - 1, 2**32, 2**63 - 1])
async def test_no_place_outside_a_log_reads_another(store: SQLiteStore, after: int) -> None:
    first, second = await drive(store), await drive(store, "r2")
    await say(store, first, "a", "b", "c")
    await say(store, second, "d", "e", "f")
    for run, words in ((first, ["a", "b", "c"]), (second, ["d", "e", "f"])):
        stored = await store.logs.read(run.log, after=after, limit=MANY, max_bytes=MANY_BYTES)
        assert [event.event.data for event in stored] == (words if after < 0 else [])


@pytest.mark.behaviour("F6")
@pytest.mark.parametrize("seq", [-1, 0, SEQ_LIMIT, SEQ_LIMIT + 1, 2**63 - 1])
async def test_no_seq_outside_a_log_has_a_chain(store: SQLiteStore, seq: int) -> None:
    for id in ("r1", "r2"):
        await say(store, await drive(store, id), "a")
    run = (await store.runs.load("ann", "r1")).run
    assert await store.logs.chain_at(run.log, seq) is None


async def test_a_page_ends_with_its_bytes_but_has_one_event_at_least(store: SQLiteStore) -> None:
    run = await drive(store)
    await say(store, run, "x" * 1000, "y" * 10, "z" * 10)

    async def page(after: int, max_bytes: int) -> Sequence[int]:
        stored = await store.logs.read(run.log, after=after, limit=MANY, max_bytes=max_bytes)
        return [event.seq for event in stored]

    assert await page(0, 1) == [1]
    assert await page(0, 1003) == [1, 2]
    assert await page(1, 1003) == [2, 3]
    assert await store.logs.read(run.log, after=0, limit=0, max_bytes=1) == []


async def test_a_page_that_ends_early_leaves_no_statement_open(store: SQLiteStore, path: Path) -> None:
    run = await drive(store)
    await say(store, run, *"abcdef")
    await store.logs.read(run.log, after=0, limit=MANY, max_bytes=1)
    with behind(path) as connection:
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    assert not busy


# ---- appending ----


@pytest.mark.behaviour("L2")
async def test_an_append_answered_again_writes_nothing_even_when_more_has_come(store: SQLiteStore) -> None:
    run = await drive(store)
    head = await store.logs.head(run.log)
    first = await store.logs.append(run.log, run.token, head.cursor, texts("a", "b"))
    await say(store, run, "c")
    changes = ground(store).connection.total_changes
    assert await store.logs.append(run.log, run.token, head.cursor, texts("a", "b")) == first
    assert ground(store).connection.total_changes == changes
    with pytest.raises(HeadConflict):
        await store.logs.append(run.log, run.token, head.cursor, texts("a", "x"))


@pytest.mark.behaviour("H22")
async def test_a_token_of_a_higher_epoch_raises_the_fence_with_what_it_appends(store: SQLiteStore) -> None:
    run = await drive(store)
    head = await say(store, run, "a")
    higher = Token(epoch=run.epoch + 1, claim="higher")
    await store.logs.append(run.log, higher, head, texts("b"))
    for token in (run.token, Token(epoch=higher.epoch, claim="another")):
        with pytest.raises(Fenced):
            await store.logs.append(run.log, token, head, texts("b"))
        with pytest.raises(Fenced):
            await store.logs.fence(run.log, token)


async def test_a_cursor_without_its_chain_continues_no_log(store: SQLiteStore) -> None:
    run = await drive(store)
    await say(store, run, "a")
    async with unchanged(store):
        for seq in (0, 1, 2):
            with pytest.raises(HeadConflict):
                await store.logs.append(run.log, run.token, Cursor(seq, None), texts("b"))
        with pytest.raises(Fenced):
            await store.logs.append(run.log, Token(epoch=0, claim="old"), Cursor(1, None), texts("b"))


async def test_an_append_of_nothing_answers_the_head(store: SQLiteStore) -> None:
    run = await drive(store)
    head = await say(store, run, "a")
    assert await store.logs.append(run.log, run.token, head, []) == head
    assert (await store.logs.head(run.log)).cursor == head


async def test_a_log_that_nobody_opened_takes_and_tells_nothing(store: SQLiteStore) -> None:
    token = Token(epoch=1, claim="c")
    for refused in (
        store.logs.append("nothing", token, origin("nothing"), texts("a")),
        store.logs.fence("nothing", token),
        store.logs.head("nothing"),
        store.logs.read("nothing", after=0, limit=1, max_bytes=1),
    ):
        with pytest.raises(RunNotFound):
            await refused
    assert await store.logs.chain_at("nothing", 1) is None


async def test_what_another_version_would_not_let_in_comes_back_all_the_same(store: SQLiteStore, path: Path) -> None:
    run = await drive(store)
    odd = Event("text", "a")
    object.__setattr__(odd, "type", "error")  # reserved today
    await store.logs.append(run.log, run.token, origin(run.log), [odd])
    assert [event.event.type for event in await events(store, run)] == ["error"]


async def test_a_log_is_full_before_its_events_would_run_into_the_next(store: SQLiteStore, path: Path) -> None:
    run = await drive(store)
    with behind(path) as connection:
        connection.execute("UPDATE logs SET seq = ?", (SEQ_LIMIT - 1,))
    head = (await store.logs.head(run.log)).cursor
    with pytest.raises(StoreCorrupt):
        await store.logs.append(run.log, run.token, head, texts("one too many"))
    assert (await store.logs.head(run.log)).cursor == head


# ---- sealed ----


@pytest.mark.invariant("one-terminal")
async def test_a_sealed_log_refuses_even_what_it_holds_and_can_be_fenced_in_vain(store: SQLiteStore) -> None:
    run = await drive(store)
    await say(store, run, "a")
    await store.runs.settle(run, run.token, Completed())
    async with unchanged(store):
        with pytest.raises(Fenced):
            await store.logs.append(run.log, run.token, origin(run.log), texts("a"))
        for token in (run.token, Token(epoch=run.epoch + 1, claim="higher")):
            await store.logs.fence(run.log, token)
        with pytest.raises(Fenced):
            await store.logs.fence(run.log, Token(epoch=run.epoch, claim="another"))


# ---- damage ----


@pytest.mark.behaviour("L1", "L13")
@pytest.mark.parametrize("damage", ["first", "middle", "last", "chain", "data", "type", "content type", "swapped"])
async def test_every_damage_is_reported(store: SQLiteStore, path: Path, damage: str) -> None:
    run = await drive(store)
    await say(store, run, *"abcde")
    with behind(path) as connection:
        connection.execute("DROP TRIGGER events_stay")
        spots = {seq: place(run, seq, connection) for seq in range(1, 6)}
        match damage:
            case "first" | "middle" | "last":
                gone = {"first": 1, "middle": 3, "last": 5}[damage]
                connection.execute("DELETE FROM events WHERE place = ?", (spots[gone],))
            case "swapped":
                connection.execute("UPDATE events SET place = 0 WHERE place = ?", (spots[2],))
                connection.execute("UPDATE events SET place = ? WHERE place = ?", (spots[2], spots[3]))
                connection.execute("UPDATE events SET place = ? WHERE place = 0", (spots[3],))
            case _:
                column = damage.replace(" ", "_")
                connection.execute(
                    f"UPDATE events SET {column} = ? WHERE place = ?", ({"data": b'"z"'}.get(damage, "x/y"), spots[3])
                )
    with pytest.raises(StoreCorrupt):
        await events(store, run)
    for after in (1,) if damage == "first" else (1, 2):
        with pytest.raises(StoreCorrupt):
            await store.logs.read(run.log, after=after, limit=4, max_bytes=MANY_BYTES)
    if damage != "first":
        assert [event.seq for event in await store.logs.read(run.log, after=0, limit=1, max_bytes=1)] == [1]


async def test_a_page_that_damage_breaks_off_leaves_nothing_open(store: SQLiteStore, path: Path) -> None:
    run = await drive(store)
    await say(store, run, *"abcde")
    with behind(path) as connection:
        connection.execute("DELETE FROM events WHERE place = ?", (place(run, 2, connection),))
    with pytest.raises(StoreCorrupt) as kept:
        await events(store, run)
    with behind(path) as connection:
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    assert not busy
    assert kept.value is not None  # and with it the frames it was raised in


async def test_an_event_that_stands_where_the_next_belongs_stops_the_log(store: SQLiteStore, path: Path) -> None:
    run, other = await drive(store), await drive(store, "r2")
    await say(store, run, "a")
    with behind(path) as connection:
        connection.execute(
            "INSERT INTO events VALUES (?, x'00', 'text', 'a/b', 1, 0, x'')", (place(run, 2, connection),)
        )
    assert await said(store, run) == ["a"]  # it is no event of the log: the head does not know it
    with pytest.raises(StoreCorrupt):
        await say(store, run, "b")
    assert await said(store, run) == ["a"]
    await say(store, other, "c")


async def test_a_new_log_is_empty_and_open(store: SQLiteStore) -> None:
    run = await start(store)
    head = await store.logs.head(run.log)
    assert (head.cursor, head.first, head.sealed) == (origin(run.log), 1, False)
    assert (head.usage.events, head.usage.bytes, head.usage.opened_at) == (0, 0, run.created_at)


# ---- what an event costs ----


class Steps:
    """Counts the steps of SQLite's machine, in hundreds."""

    def __init__(self, store: SQLiteStore) -> None:
        self.count = 0
        ground(store).connection.set_progress_handler(self._step, 100)

    def _step(self) -> None:
        self.count += 1

    def taken(self) -> int:
        """Return the steps since it was last asked."""
        taken, self.count = self.count, 0
        return taken


@pytest.mark.behaviour("L5")
@pytest.mark.fault("X14")
async def test_the_last_of_a_hundred_thousand_events_cost_what_the_first_cost(store: SQLiteStore) -> None:
    run = await drive(store)
    batch = texts(*"x" * 500)
    cursor = await store.logs.append(run.log, run.token, origin(run.log), batch)
    steps, appends, reads = Steps(store), list[int](), list[int]()
    for _ in range(199):
        cursor = await store.logs.append(run.log, run.token, cursor, batch)
        appends.append(steps.taken())
    for after in range(0, 100_000, 10_000):
        page = await store.logs.read(run.log, after=after, limit=500, max_bytes=MANY_BYTES)
        assert [stored.seq for stored in page] == list(range(after + 1, after + 501))
        reads.append(steps.taken())
    assert cursor.seq == 100_000
    assert 0 < max(appends) <= 1.05 * min(appends)
    assert 0 < max(reads) <= 1.2 * min(reads)  # where a page begins its predecessor's chain is looked up
    await store.logs.chain_at(run.log, 99_999)
    await store.logs.head(run.log)
    assert steps.taken() <= 2
