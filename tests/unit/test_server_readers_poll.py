import asyncio

import pytest

from outlast.errors import StoreUnavailable
from outlast.log.cursor import Cursor
from outlast.log.event import Event
from outlast.run import Run
from outlast.server.readers import poll
from outlast.server.readers.place import locate
from outlast.server.readers.poll import Page, Poll
from outlast.server.readers.view import WHOLE, View
from outlast.wire import native
from tests.stage import Site, Wire, scene

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]
A = View(types=frozenset({"A"}))


async def waiting(here: Site, run: Run, view: View = WHOLE) -> tuple[Poll, Page]:
    logs = here.hub._room.logs
    place = await locate(logs, run.log, Cursor(0, None))
    known = await poll.read(logs, run.log, place, view, limit=100)
    return here.hub.poll(run, place.behind(known.next), view=view), known


@pytest.mark.behaviour("F12")
async def test_many_that_wait_cost_the_store_what_one_costs() -> None:
    async with scene() as (stage, handled, here):
        run = await stage.active()
        await stage.say(run, "a")
        polls = [await waiting(here, run) for _ in range(200)]
        tasks = [asyncio.create_task(each.wait(Wire().receive, 30)) for each, _ in polls]
        await asyncio.sleep(5)
        assert not any(task.done() for task in tasks)
        reads = handled.logs.calls["read"]
        head = await stage.say(run, "b", "c")
        await asyncio.gather(*tasks)
        assert handled.logs.calls["read"] <= reads + 3, "one feed looks, whoever rang and whatever the number of polls"
        log = [native.event_json(stored) for stored in await stage.log(run)]
        for each, known in polls:
            page = each.page(known, limit=100)
            assert page is not None
            assert (page.lines, page.next, page.up_to_date, page.ended) == (log[1:], head, True, False)
        assert here.hub.readers == 0


async def test_nothing_that_comes_in_time_is_an_empty_page_at_the_same_place() -> None:
    async with scene() as (stage, _, here):
        run = await stage.active()
        each, known = await waiting(here, run)
        await each.wait(Wire().receive, 20)
        assert asyncio.get_running_loop().time() == 20
        assert each.page(known, limit=100) == known


@pytest.mark.case(111)
async def test_what_a_view_leaves_out_wakes_nobody_and_is_left_behind() -> None:
    async with scene() as (stage, _, here):
        run = await stage.active()
        each, known = await waiting(here, run, A)
        task = asyncio.create_task(each.wait(Wire().receive, 20))
        await asyncio.sleep(1)
        head = await stage.say(run, Event("B"), Event("C"))
        await task
        assert asyncio.get_running_loop().time() == 20
        page = each.page(known, limit=100)
        assert page is not None
        assert (page.lines, page.next, page.up_to_date) == ([], head, True)


async def test_a_page_of_few_leads_to_the_next_of_what_has_come() -> None:
    async with scene() as (stage, _, here):
        run = await stage.active()
        each, known = await waiting(here, run)
        task = asyncio.create_task(each.wait(Wire().receive, 20))
        await asyncio.sleep(1)
        await stage.say(run, "a", "b", "c")
        await task
        page = each.page(known, limit=2)
        assert page is not None
        assert (len(page.lines), page.next.seq, page.up_to_date) == (2, 2, False)


@pytest.mark.behaviour("F4")
async def test_the_end_of_the_run_ends_the_waiting() -> None:
    async with scene() as (stage, _, here):
        run = await stage.active()
        each, known = await waiting(here, run, A)
        task = asyncio.create_task(each.wait(Wire().receive, 60))
        await asyncio.sleep(1)
        await stage.settle(run)
        await task
        page = each.page(known, limit=100)
        assert page is not None
        assert (len(page.lines), page.ended) == (1, True)


