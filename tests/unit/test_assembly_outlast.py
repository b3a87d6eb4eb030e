"""The object users hold: workers, lifespan, mounting, and the calls for a host's own handlers."""

import asyncio
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable

import httpx2
import pytest
from fastapi import FastAPI, Request, Response
from starlette.applications import Starlette
from starlette.routing import Mount

from outlast import (
    ActiveRun,
    Draining,
    NotStarted,
    Outlast,
    ReceivedEvent,
    RunGone,
    RunLive,
    RunNotFound,
    SettingsError,
    Status,
    StopAnswer,
    follow,
)
from outlast.client.asgi import StreamingTransport
from outlast.client.received import Received
from outlast.testing.asgi import lifespan

pytestmark = pytest.mark.anyio


def made(**options: object) -> Outlast:
    outlast = Outlast("sqlite://", **{"grace": 0.0, **options})

    @outlast.worker("echo")
    async def echo(run: ActiveRun) -> AsyncIterator[object]:
        yield run.input

    @outlast.worker("patient")
    async def patient(run: ActiveRun) -> None:
        await run.emit("here")
        await asyncio.Event().wait()

    return outlast


async def settled(outlast: Outlast, id: str) -> dict[str, object]:
    """Follow the run to its end through the stream, and return its status document."""
    async with client(outlast.app) as http:
        await http.get(f"/runs/{id}/events", headers={"accept": "text/event-stream"})
    return dict(await outlast.status(id))


def client(app: Callable[..., object]) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=StreamingTransport(app), base_url="http://localhost")  # type: ignore[arg-type]


async def test_a_run_started_in_the_hosts_own_handler_is_driven_to_its_outcome() -> None:
    outlast = made()
    async with outlast:
        run = await outlast.start("echo", "hello", thread="t1")
        document = await settled(outlast, run.id)
    assert (document["status"], document["thread"]) == ("completed", "t1")


@pytest.mark.behaviour("A1")
async def test_the_same_start_twice_is_the_same_run() -> None:
    outlast = made()
    async with outlast:
        first = await outlast.start("echo", {"a": 1, "b": 2}, id="r1")
        again = await outlast.start("echo", {"b": 2, "a": 1}, id="r1")
    assert first.log == again.log


async def test_a_stop_from_the_hosts_own_handler_ends_the_run() -> None:
    outlast = made()
    async with outlast:
        await outlast.start("patient", id="r1")
        stopped = await outlast.stop("r1", reason="enough")
        assert stopped.answer in {StopAnswer.ACCEPTED, StopAnswer.SETTLED}
        document = await settled(outlast, "r1")
        assert document["status"] == Status.CANCELLED
        assert (await outlast.stop("r1")).answer is StopAnswer.ALREADY


@pytest.mark.behaviour("S1", "S6", "F3")
@pytest.mark.case(25)
async def test_a_run_that_its_reader_left_is_listed_with_its_place_taken_up_live_and_stopped_unread() -> None:
    outlast = Outlast("sqlite://", grace=0.0)
    go_on = asyncio.Event()
    left, said = asyncio.Event(), asyncio.Event()

    @outlast.worker("talk")
    async def talk(run: ActiveRun) -> None:
        for number in range(4):
            await run.emit(str(number))
        await left.wait()
        for number in range(4, 8):
            await run.emit(str(number))
        said.set()
        await go_on.wait()
        await run.emit("live")
        await asyncio.Event().wait()

    async with outlast, client(outlast.app) as http:
        await http.post("/runs", json={"id": "r1", "worker": "talk", "input": 1})
        first = follow("http://localhost", "r1", client=http)
        seen = await _take(first, 5)
        await first.aclose()
        left.set()
        await said.wait()
        (listed,) = (await http.get("/runs?status=active")).json()["runs"]
        stored = outlast.events("r1")
        newest = (await _take(stored, 9))[-1]
        await stored.aclose()
        assert (listed["id"], listed["status"], listed["head"]) == ("r1", "active", str(newest.cursor))
        again = follow("http://localhost", "r1", client=http, after=seen[-1].cursor)
        seen += await _take(again, 4)
        go_on.set()
        seen += await _take(again, 1)
        assert [(each.seq, each.data) for each in seen[1:]] == [*((n + 2, str(n)) for n in range(8)), (10, "live")]
        await again.aclose()
        stopped = await http.post("/runs/r1/stop", json={"reason": "enough"})
        assert (stopped.status_code, stopped.json()["answer"]) == (202, "accepted")
        (end,) = await _take(follow("http://localhost", "r1", client=http, after=seen[-1].cursor), 2)
        assert end.type == "run.cancelled"
        (listed,) = (await http.get("/runs")).json()["runs"]
        assert (listed["status"], listed["head"]) == ("cancelled", str(end.cursor))
        assert (await http.get("/runs?status=active")).json()["runs"] == []


