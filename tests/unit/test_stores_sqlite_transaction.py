"""What operations share in one transaction: a moment, a cursor, and a note of whom the commit concerns."""

import asyncio
import sqlite3

import pytest

from outlast.errors import Retry
from outlast.stores.sqlite.clock import anchor
from outlast.stores.sqlite.transaction import Query, Transaction
from outlast.testing.cluster import Cluster, LoopClock
from outlast.testing.worker import Chatter, Die, Emit, Raise, Say, ScriptedWorker, Step, Work
from tests.disk import HandClock, Turnstile, ground, migrated, opened


def stirs(connection: sqlite3.Connection) -> int:
    anchor(connection, HandClock())
    return int(connection.execute("SELECT stirred FROM store").fetchone()[0])


def test_nodes_are_stirred_once_however_many_operations_ask_for_it() -> None:
    with migrated() as connection:
        before = stirs(connection)
        transaction = Transaction(connection)
        for _ in range(2):
            transaction.begin()
            for _ in range(3):
                transaction.stir()
            transaction.execute("COMMIT")
            assert transaction.stirred
        assert stirs(connection) == before + 2


def test_a_stir_that_is_rolled_back_never_was() -> None:
    with migrated() as connection:
        before = stirs(connection)
        transaction = Transaction(connection)
        transaction.begin()
        transaction.stir()
        connection.rollback()
        assert stirs(connection) == before


def test_a_transaction_knows_nothing_of_the_one_before() -> None:
    with migrated() as connection:
        stirs(connection)
        transaction = Transaction(connection)
        transaction.begin()
        transaction.grown["a log"] = 1
        transaction.size = 7
        transaction.stir()
        transaction.execute("COMMIT")
        grown = transaction.grown
        transaction.begin()
        assert (transaction.grown, transaction.size, transaction.stirred) == ({}, 0, False)
        assert grown == {"a log": 1}  # whoever still holds it keeps it


def test_a_transaction_takes_the_write_lock_when_it_begins() -> None:
    with migrated() as connection:
        Transaction(connection).begin()
        with pytest.raises(sqlite3.OperationalError, match="within a transaction"):
            Transaction(connection).begin()


def test_answers_of_queries_can_be_read_side_by_side() -> None:
    with migrated() as connection:
        query = Query(connection, now=1.0)
        numbers, letters = query.execute("VALUES (1), (2)"), query.execute("VALUES ('a'), ('b')")
        assert [(number[0], letter[0]) for number, letter in zip(numbers, letters, strict=True)] == [(1, "a"), (2, "b")]


# ---- nothing is waited for inside one ----


@pytest.mark.anyio
@pytest.mark.virtual
@pytest.mark.behaviour("L14")
@pytest.mark.case(59)
async def test_whatever_a_run_waits_for_no_transaction_is_open_meanwhile() -> None:
    """A slow tool, another call, readers, a death, a takeover, a stop: looked at on every turn of the loop."""
    scripts: list[list[Step]] = [
        [Emit("one"), Work(20), Raise(Retry("again"))],
        [Say("two"), Work(20), Die()],
        [Say("three"), Chatter(1)],
    ]
    worker = ScriptedWorker(lambda call: scripts[min(call.number, 3) - 1])
    clock = LoopClock()
    async with opened(None, clock=clock) as store, Cluster({"chat": worker}, store=store, clock=clock) as cluster:
        with Turnstile().held() as turnstile:
            turnstile.watch(ground(store).connection)
            await cluster.join("a")
            await cluster.join("b")
            run = await cluster.start("chat", "r1")
            reading = asyncio.create_task(cluster.reader("reader", run).follow_log(cluster.store.logs))
            await cluster.until("r1", lambda row: row.budget.calls == 3, within=120)
            await asyncio.sleep(20)
            await cluster.intake.stop(owner="", id="r1")
            await cluster.outcome("r1", within=10)
            await reading
        assert turnstile.transactions > 50
        assert turnstile.turns > turnstile.transactions


@pytest.mark.anyio
@pytest.mark.virtual
async def test_a_wait_inside_a_transaction_is_caught() -> None:
    """This check can fail."""
    async with opened(None) as store:
        turnstile = Turnstile()
        turnstile.watch(ground(store).connection)

        async def wait_inside() -> None:
            with turnstile.held():
                ground(store).connection.execute("BEGIN IMMEDIATE")
                await asyncio.sleep(1)
                ground(store).connection.execute("ROLLBACK")

        with pytest.raises(AssertionError, match="turned while a transaction"):
            await wait_inside()
        assert turnstile.transactions == 1
        assert turnstile.caught > 0
