"""The streaming transport behaves as a wire does: slow readers are felt, clients can leave, breaks are seen."""

import asyncio
import contextvars
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast.client.asgi import GRACE, StreamingTransport
from outlast.testing.clock import run
from outlast.testing.leaks import check_leaks

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

DISCONNECT: Message = {"type": "http.disconnect"}


@pytest.fixture(autouse=True)
async def no_leaks(anyio_backend: Any) -> AsyncIterator[None]:
    async with check_leaks():
        yield
    loop: Any = asyncio.get_running_loop()
    assert [timer for timer in loop._scheduled if not timer.cancelled()] == []


def now() -> float:
    return asyncio.get_running_loop().time()


def connect(app: ASGIApp, *, timeout: float | None = None, **options: Any) -> httpx2.AsyncClient:
    transport = StreamingTransport(app, **options)
    return httpx2.AsyncClient(transport=transport, base_url="http://outlast.example", timeout=timeout)


async def start(send: Send, status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})


async def say(send: Send, chunk: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": chunk, "more_body": more})


async def until_disconnect(receive: Receive) -> None:
    while await receive() != DISCONNECT:
        pass


# ---- responses stream ------------------------------------------------------------------------------------------------


async def test_the_head_arrives_before_the_body_and_each_chunk_when_it_is_sent() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await asyncio.sleep(1)
        await start(send, 203)
        for chunk in (b"one", b"two"):
            await asyncio.sleep(10)
            await say(send, chunk)
        await asyncio.sleep(10)
        await say(send, b"", more=False)

    told: list[Any] = []
    async with connect(app) as client, client.stream("GET", "/") as response:
        told.append((response.status_code, response.headers["content-type"], now()))
        told += [(chunk, now()) async for chunk in response.aiter_raw()]
        told.append(("end", now()))
    assert told == [(203, "text/plain", 1.0), (b"one", 11.0), (b"two", 21.0), ("end", 31.0)]


async def test_a_slow_reader_makes_the_app_wait() -> None:
    sent: list[float] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send)
        for number in range(4):
            await say(send, b"%d" % number, more=number < 3)
            sent.append(now())

    async with connect(app) as client, client.stream("GET", "/") as response:
        await asyncio.sleep(5)
        assert sent == []  # the head is through, the first chunk waits on the wire
        async for _ in response.aiter_raw():
            await asyncio.sleep(10)
    assert sent == [5.0, 15.0, 25.0, 35.0]


async def test_empty_chunks_do_not_travel() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send)
        for chunk in (b"", b"one", b"", b"two"):
            await say(send, chunk)
        await say(send, b"", more=False)

    async with connect(app) as client, client.stream("GET", "/") as response:
        assert [chunk async for chunk in response.aiter_raw()] == [b"one", b"two"]


async def test_the_body_of_a_head_request_does_not_travel() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send)
        await say(send, b"unseen")
        await say(send, b"unseen", more=False)

    async with connect(app) as client:
        assert (await client.head("/")).content == b""


async def test_a_chunk_of_a_cancelled_send_still_arrives() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send)
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await say(send, b"one")
        await say(send, b"two", more=False)

    async with connect(app) as client, client.stream("GET", "/") as response:
        await asyncio.sleep(60)
        assert [chunk async for chunk in response.aiter_raw()] == [b"one", b"two"]


# ---- requests --------------------------------------------------------------------------------------------------------


async def test_the_scope_tells_the_request() -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        seen.append(scope)
        await start(send)
        await say(send, b"", more=False)

    async with connect(app, client=("10.0.0.7", 7), root_path="/mounted", state={"node": "a"}) as client:
        await client.put("https://outlast.example/runs/%C3%A9?after=3&a=b", headers={"Last-Event-ID": "3-ab"})
        await client.get("http://outlast.example:8080/")
    first, second = seen
    assert dict(first.pop("headers"))[b"last-event-id"] == b"3-ab"
    assert first == {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "PUT",
        "scheme": "https",
        "path": "/runs/é",
        "raw_path": b"/runs/%C3%A9",
        "query_string": b"after=3&a=b",
        "root_path": "/mounted",
        "client": ("10.0.0.7", 7),
        "server": ("outlast.example", 443),
        "state": {"node": "a"},
    }
    assert (second["method"], second["scheme"], second["server"]) == ("GET", "http", ("outlast.example", 8080))
    assert first["state"] is not second["state"]