async def _take(events: AsyncIterator[Received], number: int) -> list[ReceivedEvent]:
    """Return the next events, fewer where they come to their end."""
    taken: list[ReceivedEvent] = []
    while len(taken) < number and (each := await anext(events, None)) is not None:
        assert isinstance(each, ReceivedEvent)
        taken.append(each)
    return taken


async def test_events_in_the_hosts_own_code_are_those_of_the_run_to_its_end() -> None:
    outlast = made()
    async with outlast:
        await outlast.start("echo", "x", owner="ada", id="r1")
        taken = [each async for each in outlast.events("r1", owner="ada")]
        assert isinstance(taken[0], ReceivedEvent)
        assert [each.type for each in taken if isinstance(each, ReceivedEvent)][-1] == "run.completed"
        rest = [each async for each in outlast.events("r1", owner="ada", after=str(taken[0].cursor))]
        assert rest == taken[1:]
        none = [each async for each in outlast.events("r1", owner="ada", after=taken[-1].cursor)]
        assert none == []
        ends = [each async for each in outlast.events("r1", owner="ada", types={"nothing"})]
        assert ends == taken[-1:]
        with pytest.raises(RunNotFound):
            await anext(outlast.events("r1", owner="eve"))
    with pytest.raises(NotStarted):
        await anext(outlast.events("r1", owner="ada"))


async def test_a_node_that_closes_tells_its_hosts_own_code() -> None:
    outlast = made()
    async with outlast:
        await outlast.start("patient", id="r1")
        events = outlast.events("r1")
        await anext(events)
        taking = asyncio.create_task(_rest(events))
        closing = asyncio.create_task(outlast.close())
        with pytest.raises(Draining):
            await taking
        await closing


async def _rest(events: AsyncGenerator[object, None]) -> None:
    async for _ in events:
        pass


async def test_a_handler_of_the_hosts_own_answers_with_the_log_of_a_run() -> None:
    outlast = made()
    app = FastAPI(lifespan=outlast.lifespan)

    @app.get("/mine/{id}")
    async def mine(id: str, request: Request) -> Response:
        return await outlast.response(id, request, owner="ada")

    async with lifespan(app), client(app) as http:
        await outlast.start("echo", "x", owner="ada", id="r1")
        assert [each async for each in outlast.events("r1", owner="ada")]
        streamed = await http.get("/mine/r1", headers={"accept": "text/event-stream"})
        assert b"event: outlast.end" in streamed.content
        assert (await http.get("/mine/r1")).json()["ended"]
        assert (await http.get("/mine/none")).status_code == 404


@pytest.mark.behaviour("L9")
async def test_an_ended_run_is_erased_from_the_hosts_own_handler_and_a_live_one_is_not() -> None:
    outlast = made()
    async with outlast:
        await outlast.start("patient", id="live")
        with pytest.raises(RunLive):
            await outlast.erase("live")
        await outlast.start("echo", "x", id="r1")
        await settled(outlast, "r1")
        with pytest.raises(RunNotFound):
            await outlast.erase("r1", owner="eve")
        await outlast.erase("r1")
        with pytest.raises(RunGone):
            await outlast.status("r1")
        with pytest.raises(RunGone):
            await outlast.start("echo", "x", id="r1")


async def test_another_owners_run_is_not_found() -> None:
    outlast = made()
    async with outlast:
        await outlast.start("echo", "x", owner="ada", id="r1")
        with pytest.raises(RunNotFound):
            await outlast.status("r1", owner="eve")


