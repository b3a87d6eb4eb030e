"""Group commit: one transaction per turn, a spoiled group runs apart, a locked file is waited for. On virtual time."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.errors import HeadConflict, StoreBusy, StoreCorrupt, StoreFull, StoreReadOnly, StoreUnavailable
from outlast.stores.sqlite import SQLiteStore
from outlast.stores.sqlite.engine import ROWS, Engine
from outlast.stores.sqlite.patience import BUSY_LIMIT, CAP
from outlast.stores.sqlite.transaction import Query, Transaction
from tests.disk import HandClock, behind, ground, opened

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    async with opened(path, clock=HandClock()) as store:
        ground(store).connection.execute("CREATE TABLE said (word TEXT NOT NULL UNIQUE, transacted INTEGER)")
        yield store


@pytest.fixture
def engine(store: SQLiteStore) -> Engine:
    return store._engine


@pytest.fixture
def transactions(store: SQLiteStore) -> Iterator[list[str]]:
    """The words that begin and end transactions, as SQLite hears them."""
    heard: list[str] = []
    connection = ground(store).connection
    connection.set_trace_callback(lambda sql: heard.append(sql) if sql.split()[0] in {"BEGIN", "COMMIT"} else None)
    yield heard
    connection.set_trace_callback(None)


def saying(word: str | None) -> Callable[[Transaction], str | None]:
    def work(transaction: Transaction) -> str | None:
        transaction.execute("INSERT INTO said (word) VALUES (?)", (word,))
        return word

    return work


def refusing(transaction: Transaction) -> None:
    raise HeadConflict("refused before anything was written")


def late(transaction: Transaction) -> None:
    saying("regretted")(transaction)
    raise HeadConflict("refused after something was written")


def said(engine: Engine) -> list[str]:
    def words(query: Query) -> list[str]:
        return [row["word"] for row in query.execute("SELECT word FROM said ORDER BY rowid").fetchall()]

    return engine.peek(words)


async def together(*work: Any) -> list[Any]:
    """Await several things that are asked for in one turn of the loop."""
    return await asyncio.gather(*work, return_exceptions=True)


# ---- a turn ----


async def test_what_is_asked_for_in_one_turn_is_one_transaction(engine: Engine, transactions: list[str]) -> None:
    answers = await together(*(engine.write(saying(word)) for word in "abcdef"))
    assert answers == list("abcdef")
    assert said(engine) == list("abcdef")
    assert transactions == ["BEGIN IMMEDIATE", "COMMIT"]


async def test_what_comes_later_is_another(engine: Engine, transactions: list[str]) -> None:
    await engine.write(saying("a"))
    await engine.write(saying("b"))
    assert transactions == ["BEGIN IMMEDIATE", "COMMIT"] * 2


async def test_a_group_has_one_moment(engine: Engine) -> None:
    moments = await together(*(engine.write(lambda transaction: transaction.now) for _ in range(9)))
    assert len(set(moments)) == 1


async def test_more_rows_than_a_group_holds_are_several_groups_and_others_run_between(
    engine: Engine, transactions: list[str]
) -> None:
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    def work(transaction: Transaction) -> int:
        return turns

    turn()
    answers = await together(*(engine.write(work, rows=ROWS // 2) for _ in range(5)))
    assert transactions.count("COMMIT") == 3
    assert sorted(answers) == answers
    assert len(set(answers)) == 3


async def test_an_operation_larger_than_a_group_runs_alone(engine: Engine, transactions: list[str]) -> None:
    await together(engine.write(saying("a")), engine.write(saying("large"), rows=10 * ROWS), engine.write(saying("b")))
    assert said(engine) == ["a", "large", "b"]
    assert transactions.count("COMMIT") == 3


async def test_a_group_that_takes_long_is_closed(
    engine: Engine, transactions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.stores.sqlite.engine.SLICE", 0.0)  # virtual time: nothing takes longer than nothing
    await together(*(engine.write(saying(word)) for word in "abc"))
    assert transactions.count("COMMIT") == 3


async def test_reading_runs_at_once_and_sees_what_is_committed(engine: Engine) -> None:
    writing = asyncio.create_task(engine.write(saying("a")))
    await asyncio.sleep(0)
    assert await engine.read(lambda query: query.execute("SELECT count(*) FROM said").fetchone()[0]) == 0
    await writing
    assert await engine.read(lambda query: query.execute("SELECT count(*) FROM said").fetchone()[0]) == 1


# ---- groups with one that fails ----


@pytest.mark.behaviour("L3")
async def test_one_that_refuses_leaves_its_group_standing(engine: Engine, transactions: list[str]) -> None:
    answers = await together(engine.write(saying("a")), engine.write(refusing), engine.write(saying("b")))
    assert [type(answer) for answer in answers] == [str, HeadConflict, str]
    assert said(engine) == ["a", "b"]
    assert transactions == ["BEGIN IMMEDIATE", "COMMIT"]


@pytest.mark.behaviour("L3")
@pytest.mark.parametrize("first", [True, False])
async def test_one_that_refuses_too_late_has_written_nothing_after_all(engine: Engine, *, first: bool) -> None:
    work = [late, saying("a"), saying("b")] if first else [saying("a"), saying("b"), late]
    answers = await together(*(engine.write(each) for each in work))
    assert sorted(map(str, answers)) == ["a", "b", "refused after something was written"]
    assert said(engine) == ["a", "b"]


@pytest.mark.parametrize("place", range(3))
async def test_one_that_sqlite_refuses_fails_alone(engine: Engine, place: int) -> None:
    work = [saying("a"), saying("b")]
    work.insert(place, saying(None))  # NOT NULL
    answers = await together(*(engine.write(each) for each in work))
    assert isinstance(answers.pop(place), StoreCorrupt)
    assert (answers, said(engine)) == (["a", "b"], ["a", "b"])


async def test_an_error_of_ours_is_its_callers_alone(engine: Engine) -> None:
    def broken(transaction: Transaction) -> None:
        transaction.execute("DELETE FROM said")
        raise ZeroDivisionError

    await engine.write(saying("a"))
    answers = await together(engine.write(broken), engine.write(saying("b")))
    assert [type(answer) for answer in answers] == [ZeroDivisionError, str]
    assert said(engine) == ["a", "b"]


async def test_wake_ups_of_a_spoiled_group_come_from_what_was_committed(store: SQLiteStore, engine: Engine) -> None:
    def growing(transaction: Transaction) -> None:
        transaction.grown["a log"] = 1

    def broken(transaction: Transaction) -> None:
        transaction.grown["another log"] = 1
        transaction.stir()
        raise ZeroDivisionError

    bells = [store.logs.subscribe("a log"), store.logs.subscribe("another log"), store.runs.subscribe()]
    await together(engine.write(growing), engine.write(broken))
    assert [bell._rung for bell in bells] == [True, False, False]
    for bell in bells:
        bell.close()


async def test_an_interrupt_leaves_no_transaction_open(store: SQLiteStore, engine: Engine) -> None:
    def interrupted(transaction: Transaction) -> None:
        saying("a")(transaction)
        raise KeyboardInterrupt

    writing = asyncio.create_task(engine.write(interrupted))
    engine._queue.clear()
    await asyncio.sleep(0)
    assert engine._turn is not None
    engine._turn.cancel()
    with pytest.raises(KeyboardInterrupt):
        engine._flush()
    assert not ground(store).connection.in_transaction
    writing.cancel()
    assert await engine.write(saying("b")) == "b"
    assert said(engine) == ["b"]


# ---- callers that go away ----


async def test_who_goes_away_before_the_turn_is_left_out_and_the_others_stay(engine: Engine) -> None:
    tasks = [asyncio.create_task(engine.write(saying(word))) for word in "abc"]
    asyncio.get_running_loop().call_soon(tasks[1].cancel)  # after they queued, before the turn
    answers = await together(*tasks)
    assert [type(answer) for answer in answers] == [str, asyncio.CancelledError, str]
    assert said(engine) == ["a", "c"]


async def test_who_goes_away_after_the_commit_was_answered_in_vain(engine: Engine) -> None:
    tasks: list[asyncio.Task[Any]] = []

    def cancelling(transaction: Transaction) -> str | None:
        tasks[0].cancel()
        return saying("a")(transaction)

    tasks.append(asyncio.create_task(engine.write(cancelling)))
    tasks.append(asyncio.create_task(engine.write(saying("b"))))
    answers = await together(*tasks)
    assert [type(answer) for answer in answers] == [asyncio.CancelledError, str]
    assert said(engine) == ["a", "b"]  # unknown to its caller, and it happened


# ---- a file that is locked ----


@pytest.mark.behaviour("L14")
async def test_a_locked_file_is_waited_for_without_blocking_the_loop(engine: Engine, path: Path) -> None:
    loop = asyncio.get_running_loop()
    with behind(path) as other:
        other.execute("BEGIN IMMEDIATE")
        loop.call_later(1.0, other.rollback)
        first = asyncio.gather(*(engine.write(saying(word)) for word in "abc"))
        await asyncio.sleep(0.5)
        assert not first.done()
        later = asyncio.create_task(engine.write(saying("d")))
        assert await first == ["a", "b", "c"]
        assert await later == "d"
        assert 1.0 <= loop.time() <= 1.0 + CAP * 1.2
    assert said(engine) == ["a", "b", "c", "d"]


@pytest.mark.behaviour("L14")
async def test_after_the_limit_everyone_is_told_and_then_it_works_again(engine: Engine, path: Path) -> None:
    loop = asyncio.get_running_loop()
    with behind(path) as other:
        other.execute("BEGIN IMMEDIATE")
        answers = await together(*(engine.write(saying(word)) for word in "abc"))
        assert {type(answer) for answer in answers} == {StoreBusy}
        assert BUSY_LIMIT <= loop.time() <= BUSY_LIMIT + CAP * 1.2
        again = asyncio.create_task(engine.write(saying("d")))
        await asyncio.sleep(BUSY_LIMIT / 2)
        assert not again.done()  # the limit is counted anew
        other.rollback()
        assert await again == "d"
    assert said(engine) == ["d"]


async def test_an_operation_alone_waits_as_well(engine: Engine, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None, timeout=0)

    def locked_out(transaction: Transaction) -> str:
        if not tried:
            tried.append(True)
            raise sqlite3.IntegrityError("spoils the group")
        return "done"

    def take_the_lock(transaction: Transaction) -> None:
        if len(tried) == 1:  # alone now: what comes after this finds the file locked
            tried.append(True)
            asyncio.get_running_loop().call_later(1.0, other.rollback)
            transaction.execute("COMMIT")
            other.execute("BEGIN IMMEDIATE")
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error

    tried: list[bool] = []
    try:
        answers = await together(engine.write(take_the_lock), engine.write(locked_out), engine.write(saying("a")))
        assert answers == [None, "done", "a"]
        assert asyncio.get_running_loop().time() >= 1.0
    finally:
        other.close()


async def test_reading_does_not_wait_for_a_writer(engine: Engine, path: Path) -> None:
    with behind(path) as other:
        other.execute("BEGIN IMMEDIATE")
        assert await engine.read(lambda query: query.execute("SELECT count(*) FROM said").fetchone()[0]) == 0
    assert asyncio.get_running_loop().time() == 0.0


# ---- a disk that is full, a file that is read-only ----


@pytest.mark.behaviour("L14")
@pytest.mark.fault("X7")
async def test_a_full_disk_refuses_what_does_not_fit_and_resumes_when_there_is_space(
    store: SQLiteStore, engine: Engine
) -> None:
    connection = ground(store).connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    large = "x" * 100_000
    answers = await together(engine.write(saying("a")), engine.write(saying(large)), engine.write(saying("b")))
    assert [type(answer) for answer in answers] == [str, StoreFull, str]
    connection.execute("PRAGMA max_page_count = 1000000")
    assert await engine.write(saying(large)) == large
    assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


@pytest.mark.behaviour("L14")
@pytest.mark.fault("X7")
async def test_a_read_only_file_refuses_and_resumes(store: SQLiteStore, engine: Engine) -> None:
    connection = ground(store).connection
    connection.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreReadOnly):
        await engine.write(saying("a"))
    assert said(engine) == []
    connection.execute("PRAGMA query_only = OFF")
    assert await engine.write(saying("a")) == "a"


# ---- its end ----


async def test_closing_answers_what_was_taken_and_takes_no_more(store: SQLiteStore, engine: Engine) -> None:
    tasks = [asyncio.create_task(engine.write(saying(word))) for word in "abc"]
    await asyncio.sleep(0)
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable, match="not open"):
        await engine.write(saying("d"))
    await closing
    assert await asyncio.gather(*tasks) == ["a", "b", "c"]
    with pytest.raises(StoreUnavailable, match="not open"):
        await engine.read(lambda query: None)


async def test_closing_waits_for_a_locked_file_no_longer_than_its_callers(
    store: SQLiteStore, engine: Engine, path: Path
) -> None:
    with behind(path) as other:
        other.execute("BEGIN IMMEDIATE")
        tasks = [asyncio.create_task(engine.write(saying(word))) for word in "abc"]
        await asyncio.sleep(0.1)
        tasks[0].cancel()
        await store.close()
        assert asyncio.get_running_loop().time() <= BUSY_LIMIT + CAP * 1.2
        answers = await together(*tasks)
    assert [type(answer) for answer in answers] == [asyncio.CancelledError, StoreBusy, StoreBusy]


async def test_closing_does_not_wait_for_callers_that_are_gone(store: SQLiteStore, engine: Engine, path: Path) -> None:
    with behind(path) as other:
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(engine.write(saying("a")))
        await asyncio.sleep(0.1)
        writing.cancel()
        await store.close()
        assert asyncio.get_running_loop().time() < BUSY_LIMIT
