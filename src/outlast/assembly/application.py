"""The ASGI application of an `Outlast`: there from the start, answering routes while it runs."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from outlast.errors import NotStarted
from outlast.server.intake import NOT_STARTED
from outlast.server.routes.problem import refusal


class Application:
    """Mount it anywhere, `app.mount("/agents", outlast.app)`, or serve it by itself: its lifespan is the object's own.

    An object and not a method, because servers look at `__call__` to tell which ASGI they are dealing with.
    """

    def __init__(
        self,
        lifespan: Callable[[object], AbstractAsyncContextManager[None]],
        routes: Callable[[], ASGIApp | None],
    ) -> None:
        self._lifespan = Router(lifespan=lifespan)
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection; calls before the lifespan has run are told so."""
        routes = self._routes()
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif routes is None:
            await refusal(NotStarted(NOT_STARTED), scope)(scope, receive, send)
        else:
            await routes(scope, receive, send)
