"""The sweeper: it settles what nobody can revive, and loses every race against whoever can."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from outlast.errors import ClaimLost, Fenced, StoreCorrupt, StoreUnavailable
from outlast.facts import Fact, RunSettled, StoreTroubled
from outlast.retention import Retention
from outlast.run import Completed, Failed, FailureCode, Status
from outlast.server.conditions import Conditions
from outlast.server.sweeper import CORRUPT_FOR, SWEEP_EVERY, Sweeper
from outlast.stores.base import NewClaim
from outlast.testing.cluster import Cluster
from outlast.testing.worker import Return, Say, ScriptedWorker
from tests.stage import TTL, Stage, staged

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

AFTER = 600.0
RACES = range(20)


class Paced:
    """A store's runs as one contender sees them: before each call it lets others go first, as its dice say."""

    def __init__(self, inner: Any, dice: random.Random, *, patience: int = 4) -> None:
        self._inner = inner
        self._dice = dice
        self._patience = patience

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **named: Any) -> Any:
            for _ in range(self._dice.randrange(self._patience)):
                await asyncio.sleep(0)
            return await getattr(self._inner, name)(*arguments, **named)

        return call


def sweeper(stage: Stage, *, runs: Any = None, facts: list[Fact] | None = None) -> Sweeper:
    report = stage.facts.append if facts is None else facts.append
    conditions = Conditions(report=report, mint=stage.mint, jitter=lambda: 0.5, retention=Retention(finished=AFTER))
    return Sweeper(runs or stage.store.runs, {"other"}, conditions)


async def forsake(stage: Stage) -> None:
    """Let a node without the worker look for as long as it takes."""
    for _ in range(round(AFTER / SWEEP_EVERY) + 2):
        await stage.store.runs.attend({"other"}, every=SWEEP_EVERY)
        await asyncio.sleep(SWEEP_EVERY)


@pytest.mark.behaviour("O2")
@pytest.mark.case(107)
async def test_a_run_whose_worker_was_taken_out_of_the_code_is_settled_with_one_terminal_and_an_abort() -> None:
    facts: list[Fact] = []
    async with staged() as stage:
        run = await stage.active("r1")
        await stage.say(run, "so far")
        sweeping = asyncio.create_task(sweeper(stage, facts=facts).run())
        await asyncio.sleep(AFTER)
        assert (await stage.store.runs.load("", "r1")).run.outcome is None
        await asyncio.sleep(AFTER)
        sweeping.cancel()
        row = (await stage.store.runs.load("", "r1")).run
        assert isinstance(row.outcome, Failed)
        assert (row.status, row.outcome.code) == (Status.FAILED, FailureCode.ORPHANED)
        assert [each.event.type for each in await stage.log(run)] == ["text", "run.failed"]
        assert len(await stage.store.runs.take_aborts({"chat"}, hold=1, limit=9)) == 1
    assert [fact for fact in facts if isinstance(fact, RunSettled)] == [
        RunSettled(run=run.log, status=Status.FAILED, code=FailureCode.ORPHANED)
    ]


@pytest.mark.behaviour("O2")
async def test_a_run_that_is_held_is_never_swept() -> None:
    async with staged() as stage:
        await stage.active("r1")
        renewer = stage.store.renewer("node-1", ttl=TTL, workers=[])
        sweeping = sweeper(stage)
        for _ in range(40):
            await sweeping.sweep()
            await asyncio.sleep(SWEEP_EVERY)
            renewer.renew(stalled=False)
        assert (await stage.store.runs.load("", "r1")).run.outcome is None
        renewer.close()


@pytest.mark.behaviour("O2")
async def test_sweep_against_claim_one_wins() -> None:
    won = set[str]()
    for seed in RACES:
        async with staged() as stage:
            run = await stage.start("r1")
            await forsake(stage)
            await stage.store.runs.join("node-1", ttl=TTL, workers=[])
            claim = NewClaim(claim=stage.mint(), node="node-1", budget=run.budget, not_before=0.0)
            dice = random.Random(seed)
            sweeping = asyncio.create_task(sweeper(stage, runs=Paced(stage.store.runs, dice)).sweep())
            try:
                await Paced(stage.store.runs, dice, patience=20).claim(run, claim)
                winner = "claim"
            except ClaimLost:
                winner = "sweep"
            await sweeping
            row = (await stage.store.runs.load("", "r1")).run
            assert (row.status, row.epoch) == ((Status.ACTIVE if winner == "claim" else Status.FAILED), 1), seed
            terminals = [each for each in await stage.log(run) if each.event.type == "run.failed"]
            assert len(terminals) == (winner == "sweep"), seed
            won.add(winner)
    assert won == {"claim", "sweep"}


