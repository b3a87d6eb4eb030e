"""A session carries many requests over one socket, and each behaves as if it had a wire of its own."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from outlast.client.session import LEAVE_WITHIN, Exchange, Session, Unopened
from outlast.client.transport import Lost
from outlast.errors import WireError
from outlast.supervision.phase import Trouble
from outlast.wire.session import EXCHANGES, PIECE, SUBPROTOCOL, WINDOW, Answer, Ask, Grant, Leave, Piece
from tests.talks import SessionPeer, Talk

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

REQUEST = httpx2.Request("GET", "http://outlast.example/runs")


@asynccontextmanager
async def spoken(peer: SessionPeer, *, is_known: bool = True) -> AsyncIterator[Session]:
    """Hold a session with a peer, and see it closed in the end."""

    async def open() -> ClientConnection:
        return await connect(f"{peer.url.replace('http', 'ws')}/session", subprotocols=[Subprotocol(SUBPROTOCOL)])

    session = Session(open, is_known=lambda: is_known, heard=lambda: None)
    try:
        yield session
    finally:
        await close(session)
    await peer.until(lambda peer: not any(talk.is_open for talk in peer.talks))


async def close(session: Session) -> None:
    """End a session, and wait until it has."""
    session.end()
    session.end()
    await asyncio.wait([session.task])
    if not session.task.cancelled():
        session.task.result()


async def ask(session: Session, *, read: float | None = None, **said: str) -> Exchange:
    """Ask something, and return the exchange."""
    request = httpx2.Request("GET", "http://outlast.example/", extensions={"timeout": {"read": read}})
    asked = {"method": "GET", "path": "/runs", **said}
    return await session.ask(request, lambda number: Ask(exchange=number, **asked))  # type: ignore[arg-type]


async def body(exchange: Exchange) -> bytes:
    """Return all that is answered."""
    await exchange.head()
    return b"".join([piece async for piece in exchange])


async def answered(session: Session, peer: SessionPeer, number: int) -> None:
    """Ask once more, as the n-th in this session, and get the answer."""
    exchange = await ask(session)
    await peer.talks[0].answer(await peer.asked(number))
    await body(exchange)


async def echo(talk: Talk, asked: Ask) -> None:
    """Answer with the path."""
    await talk.answer(asked, asked.path.encode())


# ---- exchanges ----------------------------------------------------------------------------------


async def test_the_head_comes_before_the_body_and_each_piece_when_it_is_said() -> None:
    async with SessionPeer() as peer, spoken(peer) as session:
        exchange = await ask(session)
        asked = await peer.asked()
        (talk,) = peer.talks
        await talk.say(Answer(exchange=asked.exchange, status=203, headers={"etag": '"a"'}))
        head = await exchange.head()
        assert (head.status, head.headers) == (203, {"etag": '"a"'})
        pieces = aiter(exchange)
        for said in (b"one", b"two"):
            await talk.piece(asked, said)
            assert await anext(pieces) == said
        await talk.end(asked)
        assert [piece async for piece in pieces] == []


async def test_many_requests_share_a_socket_and_each_gets_its_own_answer() -> None:
    async with SessionPeer(echo) as peer, spoken(peer) as session:
        exchanges = await asyncio.gather(*(ask(session, path=f"/runs/{number}") for number in range(100)))
        answers = await asyncio.gather(*map(body, exchanges))
        assert answers == [f"/runs/{number}".encode() for number in range(100)]
        assert [asked.exchange for asked in peer.talks[0].of(Ask)] == list(range(1, 101))
    assert len(peer.talks) == 1


async def test_an_answer_whose_end_came_is_read_after_the_session_is_over() -> None:
    async with SessionPeer(echo) as peer, spoken(peer) as session:
        exchange = await ask(session)
        await exchange.head()
        whole = await ask(session)
        await body(whole)
        await close(session)
        assert await body(exchange) == b"/runs"


# ---- how much may come --------------------------------------------------------------------------


async def pour(talk: Talk, asked: Ask, size: int) -> None:
    """Say so many bytes."""
    for at in range(0, size, PIECE):
        await talk.piece(asked, bytes(min(PIECE, size - at)))


@pytest.mark.behaviour("R9")
async def test_a_reader_that_does_not_read_is_granted_nothing_and_holds_up_no_other() -> None:
    async with SessionPeer() as peer, spoken(peer) as session:
        slow, quick = await ask(session), await ask(session)
        first, second = await peer.asked(1), await peer.asked(2)
        (talk,) = peer.talks
        await talk.begin(first)
        await pour(talk, first, WINDOW)
        await talk.answer(second, b"at once")
        assert await body(quick) == b"at once"
        assert talk.of(Grant) == []
        pieces = aiter(slow)
        for _ in range(2):
            await anext(pieces)
        await peer.until(lambda _: len(talk.of(Grant)) == 1)
        assert talk.of(Grant) == [Grant(exchange=first.exchange, size=PIECE)], "what is worked on counts as kept"
        await talk.break_off(first)


async def test_of_what_has_come_whole_nothing_more_is_granted() -> None:
    async with SessionPeer() as peer, spoken(peer) as session:
        exchange = await ask(session)
        asked = await peer.asked()
        (talk,) = peer.talks
        await talk.begin(asked)
        await pour(talk, asked, WINDOW)
        await talk.end(asked)
        await answered(session, peer, 2)  # and what was said before has come too
        assert len(await body(exchange)) == WINDOW
        await answered(session, peer, 3)
        assert talk.of(Grant) == []


@pytest.mark.behaviour("R9")
async def test_a_body_far_larger_than_what_may_be_under_way_comes_whole() -> None:
    size = 5 * WINDOW + 7

    async def script(talk: Talk, asked: Ask) -> None:
        await talk.begin(asked)
        for at in range(0, size, PIECE):
            sent = at + PIECE
            await peer.until(lambda _: sent <= WINDOW + sum(grant.size for grant in talk.of(Grant)))  # noqa: B023
            await talk.piece(asked, bytes(min(PIECE, size - at)))
        await talk.end(asked)

    async with SessionPeer(script) as peer, spoken(peer) as session:
        assert len(await body(await ask(session))) == size


# ---- leaving ------------------------------------------------------------------------------------


async def test_who_leaves_says_so_and_what_was_under_way_is_dropped() -> None:
    async with SessionPeer() as peer, spoken(peer) as session:
        exchange = await ask(session)
        asked = await peer.asked()
        (talk,) = peer.talks
        await talk.begin(asked)
        await exchange.head()
        await exchange.aclose()
        await exchange.aclose()
        await peer.until(lambda _: talk.of(Leave) == [Leave(exchange=asked.exchange)])
        await pour(talk, asked, WINDOW)
        await talk.break_off(asked)
        with pytest.raises(httpx2.RemoteProtocolError):
            await anext(aiter(exchange))
        other = await ask(session)
        await talk.answer(await peer.asked(2), b"still there")
        assert await body(other) == b"still there"
        assert talk.of(Grant) == []


async def test_who_has_read_everything_has_nothing_to_leave() -> None:
    async with SessionPeer(echo) as peer, spoken(peer) as session:
        exchange = await ask(session)
        await body(exchange)
        await exchange.aclose()
        await body(await ask(session))
        assert peer.talks[0].of(Leave) == []


async def test_a_socket_that_takes_nothing_keeps_nobody_and_hears_who_left_as_soon_as_it_does() -> None:
    async with SessionPeer() as peer, spoken(peer) as session:
        exchange = await ask(session)
        await peer.asked()
        (talk,) = peer.talks
        talk.socket.transport.pause_reading()
        filling = [asyncio.create_task(ask(session, body="x" * 1_000_000)) for _ in range(20)]
        await asyncio.sleep(1)
        assert not all(task.done() for task in filling)
        await exchange.aclose()
        assert asyncio.get_running_loop().time() == 1 + LEAVE_WITHIN
        for task in filling:
            task.cancel()
        talk.socket.transport.resume_reading()
        await asyncio.wait(filling)
        given_up = [task for task in filling if task.cancelled()]
        await peer.until(lambda _: len(talk.of(Leave)) == 1 + len(given_up))


# ---- broken off ---------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [False, True], ids=["before its head", "in its body"])
async def test_an_answer_that_is_broken_off_is_told_behind_what_came_of_it(begun: bool) -> None:
    async with SessionPeer() as peer, spoken(peer) as session:
        exchange = await ask(session)
        asked = await peer.asked()
        if begun:
            await peer.talks[0].begin(asked)
            await peer.talks[0].piece(asked, b"one")
        await peer.talks[0].break_off(asked)
        pieces = aiter(exchange)
        if begun:
            await exchange.head()
            assert await anext(pieces) == b"one"
        with pytest.raises(httpx2.RemoteProtocolError):
            await (anext(pieces) if begun else exchange.head())


async def test_a_socket_that_breaks_breaks_everything_that_is_open_over_it() -> None:
    async with SessionPeer() as peer, spoken(peer) as session:
        exchanges = [await ask(session) for _ in range(3)]
        await peer.talks[0].begin(await peer.asked(1))
        await exchanges[0].head()
        await peer.asked(3)
        peer.talks[0].socket.transport.abort()
        for exchange in exchanges:
            with pytest.raises(httpx2.RemoteProtocolError):
                await body(exchange)
        assert not session.is_usable
        with pytest.raises(httpx2.RemoteProtocolError):
            await ask(session)


@pytest.mark.parametrize(("is_known", "error"), [(True, httpx2.RemoteProtocolError), (False, Lost)])
async def test_what_ends_before_its_first_frame_was_no_session_unless_one_was_spoken_there_lately(
    is_known: bool, error: type[Exception]
) -> None:
    async with SessionPeer() as peer, spoken(peer, is_known=is_known) as session:
        exchange = await ask(session)
        await peer.asked()
        peer.talks[0].socket.transport.abort()
        with pytest.raises(error) as caught:
            await exchange.head()
        assert not isinstance(caught.value, Lost) or caught.value.trouble is Trouble.FOREIGN


NONSENSE = {
    "no object": "[]",
    "no frame": "{}",
    "an end before the head": '{"end": 1}',
    "of no exchange": '{"end": 2}',
    "half a number": b"\x00\x00",
    "a piece before the head": Piece(exchange=1, data=b"one"),
    "too large a piece": b"\x00\x00\x00\x01" + bytes(PIECE + 1),
}


@pytest.mark.parametrize("said", NONSENSE.values(), ids=list(NONSENSE))
async def test_what_is_no_frame_ends_the_session_and_says_that_something_else_speaks(
    said: str | bytes | Piece,
) -> None:
    async with SessionPeer() as peer, spoken(peer) as session:
        exchange = await ask(session)
        await peer.asked()
        await peer.talks[0].say(said)
        with pytest.raises(Lost) as lost:
            await exchange.head()
        assert lost.value.trouble is Trouble.FOREIGN
        assert isinstance(lost.value.__cause__, WireError)
    assert peer.talks[0].socket.close_code == 1002


async def test_more_than_was_granted_ends_the_session() -> None:
    async with SessionPeer() as peer, spoken(peer) as session:
        exchange = await ask(session)
        asked = await peer.asked()
        await peer.talks[0].begin(asked)
        await exchange.head()
        await pour(peer.talks[0], asked, WINDOW + 1)
        await asyncio.wait([session.task])
        with pytest.raises(Lost):
            await body(exchange)
    assert peer.talks[0].socket.close_code == 1002


async def test_a_second_head_ends_the_session() -> None:
    async with SessionPeer() as peer, spoken(peer) as session:
        exchange = await ask(session)
        asked = await peer.asked()
        await peer.talks[0].begin(asked)
        await peer.talks[0].begin(asked)
        with pytest.raises(Lost):
            await body(exchange)


# ---- how long -----------------------------------------------------------------------------------


async def test_a_server_that_stands_still_is_left_alone_for_as_long_as_nobody_minds() -> None:
    async with SessionPeer() as peer, spoken(peer) as session:
        exchange = await ask(session)
        asked = await peer.asked()
        await asyncio.sleep(3600)
        await peer.talks[0].answer(asked, b"late")
        assert await body(exchange) == b"late"


async def test_the_read_timeout_of_a_request_is_kept() -> None:
    async with SessionPeer() as peer, spoken(peer) as session:
        exchange = await ask(session, read=5)
        await peer.asked()
        with pytest.raises(httpx2.ReadTimeout):
            await exchange.head()
        assert asyncio.get_running_loop().time() == 5.0


# ---- its end ------------------------------------------------------------------------------------


@pytest.mark.behaviour("N3")
async def test_a_session_that_is_retired_ends_with_the_last_of_its_exchanges() -> None:
    async with SessionPeer() as peer, spoken(peer) as session:
        first, second = await ask(session), await ask(session)
        session.retire()
        assert not session.is_usable
        talk = peer.talks[0]
        await talk.answer(await peer.asked(1), b"one")
        assert await body(first) == b"one"
        assert not session.task.done()
        await talk.answer(await peer.asked(2), b"two")
        assert await body(second) == b"two"
        await asyncio.wait([session.task])
        assert talk.socket.close_code == 1000


async def test_one_that_is_retired_before_it_is_open_still_carries_who_waits_for_it() -> None:
    async with SessionPeer(echo) as peer, spoken(peer) as session:
        asking = asyncio.create_task(ask(session))
        await asyncio.sleep(0)
        session.retire()
        assert await body(await asking) == b"/runs"
        await asyncio.wait([session.task])


async def test_one_that_is_closed_while_it_is_opened_tells_who_waits_for_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        peer = SessionPeer()
        peer.url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        async with spoken(peer) as session:
            asking = asyncio.create_task(ask(session))
            await asyncio.sleep(1)
            await close(session)
            with pytest.raises(Unopened):
                await asking


async def test_one_that_is_closed_before_it_began_tells_who_waits_for_it() -> None:
    async with SessionPeer() as peer, spoken(peer) as session:
        asking = asyncio.create_task(ask(session))
        await close(session)
        with pytest.raises(Unopened):
            await asking


async def test_a_request_that_is_given_up_before_it_is_answered_leaves() -> None:
    async with SessionPeer() as peer, spoken(peer) as session:
        exchange = await ask(session)
        await peer.asked()
        waiting = asyncio.create_task(exchange.head())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await exchange.aclose()
        await peer.until(lambda peer: len(peer.talks[0].of(Leave)) == 1)


async def test_a_session_takes_so_many_requests_at_once_and_no_more() -> None:
    async with SessionPeer() as peer, spoken(peer) as session:
        exchanges: list[Exchange] = []
        for _ in range(EXCHANGES):
            assert session.is_usable
            exchanges.append(await ask(session))
        assert not session.is_usable
        await peer.talks[0].answer(await peer.asked(1))
        await body(exchanges[0])
        assert session.is_usable


async def test_a_session_whose_numbers_run_out_makes_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.client.session.LAST", 2)
    async with SessionPeer(echo) as peer, spoken(peer) as session:
        for _ in range(2):
            assert session.is_usable
            await body(await ask(session))
        assert not session.is_usable


async def test_a_session_that_its_server_is_ending_takes_no_more_requests() -> None:
    async with SessionPeer(echo) as peer, spoken(peer) as session:
        await body(await ask(session))
        (talk,) = peer.talks
        talk.socket.transport.pause_reading()
        talk.socket.protocol.send_close(3008)
        talk.socket.send_data()
        await asyncio.sleep(0.1)
        assert not session.task.done()
        assert not session.is_usable
        talk.socket.transport.abort()


async def test_what_no_session_may_ask_is_refused_before_it_is_sent() -> None:
    async with SessionPeer(echo) as peer, spoken(peer) as session:
        with pytest.raises(WireError):
            await ask(session, path="no path")
        assert await body(await ask(session)) == b"/runs"
        assert [asked.exchange for asked in peer.talks[0].of(Ask)] == [1]


async def test_it_tells_both_ends_of_its_socket() -> None:
    async with SessionPeer(echo) as peer, spoken(peer) as session:
        assert session.get_extra_info("client_addr") is None
        await body(await ask(session))
        assert session.get_extra_info("client_addr") == peer.talks[0].socket.remote_address
        assert session.get_extra_info("server_addr") == peer.talks[0].socket.local_address
        assert isinstance(session.get_extra_info("socket"), object)
        assert session.get_extra_info("nothing like it") is None
