"""Seats: newcomers over the number are turned away in words they understand; who sits stays."""

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from outlast.errors import Capacity, TooMany
from outlast.server.access import EXPIRY_GRACE, Access
from outlast.server.identity import ANONYMOUS, Identity
from outlast.server.seats import COME_BACK, PER_OWNER, Seats
from tests.stage import names, site, staged

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


async def by_header(connection: HTTPConnection) -> str | None:
    return connection.headers.get("x-user")


def test_an_owner_has_so_many_seats_and_the_node_so_many() -> None:
    seats = Seats(per_owner=2, per_node=3)
    with seats.take("ann"), seats.take("ann"):
        with pytest.raises(TooMany), seats.take("ann"):
            pass
        with seats.take("bob"):
            with pytest.raises(Capacity), seats.take("eve"):
                pass
            with pytest.raises(Capacity), seats.take("ann"):
                pass
    with seats.take("ann"), seats.take("ann"):
        pass


def test_where_nobody_is_asked_who_they_are_only_the_nodes_number_holds() -> None:
    seats = Seats(per_owner=1, per_node=2)
    with seats.take(ANONYMOUS), seats.take(ANONYMOUS), pytest.raises(Capacity), seats.take(ANONYMOUS):
        pass


@pytest.mark.attack("Z10")
@pytest.mark.parametrize("tails", [500, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.case(51)
async def test_of_thousands_of_tails_of_one_user_those_over_the_cap_are_sent_away_and_none_that_sits_is_evicted(
    tails: int,
) -> None:
    asking = Access(report=[].append, authenticate=by_header)
    async with staged() as stage, site(stage, access=asking) as here:
        run = await stage.active("r1", owner="ann")
        answered: Counter[str] = Counter()
        seated = asyncio.Event()

        async def tail() -> None:
            async with here.stream("/runs/r1/events", headers={"x-user": "ann"}, timeout=None) as stream:
                assert stream.response.status_code == 200
                first = await stream.next()
                if first is not None and first.event == "outlast.drain":
                    assert json.loads(first.data)["reason"] == "capacity"
                    assert await stream.next() is None
                    answered["sent away"] += 1
                    return
                answered["seated"] += 1
                if answered["seated"] == PER_OWNER:
                    seated.set()
                await stream.until("text")
                assert names(await stream.rest())[-1] == "outlast.end"
                answered["served to the end"] += 1

        async with asyncio.TaskGroup() as tasks:
            for number in range(tails):
                tasks.create_task(tail())
                if number % PER_OWNER == 0:
                    await asyncio.sleep(0.01)
            await seated.wait()
            while answered["sent away"] < tails - PER_OWNER:
                await asyncio.sleep(1)
            assert here.hub.readers == PER_OWNER
            await stage.say(run, "for those who sit")
            await stage.settle(run)
        assert answered == {"seated": PER_OWNER, "sent away": tails - PER_OWNER, "served to the end": PER_OWNER}


@pytest.mark.attack("Z10")
async def test_further_tails_of_an_owner_who_has_no_seat_left_are_turned_away_and_those_that_are_there_stay() -> None:
    asking = Access(report=[].append, authenticate=by_header)
    async with staged() as stage, site(stage, access=asking, seats=Seats(per_owner=5, per_node=6)) as here:
        run = await stage.active("r1", owner="ann")
        await stage.active("r2", owner="bob")
        async with AsyncExitStack() as open_streams:
            ann = {"x-user": "ann"}
            tails = [
                await open_streams.enter_async_context(here.stream("/runs/r1/events", headers=ann)) for _ in range(5)
            ]
            for tail in tails:
                await tail.until("outlast.caught-up")
            retries = set()
            for _ in range(300):
                async with here.client.stream(
                    "GET", "/runs/r1/events", headers={"accept": "text/event-stream", **ann}
                ) as refused:
                    assert refused.status_code == 200
                    body = await refused.aread()
                retries.add(body.split(b"retry: ")[1].split(b"\n")[0])
                assert b"event: outlast.drain" in body
                assert json.loads(body.split(b"data: ")[1].split(b"\n")[0])["reason"] == "capacity"
            assert len(retries) > 1  # they do not all come again at once
            assert all(COME_BACK / 2 <= int(retry) / 1000 <= COME_BACK for retry in retries)
            assert here.hub.readers == 5
            async with here.stream("/runs/r2/events", headers={"x-user": "bob"}) as bobs:  # others are served
                await bobs.until("outlast.caught-up")
                async with here.stream("/runs/r2/events", headers={"x-user": "eve"}) as nobody:
                    assert nobody.response.status_code == 404
            await stage.say(run, "for those who sit")
            for tail in tails:
                assert names(await tail.until("text"))[-1] == "text"
        async with here.stream("/runs/r1/events", headers=ann) as again:  # their seats are free again
            await again.until("outlast.caught-up")


@pytest.mark.attack("Z10")
@pytest.mark.parametrize(
    ("seats", "status", "code"),
    [(Seats(per_owner=1), 429, "too_many"), (Seats(per_node=1), 503, "capacity")],
    ids=["owner", "node"],
)
async def test_who_waits_for_a_page_takes_a_seat_and_is_refused_without_one(
    seats: Seats, status: int, code: str
) -> None:
    asking = Access(report=[].append, authenticate=by_header)
    async with staged() as stage, site(stage, access=asking, seats=seats) as here:
        run = await stage.active("r1", owner="ann")
        ann = {"x-user": "ann"}
        first = asyncio.create_task(here.client.get("/runs/r1/events", params={"wait": 30}, headers=ann, timeout=None))
        await asyncio.sleep(1)
        refused = await here.client.get("/runs/r1/events", params={"wait": 30}, headers=ann)
        assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (status, code, "2")
        at_once = await here.client.get("/runs/r1/events", headers=ann)  # who does not wait needs no seat
        assert at_once.status_code == 200
        await stage.say(run, "for the one who waits")
        assert [each["type"] for each in (await first).json()["events"]] == ["text"]
        again = await here.client.get("/runs/r1/events", params={"wait": 1, "after": "1"}, headers=ann)
        assert again.status_code == 200


@pytest.mark.attack("Z13")
async def test_nobody_waits_for_a_page_longer_than_their_credentials_are_good() -> None:
    clock = asyncio.get_running_loop().time

    async def authenticate(_connection: HTTPConnection) -> Identity:
        return Identity(owner="ann", expires_at=10.0)

    asking = Access(report=[].append, authenticate=authenticate, clock=clock)
    async with staged() as stage, site(stage, access=asking) as here:
        await stage.active("r1", owner="ann")
        assert (await here.client.get("/runs/r1/events?wait=60", timeout=None)).status_code == 200
        assert clock() == 10 + EXPIRY_GRACE


async def test_a_start_that_finds_no_seat_is_a_start_all_the_same() -> None:
    async with staged() as stage, site(stage, seats=Seats(per_node=1)) as here:
        await stage.active("r1")
        async with here.stream("/runs/r1/events") as tail:
            await tail.until("outlast.caught-up")
            said = {"worker": "chat", "input": 1, "id": "r2"}
            async with here.client.stream(
                "POST", "/runs", json=said, headers={"accept": "text/event-stream"}
            ) as started:
                assert (started.status_code, started.headers["location"]) == (201, "/runs/r2")
                assert b'"reason":"capacity"' in await started.aread()


@pytest.mark.attack("Z13")
async def test_a_stream_ends_when_its_readers_credentials_have_ended_and_the_grace_is_over() -> None:
    clock = asyncio.get_running_loop().time
    ends: dict[str, float] = {"short": clock() + 100, "long": clock() + 1000}

    async def authenticate(connection: HTTPConnection) -> Identity:
        return Identity(owner="ann", expires_at=ends[connection.headers["x-token"]])

    asking = Access(report=[].append, authenticate=authenticate, clock=clock)
    async with staged() as stage, site(stage, access=asking) as here:
        run = await stage.active("r1", owner="ann")
        async with (
            here.stream("/runs/r1/events", headers={"x-token": "short"}, timeout=None) as short,
            here.stream("/runs/r1/events", headers={"x-token": "long"}, timeout=None) as long,
        ):
            reading = asyncio.create_task(long.until("text"))
            said = await short.rest()
            assert clock() == pytest.approx(ends["short"] + EXPIRY_GRACE, abs=0.1)
            assert said[-1].event == "outlast.drain"
            assert json.loads(said[-1].data)["reason"] == "expired"
            again: Any = await here.client.get(
                "/runs/r1/events", headers={"x-token": "short", "accept": "text/event-stream"}
            )
            assert (again.status_code, again.json()["code"]) == (401, "unauthenticated")
            await stage.say(run, "later")
            assert (await reading)[-1].event == "text"


@pytest.mark.attack("Z13")
@pytest.mark.parametrize(
    ("jump", "ends_at"), [(3600.0, 60.0), (-3600.0, 130.0)], ids=["asleep for an hour", "set back"]
)
async def test_a_machine_that_sleeps_or_sets_its_clock_back_keeps_no_stream_beyond_its_credentials(
    jump: float, ends_at: float
) -> None:
    loop, ahead = asyncio.get_running_loop(), [0.0]

    async def authenticate(_connection: HTTPConnection) -> Identity:
        return Identity(owner="ann", expires_at=100.0)

    asking = Access(report=[].append, authenticate=authenticate, clock=lambda: loop.time() + ahead[0])
    async with staged() as stage, site(stage, access=asking) as here:
        await stage.active("r1", owner="ann")
        async with here.stream("/runs/r1/events", timeout=None) as stream:
            reading = asyncio.create_task(stream.rest())
            await asyncio.sleep(45)
            ahead[0] = jump
            assert (await reading)[-1].event == "outlast.drain"
            assert loop.time() == pytest.approx(ends_at, abs=0.1)