@pytest.mark.behaviour("F11")
async def test_the_client_that_leaves_frees_it() -> None:
    async with scene() as (stage, _, here):
        run = await stage.active()
        wire = Wire()
        each, _known = await waiting(here, run)
        task = asyncio.create_task(each.wait(wire.receive, 60))
        await asyncio.sleep(1)
        assert here.hub.readers == 1
        wire.left.set()
        await task
        assert (asyncio.get_running_loop().time(), here.hub.readers) == (1, 0)


@pytest.mark.behaviour("F15")
async def test_a_node_that_closes_answers_early() -> None:
    async with scene() as (stage, _, here):
        run = await stage.active()
        each, known = await waiting(here, run)
        task = asyncio.create_task(each.wait(Wire().receive, 60))
        await asyncio.sleep(1)
        here.hub.close()
        await task
        assert asyncio.get_running_loop().time() == 1
        assert each.page(known, limit=100) == known


@pytest.mark.behaviour("F15")
async def test_at_a_node_that_closes_nobody_waits_again() -> None:
    async with scene() as (stage, _, here):
        run = await stage.active()
        async with here.as_client() as client:
            here.hub.drain()
            known = await client.get("/runs/r1/events")
            waited = await client.get("/runs/r1/events", params={"wait": 30})
            assert (known.status_code, waited.status_code) == (200, 503)
            assert (waited.json()["code"], waited.headers["retry-after"]) == ("draining", "2")
            await stage.say(run, "a")
            news = await client.get("/runs/r1/events", params={"wait": 30})
            assert (news.status_code, len(news.json()["events"])) == (200, 1)
        assert asyncio.get_running_loop().time() == 0


@pytest.mark.behaviour("F9")
async def test_a_store_that_fails_meanwhile_is_told() -> None:
    async with scene() as (stage, handled, here):
        run = await stage.active()
        each, _known = await waiting(here, run)
        task = asyncio.create_task(each.wait(Wire().receive, 60))
        await asyncio.sleep(0.5)

        async def fail(_call: str) -> None:
            raise StoreUnavailable("away")

        handled.logs.before = fail
        with pytest.raises(StoreUnavailable):
            await task


async def test_what_the_ring_no_longer_holds_only_the_log_can_tell() -> None:
    async with scene() as (stage, _, here):
        run = await stage.active()
        each, known = await waiting(here, run)
        task = asyncio.create_task(each.wait(Wire().receive, 60))
        await asyncio.sleep(1)
        each._feed.ring._limit = 10
        await stage.say(run, "a", "b", "c")
        await task
        assert each.page(known, limit=100) is None


async def test_what_was_passed_over_and_has_left_the_ring_only_the_log_can_tell() -> None:
    async with scene() as (stage, _, here):
        run = await stage.active()
        each, known = await waiting(here, run, A)
        task = asyncio.create_task(each.wait(Wire().receive, 60))
        await asyncio.sleep(1)
        each._feed.ring._limit = 10
        await stage.say(run, Event("B"))
        await asyncio.sleep(1)
        await stage.say(run, Event("A"))
        await task
        page = each.page(known, limit=100)
        assert page is not None
        assert (len(page.lines), page.next.seq) == (1, 2)


async def test_a_view_that_shows_nothing_of_a_long_log_gets_it_in_several_answers() -> None:
    async with scene() as (stage, handled, here):
        run = await stage.active()
        await stage.say(run, *(Event("B", number) for number in range(poll.READ * poll.READS + 1)))
        logs = here.hub._room.logs
        place = await locate(logs, run.log, Cursor(0, None))
        handled.logs.calls.clear()
        page = await poll.read(logs, run.log, place, A, limit=1)
        assert (page.lines, page.next.seq, page.up_to_date) == ([], poll.READ * poll.READS, False)
        assert handled.logs.calls["read"] == poll.READS
        rest = await poll.read(logs, run.log, place.behind(page.next), A, limit=1)
        assert (rest.lines, rest.up_to_date) == ([], True)
