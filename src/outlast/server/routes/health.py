"""Says that this node answers: at once and from memory, so that a store in trouble does not look like a dead node."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from starlette.requests import Request
from starlette.types import ASGIApp

from outlast.log.event import JSON, encode_json
from outlast.server.routes.answer import answer
from outlast.server.routes.door import Door, OpenDoor

DescribeNode: TypeAlias = Callable[[], Mapping[str, JSON]]
"""Tells `boot_id`, `workers` and `loop_lag` (seconds) of a node that has started; it neither waits nor fails."""


class Health:
    """Answers `GET /healthz`."""

    def __init__(self, describe_node: DescribeNode) -> None:
        self._describe_node = describe_node

    def doors(self) -> list[Door]:
        """Return the doors of this part."""
        return [OpenDoor(method="GET", path="/healthz", answer=self.tell)]

    async def tell(self, _request: Request) -> ASGIApp:
        """Answer that the node is up, and how late its loop is."""
        return answer(encode_json({"status": "ok", **self._describe_node()}))