async def test_the_body_of_a_request_streams_at_the_pace_of_the_app() -> None:
    asked: list[Any] = []
    got: list[Any] = []

    async def body() -> AsyncIterator[bytes]:
        for number in range(3):
            asked.append((number, now()))
            yield b"%d" % number
            yield b""

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        more = True
        while more:
            await asyncio.sleep(10)
            message = await receive()
            got.append((message["body"], now()))
            more = message["more_body"]
        await start(send)
        await say(send, b"", more=False)

    async with connect(app) as client:
        await client.post("/", content=body())
    assert got == [(b"0", 10.0), (b"1", 20.0), (b"2", 30.0), (b"", 40.0)]
    assert asked == [(0, 0.0), (1, 10.0), (2, 20.0)]


async def test_both_directions_stream_at_once() -> None:
    async def echo(_scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        more = True
        while more:
            message = await receive()
            more = message["more_body"]
            await say(send, message["body"].upper(), more=more)

    questions: asyncio.Queue[bytes] = asyncio.Queue(maxsize=1)

    async def body() -> AsyncIterator[bytes]:
        while question := await questions.get():
            yield question

    async with connect(echo) as client, client.stream("POST", "/", content=body()) as response:
        answers = response.aiter_raw()
        for question in (b"one", b"two"):
            await questions.put(question)
            assert await anext(answers) == question.upper()
        await questions.put(b"")
        assert [answer async for answer in answers] == []


async def test_an_app_may_answer_without_reading_the_request() -> None:
    closed: list[float] = []

    async def body() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"more"
        finally:
            closed.append(now())

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await asyncio.sleep(2)
        await start(send, 413)
        await say(send, b"too large", more=False)

    async with connect(app) as client:
        response = await client.post("/", content=body())
    assert (response.status_code, response.text) == (413, "too large")
    assert closed == [2.0]


async def test_a_request_whose_body_fails_raises_that_and_is_a_disconnect() -> None:
    seen: list[Message] = []

    async def body() -> AsyncIterator[bytes]:
        yield b"one"
        raise LookupError("the client's own")

    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        seen.extend([await receive(), await receive()])

    async with connect(app) as client:
        with pytest.raises(LookupError, match="the client's own"):
            await client.post("/", content=body())
    assert seen == [{"type": "http.request", "body": b"one", "more_body": True}, DISCONNECT]


async def test_context_variables_do_not_cross_the_wire() -> None:
    owner = contextvars.ContextVar("owner", default="nobody")
    owner.set("the client's")

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send)
        await say(send, owner.get().encode(), more=False)
        owner.set("the app's")

    async with connect(app) as client:
        assert (await client.get("/")).text == "nobody"
    assert owner.get() == "the client's"


# ---- clients leave ---------------------------------------------------------------------------------------------------


async def test_closing_a_response_early_disconnects_and_waits_for_the_app_to_end() -> None:
    told: list[Any] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        await say(send, b"one")
        await until_disconnect(receive)
        told.append(("disconnected", now()))
        await asyncio.sleep(2)
        told.append(("ended", now()))

    async with connect(app) as client:
        async with client.stream("GET", "/") as response:
            chunks = response.aiter_raw()
            assert await anext(chunks) == b"one"
            await asyncio.sleep(10)
        told.append(("closed", now()))
    assert told == [("disconnected", 10.0), ("ended", 12.0), ("closed", 12.0)]


async def test_an_app_that_does_not_mind_is_cancelled_after_the_grace() -> None:
    told: list[Any] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send)
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            told.append(("cancelled", now()))
            raise

    async with connect(app) as client:
        async with client.stream("GET", "/"):
            pass
        told.append(("closed", now()))
    assert told == [("cancelled", GRACE), ("closed", GRACE)]


async def test_the_grace_is_a_setting() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send)
        await asyncio.sleep(1000)

    async with connect(app, grace=60) as client, client.stream("GET", "/"):
        pass
    assert now() == 60.0


async def test_the_grace_begins_once() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send)
        await asyncio.sleep(1000)

    async with connect(app) as client:
        with anyio.move_on_after(1):  # whose cancellation comes again at every await
            await client.get("/")
        assert now() == 1.0
        await asyncio.sleep(3)
    assert now() == 1.0 + GRACE


async def test_what_was_not_read_when_the_client_left_is_lost() -> None:
    seen: list[Message] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        await asyncio.sleep(1)
        seen.append(await receive())

    async with connect(app) as client, client.stream("POST", "/", content=b"unread"):
        pass
    assert seen == [DISCONNECT]


async def test_what_the_app_sends_to_a_client_that_left_is_swallowed() -> None:
    told: list[str] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send)
        while len(told) < 3:
            await say(send, b"more")
            told.append("sent")
        await say(send, b"", more=False)

    async with connect(app) as client, client.stream("GET", "/"):
        pass
    assert told == ["sent"] * 3


