"""What keeps for a client, under the contract of its port: each promise of `outlast.client.keeper`."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from outlast.client.keeper import Keeper
from outlast.errors import IdConflict, InputInvalid, OutboxFull
from outlast.log.cursor import Cursor
from outlast.place import Place
from outlast.send import MOST_BYTES, MOST_SENDS, TRANSITIONS, Kind, NewSend, Send, State
from outlast.stores.sqlite.keep import Keep
from tests.disk import heard, program

pytestmark = pytest.mark.anyio

HERE, THERE = "http://here", "http://there"
PLACE = Place(run="r1", owner=None, types=None, cursor=Cursor(3, b"12345678"))


def start(run: str, text: str = "hello", *, owner: str | None = None) -> NewSend:
    return NewSend(kind=Kind.START, run=run, owner=owner, content=f'{{"text": "{text}"}}'.encode())


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[Keeper]:
    keep = Keep(tmp_path / "client.db")
    await keep.open()
    yield keep
    await keep.close()


@pytest.fixture
async def other(tmp_path: Path, keeper: Keeper) -> AsyncIterator[Keeper]:
    """Open what another process would have of it."""
    keep = Keep(tmp_path / "client.db")
    await keep.open()
    yield keep
    await keep.close()


async def rejected(keeper: Keeper, send: Send) -> Send:
    await keeper.mark_sent(send)
    await keeper.settle(HERE, send, code="thread_busy")
    return await keeper.send(send.number)


async def accepted(keeper: Keeper, send: Send) -> Send:
    await keeper.mark_sent(send)
    await keeper.settle(HERE, send, code=None)
    return await keeper.send(send.number)


# ---- 1: durable before answered ----

DYING = """
import json
from outlast.place import Place
from outlast.log.cursor import Cursor
from outlast.send import Kind, NewSend
from outlast.stores.sqlite.keep import Keep
async def main():
    keep = Keep(sys.argv[1])
    await keep.open()
    await keep.move("http://here", [Place(run="r1", owner=None, types=None, cursor=Cursor(3, b"12345678"))])
    first = await keep.add("http://here", NewSend(kind=Kind.START, run="r1", owner=None, content=b"{}"))
    await keep.add("http://here", NewSend(kind=Kind.STOP, run="r1", owner=None, content=b"{}"))
    await keep.mark_sent(first)
    assert keep.hold("http://here")
    say("kept")
    sys.stdin.readline()
