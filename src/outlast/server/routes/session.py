"""Tells a client who answers it: what a link is established by, and what a probe asks for.

It is constant in time and touches no store: whoever gets this answer knows that the loop turns, and nothing more.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from starlette.requests import Request
from starlette.types import ASGIApp

from outlast.log.event import JSON, encode_json
from outlast.server.routes.answer import answer
from outlast.server.routes.door import Door, KnownDoor

Greet: TypeAlias = Callable[[], Mapping[str, JSON]]
"""Tells who speaks, and what may be expected; it neither waits nor fails."""


class Session:
    """Answers `GET /session`."""

    def __init__(self, greet: Greet) -> None:
        self._greet = greet

    def doors(self) -> list[Door]:
        """Return the doors of this part."""
        return [KnownDoor(method="GET", path="/session", answer=self.greet)]

    async def greet(self, request: Request) -> ASGIApp:
        """Answer who this is: the boot, the version of the wire, how far apart heartbeats are, and who is asking.

        A client that finds its own address there knows that nothing stands between us.
        """
        peer = None if request.client is None else f"{request.client.host}:{request.client.port}"
        return answer(encode_json({**self._greet(), "peer": peer}))