@pytest.mark.parametrize("framework", [FastAPI, Starlette])
async def test_mounted_under_a_prefix_it_answers_once_the_lifespan_has_run(framework: type[Starlette]) -> None:
    outlast = made()
    app = framework(lifespan=outlast.lifespan)
    app.mount("/agents", outlast.app)
    async with client(app) as http:
        early = await http.get("/agents/healthz")
        assert (early.status_code, early.json()["code"]) == (503, "not_started")
        assert "lifespan=outlast.lifespan" in early.json()["detail"]
        async with lifespan(app):
            answer = await http.post("/agents/runs", json={"worker": "echo", "input": 1, "id": "r1"})
            assert (answer.status_code, answer.headers["location"]) == (201, "/agents/runs/r1")
            assert (await http.get("/agents/healthz")).json()["workers"] == ["echo", "patient"]
        assert (await http.get("/agents/healthz")).status_code == 503


async def test_served_by_itself_it_has_a_lifespan_of_its_own() -> None:
    outlast = made()
    async with lifespan(outlast.app), client(outlast.app) as http:
        assert (await http.get("/healthz")).status_code == 200


async def test_it_may_be_mounted_as_a_starlette_route_too() -> None:
    outlast = made()
    app = Starlette(routes=[Mount("/x", app=outlast.app)], lifespan=outlast.lifespan)
    async with lifespan(app), client(app) as http:
        assert (await http.get("/x/healthz")).status_code == 200


async def test_it_can_run_again_after_it_was_closed() -> None:
    outlast = made()
    for _ in range(2):
        async with outlast:
            await outlast.start("echo", "x", id="r1")


async def test_calls_before_the_lifespan_say_what_to_do() -> None:
    outlast = made()
    with pytest.raises(NotStarted, match="lifespan=outlast"):
        await outlast.start("echo", "x")
    with pytest.raises(NotStarted):
        await outlast.status("r1")


async def test_entering_it_twice_is_refused() -> None:
    outlast = made()
    async with outlast:
        with pytest.raises(SettingsError, match="running already"):
            await outlast.__aenter__()
        await outlast.start("echo", "x", id="r1")


async def test_workers_are_registered_once_by_proper_names_and_before_the_start() -> None:
    outlast = made()
    for name in ("echo", "", "a b", "x" * 129, "."):
        with pytest.raises(SettingsError, match="registered once"):
            outlast.worker(name)
    async with outlast:
        with pytest.raises(SettingsError, match="before the application starts"):
            outlast.worker("late")
        with pytest.raises(SettingsError, match="before the application starts"):
            outlast.reconfigure(store="sqlite:///x.db")


async def test_a_worker_is_of_a_kind_that_there_is() -> None:
    outlast = made()
    outlast.worker("agent", kind="resume")(lambda run: None)
    assert (outlast.workers["agent"].kind, outlast.workers["echo"].kind) == ("resume", "restart")
    with pytest.raises(SettingsError, match="one of restart, resume"):
        outlast.worker("other", kind="reattach")  # type: ignore[arg-type]


@pytest.mark.behaviour("D3", "F15")
async def test_closing_takes_no_runs_and_keeps_its_readers_where_nobody_else_is_there_to_read_to_them() -> None:
    outlast = made(grace=3600.0)
    async with outlast, client(outlast.app) as http:
        await outlast.start("patient", id="r1")
        async with http.stream("GET", "/runs/r1/events", headers={"accept": "text/event-stream"}) as stream:
            chunks = stream.aiter_bytes()
            await anext(chunks)
            closing = asyncio.create_task(outlast.close())
            await asyncio.sleep(0)
            late = await http.post("/runs", json={"worker": "echo", "input": 1})
            assert (late.status_code, late.json()["code"], late.headers["retry-after"]) == (503, "draining", "2")
            assert (await http.get("/runs/r1")).json()["status"] == "active"  # and it goes on, for as long as it may
            (node,) = (await http.get("/nodes")).json()["nodes"]
            assert (node["draining"], "patient" in node["workers"]) == (True, True)
            assert not closing.done()
            hurried = asyncio.create_task(outlast.close(grace=0.0))
            rest = b"".join([chunk async for chunk in chunks])
        assert b"event: outlast.drain" in rest
        await hurried
        await closing


