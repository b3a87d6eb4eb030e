"""Tells a client who answers it, and opens the WebSocket in which it may ask everything else.

A link is established by the greeting, and a probe asks for it. It is constant in time and touches no store: whoever
gets this answer knows that the loop turns, and nothing more.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.types import ASGIApp, Scope

from outlast.errors import TooMany
from outlast.log.event import JSON, encode_json
from outlast.server.routes.answer import answer
from outlast.server.routes.door import Door, KnownDoor, SessionDoor
from outlast.server.routes.problem import problem
from outlast.server.seats import Left
from outlast.server.session.sessions import Sessions

Greet: TypeAlias = Callable[[], Mapping[str, JSON]]
"""Tells who speaks, and what may be expected; it neither waits nor fails."""


PATH: Final = "/session"
_CROWDED: Final = "This session has as many requests open as one may; end some, or open another session."


class Session:
    """Answers `GET /session`; `sessions` are those that may be opened there, None where there is no WebSocket."""

    def __init__(self, greet: Greet, sessions: Sessions | None = None) -> None:
        self._greet = greet
        self._sessions = sessions

    def doors(self) -> list[Door]:
        """Return the doors of this part."""
        return [KnownDoor(method="GET", path=PATH, answer=self.greet)]

    def session_doors(self, app: ASGIApp) -> list[SessionDoor]:
        """Return the door to the sessions, if there are any, whose exchanges `app` answers."""
        sessions = self._sessions
        if sessions is None:
            return []

        def begin(handshake: Scope, owner: str, left: Left | None) -> ASGIApp:
            return sessions.begin(app, problem(TooMany(_CROWDED)), handshake, owner=owner, left=left)

        return [SessionDoor(path=PATH, begin=begin)]

    async def greet(self, request: Request) -> ASGIApp:
        """Answer who this is: the boot, the version of the wire, how far apart heartbeats are, and who is asking.

        A client that finds its own address there knows that nothing stands between us.
        """
        peer = None if request.client is None else f"{request.client.host}:{request.client.port}"
        more: dict[str, JSON] = {} if self._sessions is None else {"websocket": True}
        return answer(encode_json({**self._greet(), **more, "peer": peer}))
