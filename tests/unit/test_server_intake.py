"""Where runs come in: what is accepted, what is refused, and that a refusal leaves nothing behind."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from outlast.errors import (
    Draining,
    IdConflict,
    InputInvalid,
    NotAdmitted,
    NotStarted,
    Refusal,
    RunNotFound,
    ThreadBusy,
    UnknownWorker,
)
from outlast.facts import Fact, Report, RunSettled
from outlast.log.event import JSON
from outlast.run import Run, Status
from outlast.server.conditions import Admit, Conditions
from outlast.server.intake import Door, Intake, digest
from outlast.stores.base import StopAnswer
from outlast.stores.sqlite import SQLiteStore

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store() -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(None)
    await store.open()
    yield store
    await store.close()


def intake(
    store: SQLiteStore,
    *,
    admit: Admit | None = None,
    door: Door = Door.OPEN,
    report: Report = lambda _fact: None,
) -> Intake:
    minted = iter(range(1000))
    conditions = Conditions(report=report, mint=lambda: f"minted-{next(minted)}", jitter=lambda: 0.5, admit=admit)
    opened = Intake(store.runs, {"chat"}, conditions)
    opened.door = door
    return opened


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1.0}, False),
        ([1, 2], [2, 1], False),
        ("\ud83d", "\ud83d", True),
        ("\u00e9", "e\u0301", False),  # composed and decomposed: other bytes, another input
    ],
)
def test_an_inputs_digest_is_that_of_its_canonical_json(one: JSON, other: JSON, same: bool) -> None:
    assert (digest("w", None, one) == digest("w", None, other)) is same


def test_worker_and_thread_are_part_of_what_an_id_stands_for() -> None:
    assert len({digest("w", None, 1), digest("v", None, 1), digest("w", "t", 1), digest("w", "None", 1)}) == 4


async def test_without_an_id_one_is_minted(store: SQLiteStore) -> None:
    started = await intake(store).start(owner="", worker="chat", input=1)
    assert (started.created, started.run.status) == (True, Status.QUEUED)
    assert started.run.id.startswith("minted-")
    assert started.run.id != started.run.log


@pytest.mark.behaviour("A1", "A3")
async def test_the_same_start_again_is_the_run_that_exists(store: SQLiteStore) -> None:
    first = await intake(store).start(owner="", worker="chat", input={"a": 1}, id="r1")
    again = await intake(store).start(owner="", worker="chat", input={"a": 1}, id="r1")
    assert (again.created, again.run) == (False, first.run)


@pytest.mark.behaviour("A1")
async def test_an_id_with_another_input_is_a_conflict_and_a_busy_thread_names_its_live_run(store: SQLiteStore) -> None:
    opened = intake(store)
    await opened.start(owner="", worker="chat", input=1, id="r1", thread="t1")
    with pytest.raises(IdConflict):
        await opened.start(owner="", worker="chat", input=2, id="r1", thread="t1")
    with pytest.raises(ThreadBusy) as caught:
        await opened.start(owner="", worker="chat", input=1, id="r2", thread="t1")
    assert caught.value.live == "r1"
    await opened.start(owner="other", worker="chat", input=2, id="r1", thread="t1")


@pytest.mark.parametrize(
    ("start", "refusal"),
    [
        ({"worker": "nobody", "input": 1}, UnknownWorker),
        ({"worker": "chat", "input": 1, "id": "a b"}, InputInvalid),
        ({"worker": "chat", "input": 1, "thread": ""}, InputInvalid),
        ({"worker": "chat", "input": float("nan")}, InputInvalid),
        ({"worker": "chat", "input": {"1": "a", 1: "b"}}, InputInvalid),
        ({"worker": "chat", "input": object()}, InputInvalid),
        ({"worker": "chat", "input": 1, "metadata": {"x": float("inf")}}, InputInvalid),
    ],
)
async def test_a_refused_start_leaves_nothing_behind(
    store: SQLiteStore, start: dict[str, Any], refusal: type[Refusal]
) -> None:
    with pytest.raises(refusal):
        await intake(store).start(owner="", **start)
    assert await store.runs.list("", status=None, before=None, limit=10) == []


async def test_admission_sees_what_will_be_stored_and_refuses_before_it_is(store: SQLiteStore) -> None:
    seen: list[Run] = []

    async def admit(run: Run) -> None:
        seen.append(run)
        if run.input == b"2":
            raise NotAdmitted("the month's budget is spent")

    opened = intake(store, admit=admit)
    await opened.start(owner="ada", worker="chat", input=1, id="r1", metadata={"plan": "free"})
    with pytest.raises(NotAdmitted):
        await opened.start(owner="ada", worker="chat", input=2, id="r2")
    assert (seen[0].owner, seen[0].id, seen[0].input, seen[0].metadata) == ("ada", "r1", b"1", b'{"plan":"free"}')
    assert [each.run.id for each in await opened.list(owner="ada")] == ["r1"]


async def test_a_deeply_nested_input_is_refused_as_such(store: SQLiteStore) -> None:
    deep: JSON = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InputInvalid):
        await intake(store).start(owner="", worker="chat", input=deep)


async def test_nothing_is_done_before_the_start_and_no_run_is_let_in_while_draining(store: SQLiteStore) -> None:
    closed = intake(store, door=Door.NOT_STARTED)
    for call in (
        closed.start(owner="", worker="chat", input=1),
        closed.stop(owner="", id="r1"),
        closed.load(owner="", id="r1"),
        closed.list(owner=""),
    ):
        with pytest.raises(NotStarted):
            await call
    draining = intake(store, door=Door.DRAINING)
    with pytest.raises(Draining):
        await draining.start(owner="", worker="chat", input=1)
    assert await draining.list(owner="") == []


@pytest.mark.behaviour("S1")
async def test_a_stop_of_an_unknown_id_is_kept_and_an_impossible_id_is_refused(store: SQLiteStore) -> None:
    opened = intake(store)
    assert (await opened.stop(owner="", id="later")).answer is StopAnswer.ACCEPTED
    started = await opened.start(owner="", worker="chat", input=1, id="later")
    assert started.run.status is Status.CANCELLED
    with pytest.raises(InputInvalid):
        await opened.stop(owner="", id="a b")


@pytest.mark.behaviour("B16")
async def test_a_run_that_a_stop_settles_without_a_controller_is_reported_once(store: SQLiteStore) -> None:
    facts: list[Fact] = []
    opened = intake(store, report=facts.append)
    await opened.start(owner="", worker="chat", input=1, id="queued")
    await opened.stop(owner="", id="early")
    assert facts == []
    for _ in range(2):
        await opened.stop(owner="", id="queued")
        await opened.start(owner="", worker="chat", input=1, id="early")
    assert [fact.status for fact in facts if isinstance(fact, RunSettled)] == [Status.CANCELLED] * 2
    assert len({fact.run for fact in facts if isinstance(fact, RunSettled)}) == len(facts) == 2


@pytest.mark.behaviour("A5")
async def test_another_owners_run_is_not_found_like_one_that_never_was(store: SQLiteStore) -> None:
    opened = intake(store)
    await opened.start(owner="ada", worker="chat", input=1, id="r1")
    for owner, id in (("eve", "r1"), ("ada", "r2"), ("ada", "a b")):
        with pytest.raises(RunNotFound):
            await opened.load(owner=owner, id=id)
    assert await opened.list(owner="eve") == []


async def test_who_asks_for_a_worker_that_is_not_there_is_told_which_are(store: SQLiteStore) -> None:
    with pytest.raises(UnknownWorker, match="there are: chat"):
        await intake(store).start(owner="", worker="chta", input=1)