@pytest.mark.behaviour("O2")
async def test_sweep_against_settle_one_wins() -> None:
    won = set[str]()
    for seed in RACES:
        async with staged() as stage:
            run = await stage.active("r1")  # its node loses its lease, and comes back to settle what it did
            await forsake(stage)
            dice = random.Random(seed)
            sweeping = asyncio.create_task(sweeper(stage, runs=Paced(stage.store.runs, dice)).sweep())
            try:
                await Paced(stage.store.runs, dice, patience=20).settle(run, run.token, Completed())
                winner = "settle"
            except Fenced:
                winner = "sweep"
            await sweeping
            row = (await stage.store.runs.load("", "r1")).run
            assert row.status is (Status.COMPLETED if winner == "settle" else Status.FAILED), seed
            log = [each.event.type for each in await stage.log(run)]
            assert log == ["run.completed" if winner == "settle" else "run.failed"], seed
            won.add(winner)
    assert won == {"settle", "sweep"}


@pytest.mark.behaviour("O2")
async def test_a_row_that_nobody_could_read_for_an_hour_is_settled_and_can_be_read_then() -> None:
    facts: list[Fact] = []
    async with staged() as stage:
        run = await stage.start("r1")
        connection = stage.store._ground.connection  # type: ignore[attr-defined]
        connection.execute("UPDATE runs SET cause = 'a word of nobody' WHERE id = 'r1'")
        sweeping = sweeper(stage, facts=facts)
        for _ in range(round(CORRUPT_FOR / SWEEP_EVERY)):
            await stage.store.runs.due({"chat"}, limit=9)
            await sweeping.sweep()
            await asyncio.sleep(SWEEP_EVERY)
        with pytest.raises(StoreCorrupt):
            await stage.store.runs.load("", "r1")
        await sweeping.sweep()
        row = (await stage.store.runs.load("", "r1")).run
        assert isinstance(row.outcome, Failed)
        assert (row.log, row.outcome.code) == (run.log, FailureCode.ORPHANED)
        assert [each.event.type for each in await stage.log(run)] == ["run.failed"]
        await sweeping.sweep()
    assert [fact for fact in facts if isinstance(fact, RunSettled)] == [
        RunSettled(run=run.log, status=Status.FAILED, code=FailureCode.ORPHANED)
    ]


async def test_a_store_in_trouble_is_reported_once_and_swept_when_it_is_back() -> None:
    facts: list[Fact] = []
    async with staged() as stage:
        await stage.start("r1")
        await forsake(stage)

        class Away:
            away = True

            def __getattr__(self, name: str) -> Any:
                if self.away:
                    raise StoreUnavailable("away")
                return getattr(stage.store.runs, name)

        runs = Away()
        sweeping = asyncio.create_task(sweeper(stage, runs=runs, facts=facts).run())
        await asyncio.sleep(3 * SWEEP_EVERY)
        assert facts == [StoreTroubled(during="sweep", error="store_unavailable")]
        runs.away = False
        await asyncio.sleep(2 * SWEEP_EVERY)
        assert (await stage.store.runs.load("", "r1")).run.status is Status.FAILED
        sweeping.cancel()


@pytest.mark.behaviour("O2")
async def test_every_node_sweeps_as_soon_as_it_begins_and_every_minute_then() -> None:
    async with Cluster({"chat": ScriptedWorker(lambda _call: [Say("done"), Return(None)])}) as cluster:
        first, second = await cluster.join("a"), await cluster.join("b")
        swept: dict[str, int] = {"a": 0, "b": 0}
        for member in (first, second):

            def count(operation: str, _arguments: Any, *, name: str = member.name) -> None:
                swept[name] += operation == "attend"

            member.store.on_operation = count
        await asyncio.sleep(5 * SWEEP_EVERY)
    assert min(swept.values()) >= 4
