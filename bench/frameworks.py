"""What people write who send events to a crowd: a Starlette application with sse-starlette, and FastAPI's own events.

`python -m bench.frameworks KIND`.
"""

import asyncio
import sys
from collections.abc import AsyncIterator

from fastapi import FastAPI
from fastapi.sse import EventSourceResponse as NativeResponse
from fastapi.sse import ServerSentEvent as NativeEvent
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from bench.plain import Audience
from bench.stage import Stage, server


def sse_starlette(audience: Audience) -> ASGIApp:
    """Return what a Starlette application with sse-starlette does."""

    async def tell() -> AsyncIterator[ServerSentEvent]:
        async for _, events in audience.following():
            for each in events:
                yield ServerSentEvent(each.event.payload.decode(), event="text", id=str(each.cursor))

    async def events(_request: Request) -> EventSourceResponse:
        return EventSourceResponse(tell())

    return Starlette(routes=[Route("/events", events)])


def fastapi(audience: Audience) -> ASGIApp:
    """Return what a FastAPI application with its own events does."""
    application = FastAPI()

    @application.get("/events", response_class=NativeResponse)
    async def events() -> AsyncIterator[NativeEvent]:
        async for _, told in audience.following():
            for each in told:
                yield NativeEvent(raw_data=each.event.payload.decode(), event="text", id=str(each.cursor))

    return application


async def main(kind: str) -> None:
    """Serve until killed."""
    audience = Audience()
    inner = {"sse-starlette": sse_starlette, "fastapi": fastapi}[kind](audience)
    await server(Stage(inner, audience.say)).serve()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
