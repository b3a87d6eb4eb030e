"""A chat whose answers outlive the tab, the network and this process: FastAPI, Outlast and an agent of pydantic-ai."""

import argparse
import os
from collections.abc import AsyncIterator
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel
from pydantic_ai import FunctionToolCallEvent, FunctionToolResultEvent, PartDeltaEvent, PartStartEvent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, TextPartDelta

from outlast import ActiveRun, Event, Outlast

from assistant import assistant

outlast = Outlast(os.environ.get("CHAT_STORE", "sqlite:///chat.db"))
agent = assistant()


class Question(BaseModel):
    """The input of a run."""

    text: str


@outlast.worker("chat")
async def chat(run: ActiveRun) -> AsyncIterator[Event | str]:
    """Answer one question: text as the model writes it, and what it asks its tools."""
    question = Question.model_validate(run.input)
    async with agent.run_stream_events(question.text, message_history=await messages_before(run)) as events:
        async for event in events:
            match event:
                case PartStartEvent(part=TextPart(content=text)) if text:
                    yield text
                case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                    yield text
                case FunctionToolCallEvent(part=call):
                    said = {"id": call.tool_call_id, "tool": call.tool_name, "arguments": call.args_as_dict()}
                    yield Event("tool.call", said)
                case FunctionToolResultEvent(part=answer):
                    yield Event("tool.result", {"id": answer.tool_call_id, "result": str(answer.content)})


async def messages_before(run: ActiveRun) -> list[ModelMessage]:
    """Return what was asked and answered before on this thread, as the messages of a model."""
    messages: list[ModelMessage] = []
    async for earlier in run.history():
        question = Question.model_validate(earlier.input)
        messages.append(ModelRequest.user_text_prompt(question.text))
        messages.append(ModelResponse(parts=[TextPart(await earlier.text())]))
    return messages


app = FastAPI(lifespan=outlast.lifespan)
app.mount("/agents", outlast.app)
app.mount("/", StaticFiles(directory=Path(__file__).parent / "page", html=True))

if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=8000)
    uvicorn.run(app, port=options.parse_args().port)
