"""One exchange of a session, between an application and whoever grants it bytes."""

import asyncio
from typing import Any

import pytest

from outlast.errors import WireError
from outlast.server.session.exchange import GRANTED_WITHIN, HELD, Exchange, Stock
from outlast.wire.session import PIECE, WINDOW, Answer, Ask, Broken, End, FromServer, Piece
from tests.stage import turns

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

START = {"type": "http.response.start", "status": 200, "headers": [(b"ETag", b"x"), (b"set-cookie", b"a=b")]}


class Bench:
    """An exchange whose frames are kept."""

    def __init__(self, method: str = "GET", body: str | None = None, stock: Stock | None = None) -> None:
        self.said: list[FromServer] = []
        self.exchange = Exchange(Ask(exchange=7, method=method, path="/", body=body), self.say, stock or Stock())

    async def say(self, frame: FromServer) -> None:
        self.said.append(frame)

    async def give(self, body: bytes = b"", *, more: bool = False) -> None:
        await self.exchange.send({"type": "http.response.body", "body": body, "more_body": more})

    @property
    def body(self) -> bytes:
        return b"".join(frame.data for frame in self.said if isinstance(frame, Piece))


async def test_an_answer_is_its_head_its_pieces_and_an_end() -> None:
    bench = Bench(body="asked")
    assert await bench.exchange.receive() == {"type": "http.request", "body": b"asked", "more_body": False}
    await bench.exchange.send(START)
    await bench.give(b"one", more=True)
    await bench.give(b"", more=True)
    await bench.give(b"two")
    assert bench.said == [
        Answer(exchange=7, status=200, headers={"etag": "x"}),
        Piece(exchange=7, data=b"one"),
        Piece(exchange=7, data=b"two"),
        End(exchange=7),
    ]
    assert await bench.exchange.receive() == {"type": "http.disconnect"}
    await bench.exchange.end()
    assert bench.said[-1] == End(exchange=7), "it ends once"


async def test_what_ends_without_an_end_is_broken() -> None:
    silent, begun = Bench(), Bench()
    await begun.exchange.send(START)
    await begun.give(b"half", more=True)
    for bench in (silent, begun):
        await bench.exchange.end()
        await bench.exchange.end()
        assert [frame for frame in bench.said if isinstance(frame, Broken | End)] == [Broken(exchange=7)]


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
async def test_what_has_no_body_has_no_pieces(method: str, status: int) -> None:
    bench = Bench(method)
    await bench.exchange.send({**START, "status": status})
    await bench.give(b"swallowed")
    assert bench.said == [Answer(exchange=7, status=status, headers={"etag": "x"}), End(exchange=7)]


async def test_a_send_waits_until_its_bytes_are_granted() -> None:
    bench = Bench()
    await bench.exchange.send(START)
    giving = asyncio.create_task(bench.give(b"x" * (WINDOW + PIECE + 1)))
    await turns()
    assert len(bench.body) == WINDOW
    assert max(len(frame.data) for frame in bench.said if isinstance(frame, Piece)) == PIECE
    bench.exchange.grant(PIECE)
    await turns()
    assert len(bench.body) == WINDOW + PIECE
    assert not giving.done()
    bench.exchange.grant(1)
    await giving
    assert bench.said[-1] == End(exchange=7)
    with pytest.raises(WireError):
        bench.exchange.grant(WINDOW + 1)


async def test_what_a_client_left_is_told_so_and_sends_nowhere() -> None:
    bench = Bench(body="never taken")
    await bench.exchange.send(START)
    giving = asyncio.create_task(bench.give(bytes(2 * WINDOW)))
    await turns()
    bench.exchange.leave()
    await giving
    assert len(bench.body) == WINDOW
    assert await bench.exchange.receive() == {"type": "http.disconnect"}
    others = asyncio.create_task(turns(100))
    while not others.done():  # which an application that does nothing but send lets run
        await bench.give(b"more", more=True)
    assert len(bench.body) == WINDOW
    await bench.exchange.end()
    assert bench.said[-1] == Broken(exchange=7)


@pytest.mark.fault("X14")
async def test_what_waits_for_grants_is_bounded_over_all_exchanges_of_a_session() -> None:
    stock, page = Stock(), bytes(HELD // 4)
    benches = [Bench(stock=stock) for _ in range(5)]
    for bench in benches:
        await bench.exchange.send(START)
    giving = [asyncio.create_task(bench.give(page)) for bench in benches]
    await turns()
    assert [each.done() for each in giving] == [False] * 4 + [True], "one is too many"
    assert await benches[4].exchange.receive() == {"type": "http.disconnect"}
    await benches[4].exchange.end()
    assert benches[4].said[-1] == Broken(exchange=7)
    benches[0].exchange.leave()
    benches[1].exchange.grant(WINDOW)
    await turns()
    late = Bench(stock=stock)
    await late.exchange.send(START)
    giving.append(asyncio.create_task(late.give(page)))
    await turns()
    assert not giving[-1].done(), "those that are gone, or were granted, hold nothing any more"
    for bench in (*benches, late):
        bench.exchange.leave()
    await asyncio.gather(*giving)


async def test_whoever_waits_for_the_client_to_leave_hears_of_it() -> None:
    bench = Bench()
    await bench.exchange.receive()
    waiting = asyncio.create_task(bench.exchange.receive())
    await turns()
    assert not waiting.done()
    bench.exchange.leave()
    assert await waiting == {"type": "http.disconnect"}


async def test_a_client_that_grants_nothing_has_left_at_some_time() -> None:
    bench = Bench()
    await bench.exchange.send(START)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await bench.give(bytes(2 * WINDOW))
    assert loop.time() - began == GRANTED_WITHIN
    assert await bench.exchange.receive() == {"type": "http.disconnect"}


@pytest.mark.parametrize(
    "messages",
    [
        [{"type": "http.response.body", "body": b"early"}],
        [START, START],
        [START, {"type": "http.response.body"}, {"type": "http.response.body"}],
        [{"type": "websocket.accept"}],
    ],
)
async def test_an_application_that_speaks_out_of_turn_is_told(messages: list[Any]) -> None:
    bench = Bench()
    for message in messages[:-1]:
        await bench.exchange.send(message)
    with pytest.raises(RuntimeError, match="out of place"):
        await bench.exchange.send(messages[-1])


async def test_a_last_word_that_was_cancelled_before_it_went_is_said_as_broken() -> None:
    bench, room = Bench(), asyncio.Event()

    async def say(frame: FromServer) -> None:
        if isinstance(frame, End):
            await room.wait()
        bench.said.append(frame)

    exchange = Exchange(Ask(exchange=7, method="GET", path="/"), say, Stock())
    await exchange.send(START)
    ending = asyncio.create_task(exchange.send({"type": "http.response.body"}))
    await turns()
    ending.cancel()
    await asyncio.wait({ending})
    await exchange.end()
    assert bench.said[-1] == Broken(exchange=7)
