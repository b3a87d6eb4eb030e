import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from outlast.cli import library
from outlast.cli.endpoint import ROUNDS, EndpointRefused, endpoint
from outlast.errors import Retry
from outlast.log.cursor import Cursor
from outlast.log.event import JSON, Event, coerce
from outlast.run import Run
from outlast.workers.base import ActiveRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outlast.log.event import Said

pytestmark = pytest.mark.anyio


class Unused:
    async def put(self, event: Event) -> int:
        raise AssertionError("this worker yields")

    async def durable(self, number: int) -> Cursor:
        raise AssertionError("this worker yields")


def active(given: JSON) -> ActiveRun:
    row = Run(owner="", id="r", log="l", worker="explain", input=json.dumps(given).encode(), digest=b"")
    return ActiveRun(row, Unused(), stopping=lambda: False)


class Model:
    """Stands for somebody else's server: one HTTP answer per request, as the script says."""

    def __init__(self, *answers: bytes) -> None:
        self._answers: Iterator[bytes] = iter(answers)
        self.heads: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        length = [int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length:")]
        if length:
            self.requests.append(json.loads(await reader.readexactly(length[0])))
        answer = next(self._answers)
        with suppress(ConnectionError):
            for place in range(0, len(answer), 7):  # in small pieces, so that chunks are cut anywhere
                writer.write(answer[place : place + 7])
                await writer.drain()
        writer.close()


@asynccontextmanager
async def running(*answers: bytes) -> AsyncIterator[Model]:
    model = Model(*answers)
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    model.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server:
        yield model


def http(status: int, content_type: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} Whatever\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n"
    return f"{head}connection: close\r\n\r\n".encode() + body


def stream(*chunks: JSON, done: bool = True) -> bytes:
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + ("data: [DONE]\n\n" if done else "")
    return http(200, "text/event-stream", body.encode())


def delta(finish: str | None = None, **said: JSON) -> JSON:
    return {"choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def calling(tool: str, *arguments: str) -> list[JSON]:
    head: JSON = {"index": 0, "id": "call-7", "type": "function", "function": {"name": tool, "arguments": ""}}
    parts: list[JSON] = [{"index": 0, "function": {"arguments": part}} for part in arguments]
    return [*(delta(tool_calls=[part]) for part in [head, *parts]), delta(finish="tool_calls")]


async def told(url: str, *, model: str | None = "m", given: JSON = None) -> list[Event]:
    explain = endpoint(url, model=model)
    return [coerce(said) async for said in explain(active(given or {"module": "heapq"}))]


async def test_text_is_passed_on_as_it_comes() -> None:
    async with running(stream(delta(role="assistant"), delta(content="A "), delta(content="heap…"))) as model:
        events = await told(model.url)
    assert [(event.type, event.data) for event in events] == [("text", "A "), ("text", "heap…")]
    assert model.heads[0].startswith("POST /v1/chat/completions HTTP/1.1\r\n")
    assert model.requests[0]["stream"] is True
    assert "heapq" in model.requests[0]["messages"][-1]["content"]


async def test_tools_are_used_and_their_answers_sent_back() -> None:
    first = stream(delta(content="I look."), *calling("read_docs", '{"mod', 'ule": "heapq"}'))
    async with running(first, stream(delta(content="It is a queue."), delta(finish="stop"))) as model:
        events = await told(model.url)
    assert [event.type for event in events] == ["text", "tool.call", "tool.result", "text"]
    result = json.loads(events[2].payload)["result"]
    assert result["text"].startswith("Heap queue algorithm")
    said, answered = model.requests[1]["messages"][-2:]
    assert said["content"] == "I look."
    assert said["tool_calls"][0]["function"] == {"name": "read_docs", "arguments": '{"module": "heapq"}'}
    assert (answered["role"], answered["tool_call_id"]) == ("tool", "call-7")
    assert json.loads(answered["content"]) == result


async def test_a_wrong_tool_call_is_told_to_the_model() -> None:
    async with running(stream(*calling("rm", "{}")), stream(delta(content="Sorry."), delta(finish="stop"))) as model:
        await told(model.url)
    assert "there is no such tool" in model.requests[1]["messages"][-1]["content"]


async def test_rounds_are_bounded_and_the_last_may_not_call() -> None:
    answers = [stream(*calling("list_names", '{"module": "heapq"}'))] * (ROUNDS + 1)
    async with running(*answers) as model:
        with pytest.raises(EndpointRefused, match="in each of 8 rounds"):
            await told(model.url)
    assert [request["tool_choice"] for request in model.requests] == ["auto"] * ROUNDS + ["none"]


async def test_the_first_model_listed_is_taken_unless_one_is_named() -> None:
    listed = http(200, "application/json", b'{"data": [{"id": "small"}, {"id": "large"}]}')
    async with running(listed, stream(delta(content="…"))) as model:
        await told(model.url, model=None)
    assert model.heads[0].startswith("GET /v1/models ")
    assert model.requests[0]["model"] == "small"


async def test_the_key_of_the_environment_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    async with running(stream(delta(content="…"))) as model:
        await told(model.url)
    assert "authorization: bearer a-key\r\n" in model.heads[0].lower()


async def test_without_a_key_none_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with running(stream(delta(content="…"))) as model:
        await told(model.url)
    assert "authorization" not in model.heads[0].lower()


async def test_an_endpoint_that_is_not_there_asks_for_another_try() -> None:
    async with running() as model:
        pass
    with pytest.raises(Retry) as refused:
        await told(model.url)
    assert "127.0.0.1" not in str(refused.value)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_a_busy_endpoint_asks_for_another_try(status: int) -> None:
    async with running(http(status, "application/json", b"{}")) as model:
        with pytest.raises(Retry, match=f"status {status}"):
            await told(model.url)


@pytest.mark.parametrize("status", [302, 400, 401, 404])
async def test_a_refusal_is_final_and_does_not_repeat_what_the_endpoint_said(status: int) -> None:
    async with running(http(status, "application/json", b'{"error": "SECRET"}')) as model:
        with pytest.raises(EndpointRefused, match=f"status {status}") as refused:
            await told(model.url)
    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize(
    "answer",
    [
        stream(delta(content="half"), done=False),
        stream(delta(content="half"), {"error": {"message": "out of memory"}}),
        stream(delta(content="half"))[:-20],
    ],
    ids=["ended early", "failed in mid-stream", "cut off"],
)
async def test_a_broken_answer_asks_for_another_try(answer: bytes) -> None:
    async with running(answer) as model:
        with pytest.raises(Retry):
            await told(model.url)


@pytest.mark.parametrize(
    "answer",
    [
        http(200, "application/json", b'{"choices": []}'),
        http(200, "text/event-stream", b"data: not json\n\n"),
        stream([1, 2]),
        stream({"choices": {"a": 1}}),
        stream({"choices": ["a"]}),
    ],
)
async def test_an_answer_of_another_protocol_is_final(answer: bytes) -> None:
    async with running(answer) as model:
        with pytest.raises(EndpointRefused):
            await told(model.url)


async def test_an_endpoint_without_models_is_told() -> None:
    async with running(http(200, "application/json", b'{"data": []}')) as model:
        with pytest.raises(EndpointRefused, match="lists no model"):
            await told(model.url, model=None)


async def test_a_closed_worker_closes_its_request() -> None:
    async with running(stream(delta(content="One "), *[delta(content="more ")] * 2000)) as model:
        explanation = endpoint(model.url, model="m")(active({"module": "heapq"}))
        assert await anext(explanation) == "One "
        await explanation.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(explanation)


async def test_a_module_that_cannot_be_explained_is_refused_before_any_request() -> None:
    said: list[Said] = []
    async with running() as model:
        with pytest.raises(library.ModuleRefused):  # noqa: PT012 - what was said before counts
            async for part in endpoint(model.url)(active({"module": "turtle"})):
                said.append(part)  # noqa: PERF401
    assert str(said[0]).startswith("I cannot explain this: ")
    assert model.heads == []