asyncio.run(main())
"""


@pytest.mark.behaviour("R11")
async def test_what_was_answered_survives_the_death_of_the_process(tmp_path: Path) -> None:
    path = tmp_path / "client.db"
    with program(DYING, path) as process:
        assert heard(process) == "kept"
        process.kill()
        process.wait()
    keep = Keep(path)
    await keep.open()
    assert await keep.place(HERE, PLACE) == PLACE
    sends = await keep.sends(HERE)
    assert [(send.kind, send.state, send.tries) for send in sends] == [
        (Kind.START, State.SENT, 1),
        (Kind.STOP, State.QUEUED, 0),
    ]
    assert keep.hold(HERE)
    await keep.close()


# ---- 2, 3: all or nothing, apart ----


async def test_what_is_refused_has_written_nothing(keeper: Keeper) -> None:
    await keeper.add(HERE, start("r1"))
    before = await keeper.sends(HERE)
    with pytest.raises(IdConflict):
        await keeper.add(HERE, start("r1", "another"))
    assert await keeper.sends(HERE) == before


async def test_servers_know_nothing_of_each_other(keeper: Keeper) -> None:
    await keeper.move(HERE, [PLACE])
    send = await keeper.add(HERE, start("r1"))
    assert await keeper.place(THERE, PLACE) is None
    assert (await keeper.sends(THERE), await keeper.next_send(THERE)) == ([], None)
    assert (await keeper.add(THERE, start("r1", "another"))).number != send.number
    await keeper.forget_place(THERE, PLACE)
    assert await keeper.place(HERE, PLACE) == PLACE
    assert keeper.hold(HERE)
    assert keeper.hold(THERE)


# ---- 4, 5: a key is one send, in order ----


@pytest.mark.behaviour("R11")
async def test_the_same_send_asked_for_again_is_the_one_that_is_there(keeper: Keeper, other: Keeper) -> None:
    send = await keeper.add(HERE, start("r1"))
    assert await other.add(HERE, start("r1")) == send
    done = await accepted(keeper, send)
    assert await other.add(HERE, start("r1")) == done
    assert len(await keeper.sends(HERE)) == 1


async def test_another_owner_or_another_kind_is_another_send(keeper: Keeper) -> None:
    stop = NewSend(kind=Kind.STOP, run="r1", owner=None, content=b"{}")
    added = [await keeper.add(HERE, new) for new in (start("r1"), start("r1", owner="ann"), stop)]
    assert await keeper.sends(HERE) == added


async def test_what_is_next_is_the_oldest_without_an_answer(keeper: Keeper) -> None:
    first, second, third = [await keeper.add(HERE, start(run)) for run in ("r1", "r2", "r3")]
    await keeper.mark_sent(first)
    assert await keeper.next_send(HERE) == replace(first, state=State.SENT, tries=1)
    await accepted(keeper, first)
    assert await keeper.next_send(HERE) == second
    await rejected(keeper, second)
    assert await keeper.next_send(HERE) == third
    await accepted(keeper, third)
    assert await keeper.next_send(HERE) is None


# ---- 6: only forwards ----


async def brought(keeper: Keeper, state: State) -> Send:
    """Bring a send into a state."""
    send = await keeper.add(HERE, start("r1"))
    match state:
        case State.QUEUED:
            return send
        case State.SENT:
            await keeper.mark_sent(send)
        case State.ACCEPTED:
            await accepted(keeper, send)
        case State.REJECTED:
            await rejected(keeper, send)
    return await keeper.send(send.number)


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("asked", [State.SENT, State.ACCEPTED, State.REJECTED])
async def test_a_send_goes_only_where_the_table_leads(keeper: Keeper, state: State, asked: State) -> None:
    before = await brought(keeper, state)
    if asked is State.SENT:
        assert await keeper.mark_sent(before) is (asked in TRANSITIONS[state])
    else:
        await keeper.settle(HERE, before, code=None if asked is State.ACCEPTED else "forbidden")
    after = await keeper.send(before.number)
    assert after.state is (asked if asked in TRANSITIONS[state] else state)
    if asked not in TRANSITIONS[state]:
        assert after == before


@pytest.mark.parametrize("state", list(State))
async def test_only_what_cannot_have_arrived_or_was_answered_is_forgotten(keeper: Keeper, state: State) -> None:
    send = await brought(keeper, state)
    assert await keeper.forget_send(send) is (state is not State.SENT)
    assert [each.number for each in await keeper.sends(HERE)] == ([send.number] if state is State.SENT else [])
    if state is not State.SENT:
        assert not await keeper.mark_sent(send)
        assert not await keeper.forget_send(send)
        with pytest.raises(InputInvalid, match="no longer"):
            await keeper.send(send.number)


# ---- 7: bounded ----


async def test_a_full_outbox_says_so_until_something_of_it_is_answered_or_forgotten(keeper: Keeper) -> None:
    half = "x" * (MOST_BYTES // 2)
    first = await keeper.add(HERE, start("r1", half))
    with pytest.raises(OutboxFull, match="forget what was rejected"):
        await keeper.add(HERE, start("r2", half))
    await rejected(keeper, first)
    with pytest.raises(OutboxFull):
        await keeper.add(HERE, start("r2", half))
    assert await keeper.forget_send(first)
    second = await keeper.add(HERE, start("r2", half))
    assert (await accepted(keeper, second)).content == b""
    await keeper.add(HERE, start("r3", half))
    await keeper.add(THERE, start("r3", half))


async def test_there_are_never_more_sends_than_may_be(keeper: Keeper) -> None:
    for number in range(MOST_SENDS):
        await keeper.add(HERE, start(f"r{number}"))
    with pytest.raises(OutboxFull):
        await keeper.add(HERE, start("one more"))
    assert (await keeper.add(HERE, start("r0"))).run == "r0"  # it is there already


# ---- 8: a place is what was last written ----


@pytest.mark.behaviour("R3")
async def test_of_each_view_there_is_one_place_and_it_is_the_last(keeper: Keeper, other: Keeper) -> None:
    views = [PLACE, replace(PLACE, types="text"), replace(PLACE, owner="ann"), replace(PLACE, run="r2")]
    assert [await keeper.place(HERE, view) for view in views] == [None] * 4
    moved = [replace(view, cursor=Cursor(number + 1, None)) for number, view in enumerate(views)]
    await keeper.move(HERE, moved)
    back = replace(PLACE, cursor=Cursor(0, None), over=True)
    await other.move(HERE, [back])
    assert [await keeper.place(HERE, view) for view in views] == [back, *moved[1:]]


async def test_with_a_run_every_view_of_it_is_forgotten(keeper: Keeper) -> None:
    views = [PLACE, replace(PLACE, types="text"), replace(PLACE, owner="ann"), replace(PLACE, run="r2")]
    await keeper.move(HERE, views)
    for _ in range(2):
        await keeper.forget_place(HERE, PLACE)
    assert [await keeper.place(HERE, view) for view in views] == [None, None, *views[2:]]


# ---- 9: one holds ----

HOLDING = """
from outlast.stores.sqlite.keep import Keep
async def main():
    keep = Keep(sys.argv[1])
    await keep.open()
    say(str(keep.hold("http://here")))
    sys.stdin.readline()
asyncio.run(main())
"""


async def test_at_most_one_holds_a_server(keeper: Keeper, other: Keeper) -> None:
    assert keeper.hold(HERE)
    assert not keeper.hold(HERE)  # another client of this process has it
    assert not other.hold(HERE)
    for _ in range(2):
        keeper.let_go(HERE)
    assert other.hold(HERE)
    assert not keeper.hold(HERE)
    other.let_go(HERE)
    assert keeper.hold(HERE)


async def test_who_dies_lets_go(keeper: Keeper, tmp_path: Path) -> None:
    with program(HOLDING, tmp_path / "client.db") as process:
        assert heard(process) == "True"
        assert not keeper.hold(HERE)
        process.kill()
        process.wait()
        assert keeper.hold(HERE)
