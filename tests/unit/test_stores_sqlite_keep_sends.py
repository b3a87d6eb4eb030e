"""Sends in a file: what is left of those that were accepted, and what not even a person may do to one."""

import sqlite3
from collections.abc import Iterator

import pytest

from outlast.errors import StoreCorrupt
from outlast.send import TRANSITIONS, Kind, NewSend, Send, State
from outlast.stores.sqlite.keep import sends
from outlast.stores.sqlite.keep.file import SCHEMA
from outlast.stores.sqlite.keep.sends import ACCEPTED_KEPT
from outlast.stores.sqlite.migration import migrate
from tests.disk import behind

HERE = "http://here"


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with behind(":memory:") as connection:
        migrate(connection, SCHEMA)
        yield connection


def add(connection: sqlite3.Connection, run: str, server: str = HERE) -> Send:
    return sends.add(connection, server, NewSend(kind=Kind.START, run=run, owner=None, content=b'{"a":1}'))


def accept(connection: sqlite3.Connection, run: str, server: str = HERE) -> None:
    send = add(connection, run, server)
    sends.mark_sent(connection, send.number)
    sends.settle(connection, send, server, code=None)


def test_of_what_was_accepted_the_newest_stay(connection: sqlite3.Connection) -> None:
    accept(connection, "elsewhere", "http://there")
    waiting = add(connection, "waiting")
    for number in range(ACCEPTED_KEPT + 3):
        accept(connection, f"r{number}")
    kept = sends.all_of(connection, HERE)
    assert [kept[0].run, kept[1].run, len(kept)] == [waiting.run, "r3", ACCEPTED_KEPT + 1]
    assert [send.run for send in sends.all_of(connection, "http://there")] == ["elsewhere"]


def test_a_number_is_never_given_twice(connection: sqlite3.Connection) -> None:
    first = add(connection, "r1")
    sends.forget(connection, first.number)
    assert add(connection, "r1").number > first.number


@pytest.mark.parametrize("before", list(State))
@pytest.mark.parametrize("after", list(State))
def test_a_person_with_a_prompt_moves_no_send_backwards(
    connection: sqlite3.Connection, before: State, after: State
) -> None:
    add(connection, "r1")
    for step in {State.QUEUED: [], State.SENT: [State.SENT]}.get(before, [State.SENT, before]):
        connection.execute("UPDATE sends SET state = ?", (step,))
    if after is State.QUEUED or not TRANSITIONS[before]:
        with pytest.raises(sqlite3.IntegrityError, match="for good"):
            connection.execute("UPDATE sends SET state = ?", (after,))
    else:
        connection.execute("UPDATE sends SET state = ?", (after,))


def test_a_send_of_a_kind_that_there_is_not_is_told(connection: sqlite3.Connection) -> None:
    add(connection, "r1")
    connection.execute("UPDATE sends SET kind = 'wish'")
    with pytest.raises(StoreCorrupt, match="no kind"):
        sends.next_of(connection, HERE)
