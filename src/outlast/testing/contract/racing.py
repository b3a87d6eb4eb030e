"""Racing: operations that are under way at the same moment, through two handles; exactly one of them wins.

Each race is run with many seeds. A seed decides the order in which the contenders enter, through which handle, and
how often each lets the others go first; a failing check names its seed.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pytest

from outlast.errors import ClaimLost, Fenced, IdConflict, ThreadBusy
from outlast.log.cursor import origin
from outlast.run import Cancelled, Cause, Completed, Failed, FailureCode, Run, Status, terminal
from outlast.stores.base import Charge, Started, StopAnswer, Stopped, Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import (
    ANN,
    CHAT,
    TTL,
    drive,
    events,
    join,
    load,
    mint,
    new_claim,
    new_run,
    said,
    say,
    start,
    texts,
)

SEEDS: Final = range(50)
FAILED: Final = Failed(code=FailureCode.RECOVERY_EXHAUSTED, message="m")

Contender: TypeAlias = Callable[[Store], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arena:
    """One race: two handles on one store, the dice, and names that no other race has."""

    bench: Workbench
    store: Store
    other: Store
    seed: int
    id: str
    here: str
    there: str

    async def race(self, *contenders: Contender) -> list[Any]:
        """Let all contenders run at once; return what each returned or raised, in the order they were given."""
        dice = random.Random(self.seed)
        gate = asyncio.Event()

        async def enter(contender: Contender, handle: Store, patience: int) -> object:
            await gate.wait()
            for _ in range(patience):
                await asyncio.sleep(0)
            return await contender(handle)

        tasks = dict[int, asyncio.Task[object]]()
        for number in dice.sample(range(len(contenders)), len(contenders)):
            handle = dice.choice((self.store, self.other))
            tasks[number] = asyncio.create_task(enter(contenders[number], handle, dice.randrange(4)))
        await asyncio.sleep(0)
        gate.set()
        return await asyncio.gather(*(tasks[number] for number in sorted(tasks)), return_exceptions=True)


def seeded(check: Callable[[Any, Arena], Awaitable[None]]) -> Callable[[Any, Workbench], Awaitable[None]]:
    """Run a race once with every seed, each on new runs of the same store."""

    async def races(self: object, bench: Workbench) -> None:
        other = await bench.again()
        for seed in SEEDS:
            here, there = mint("node"), mint("node")
            arena = Arena(bench=bench, store=bench.store, other=other, seed=seed, id=f"r{seed}", here=here, there=there)
            try:
                await check(self, arena)
            except BaseException as error:
                error.add_note(f"in the race of seed {seed}")
                raise

    races.__name__ = check.__name__
    return races


class Racing(Contract):
    """What must hold when several ask at once."""

    # ---- who drives ----

    @pytest.mark.behaviour("H1", "B13")
    @seeded
    async def test_of_claims_of_one_row_one_wins(self, arena: Arena) -> None:
        await join(arena.store, arena.here, arena.there)
        seen = await start(arena.store, arena.id)
        results = await arena.race(
            lambda handle: handle.runs.claim(seen, new_claim(seen, arena.here)),
            lambda handle: handle.runs.claim(seen, new_claim(seen, arena.there)),
            lambda handle: handle.runs.claim(seen, new_claim(seen, arena.here)),
        )
        (won,) = [result for result in results if isinstance(result, Run)]
        assert all(isinstance(result, ClaimLost | Run) for result in results)
        assert won == await load(arena.store, seen)
        assert won.epoch == 1

    @pytest.mark.behaviour("H11")
    @seeded
    async def test_an_append_beside_the_next_holders_fence_is_there_before_it_or_never(self, arena: Arena) -> None:
        await join(arena.store, arena.here)
        run = await drive(arena.store, arena.id, arena.here)
        await arena.bench.age(TTL + 1)
        await join(arena.store, arena.there)
        append, found = await arena.race(
            lambda handle: handle.logs.append(run.log, run.token, origin(run.log), texts("a", "b")),
            lambda handle: _succeed(handle, run, arena.there),
        )
        assert found == ([] if isinstance(append, Fenced) else ["a", "b"])
        assert await said(arena.store, run) == found

    # ---- who settles ----

    @pytest.mark.behaviour("S5")
    @seeded
    async def test_of_stop_settle_claim_and_release_one_decides(self, arena: Arena) -> None:
        await join(arena.store, arena.here)
        run = await drive(arena.store, arena.id, arena.here)
        await say(arena.store, run, "a")
        await arena.bench.age(TTL + 1)
        await join(arena.store, arena.there)
        seen = await load(arena.store, run)
        results = await arena.race(
            lambda handle: handle.runs.settle(run, run.token, Completed()),
            lambda handle: handle.runs.claim(seen, new_claim(seen, arena.there)),
            lambda handle: handle.runs.settle_unheld(seen, FAILED, claim="sweep"),
            lambda handle: handle.runs.stop(ANN, run.id, reason="enough"),
            lambda handle: handle.runs.release(run, run.token, Cause.STORE),
        )
        await _check_one_decided(arena.store, run, results)

    @pytest.mark.behaviour("S5")
    @seeded
    async def test_a_failure_beside_a_stop_ends_as_the_stop_was_told(self, arena: Arena) -> None:
        await join(arena.store, arena.here)
        run = await drive(arena.store, arena.id, arena.here)
        settled, stopped = await arena.race(
            lambda handle: handle.runs.settle(run, run.token, FAILED),
            lambda handle: handle.runs.stop(ANN, run.id, reason="enough"),
        )
        assert settled == await load(arena.store, run)
        accepted = stopped.answer is StopAnswer.ACCEPTED
        assert settled.status is (Status.CANCELLED if accepted else Status.FAILED)
        assert accepted or (stopped.answer, stopped.run) == (StopAnswer.ALREADY, settled)

    @seeded
    async def test_an_append_beside_a_settle_is_before_the_terminal_or_never(self, arena: Arena) -> None:
        await join(arena.store, arena.here)
        run = await drive(arena.store, arena.id, arena.here)
        append, settled = await arena.race(
            lambda handle: handle.logs.append(run.log, run.token, origin(run.log), texts("a", "b")),
            lambda handle: handle.runs.settle(run, run.token, Completed()),
        )
        assert settled.status is Status.COMPLETED
        before = [] if isinstance(append, Fenced) else ["a", "b"]
        assert await said(arena.store, run) == [*before, "run.completed"]

    # ---- who begins ----

    @pytest.mark.behaviour("A1")
    @seeded
    async def test_of_starts_at_once_one_makes_the_run(self, arena: Arena) -> None:
        results = await arena.race(
            lambda handle: handle.runs.start(new_run(arena.id)),
            lambda handle: handle.runs.start(new_run(arena.id)),
            lambda handle: handle.runs.start(new_run(arena.id, input=b"other")),
        )
        found = [result for result in results if isinstance(result, Started)]
        stored = (await arena.store.runs.load(ANN, arena.id)).run
        assert sum(started.created for started in found) == 1
        assert all(started.run == stored for started in found)
        assert all(isinstance(result, Started | IdConflict) for result in results)

    @pytest.mark.behaviour("A1")
    @seeded
    async def test_of_starts_on_one_thread_one_gets_it(self, arena: Arena) -> None:
        results = await arena.race(
            lambda handle: handle.runs.start(new_run(f"a{arena.seed}", thread=arena.id)),
            lambda handle: handle.runs.start(new_run(f"b{arena.seed}", thread=arena.id)),
            lambda handle: handle.runs.start(new_run(f"c{arena.seed}", thread=arena.id)),
        )
        (live,) = [result.run.id for result in results if isinstance(result, Started)]
        assert [result.live for result in results if isinstance(result, ThreadBusy)] == [live, live]

    @pytest.mark.behaviour("S1")
    @seeded
    async def test_a_start_beside_its_stop_ends_cancelled(self, arena: Arena) -> None:
        started, stopped = await arena.race(
            lambda handle: handle.runs.start(new_run(arena.id)),
            lambda handle: handle.runs.stop(ANN, arena.id, reason="enough"),
        )
        assert started.created
        assert stopped.answer in {StopAnswer.ACCEPTED, StopAnswer.SETTLED}
        assert (await load(arena.store, started.run)).outcome == Cancelled(reason="enough")

    # ---- what is counted ----

    @seeded
    async def test_a_call_that_is_charged_three_times_at_once_is_one_call(self, arena: Arena) -> None:
        await join(arena.store, arena.here)
        run = await drive(arena.store, arena.id, arena.here)
        charges = await arena.race(
            lambda handle: handle.runs.charge(run, run.token, number=1, limit=9),
            lambda handle: handle.runs.charge(run, run.token, number=1, limit=9),
            lambda handle: handle.runs.charge(run, run.token, number=1, limit=9),
        )
        assert charges == [Charge.GRANTED] * 3
        assert (await load(arena.store, run)).budget.calls == 1

    @pytest.mark.behaviour("S4")
    @seeded
    async def test_a_call_beside_a_stop_is_charged_before_it_or_never(self, arena: Arena) -> None:
        await join(arena.store, arena.here)
        run = await drive(arena.store, arena.id, arena.here)
        charge, _ = await arena.race(
            lambda handle: handle.runs.charge(run, run.token, number=1, limit=9),
            lambda handle: handle.runs.stop(ANN, run.id, reason=None),
        )
        assert charge in {Charge.GRANTED, Charge.STOPPED}
        assert (await load(arena.store, run)).budget.calls == (charge is Charge.GRANTED)
        assert await arena.store.runs.charge(run, run.token, number=2, limit=9) is Charge.STOPPED

    @seeded
    async def test_of_those_who_take_the_outbox_each_abort_goes_to_one(self, arena: Arena) -> None:
        ids = [f"{name}{arena.seed}" for name in "abcd"]
        for id in ids:
            await start(arena.store, id)
            await arena.store.runs.stop(ANN, id, reason=None)
        taken = await arena.race(
            lambda handle: handle.runs.take_aborts([CHAT], hold=TTL, limit=3),
            lambda handle: handle.runs.take_aborts([CHAT], hold=TTL, limit=3),
        )
        assert sorted(abort.run.id for aborts in taken for abort in aborts) == ids


async def _succeed(store: Store, run: Run, node: str) -> list[str]:
    """Claim, fence, and read what the log says then, as the next holder does."""
    run = await load(store, run)
    run = await store.runs.claim(run, new_claim(run, node))
    await store.logs.fence(run.log, run.token)
    return await said(store, run)


async def _check_one_decided(store: Store, before: Run, results: Sequence[Any]) -> None:
    settled, claimed, swept, stopped, _ = results
    assert isinstance(stopped, Stopped)
    deciders = [isinstance(result, Run) for result in (settled, claimed, swept)]
    deciders.append(stopped.answer is StopAnswer.SETTLED)
    assert sum(deciders) == 1
    now = await load(store, before)
    log = [stored.event for stored in await events(store, before)]
    if isinstance(claimed, Run):
        assert (now.token, now.status, stopped.answer) == (claimed.token, Status.ACTIVE, StopAnswer.ACCEPTED)
        assert now.stop is not None
        assert log == texts("a")
        return
    assert now == next(result for result in (settled, swept, stopped.run) if isinstance(result, Run))
    assert now.outcome is not None
    assert log == [*texts("a"), terminal(now.outcome)]
    assert (await store.logs.head(now.log)).sealed