async def test_an_app_that_does_nothing_but_send_is_cancelled_too() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send)
        while True:
            await say(send, b"more")

    async with connect(app) as client:
        async with client.stream("GET", "/"):
            await asyncio.sleep(7)
        assert now() == 7 + GRACE


async def test_a_client_cancelled_before_the_head_has_left() -> None:
    told: list[Any] = []

    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        await until_disconnect(receive)
        told.append(("disconnected", now()))

    async with connect(app) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await client.get("/")
    assert told == [("disconnected", 3.0)]


async def test_a_client_cancelled_while_it_reads_has_left() -> None:
    told: list[Any] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        await until_disconnect(receive)
        told.append(("disconnected", now()))

    async with connect(app) as client:
        with anyio.move_on_after(3):
            await client.get("/")
    assert told == [("disconnected", 3.0)]


async def test_a_silent_app_is_a_read_timeout() -> None:
    told: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/stream":
            await start(send)
        await until_disconnect(receive)
        told.append((scope["path"], now()))

    async with connect(app, timeout=5) as client:
        for path in ("/", "/stream"):
            with pytest.raises(httpx2.ReadTimeout):
                await client.get(path)
    assert told == [("/", 5.0), ("/stream", 10.0)]


async def test_closing_the_client_ends_the_requests_that_are_open() -> None:
    told: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        await until_disconnect(receive)
        told.append((scope["path"], now()))

    client = connect(app)
    for path in ("/one", "/two"):
        await client.send(client.build_request("GET", path), stream=True)
    await asyncio.sleep(1)
    await client.aclose()
    assert told == [("/one", 1.0), ("/two", 1.0)]


async def test_a_response_whose_client_was_closed_is_broken_and_never_merely_short() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send)
        await say(send, b"all", more=False)

    client = connect(app)
    response = await client.send(client.build_request("GET", "/"), stream=True)
    await asyncio.sleep(1)
    await client.aclose()
    with pytest.raises(httpx2.RemoteProtocolError):
        await response.aread()


@pytest.mark.parametrize("read_first", [True, False])
async def test_an_app_may_go_on_after_its_response_is_finished(read_first: bool) -> None:
    told: list[Any] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        if read_first:
            assert not (await receive())["more_body"]
        await start(send)
        await say(send, b"all", more=False)
        assert await receive() == DISCONNECT
        told.append(("disconnected", now()))
        await asyncio.sleep(100)
        told.append(("ended", now()))

    async with connect(app) as client:
        assert (await client.get("/")).text == "all"
        told.append(("answered", now()))
        await asyncio.sleep(200)
    assert sorted(told) == [("answered", 0.0), ("disconnected", 0.0), ("ended", 100.0)]


async def test_closing_the_client_bounds_what_goes_on_after_a_response() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send)
        await say(send, b"all", more=False)
        await asyncio.sleep(100)

    async with connect(app) as client:
        await client.get("/")
    assert now() == GRACE


# ---- breaks ----------------------------------------------------------------------------------------------------------


async def test_an_app_that_fails_before_its_response_fails_the_request() -> None:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise LookupError("the app's own")

    async with connect(app) as client:
        with pytest.raises(LookupError, match="the app's own"):
            await client.get("/")


async def read(client: httpx2.AsyncClient, chunks: list[bytes]) -> None:
    async with client.stream("GET", "/") as response:
        async for chunk in response.aiter_raw():
            chunks.append(chunk)  # noqa: PERF401 - what came before the break is asserted


async def test_an_app_that_fails_later_breaks_its_response_off() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send)
        await say(send, b"one")
        raise LookupError("the app's own")

    chunks: list[bytes] = []
    async with connect(app) as client:
        with pytest.raises(httpx2.RemoteProtocolError) as caught:
            await read(client, chunks)
    assert chunks == [b"one"]
    assert isinstance(caught.value.__cause__, LookupError)
    assert "the app's own" not in str(caught.value)


async def test_an_app_that_ends_without_a_response_is_a_protocol_error() -> None:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        pass

    async with connect(app) as client:
        with pytest.raises(httpx2.RemoteProtocolError, match="without a response"):
            await client.get("/")


async def test_an_app_that_ends_in_the_middle_is_a_protocol_error() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send)
        await say(send, b"one")

    chunks: list[bytes] = []
    async with connect(app) as client:
        with pytest.raises(httpx2.RemoteProtocolError, match="broke its response off"):
            await read(client, chunks)
    assert chunks == [b"one"]


async def fail_after_finish(_receive: Receive, send: Send) -> None:
    await say(send, b"all", more=False)
    raise LookupError("too late")


async def fail_after_disconnect(receive: Receive, _send: Send) -> None:
    await until_disconnect(receive)
    raise LookupError("too late")


