"""Says that this node answers, and whether requests had better go to another.

Both from memory and at once, so that a store in trouble does not look like a dead node. Who restarts a node asks
`/healthz`, who sends requests to one asks `/readyz`.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from starlette.requests import Request
from starlette.types import ASGIApp

from outlast.log.event import JSON, encode_json
from outlast.server.routes.answer import answer
from outlast.server.routes.door import Door, OpenDoor

DescribeNode: TypeAlias = Callable[[], Mapping[str, JSON]]
"""Tells `boot_id`, `workers` and `loop_lag` (seconds) of a node that has started; it neither waits nor fails."""

CheckReady: TypeAlias = Callable[[], None]
"""Raises `NotStarted`, `Draining` or `StoreUnavailable` while a node is not to be sent requests; it does not wait."""


class Health:
    """Answers `GET /healthz` and `GET /readyz`."""

    def __init__(self, describe_node: DescribeNode, check_ready: CheckReady) -> None:
        self._describe_node = describe_node
        self._check_ready = check_ready

    def doors(self) -> list[Door]:
        """Return the doors of this part."""
        return [
            OpenDoor(method="GET", path="/healthz", answer=self.tell),
            OpenDoor(method="GET", path="/readyz", answer=self.tell_ready),
        ]

    async def tell(self, _request: Request) -> ASGIApp:
        """Answer that the node is up, and how late its loop is."""
        return answer(encode_json({"status": "ok", **self._describe_node()}))

    async def tell_ready(self, _request: Request) -> ASGIApp:
        """Answer that requests are welcome, or 503 with the code that says why not."""
        self._check_ready()
        return answer(encode_json({"status": "ready"}))
