"""What a store can do wrong, a promise at a time: each takes the place of one method of a sound store.

A method that is given here gets the sound store first, then what the method it replaces gets.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

from outlast.errors import ClaimLost, Fenced, HeadConflict, RunGone, RunNotFound, StoreCorrupt
from outlast.log.event import restore
from outlast.run import Cause, Completed, RecoveryBudget, Status
from outlast.stores.base import Charge, Due, Renewal, StopAnswer, Stopped, Store
from outlast.testing.contract.scene import ANN, BOB, MANY, MANY_BYTES

# ---- lineage ------------------------------------------------------------------------------------


async def lineage_uncaused(store: Store, owner: str, id: str) -> Any:
    return [replace(entry, cause=None) for entry in await store.runs.lineage(owner, id)]


async def lineage_of_nodes_alone(store: Store, owner: str, id: str) -> Any:
    return [entry for entry in await store.runs.lineage(owner, id) if entry.node is not None]


async def lineage_of_ann(store: Store, _owner: str, id: str) -> Any:
    return await store.runs.lineage(ANN, id)


# ---- accepting, finding -------------------------------------------------------------------------


async def start_anew(store: Store, new: Any) -> Any:
    return replace(await store.runs.start(new), created=True)


async def start_without_thread(store: Store, new: Any) -> Any:
    return await store.runs.start(replace(new, thread=None))


async def load_with_a_hint(store: Store, owner: str, id: str) -> Any:
    try:
        return await store.runs.load(owner, id)
    except RunNotFound:
        await store.runs.load(ANN, id)
        raise RunNotFound("This run is another owner's.") from None


async def list_of_everybody(store: Store, owner: str, **options: Any) -> Any:
    return [run for each in (ANN, BOB) for run in await store.runs.list(each, **options)]


async def list_oldest_first(store: Store, owner: str, **options: Any) -> Any:
    return [*reversed(await store.runs.list(owner, **options))]


async def list_whatever_thread(store: Store, owner: str, *, thread: str | None = None, **options: Any) -> Any:
    return await store.runs.list(owner, **options)


async def checkpoint_in_spite(store: Store, run: Any, token: Any, checkpoint: Any) -> None:
    with suppress(Fenced):
        await store.runs.checkpoint(run, token, checkpoint)


async def checkpoint_ahead(store: Store, run: Any, token: Any, checkpoint: Any) -> None:
    kept = await store.runs.last_checkpoint(run)
    seq = checkpoint.seq if kept is None else max(checkpoint.seq, kept.seq + 1)
    await store.runs.checkpoint(run, token, replace(checkpoint, seq=seq))


async def due_in_reverse(store: Store, workers: Any, *, limit: int) -> Any:
    found = await store.runs.due(workers, limit=limit)
    return replace(found, runs=[*reversed(found.runs)])


async def due_without_a_next_time(store: Store, workers: Any, *, limit: int) -> Any:
    return replace(await store.runs.due(workers, limit=limit), next_at=None)


async def due_and_marked(store: Store, workers: Any, *, limit: int) -> Due:
    found = await store.runs.due(workers, limit=limit)
    for run in found.runs:
        await store.runs.refuse(run, retry_in=1)
    return found


async def due_with_what_is_held_back(store: Store, workers: Any, *, limit: int, **_: Any) -> Any:
    return await store.runs.due(workers, limit=limit)


async def due_without_the_held_back(store: Store, workers: Any, *, limit: int, held_back: Any = (), **_: Any) -> Any:
    found = await store.runs.due(workers, limit=limit)
    return replace(found, runs=[run for run in found.runs if run.worker not in held_back])


async def due_while_held(store: Store, workers: Any, *, limit: int) -> Any:
    found = await store.runs.due(workers, limit=limit)
    listed = await store.runs.list(ANN, status=Status.ACTIVE, before=None, limit=limit)
    return replace(found, runs=[*found.runs, *(each.run for each in listed if each.run.holder)])


async def recovering_whoever_holds(store: Store, keys: Any) -> Any:
    return [each.run.log for each in await store.runs.load_all(keys) if each.run.holder is None and each.run.epoch]


async def recovering_of_all(store: Store, keys: Any) -> Any:
    return [each.run.log for each in await store.runs.load_all(keys)]


async def refuse_in_the_row(store: Store, run: Any, *, retry_in: float) -> None:
    await store.runs.stop(run.owner, run.id, reason=None)


async def refuse_by_the_clock(store: Store, run: Any, *, retry_in: float) -> float:
    await store.runs.refuse(run, retry_in=retry_in)
    return await store.runs.now() - run.created_at


async def attend_by_the_clock(store: Store, workers: Any, *, every: float) -> None:
    await store.runs.attend(workers, every=1e9)


async def forsaken_with_everyone(store: Store, *, after: float, limit: int) -> Any:
    return [each.run for each in await store.runs.list(ANN, status=None, before=None, limit=limit)]


# ---- claiming, holding --------------------------------------------------------------------------


async def claim_whatever_it_is_now(store: Store, run: Any, claim: Any) -> Any:
    now = (await store.runs.load(run.owner, run.id)).run
    if now.holder:
        await store.runs.release(now, now.token, Cause.STORE)
    return await store.runs.claim((await store.runs.load(run.owner, run.id)).run, claim)


async def claim_and_keep_the_cause(store: Store, run: Any, claim: Any) -> Any:
    return replace(await store.runs.claim(run, claim), cause=run.cause)


async def claim_for_nothing(store: Store, run: Any, claim: Any) -> Any:
    return await store.runs.claim(run, replace(claim, budget=RecoveryBudget()))


async def claim_once(store: Store, run: Any, claim: Any) -> Any:
    if (await store.runs.load(run.owner, run.id)).run.epoch != run.epoch:
        raise ClaimLost("The epoch moved.")
    return await store.runs.claim(run, claim)


async def charge_twice(store: Store, run: Any, token: Any, *, number: int, limit: int) -> Any:
    used = (await store.runs.load(run.owner, run.id)).run.budget.calls
    return await store.runs.charge(run, token, number=used + 1, limit=limit)


async def charge_always(store: Store, run: Any, token: Any, *, number: int, limit: int) -> Any:
    return Charge.GRANTED


async def release_as_crashed(store: Store, run: Any, token: Any, cause: Cause) -> None:
    await store.runs.release(run, token, Cause.CRASH)


# ---- settling, stopping, the outbox -------------------------------------------------------------


async def settle_as_completed(store: Store, run: Any, token: Any, outcome: Any) -> Any:
    return await store.runs.settle(run, token, Completed())


async def settle_without_abort(store: Store, run: Any, token: Any, outcome: Any) -> Any:
    settled = await store.runs.settle(run, token, outcome)
    for abort in await store.runs.take_aborts([run.worker], hold=1, limit=MANY):
        await store.runs.finish_abort(abort)
    return settled


async def settle_with_any_token(store: Store, run: Any, token: Any, outcome: Any) -> Any:
    now = (await store.runs.load(run.owner, run.id)).run
    return await store.runs.settle(now, now.token, outcome)


async def stop_what_is_known(store: Store, owner: str, id: str, *, reason: str | None) -> Any:
    try:
        await store.runs.load(owner, id)
    except RunNotFound:
        return Stopped(answer=StopAnswer.ACCEPTED, run=None)
    return await store.runs.stop(owner, id, reason=reason)


async def stop_and_say_accepted(store: Store, owner: str, id: str, *, reason: str | None) -> Any:
    return replace(await store.runs.stop(owner, id, reason=reason), answer=StopAnswer.ACCEPTED)


async def stops_of_nobody(store: Store, node: str) -> Any:
    return []


async def take_and_show(store: Store, workers: Any, *, hold: float, limit: int) -> Any:
    return await store.runs.take_aborts(workers, hold=0, limit=limit)


async def take_without_tries(store: Store, workers: Any, *, hold: float, limit: int) -> Any:
    return [replace(abort, tries=0) for abort in await store.runs.take_aborts(workers, hold=hold, limit=limit)]


async def nothing(store: Store, *given: Any, **options: Any) -> None:
    pass


# ---- the end of a run's life, runs that cannot be read ------------------------------------------


async def load_as_never_been(store: Store, owner: str, id: str) -> Any:
    try:
        return await store.runs.load(owner, id)
    except RunGone:
        raise RunNotFound("There is no such run.") from None


async def expire_too_early(store: Store, *, finished: float, gone: float) -> Any:
    return await store.runs.expire(finished=finished / 2, gone=gone)


async def due_without_naming(store: Store) -> Any:
    return []


# ---- logs ---------------------------------------------------------------------------------------


async def append_with_any_token(store: Store, log: str, token: Any, previous: Any, events: Any) -> Any:
    for each in await store.runs.list(ANN, status=None, before=None, limit=MANY):
        run = each.run
        token = run.token if run.log == log else token
    return await store.logs.append(log, token, previous, events)


async def append_with_plain_line_ends(store: Store, log: str, token: Any, previous: Any, events: Any) -> Any:
    tidy = [restore(each.type, each.payload.replace(b"\r", b""), each.content_type) for each in events]
    return await store.logs.append(log, token, previous, tidy)


async def append_in_spite(store: Store, log: str, token: Any, previous: Any, events: Any) -> Any:
    try:
        return await store.logs.append(log, token, previous, events)
    except HeadConflict:
        await store.logs.append(log, token, (await store.logs.head(log)).cursor, events)
        raise


async def append_once(store: Store, log: str, token: Any, previous: Any, events: Any) -> Any:
    if (await store.logs.head(log)).cursor != previous:
        raise HeadConflict("The head is elsewhere.")
    return await store.logs.append(log, token, previous, events)


async def read_on(store: Store, log: str, **options: Any) -> Any:
    try:
        return await store.logs.read(log, **options)
    except StoreCorrupt:
        return []


async def read_all(store: Store, log: str, *, after: int, **options: Any) -> Any:
    return await store.logs.read(log, after=after, limit=MANY, max_bytes=MANY_BYTES)


# ---- nodes, waiting -----------------------------------------------------------------------------


class Idle:
    """A renewer that renews nothing."""

    def renew(self, *, stalled: bool, lag: float = 0.0) -> Renewal:
        return Renewal(until=0.0, held={})

    def close(self) -> None:
        pass


async def nodes_without_lag(store: Store) -> Any:
    return [replace(node, lag=0.0) for node in await store.runs.nodes()]


async def nodes_without_workers(store: Store) -> Any:
    return [replace(node, workers=None) for node in await store.runs.nodes()]


async def drain_and_leave(store: Store, node: str) -> None:
    await store.runs.leave(node)


class Deaf:
    """A subscription that nothing wakes."""

    async def wait(self, timeout: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await asyncio.Event().wait()

    def close(self) -> None:
        pass


async def nodes_that_live(store: Store) -> Any:
    now = await store.runs.now()
    return [node for node in await store.runs.nodes() if node.until > now]


async def now_in_reverse(store: Store) -> float:
    return await store.runs.now() - next(_ticks)


_ticks = count()
