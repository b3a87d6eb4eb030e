"""Tells which nodes use this store, whether they live or leave, what they have, and how late their event loops are.

It says nothing of anybody's runs, and still is for those alone who may list runs here: a fleet is nobody else's
business.
"""

from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp

from outlast import lease
from outlast.log.event import JSON, encode_json
from outlast.server.identity import Action
from outlast.server.routes.answer import answer
from outlast.server.routes.door import Door, RunDoor
from outlast.stores.base import Node, RunStore

LATELY: Final = 300.0
"""Seconds for which a node whose lease has ended is still told of: who looks because something died sees what."""


class Nodes:
    """Answers `GET /nodes`."""

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs

    def doors(self) -> list[Door]:
        """Return the doors of this part."""
        return [RunDoor(method="GET", path="/nodes", action=Action.LIST, answer=self.list)]

    async def list(self, _request: Request, _owner: str) -> ASGIApp:
        """List the nodes with a live lease or one that ended lately; a node's id is the `boot_id` of its `/healthz`."""
        nodes = await self._runs.nodes()
        now = await self._runs.now()
        return answer(encode_json({"nodes": [_document(node, now=now) for node in nodes if now - node.until < LATELY]}))


def _document(node: Node, *, now: float) -> dict[str, JSON]:
    live = lease.is_live(node.until, now=now)
    return {
        "id": node.id,
        "live": live,
        "lease_left": round(node.until - now, 3) if live else None,
        "lapsed_for": None if live else round(now - node.until, 3),
        "stalled": node.stalled,
        "loop_lag": round(node.lag, 3),
        "draining": node.draining,
        "workers": None if node.workers is None else sorted(node.workers),
    }
