"""The demo's agent on a real model: any OpenAI-compatible endpoint explains the module, with the same tools.

It speaks the chat completions protocol: `POST {url}/chat/completions` with `stream`, answered by server-sent chunks
that end with `[DONE]`; tools are offered as functions, and the conversation goes on until the model calls none.
"""

import json
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import httpx2

from outlast.cli import explainer, library, tools
from outlast.errors import Retry, WorkerError
from outlast.wire.sse import Parser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from outlast.log.event import Event
    from outlast.workers.base import ActiveRun

Worker: TypeAlias = "Callable[[ActiveRun], AsyncGenerator[str | Event]]"

ROUNDS: Final = 8
"""Rounds of tool calls; the one after them must be the explanation. Models that loop are known to loop for ever."""

TIMEOUT: Final = httpx2.Timeout(connect=10, read=120, write=30, pool=10)
"""Seconds. A large model on a small machine may think for two minutes before its first token."""

BUSY: Final = frozenset({408, 425, 429})
"""Statuses below 500 that ask for another try."""

INSTRUCTIONS: Final = (
    "You explain one module of the Python standard library to a programmer, in plain text without Markdown, in about "
    "300 words. Before you explain, look things up with the tools, which read this machine's own Python. Run at least "
    "one documented example if there is one. Say only what the tools told you."
)


class EndpointRefused(WorkerError):
    """The endpoint refused the request, or answered something else than chat completions."""

    code = "worker_refused"


def endpoint(url: str, *, model: str | None = None) -> Worker:
    """Make a worker that lets the model at `url`, such as `http://localhost:11434/v1`, explain a module.

    `model` is the first one that the endpoint lists unless named. The key is `OPENAI_API_KEY`, where it is set.
    The worker raises `Retry` when the endpoint is away, busy or breaks off, and `EndpointRefused` otherwise.
    """
    key = os.environ.get("OPENAI_API_KEY")
    headers = {"authorization": f"Bearer {key}"} if key else {}

    async def explain(run: "ActiveRun") -> AsyncGenerator["str | Event"]:
        module = explainer.module_of(run.input)
        try:
            library.find_module(module)
        except library.ModuleRefused as refusal:
            yield f"I cannot explain this: {refusal}."
            raise
        try:
            async with (
                httpx2.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT) as client,
                aclosing(Conversation(client, model, module).held()) as held,
            ):
                async for said in held:
                    yield said
        except httpx2.TransportError as error:
            raise Retry("The model's endpoint cannot be reached or broke off.") from error

    return explain


@dataclass(slots=True)
class Call:
    """One tool call, as it comes together from the chunks of a reply."""

    id: str = ""
    tool: str = ""
    arguments: str = ""


@dataclass(slots=True)
class Reply:
    """What the model says in one round: text, and the tools it calls by their index."""

    text: str = ""
    calls: dict[int, Call] = field(default_factory=dict[int, Call])
    finished: bool = False

    def take(self, chunk: dict[str, Any]) -> str:
        """Add one chunk and return the text in it. Raises `Retry` for an error told in mid-stream."""
        if "error" in chunk:
            raise Retry("The model's endpoint failed in the middle of its answer.")
        text = ""
        for choice in _list(chunk.get("choices")):
            delta = _dict(_dict(choice).get("delta"))
            text += str(delta.get("content") or "")
            for part in _list(delta.get("tool_calls")):
                self._take_call(_dict(part))
            self.finished = self.finished or _dict(choice).get("finish_reason") is not None
        self.text += text
        return text

    def message(self) -> dict[str, Any]:
        """Return the reply as the next request repeats it."""
        return {
            "role": "assistant",
            "content": self.text or None,
            "tool_calls": [
                {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}
                for call in self.calls.values()
            ],
        }

    def _take_call(self, part: dict[str, Any]) -> None:
        call = self.calls.setdefault(int(part.get("index") or 0), Call())
        function = _dict(part.get("function"))
        call.id = str(part.get("id") or call.id)
        call.tool += str(function.get("name") or "")
        call.arguments += str(function.get("arguments") or "")


class Conversation:
    """One explanation: rounds of requests until the model has called its last tool."""

    def __init__(self, client: httpx2.AsyncClient, model: str | None, module: str) -> None:
        self._client = client
        self._model = model
        self._calls = 0
        self._messages: list[dict[str, Any]] = [
            {"role": "system", "content": INSTRUCTIONS},
            {"role": "user", "content": f"Explain the module {module}."},
        ]

    async def held(self) -> AsyncGenerator["str | Event"]:
        """Yield text and tool events until the model is done."""
        self._model = self._model or await _first_model(self._client)
        for last in [False] * ROUNDS + [True]:
            reply = Reply()
            async with aclosing(self._ask(reply, may_call=not last)) as answer:
                async for text in answer:
                    yield text
            if not reply.calls:
                return
            self._messages.append(reply.message())
            for call in reply.calls.values():
                for event in self._use(call):
                    yield event
        raise EndpointRefused(f"The model called tools in each of {ROUNDS} rounds and in the one after them.")

    def _use(self, call: Call) -> list["Event"]:
        self._calls += 1
        result = tools.use(call.tool, call.arguments)
        self._messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
        return [
            tools.called(self._calls, call.tool, call.arguments),
            tools.answered(self._calls, call.tool, result),
        ]

    async def _ask(self, reply: Reply, *, may_call: bool) -> AsyncGenerator[str]:
        request = {
            "model": self._model,
            "messages": self._messages,
            "tools": tools.schemas(),
            "tool_choice": "auto" if may_call else "none",
            "stream": True,
        }
        async with (
            self._client.stream("POST", "chat/completions", json=request) as response,
            aclosing(_chunks(response, reply)) as chunks,
        ):
            async for chunk in chunks:
                if text := reply.take(chunk):
                    yield text
        if not reply.finished:
            raise Retry("The model's endpoint ended its answer in the middle.")


async def _first_model(client: httpx2.AsyncClient) -> str:
    response = await client.get("models")
    _check(response)
    for model in _list(_decoded(response.content).get("data")):
        return str(_dict(model).get("id"))
    raise EndpointRefused("The endpoint lists no model; name one.")


async def _chunks(response: httpx2.Response, reply: Reply) -> AsyncGenerator[dict[str, Any]]:
    _check(response)
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        raise EndpointRefused("The endpoint answered a request for a stream with something else.")
    parser = Parser()
    async for chunk in response.aiter_bytes():
        for message in parser.feed(chunk):
            if message.data == b"[DONE]":
                reply.finished = True
                return
            yield _decoded(message.data)


def _check(response: httpx2.Response) -> None:
    status = response.status_code
    if status >= 500 or status in BUSY:  # noqa: PLR2004 - 500 and above are the server's own failures
        raise Retry(f"The model's endpoint is busy or failing: status {status}.")
    if not response.is_success:
        raise EndpointRefused(f"The endpoint refused the request: status {status}.")


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        return _dict(json.loads(data))
    except ValueError as error:
        raise EndpointRefused("The endpoint answered something that is not JSON.") from error


def _dict(value: object) -> dict[str, Any]:
    """Return `value` as the object it has to be; what is absent or null is empty."""
    if not isinstance(value, dict | None):
        raise EndpointRefused("The endpoint answered JSON of another shape than the protocol's.")
    return cast("dict[str, Any]", value or {})


def _list(value: object) -> list[Any]:
    """Return `value` as the list it has to be; what is absent or null is empty."""
    if not isinstance(value, list | None):
        raise EndpointRefused("The endpoint answered JSON of another shape than the protocol's.")
    return list(cast("Iterable[Any]", value or ()))
