"""Runs an ASGI app's lifespan around a block, as a server does around its requests."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any

from starlette.types import ASGIApp, Message

from outlast.client.asgi import ASGI


@asynccontextmanager
async def lifespan(app: ASGIApp) -> AsyncGenerator[dict[str, Any], None]:
    """Start `app` up, yield its state, and shut it down at the end of the block, whatever ends it.

    Raises the app's own exception, or RuntimeError with what it said, when it fails a stage or knows no lifespan.
    Source: the ASGI lifespan protocol, version 2.0.
    """
    life = _Lifespan(app)
    try:
        await life.reach("startup")
        try:
            yield life.state
        finally:
            await life.reach("shutdown")
            await life.serving
    finally:
        life.serving.cancel()
        await asyncio.wait([life.serving])  # an app that is deaf to its cancellation is a hang to be seen


class _Lifespan:
    """An app from its startup to its shutdown; how long a stage takes is the app's own business."""

    _answer: asyncio.Future[Message]

    def __init__(self, app: ASGIApp) -> None:
        self.state: dict[str, Any] = {}
        self._stages: asyncio.Queue[str] = asyncio.Queue(maxsize=2)
        self.serving = asyncio.create_task(self._serve(app), name="asgi lifespan", context=Context())

    async def reach(self, stage: str) -> None:
        """Ask for a stage and wait until the app has reached it."""
        self._answer = asyncio.get_running_loop().create_future()
        self._stages.put_nowait(stage)
        either: list[asyncio.Future[Any]] = [self._answer, self.serving]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        answer: Message = self._answer.result() if self._answer.done() else {"type": "an end"}
        if answer["type"] != f"lifespan.{stage}.complete":
            if self.serving.done():
                self.serving.result()  # raises what the app raised
            raise RuntimeError(f"the app answered {stage} with {answer['type']}: {answer.get('message', '')}")

    async def _serve(self, app: ASGIApp) -> None:
        await app({"type": "lifespan", "asgi": dict(ASGI), "state": self.state}, self._receive, self._send)

    async def _receive(self) -> Message:
        return {"type": f"lifespan.{await self._stages.get()}"}

    async def _send(self, message: Message) -> None:
        self._answer.set_result(message)
