"""Leases of nodes: how they begin, are renewed from a thread, and end."""

import asyncio
from collections.abc import Collection
from contextlib import closing
from dataclasses import replace
from typing import Final

import pytest

from outlast.run import Cause, Completed
from outlast.stores.base import Node, Renewal, Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import CHAT, MANY, TTL, A, B, drive, join, load, take, unchanged

LONG_AGO: Final = 365 * 86400.0
"""Seconds after which every store may clear a lease away."""
NOTICED_WITHIN: Final = 1.0
"""Seconds in which a death of which there is proof is told: takeovers wait for it."""


class Leasing(Contract):
    """`RunStore.join`, `drain`, `leave`, `bury` and `nodes`; the `Renewer`."""

    # ---- joining and leaving ----

    async def test_a_node_that_joins_has_a_lease(self, store: Store) -> None:
        before = await store.runs.now()
        await join(store, A)
        (node,) = await store.runs.nodes()
        assert before + TTL <= node.until <= await store.runs.now() + TTL
        assert node == Node(id=A, until=node.until, stalled=False, workers=frozenset({CHAT}))

    async def test_a_node_is_told_with_its_workers_for_as_long_as_it_has_a_lease(
        self, store: Store, bench: Workbench
    ) -> None:
        for node, workers in ((A, [CHAT]), (B, [CHAT, "fax"]), ("n3", [])):
            await store.runs.join(node, ttl=TTL, workers=workers)
        await bench.age(TTL + 1)
        await _renew(store, B, workers=[CHAT, "fax"])
        expected = {A: frozenset({CHAT}), B: frozenset({CHAT, "fax"}), "n3": frozenset[str]()}
        assert {node.id: node.workers for node in await store.runs.nodes()} == expected

    async def test_a_lease_that_is_written_anew_tells_the_workers_again(self, store: Store) -> None:
        await store.runs.join(A, ttl=TTL, workers=[CHAT])
        await store.runs.leave(A)
        await _renew(store, A, workers=[CHAT])
        assert [node.workers for node in await store.runs.nodes()] == [frozenset({CHAT})]

    # ---- draining ----

    @pytest.mark.parametrize("times", [1, 2])
    async def test_a_node_that_drains_is_told_as_such_and_keeps_its_lease_and_its_runs(
        self, store: Store, times: int
    ) -> None:
        await join(store, A, B)
        run = await drive(store)
        before = await store.runs.nodes()
        for _ in range(times):
            await store.runs.drain(A)
        assert await store.runs.nodes() == [replace(node, draining=node.id == A) for node in before]
        assert await load(store, run) == run
        renewal = await _renew(store, A)
        assert renewal.held == {run.log: 1}
        assert {node.id: node.draining for node in await store.runs.nodes()} == {A: True, B: False}

    async def test_draining_without_a_lease_changes_nothing(self, store: Store) -> None:
        await join(store, A)
        async with unchanged(store):
            await store.runs.drain(B)

    async def test_a_lease_that_has_run_out_is_still_told(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        await bench.age(TTL + 1)
        (node,) = await store.runs.nodes()
        assert (node.id, node.until < await store.runs.now()) == (A, True)

    async def test_a_run_tells_the_end_of_its_holders_lease_and_of_no_other(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        await store.runs.join(B, ttl=10 * TTL, workers=[CHAT])
        (until,) = [node.until for node in await store.runs.nodes() if node.id == A]
        assert (await load(store, run)).lease_until == until

    @pytest.mark.parametrize("times", [1, 2])
    async def test_a_node_that_leaves_has_no_lease_and_its_runs_are_free_at_once(
        self, store: Store, times: int
    ) -> None:
        await join(store, A, B)
        run, other = await drive(store, "r1", A), await drive(store, "r2", B)
        for _ in range(times):
            await store.runs.leave(A)
        assert [node.id for node in await store.runs.nodes()] == [B]
        assert await _due(store) == ["r1"]
        assert (await load(store, run)).lease_until is None
        assert await load(store, other) == other

    # ---- renewing ----

    async def test_a_renewal_moves_the_lease_on(self, store: Store, bench: Workbench) -> None:
        await join(store, A, B)
        run = await drive(store)
        await bench.age(TTL - 5)
        before = await store.runs.now()
        renewal = await _renew(store, A)
        assert before + TTL <= renewal.until <= await store.runs.now() + TTL
        assert renewal.until in [node.until for node in await store.runs.nodes()]
        assert (await load(store, run)).lease_until == renewal.until
        await bench.age(TTL - 5)
        assert await _due(store) == []

    async def test_a_renewal_touches_no_run_and_no_other_node(self, store: Store, bench: Workbench) -> None:
        await join(store, A, B)
        run = await drive(store)
        (other,) = [node for node in await store.runs.nodes() if node.id == B]
        await bench.age(5)
        renewal = await _renew(store, A)
        assert await load(store, run) == replace(run, lease_until=renewal.until)
        assert other in await store.runs.nodes()

    async def test_a_renewal_tells_every_run_the_node_holds(self, store: Store) -> None:
        await join(store, A, B)
        assert (await _renew(store, A)).held == {}
        held, released, settled, others = [
            await drive(store, id, node) for id, node in (("r1", A), ("r2", A), ("r3", A), ("r4", B))
        ]
        assert (await _renew(store, A)).held == {run.log: 1 for run in (held, released, settled)}
        await store.runs.release(released, released.token, Cause.STORE)
        await store.runs.settle(settled, settled.token, Completed())
        assert (await _renew(store, A)).held == {held.log: 1}
        assert (await _renew(store, B)).held == {others.log: 1}

    async def test_a_renewal_after_a_takeover_no_longer_tells_the_run(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        run = await drive(store)
        await bench.age(TTL + 1)
        await join(store, B)
        await take(store, run, B)
        assert (await _renew(store, A)).held == {}
        assert (await _renew(store, B)).held == {run.log: 2}

    async def test_a_lease_that_ran_out_is_written_anew(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        run = await drive(store)
        await bench.age(TTL + 1)
        assert await _due(store) == ["r1"]
        renewal = await _renew(store, A)
        assert renewal.held == {run.log: 1}
        assert await _due(store) == []

    async def test_a_lease_that_was_deleted_is_written_anew(self, store: Store) -> None:
        await join(store, A)
        await store.runs.leave(A)
        renewal = await _renew(store, A)
        assert [(node.id, node.until) for node in await store.runs.nodes()] == [(A, renewal.until)]

    async def test_a_stalled_node_loses_its_lease_and_is_marked(self, store: Store) -> None:
        await join(store, A, B)
        run = await drive(store)
        await _renew(store, A, stalled=True)
        assert await _due(store) == ["r1"]
        nodes = {node.id: node for node in await store.runs.nodes()}
        assert (nodes[A].stalled, nodes[B].stalled) == (True, False)
        assert nodes[A].until <= await store.runs.now()
        assert (await take(store, run, B)).epoch == run.epoch + 1

    async def test_a_node_that_moves_again_has_a_lease_again(self, store: Store) -> None:
        await join(store, A)
        await drive(store)
        await _renew(store, A, stalled=True)
        await _renew(store, A)
        assert [node.stalled for node in await store.runs.nodes()] == [False]
        assert await _due(store) == []

    async def test_a_nodes_lag_is_that_of_its_newest_renewal(self, store: Store) -> None:
        await join(store, A, B)
        assert [node.lag for node in await store.runs.nodes()] == [0.0, 0.0]
        for lag, stalled in ((1.5, False), (200.25, True), (0.125, False)):
            await _renew(store, A, stalled=stalled, lag=lag)
            assert {node.id: node.lag for node in await store.runs.nodes()} == {A: lag, B: 0.0}

    # ---- the dead ----

    async def test_the_living_are_not_buried(self, store: Store, bench: Workbench) -> None:
        other = await bench.again()
        await join(store, A)
        await join(other, B)
        await drive(store, "r1", A)
        async with unchanged(store):
            assert list(await store.runs.bury(A)) == []
            assert list(await other.runs.bury(B)) == []

    async def test_a_node_that_is_proved_dead_loses_its_lease_at_once(self, store: Store, bench: Workbench) -> None:
        other = await bench.again()
        if other is store:
            pytest.skip("this store lives and dies with one process")
        await join(store, A)
        await join(other, B)
        await drive(other, "r1", B)
        await other.close()  # without leaving: what the death of its process does
        buried = await store.runs.bury(A)
        assert list(buried) in ([B], [])
        assert await _due(store) == (["r1"] if buried else [])
        live = {node.id for node in await store.runs.nodes() if node.until > await store.runs.now()}
        assert live == ({A} if buried else {A, B})
        assert list(await store.runs.bury(A)) == []

    async def test_who_waits_for_the_runs_hears_of_a_node_that_can_be_buried(
        self, store: Store, bench: Workbench
    ) -> None:
        other = await bench.again()
        if other is store:
            pytest.skip("this store lives and dies with one process")
        await join(store, A)
        await join(other, B)
        with closing(store.runs.subscribe()) as bell:
            while await bell.wait(NOTICED_WITHIN):
                pass  # what was rung for before
            await other.close()
            heard = await bell.wait(NOTICED_WITHIN)
            assert heard or not await store.runs.bury(A)

    async def test_leases_that_ran_out_long_ago_are_cleared_away(self, store: Store, bench: Workbench) -> None:
        await join(store, A, B)
        await bench.age(LONG_AGO)
        await _renew(store, A)
        assert list(await store.runs.bury(A)) == []
        assert [node.id for node in await store.runs.nodes()] == [A]


async def _renew(
    store: Store, node: str, *, stalled: bool = False, lag: float = 0.0, workers: Collection[str] = (CHAT,)
) -> Renewal:
    renewer = store.renewer(node, ttl=TTL, workers=workers)
    try:
        return await asyncio.to_thread(renewer.renew, stalled=stalled, lag=lag)
    finally:
        renewer.close()


async def _due(store: Store) -> list[str]:
    return [run.id for run in (await store.runs.due([CHAT], limit=MANY)).runs]
