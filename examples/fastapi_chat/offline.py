"""A model without a network: it reads the conversation, calls the tool and streams its answer word by word."""

import asyncio
import json
import os
from collections.abc import AsyncIterator

from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

PACE = float(os.environ.get("CHAT_PACE", "0.08"))
"""Seconds between two words, about as fast as people read."""


def model(cities: list[str]) -> FunctionModel:
    """Return a model that knows what to ask the tool about these cities."""

    async def stream(messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        answer = _tool_answer(messages)
        named = [city for said in _questions(messages) for city in _named(said, cities)]
        if answer is None and len(named) > 1 and _named(_questions(messages)[-1], cities):
            arguments = json.dumps({"start": named[-2], "end": named[-1]})
            yield {0: DeltaToolCall(name="distance", json_args=arguments, tool_call_id=f"call-{len(messages)}")}
            return
        for word in _words(answer, named, cities):
            yield word
            await asyncio.sleep(PACE)

    return FunctionModel(stream_function=stream, model_name="offline")


def _words(answer: str | None, named: list[str], cities: list[str]) -> list[str]:
    if answer is None:
        said = f"Ask me how far it is from one city to another. I know {', '.join(cities)}."
    else:
        said = (
            f"From {named[-2]} to {named[-1]} it is {answer} as the crow flies. By road it is more, as roads go around "
            "hills and lakes and through towns; a train takes its own way. Name another city, and I tell how far it "
            f"is to there from {named[-1]}."
        )
    return [f"{word} " for word in said.split()]


def _questions(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages for part in message.parts]
    return [str(part.content) for part in parts if isinstance(part, UserPromptPart)]


def _tool_answer(messages: list[ModelMessage]) -> str | None:
    """Return what the tool has just answered, if that is what came last."""
    last = messages[-1].parts[-1]
    return str(last.content) if isinstance(last, ToolReturnPart) else None


def _named(said: str, cities: list[str]) -> list[str]:
    found = [(said.lower().find(city.lower()), city) for city in cities]
    return [city for place, city in sorted(found) if place >= 0]
