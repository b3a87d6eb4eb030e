"""Tells a node's numbers in Prometheus' text format, where they were asked for: from memory, and of nobody's runs."""

from collections.abc import Callable
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.types import ASGIApp

from outlast.server.routes.answer import answer
from outlast.server.routes.door import Door, OpenDoor

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Expose: TypeAlias = Callable[[], bytes]
"""Returns all numbers as text; it neither waits nor fails."""


class Metrics:
    """Answers `GET /metrics`."""

    def __init__(self, expose: Expose) -> None:
        self._expose = expose

    def doors(self) -> list[Door]:
        """Return the doors of this part."""
        return [OpenDoor(method="GET", path="/metrics", answer=self.tell)]

    async def tell(self, _request: Request) -> ASGIApp:
        """Answer with the numbers as they are."""
        return answer(self._expose(), media_type=MEDIA_TYPE)