async def test_without_a_lifespan_every_route_says_what_to_do() -> None:
    outlast = made()
    async with client(outlast.app) as http:
        for method, path in [
            ("GET", "/"),
            ("GET", "/healthz"),
            ("GET", "/runs"),
            ("POST", "/runs"),
            ("GET", "/runs/r1"),
            ("GET", "/runs/r1/events"),
            ("POST", "/runs/r1/stop"),
            ("GET", "/nothing"),
        ]:
            answer = await http.request(method, path)
            assert (answer.status_code, answer.json()["code"]) == (503, "not_started")
            assert "lifespan=outlast.lifespan" in answer.json()["detail"]
    for call in (outlast.start("echo"), outlast.stop("r1"), outlast.status("r1")):
        with pytest.raises(NotStarted, match=r"lifespan=outlast\.lifespan"):
            await call


@pytest.mark.parametrize("url", ["postgres://x", "outlast.db", "sqlite:/x", "sqlite:///", "sqlite://host/x"])
async def test_a_store_url_that_names_no_store_is_refused_with_the_forms_there_are(url: str) -> None:
    with pytest.raises(SettingsError, match="sqlite:///"):
        async with Outlast(url):
            pass


async def test_leaving_by_an_error_waits_for_no_run() -> None:
    outlast = made(grace=3600.0)

    async def serve() -> None:
        async with outlast:
            await outlast.start("patient", id="r1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await serve()


@pytest.mark.behaviour("D3")
async def test_closing_twice_and_before_the_start_is_harmless() -> None:
    outlast = made()
    await outlast.close()
    async with outlast:
        await asyncio.gather(outlast.close(), outlast.close())
        with pytest.raises(NotStarted):
            await outlast.start("echo", "x")
        await outlast.close()
    async with outlast:
        assert (await outlast.start("echo", "x")).worker == "echo"


@pytest.mark.behaviour("D3", "D2")
async def test_a_close_lets_a_run_finish() -> None:
    outlast = Outlast("sqlite://", grace=3600.0)
    told = asyncio.Event()

    @outlast.worker("gated")
    async def gated(run: ActiveRun) -> str:
        await run.emit("here")
        await told.wait()
        return "done"

    async with outlast, client(outlast.app) as http:
        await outlast.start("gated", id="r1")
        while (await outlast.status("r1"))["status"] != "active":
            await asyncio.sleep(0)
        closing = asyncio.create_task(outlast.close())
        while (await http.post("/runs", json={"worker": "gated", "input": 1})).status_code == 201:
            pass
        early = dict(await outlast.status("r1"))
        told.set()
        await closing
        assert early["status"] == "active"
        with pytest.raises(NotStarted):
            await outlast.status("r1")


@pytest.mark.behaviour("D3")
async def test_a_close_from_another_thread_does_the_same() -> None:
    outlast = made()
    async with outlast:
        await asyncio.to_thread(lambda: asyncio.run(outlast.close()))
        with pytest.raises(NotStarted):
            await outlast.start("echo", "x")


async def test_signals_are_left_alone_where_they_are_not_wanted() -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with made():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
    async with made(signals=False):
        assert signal.getsignal(signal.SIGTERM) == before


def test_a_close_after_the_loop_was_closed_harms_nobody() -> None:
    outlast = made(signals=False)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(outlast.__aenter__())
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()
    asyncio.run(outlast.close())


async def test_closed_before_it_has_started_it_does_not_begin_and_leaves_no_handler() -> None:
    before = signal.getsignal(signal.SIGTERM)
    outlast = made(signals=True)
    starting = asyncio.create_task(outlast.__aenter__())
    await asyncio.sleep(0)
    await outlast.close()
    with pytest.raises(NotStarted, match="closed before"):
        await starting
    assert signal.getsignal(signal.SIGTERM) == before
    async with outlast:
        assert (await outlast.start("echo", 1)).status is Status.QUEUED