async def fail_before_the_client_looks(_receive: Receive, _send: Send) -> None:
    raise LookupError("too late")


@pytest.mark.parametrize("fail", [fail_after_finish, fail_after_disconnect, fail_before_the_client_looks])
async def test_a_failure_that_no_client_sees_is_told_to_the_loop(fail: Callable[..., Awaitable[None]]) -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        await fail(receive, send)

    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with connect(app) as client, client.stream("GET", "/") as response:
        if fail is fail_after_finish:
            await response.aread()
        await asyncio.sleep(1)
    assert [str(context["exception"]) for context in told] == ["too late"]


async def test_starlettes_client_disconnect_is_no_failure() -> None:
    async def upload(request: Request) -> PlainTextResponse:
        return PlainTextResponse(await request.body())

    async def body() -> AsyncIterator[bytes]:
        yield b"one"
        raise LookupError("the client's own")

    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with connect(Starlette(routes=[Route("/", upload, methods=["POST"])])) as client:
        with pytest.raises(LookupError):
            await client.post("/", content=body())
    assert told == []


@pytest.mark.parametrize(
    "messages",
    [
        [{"type": "http.response.body", "body": b"no head"}],
        [{"type": "http.response.start", "status": 200}, {"type": "http.response.start", "status": 200}],
        [{"type": "websocket.accept"}],
    ],
)
async def test_a_message_out_of_place_is_the_apps_error(messages: list[Message]) -> None:
    refused: list[str] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in messages:
            try:
                await send(message)
            except RuntimeError as error:
                refused.append(str(error))

    async with connect(app) as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get("/")
    assert refused == [f"the message {messages[-1]['type']!r} is out of place here"]


async def test_nothing_can_be_sent_after_the_end() -> None:
    refused: list[str] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send)
        await say(send, b"all", more=False)
        try:
            await say(send, b"more", more=False)
        except RuntimeError as error:
            refused.append(str(error))

    async with connect(app) as client:
        assert (await client.get("/")).text == "all"
    assert len(refused) == 1


# ---- with Starlette --------------------------------------------------------------------------------------------------


async def test_starlettes_streaming_response_stops_its_generator_when_the_client_leaves() -> None:
    told: list[Any] = []

    async def ticks() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"tick\n"
                await asyncio.sleep(1)
        finally:
            told.append(now())

    async def stream(_request: Request) -> StreamingResponse:
        return StreamingResponse(ticks(), media_type="text/plain")

    async with connect(Starlette(routes=[Route("/", stream)])) as client:
        async with client.stream("GET", "/") as response:
            lines = response.aiter_lines()
            assert [await anext(lines) for _ in range(3)] == ["tick"] * 3
        assert now() == 2.0
    assert told == [2.0]


async def test_starlettes_threads_do_not_let_time_pass() -> None:
    def synchronous(_request: Request) -> JSONResponse:
        return JSONResponse({"answer": 42})

    async with connect(Starlette(routes=[Route("/", synchronous)]), timeout=5) as client:
        assert (await client.get("/")).json() == {"answer": 42}
    assert now() == 0.0


async def conversation() -> list[Any]:
    """Tell how three readers of different speed and one app take turns."""
    told: list[Any] = []

    async def ticks(name: str) -> AsyncIterator[bytes]:
        for number in range(5):
            told.append((now(), "app", name, number))
            yield b"%d" % number
            await asyncio.sleep(1)

    async def stream(request: Request) -> StreamingResponse:
        return StreamingResponse(ticks(request.path_params["name"]))

    async def follow(client: httpx2.AsyncClient, name: str, pace: float) -> None:
        async with client.stream("GET", f"/{name}") as response:
            async for chunk in response.aiter_raw():
                told.append((now(), "reader", name, chunk))
                await asyncio.sleep(pace)

    async with connect(Starlette(routes=[Route("/{name}", stream)])) as client, asyncio.TaskGroup() as group:
        for name, pace in (("slow", 3), ("even", 1), ("fast", 0)):
            group.create_task(follow(client, name, pace))
    return told


def test_the_interleaving_is_the_same_every_time() -> None:
    first = run(conversation())
    kept = [object() for _ in range(10_000)]  # so that what comes next has other addresses
    assert run(conversation()) == first
    assert len(first) == 30
    assert kept


def test_it_works_on_the_real_loop_too() -> None:
    assert len(asyncio.run(conversation_at_once())) == 3


async def conversation_at_once() -> list[bytes]:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send)
        for number in range(3):
            await say(send, b"%d" % number, more=number < 2)

    async with connect(app) as client, client.stream("GET", "/") as response:
        return [chunk async for chunk in response.aiter_raw()]
