"""Who can go on where a node leaves: what the rows of the other nodes say, looked at again for as long as it leaves.

Rules:
1. Only a node whose lease is live and that is not leaving itself is a relief. Of one whose workers are not known it is
   not known what it could go on with: it may have the readers, and no run is sent its way early.
2. A store that gives no answer says nothing about other nodes. That there may be one is enough for readers to try.
3. Nodes come: in a deploy the new one often joins while the old one leaves. So it is looked again, and told again.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from outlast import lease
from outlast.facts import Report
from outlast.server.trouble import Trouble
from outlast.stores.base import Node, RunStore

LOOK_EVERY: Final = 1.0
"""Seconds between two looks: a drain is short, and whoever could be elsewhere already waits for this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relief:
    """Whether another node stays, and the workers that those who stay have."""

    is_there: bool = False
    workers: frozenset[str] = frozenset()


def relief(nodes: Sequence[Node], *, leaving: str, now: float) -> Relief:
    """Return who stays when the node `leaving` leaves; `now` is the store's clock."""
    staying = [
        node for node in nodes if node.id != leaving and not node.draining and lease.is_live(node.until, now=now)
    ]
    known = [node.workers for node in staying if node.workers is not None]
    return Relief(is_there=bool(staying), workers=frozenset[str]().union(*known))


async def look_for_relief(runs: RunStore, node: str, *, on_look: Callable[[Relief], None], report: Report) -> None:
    """Tell the store that `node` is leaving, and `on_look` who stays, again and again until cancelled."""
    trouble = Trouble("drain", report)
    while True:
        try:
            await runs.drain(node)
            found = relief(await runs.nodes(), leaving=node, now=await runs.now())
        except Exception as error:  # noqa: BLE001 - a loop that reports and goes on
            trouble.met(error)
            found = Relief(is_there=True)
        else:
            trouble.over()
        on_look(found)
        await asyncio.sleep(LOOK_EVERY)
