"""The pacer for a virtual clock: renews as the keeper says, from the start until it is closed."""

import asyncio

import pytest

from outlast.errors import StoreUnavailable
from outlast.facts import Fact
from outlast.lease import LeasePolicy
from outlast.server.renewal import Keeper
from outlast.stores.base import Renewal
from outlast.testing.pacer import TaskPacer

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


class Lease:
    """A renewer that writes down when it renewed, and fails when told."""

    def __init__(self) -> None:
        self.renewed_at: list[float] = []
        self.closed = 0
        self.fails = False

    def renew(self, *, stalled: bool, lag: float = 0.0) -> Renewal:
        self.renewed_at.append(asyncio.get_running_loop().time())
        if self.fails:
            raise StoreUnavailable("away")
        return Renewal(until=0.0, held={})

    def close(self) -> None:
        self.closed += 1


def keeper_of(lease: Lease, facts: list[Fact]) -> Keeper:
    clock = asyncio.get_running_loop().time
    keeper = Keeper(lease, LeasePolicy(), clock=clock, report=facts.append, on_renewed=lambda _renewed: None)
    keeper.beat_at = float("inf")  # a loop that always lives
    return keeper


async def test_it_renews_at_once_and_every_few_seconds_until_it_is_closed() -> None:
    lease, pacer = Lease(), TaskPacer()
    pacer.start(keeper_of(lease, []))
    await asyncio.sleep(12)
    pacer.close()
    pacer.close()
    await asyncio.sleep(20)
    assert lease.renewed_at == [0.0, 5.0, 10.0]
    assert lease.closed


async def test_it_tries_again_sooner_while_the_store_is_away() -> None:
    lease, pacer, facts = Lease(), TaskPacer(), list[Fact]()
    pacer.start(keeper_of(lease, facts))
    await asyncio.sleep(4)
    lease.fails = True
    await asyncio.sleep(3.5)
    lease.fails = False
    await asyncio.sleep(6)
    pacer.close()
    assert lease.renewed_at == [0.0, 5.0, 6.0, 7.0, 8.0, 13.0]
    assert len(facts) == 1


async def test_closed_before_its_first_turn_it_never_renews_and_still_closes_the_keeper() -> None:
    lease, pacer = Lease(), TaskPacer()
    TaskPacer().close()
    pacer.start(keeper_of(lease, []))
    pacer.close()
    await asyncio.sleep(10)
    assert not lease.renewed_at
    assert lease.closed == 1
