"""What operations share in one transaction: a moment, a cursor, and a note of whom the commit concerns."""

import sqlite3

import pytest

from outlast.stores.sqlite.clock import anchor
from outlast.stores.sqlite.transaction import Query, Transaction
from tests.disk import HandClock, migrated


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
