"""Who is taken to stay when a node leaves, and how it is looked for."""

import asyncio

import pytest

from outlast.errors import StoreUnavailable
from outlast.facts import Fact, StoreTroubled
from outlast.server.relief import LOOK_EVERY, Relief, look_for_relief, relief
from outlast.stores.base import Node
from outlast.testing.faults import ErrorBefore, Fault
from outlast.testing.faulty import FaultyStore
from tests.stage import TTL, staged

ME = Node(id="me", until=20.0, stalled=False, workers=frozenset({"chat"}))


def node(*workers: str, until: float = 20.0, draining: bool = False, known: bool = True) -> Node:
    names = frozenset(workers) if known else None
    return Node(id=f"other-{workers}", until=until, stalled=False, workers=names, draining=draining)


@pytest.mark.parametrize(
    ("others", "found"),
    [
        ([], Relief()),
        ([node("chat")], Relief(is_there=True, workers=frozenset({"chat"}))),
        ([node("chat", until=10.0)], Relief()),
        ([node("chat", draining=True)], Relief()),
        ([node(known=False)], Relief(is_there=True)),
        ([node("a"), node("b"), node("c", draining=True)], Relief(is_there=True, workers=frozenset({"a", "b"}))),
    ],
)
def test_a_relief_is_live_and_stays(others: list[Node], found: Relief) -> None:
    assert relief([ME, *others], leaving="me", now=10.0) == found


class FailOnce:
    """Fails the first look at the nodes."""

    def __init__(self) -> None:
        self.left = 1

    def draw(self, operation: str) -> Fault | None:
        failing = operation == "nodes" and self.left > 0
        self.left -= failing
        return ErrorBefore(StoreUnavailable("away")) if failing else None


@pytest.mark.anyio
@pytest.mark.virtual
async def test_a_store_that_gives_no_answer_says_that_there_may_be_one_and_it_is_looked_again() -> None:
    async with staged() as stage:
        await stage.store.runs.join("me", ttl=TTL, workers=[])
        await stage.store.runs.join("other", ttl=TTL, workers=["fax"])
        found: list[tuple[float, Relief]] = []
        facts: list[Fact] = []
        store, clock = FaultyStore(stage.store, FailOnce()), asyncio.get_running_loop().time

        def on_look(relief: Relief) -> None:
            found.append((clock(), relief))

        looking = asyncio.create_task(look_for_relief(store.runs, "me", on_look=on_look, report=facts.append))
        await asyncio.sleep(1.5 * LOOK_EVERY)
        looking.cancel()
        await asyncio.wait({looking})
        (first_at, first), (second_at, second) = found
        assert first == Relief(is_there=True)
        assert "fax" in second.workers
        assert second_at - first_at == LOOK_EVERY
        assert [type(fact) for fact in facts][:1] == [StoreTroubled]
        assert {node.id: node.draining for node in await stage.store.runs.nodes()}["me"]
