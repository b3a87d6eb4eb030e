"""Fencing: a write that carries an old token, or an equal epoch of another claim, is refused and leaves no trace."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import pytest

from outlast.errors import Fenced
from outlast.run import Cancelled, Cause, Completed, Run, Token
from outlast.stores.base import Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import (
    TTL,
    A,
    B,
    drive,
    events,
    join,
    load,
    new_claim,
    said,
    say,
    take,
    texts,
    unchanged,
)

Write: TypeAlias = Callable[[Store, Run, Token], Awaitable[object]]


async def _append(store: Store, run: Run, token: Token) -> None:
    head = await store.logs.head(run.log)
    await store.logs.append(run.log, token, head.cursor, texts("late"))


WRITES: Final[dict[str, Write]] = {
    "append": _append,
    "fence": lambda store, run, token: store.logs.fence(run.log, token),
    "charge": lambda store, run, token: store.runs.charge(run, token, number=1, limit=9),
    "release": lambda store, run, token: store.runs.release(run, token, Cause.STORE),
    "complete": lambda store, run, token: store.runs.settle(run, token, Completed()),
    "cancel": lambda store, run, token: store.runs.settle(run, token, Cancelled()),
}
"""Every write that carries a token."""


class Fencing(Contract):
    """The fifth promise, on every method that takes a token; `LogStore.fence`."""

    @pytest.mark.parametrize("write", WRITES)
    async def test_a_write_with_an_old_epoch_is_refused(self, store: Store, write: str) -> None:
        await join(store, A, B)
        old = await drive(store)
        await say(store, old, "a")
        await store.runs.release(old, old.token, Cause.STORE)
        await take(store, old, B)
        async with unchanged(store):
            with pytest.raises(Fenced):
                await WRITES[write](store, old, old.token)

    @pytest.mark.parametrize("write", WRITES)
    async def test_a_write_with_another_claim_of_the_same_epoch_is_refused(self, store: Store, write: str) -> None:
        await join(store, A)
        run = await drive(store)
        async with unchanged(store):
            with pytest.raises(Fenced):
                await WRITES[write](store, run, Token(epoch=run.epoch, claim="another"))

    @pytest.mark.parametrize("write", WRITES)
    async def test_a_write_with_the_newest_token_is_taken(self, store: Store, write: str) -> None:
        await join(store, A, B)
        old = await drive(store)
        await store.runs.release(old, old.token, Cause.STORE)
        run = await take(store, old, B)
        await WRITES[write](store, run, run.token)

    @pytest.mark.parametrize("write", WRITES)
    async def test_a_write_of_the_newest_claim_is_taken_whatever_its_lease(
        self, store: Store, bench: Workbench, write: str
    ) -> None:
        await join(store, A)
        run = await drive(store)
        await bench.age(TTL + 1)
        await WRITES[write](store, run, run.token)

    # ---- the fence of a log ----

    async def test_a_fence_refuses_the_last_holder_before_the_next_one_wrote_anything(
        self, store: Store, bench: Workbench
    ) -> None:
        await join(store, A)
        old = await drive(store)
        await say(store, old, "a")
        await bench.age(TTL + 1)
        await join(store, B)
        await take(store, old, B)
        with pytest.raises(Fenced):
            await say(store, old, "b")
        assert await said(store, old) == ["a"]

    async def test_a_newer_claim_may_write_before_its_fence_stands(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        old = await drive(store)
        await bench.age(TTL + 1)
        await join(store, B)
        seen = await load(store, old)
        run = await store.runs.claim(seen, new_claim(seen, B))
        await say(store, run, "a")
        assert await said(store, run) == ["a"]

    async def test_a_fence_is_never_lowered(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        await store.logs.fence(run.log, Token(epoch=run.epoch + 5, claim="high"))
        with pytest.raises(Fenced):
            await store.logs.fence(run.log, Token(epoch=run.epoch + 4, claim="lower"))
        with pytest.raises(Fenced):
            await store.logs.fence(run.log, Token(epoch=run.epoch + 5, claim="equal"))
        with pytest.raises(Fenced):
            await say(store, run, "a")
        assert list(await events(store, run)) == []

    async def test_a_fence_holds_for_its_log_alone(self, store: Store) -> None:
        await join(store, A)
        one, other = await drive(store, "r1"), await drive(store, "r2")
        await store.logs.fence(one.log, Token(epoch=one.epoch + 5, claim="high"))
        await say(store, other, "a")
        assert await said(store, other) == ["a"]

    async def test_a_fence_leaves_the_run_and_the_head_as_they_are(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        await say(store, run, "a")
        async with unchanged(store):
            await store.logs.fence(run.log, Token(epoch=run.epoch + 5, claim="high"))
        assert (await load(store, run)).token == run.token
